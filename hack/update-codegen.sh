#!/usr/bin/env bash
# Writes everything that is generated from apis/: deep copies, CRDs, clientset,
# listers, informers and apply configurations.
# usage: hack/update-codegen.sh [ROOT]   (ROOT: a copy of the repository; default: this one)
set -euo pipefail
ROOT=$(cd "${1:-$(dirname "${BASH_SOURCE[0]}")/..}" && pwd)
MODULE=github.com/trainjob/controller
API=$MODULE/apis/trainer/v1alpha1
HEADER=$ROOT/hack/boilerplate.go.txt
export CGO_ENABLED=0

cd "$ROOT/hack/tools"
BIN=$(mktemp -d); trap 'rm -rf "$BIN"' EXIT
go build -o "$BIN/" sigs.k8s.io/controller-tools/cmd/controller-gen ./crdtrim
cd "$ROOT"
for generator in deepcopy-gen client-gen lister-gen informer-gen applyconfiguration-gen; do
  go build -o "$BIN/" "k8s.io/code-generator/cmd/$generator"
done

echo "deep copies"
rm -f apis/trainer/v1alpha1/zz_generated.deepcopy.go
"$BIN/deepcopy-gen" --go-header-file "$HEADER" --output-file zz_generated.deepcopy.go "$API"

echo "apply configurations, clientset, listers, informers"
rm -rf generated && mkdir -p generated
"$BIN/applyconfiguration-gen" --go-header-file "$HEADER" \
  --output-dir generated/applyconfiguration --output-pkg $MODULE/generated/applyconfiguration \
  --external-applyconfigurations sigs.k8s.io/jobset/api/jobset/v1alpha2.JobSetSpec:sigs.k8s.io/jobset/client-go/applyconfiguration/jobset/v1alpha2 \
  "$API"
"$BIN/client-gen" --go-header-file "$HEADER" --clientset-name versioned \
  --input-base "" --input "$API" \
  --apply-configuration-package $MODULE/generated/applyconfiguration \
  --output-dir generated/clientset --output-pkg $MODULE/generated/clientset
"$BIN/lister-gen" --go-header-file "$HEADER" \
  --output-dir generated/listers --output-pkg $MODULE/generated/listers "$API"
"$BIN/informer-gen" --go-header-file "$HEADER" \
  --versioned-clientset-package $MODULE/generated/clientset/versioned \
  --listers-package $MODULE/generated/listers \
  --output-dir generated/informers --output-pkg $MODULE/generated/informers "$API"

echo "CRDs"
rm -rf artifacts/crds && mkdir -p artifacts/crds
"$BIN/controller-gen" crd:generateEmbeddedObjectMeta=true paths=./apis/... output:crd:dir=artifacts/crds
"$BIN/crdtrim" artifacts/crds/*.yaml
{
  echo "apiVersion: kustomize.config.k8s.io/v1beta1"
  echo "kind: Kustomization"
  echo "resources:"
  (cd artifacts/crds && ls trainer.*.yaml | sed 's/^/- /')
} > artifacts/crds/kustomization.yaml
