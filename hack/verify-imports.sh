#!/usr/bin/env bash
# Fails when a package imports what its layer must not (the table below).
# Only imports of the code itself count, not those of its tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
MODULE=github.com/trainjob/controller

# The layers. The first row that fits a package (relative to the module) decides.
#   package   a path; /* at its end means the path and all below it
#   ours      packages of this module it may import; - is none
#   others    modules or packages it may import besides the standard library; * is any
API="k8s.io/api k8s.io/apimachinery sigs.k8s.io/jobset/api"
APPLY="sigs.k8s.io/jobset/client-go/applyconfiguration k8s.io/client-go/applyconfigurations"
BELOW="pkg/apierror pkg/lifetime pkg/trainjob pkg/runtimesnapshot pkg/preflight/report"
PURE="$BELOW pkg/render/* pkg/validation/*"
PLUMBING="pkg/queue/* pkg/informer/* pkg/metrics/* pkg/verbosity"
LAYERS="
# package          | ours                                                      | others
apis/*             | apis/*                                                    | $API
generated/*        | apis/* generated/*                                        | $API k8s.io/client-go sigs.k8s.io/jobset/client-go k8s.io/kube-openapi sigs.k8s.io/structured-merge-diff

pkg/bytecache      | -                                                         | -
pkg/apierror       | -                                                         | k8s.io/api k8s.io/apimachinery
pkg/lifetime       | -                                                         | k8s.io/utils
pkg/trainjob       | apis/* pkg/lifetime pkg/preflight/report                  | $API k8s.io/utils
pkg/runtimesnapshot| apis/* pkg/trainjob pkg/bytecache                         | $API k8s.io/utils sigs.k8s.io/yaml
pkg/render/*       | apis/* generated/applyconfiguration/* $BELOW pkg/render/* | $API $APPLY k8s.io/utils sigs.k8s.io/yaml golang.org/x/crypto
pkg/validation/*   | apis/* generated/applyconfiguration/* $PURE               | $API $APPLY k8s.io/utils sigs.k8s.io/yaml

pkg/queue/*        | $PLUMBING pkg/apierror                                    | $API k8s.io/client-go k8s.io/klog k8s.io/utils k8s.io/component-base
pkg/informer/*     | $PLUMBING pkg/bytecache                                   | $API k8s.io/client-go k8s.io/klog k8s.io/utils k8s.io/component-base
pkg/metrics/*      | $PLUMBING                                                 | $API k8s.io/client-go k8s.io/klog k8s.io/utils k8s.io/component-base

pkg/preflight/report| -                                                        | -
pkg/preflight/*    | pkg/preflight/*                                           | github.com/spf13/pflag sigs.k8s.io/yaml

pkg/verbosity      | -                                                         | k8s.io/klog

pkg/operations     | apis/* generated/* $PURE $PLUMBING                        | *
pkg/census         | apis/* generated/* $PURE $PLUMBING                        | *
pkg/controller/*   | apis/* generated/* $PURE $PLUMBING pkg/operations         | *
pkg/webhook/*      | apis/* generated/* $PURE $PLUMBING pkg/operations         | *

cmd/*              | apis/* generated/* pkg/* cmd/*                            | *
test/builders      | apis/*                                                    | $API k8s.io/utils
test/*             | apis/* generated/* pkg/* test/*                           | *
"
# What no pure package may import, of the standard library and of what it may else use.
IMPURE="context net net/http os os/* io/ioutil log log/* syscall k8s.io/utils/clock k8s.io/apimachinery/pkg/util/wait k8s.io/apimachinery/pkg/util/clock"
# What nothing that is built or shipped may depend on, however far away.
FORBIDDEN=sigs.k8s.io/controller-runtime

# Folders that do not exist yet are left out: go list does not take them.
existing() {
  local folder
  for folder in "$@"; do if [[ -d $folder ]]; then echo "./$folder/..."; fi; done
}

failed=0
complain() {
  echo "verify-imports: $*" >&2
  failed=1
}

mapfile -t patterns < <(existing apis generated pkg cmd test)
listing=$(go list -f '{{.ImportPath}} {{join .Imports " "}}' "${patterns[@]}")
complaints=$(LAYERS=$LAYERS PURE=$PURE IMPURE=$IMPURE awk -v module=$MODULE '
  # fits: a path is in a list of patterns. Modules (exact = 0) take in all below them.
  function fits(path, list, exact,    n, i, parts, p, below) {
    n = split(list, parts, " ")
    for (i = 1; i <= n; i++) {
      p = parts[i]
      if (p == "*" || p == path) return 1
      below = sub(/\/\*$/, "", p) || !exact
      if (below && (path == p || index(path, p "/") == 1)) return 1
    }
    return 0
  }
  BEGIN {
    count = split(ENVIRON["LAYERS"], lines, "\n")
    for (i = 1; i <= count; i++) {
      if (lines[i] !~ /\|/ || lines[i] ~ /^#/) continue
      split(lines[i], cell, "|")
      gsub(/ /, "", cell[1])
      rows++; package[rows] = cell[1]; ours[rows] = cell[2]; others[rows] = cell[3]
    }
  }
  {
    from = substr($1, length(module) + 2)
    row = 0
    for (i = 1; i <= rows && !row; i++) if (fits(from, package[i], 1)) row = i
    if (!row) { print from " has no row in the table of the layers"; next }
    for (i = 2; i <= NF; i++) {
      if ($i == "C" || $i == "unsafe") continue
      if (fits(from, ENVIRON["PURE"], 1) && fits($i, ENVIRON["IMPURE"], 1)) {
        print from " is pure and must not import " $i
      } else if (index($i, module "/") == 1) {
        to = substr($i, length(module) + 2)
        if (sibling(from, to)) print from " must not import " to ": controllers and the webhook know nothing of each other"
        else if (!fits(to, ours[row], 1) && !inside(from, to)) print from " must not import " to
      } else if ($i ~ /^[^\/]*\./ && !fits($i, others[row], 0)) print from " must not import " $i
    }
  }
  # A controller, or the webhook, is one room: what is below its folder.
  function room(path,    parts) {
    split(path, parts, "/")
    if (parts[1] != "pkg") return ""
    if (parts[2] == "controller") return parts[2] "/" parts[3]
    return parts[2] == "webhook" ? parts[2] : ""
  }
  function sibling(from, to) { return room(from) != "" && room(to) != "" && room(from) != room(to) }
  function inside(from, to) { return room(from) != "" && room(from) == room(to) }
' <<<"$listing")
while IFS= read -r line; do
  if [[ -n $line ]]; then complain "$line"; fi
done <<<"$complaints"

# The clock of a pure package is an argument.
for folder in apierror render runtimesnapshot lifetime trainjob validation; do
  if [[ ! -d pkg/$folder ]]; then continue; fi
  found=$(grep -rnE 'time\.(Now|Since|Until)\(' "pkg/$folder" --include='*.go' --exclude='*_test.go' || true)
  if [[ -n $found ]]; then complain "a pure package reads the clock:"$'\n'"$found"; fi
done

mapfile -t shipped < <(existing cmd pkg apis generated)
dependencies=$(go list -deps "${shipped[@]}")
if found=$(grep -E "^$FORBIDDEN(/|\$)" <<<"$dependencies"); then
  complain "the build must not contain $FORBIDDEN, but does:"$'\n'"$found"
fi

if [[ $failed -ne 0 ]]; then exit 1; fi
echo "verify-imports: all imports are within their layers"
