#!/usr/bin/env bash
# Fails on Go code that gofmt would change or go vet complains of, and on files that
# contain a path of somebody's machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

failed=0
complain() {
  echo "verify-format: $1"$'\n'"$2" >&2
  failed=1
}

unformatted=$(git ls-files -z --cached --others --exclude-standard -- '*.go' |
  while IFS= read -r -d '' file; do if [[ -e $file ]]; then printf '%s\0' "$file"; fi; done | xargs -0r gofmt -l)
if [[ -n $unformatted ]]; then complain "run gofmt -w on" "$unformatted"; fi

if ! vet=$(go vet ./... 2>&1); then complain "go vet finds" "$vet"; fi

# Home and work folders. /home/mpiuser is a folder in the images of MPI runtimes.
paths=$(git grep -nIE --untracked '(^|[^[:alnum:]_./-])/(home|Users|work|root/go)/[[:alnum:]]' -- ':!hack/verify-format.sh' ':!*.sum' |
  grep -v '/home/mpiuser' || true)
if [[ -n $paths ]]; then complain "paths of somebody's machine" "$paths"; fi

if [[ $failed -ne 0 ]]; then exit 1; fi
echo "verify-format: fine"
