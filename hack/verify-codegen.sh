#!/usr/bin/env bash
# Fails when what is generated from apis/ is not what is in the working tree.
# Generates into a copy of the repository, so that nothing here is changed.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
GENERATED=(apis generated artifacts/crds)

COPY=$(mktemp -d)
trap 'rm -rf "$COPY"' EXIT

# Tracked and new files, as they are now; the ones deleted here are not copied.
cd "$ROOT"
git ls-files -z --cached --others --exclude-standard |
  while IFS= read -r -d '' file; do
    if [[ -e $file ]]; then printf '%s\0' "$file"; fi
  done | tar --create --null --files-from=- --file=- | tar --extract --file=- --directory="$COPY"

bash "$COPY/hack/update-codegen.sh" "$COPY" >"$COPY.log" 2>&1 || {
  cat "$COPY.log" >&2
  rm -f "$COPY.log"
  echo "verify-codegen: hack/update-codegen.sh failed" >&2
  exit 1
}
rm -f "$COPY.log"

stale=0
for folder in "${GENERATED[@]}"; do
  diff --recursive --unified --new-file "$ROOT/$folder" "$COPY/$folder" || stale=1
done
if [[ $stale -ne 0 ]]; then
  echo "verify-codegen: the files above are out of date: run hack/update-codegen.sh and commit the result" >&2
  exit 1
fi
echo "verify-codegen: generated files are up to date"
