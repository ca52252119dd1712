# What can be done with this repository. `make help` lists it.
SHELL := /bin/bash
.DEFAULT_GOAL := help

# The race detector needs cgo and a C compiler.
RACE := $(shell command -v $$(go env CC) >/dev/null 2>&1 && echo -race)
ifneq ($(RACE),)
export CGO_ENABLED := 1
endif
export KUBE_CACHE_MUTATION_DETECTOR := true

# Must begin like v1.2.3: the metrics library reads it.
VERSION ?= $(shell git describe --tags --dirty --match 'v[0-9]*.[0-9]*.[0-9]*' 2>/dev/null || echo v0.0.0-$$(git rev-parse --short HEAD 2>/dev/null || echo unknown))
COMMIT := $(shell git rev-parse HEAD 2>/dev/null)
# The time of everything in the image: of the commit, so that it can be built again.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
# GNU's date, or BSD's.
BUILD_DATE := $(shell date -u -d @$(SOURCE_DATE_EPOCH) +%Y-%m-%dT%H:%M:%SZ 2>/dev/null || date -u -r $(SOURCE_DATE_EPOCH) +%Y-%m-%dT%H:%M:%SZ)
VERSION_PACKAGE := k8s.io/component-base/version
LDFLAGS := -s -w -X $(VERSION_PACKAGE).gitVersion=$(VERSION) -X $(VERSION_PACKAGE).gitCommit=$(COMMIT) -X $(VERSION_PACKAGE).buildDate=$(BUILD_DATE) \
	-X github.com/trainjob/controller/cmd/preflight/app.version=$(VERSION)

.PHONY: help
help: ## List the targets.
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  %-18s %s\n", $$1, $$2}'

.PHONY: check-version
check-version:
	@[[ '$(VERSION)' =~ ^v[0-9]+\.[0-9]+\.[0-9]+ ]] || { echo "VERSION=$(VERSION): must begin like v1.2.3" >&2; exit 1; }

.PHONY: build
build: check-version ## Build bin/trainjob-controller and bin/preflight.
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

PLATFORMS ?= linux/amd64,linux/arm64

.PHONY: image
image: check-version ## Build the container images as OCI archives, bin/trainjob-controller.tar and bin/preflight.tar. Needs no Docker.
	cd hack/image && for name in trainjob-controller preflight; do CGO_ENABLED=0 GOFLAGS= go run . -name "$$name" -out '$(CURDIR)'/bin/"$$name".tar -platforms '$(PLATFORMS)' \
		-version '$(VERSION)' -revision '$(COMMIT)' -epoch '$(SOURCE_DATE_EPOCH)' -ldflags '$(LDFLAGS)' || exit 1; done

CYCLONEDX := github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0

.PHONY: sbom
sbom: build ## List what the binary is made of, as CycloneDX JSON: bin/trainjob-controller.cdx.json.
	CGO_ENABLED=0 GOFLAGS= go run $(CYCLONEDX) bin -json -licenses -noserial -std -version '$(VERSION)' \
		-output bin/trainjob-controller.cdx.json bin/trainjob-controller

.PHONY: demo
demo: ## Show a TrainJob's life on a local control plane, from kubectl apply to Complete.
	@CGO_ENABLED=0 go run ./test/demo

.PHONY: run
run: build ## Run the controller against the local control plane.
	bin/trainjob-controller --kubeconfig .local/cluster/kubeconfig --leader-elect=false --webhook=false --bind-address 127.0.0.1:8080

.PHONY: test
test: race-notice test-unit test-integration test-bench ## Run all tests, those on a real control plane too.

.PHONY: race-notice
race-notice:
	@if [ -z "$(RACE)" ]; then echo "****** No C compiler: the tests run WITHOUT the race detector. Install gcc or clang. ******"; fi

.PHONY: test-unit
test-unit: ## Run the tests that need no control plane.
	go test $(RACE) $$(go list ./apis/... ./cmd/... ./pkg/... ./test/builders/... ./test/clients/... ./test/e2e/trainer/... ./test/harness/... ./test/rights/... ./test/slurm/... ./test/trainerv23/...)
	cd hack/tools && CGO_ENABLED=0 go test ./...
	cd hack/monitoring && CGO_ENABLED=0 go test ./...
	cd hack/image && CGO_ENABLED=0 go test ./...

# How many packages at a time. Two take two thirds of the time on two cores, but leave
# tests that race against the clock little room on a busy machine.
P ?= 1
.PHONY: test-integration
test-integration: cluster-build ## Run the tests on a local control plane, one package after the other, or P=2 at a time.
	rm -rf .local/rights
	TRAINJOB_RIGHTS='$(CURDIR)/.local/rights' go test $(RACE) -p $(P) -count 1 -timeout 30m ./test/cluster/... ./test/integration/...
	go run ./test/rights -used .local/rights

.PHONY: e2e
e2e: ## Test the two real nodes, on which pods are processes. As root on Linux.
	@[[ $$(uname) == Linux ]] || { echo "make e2e needs Linux: its nodes are namespaces of the kernel. make test-integration runs on simulated nodes." >&2; exit 1; }
	@[[ $$(id -u) == 0 ]] || { echo "make e2e needs root, for namespaces and mounts: run it with sudo." >&2; exit 1; }
	@command -v apt-get >/dev/null || { echo "make e2e needs Debian's packages of containerd, runc and others (hack/cluster/packages.sh), and there is no apt-get." >&2; exit 1; }
	hack/cluster/packages.sh >/dev/null
	TRAINJOB_E2E=1 CGO_ENABLED=0 go test -count 1 -timeout 1h -v ./test/nodes

FAILOVERS ?= 20

.PHONY: failover
failover: cluster-build ## Take the leader away twenty times while a hundred deadlines run, and tell how late they were.
	TRAINJOB_FAILOVERS=$(FAILOVERS) go test -count 1 -v -timeout 1h ./test/integration/failover

PACE ?= 1s
.PHONY: rotation
rotation: cluster-build ## Create two hundred TrainJobs, one a second, while two replicas rotate their certificates twice.
	TRAINJOB_ROTATION_PACE=$(PACE) go test -count 1 -v -timeout 1h -run '^TestCertificatesRotateUnnoticed$$' ./test/integration/webhook

.PHONY: test-bench
test-bench: cluster-build ## Run the benchmark with few TrainJobs, to see that it works and that what it checks holds.
	CGO_ENABLED=0 go test -count 1 -timeout 10m ./test/bench/...

# What to measure, and how: SCENARIOS=burst,timers N=1000 BEFORE='an earlier build of
# the controller' PEER='command of another controller' BENCHFLAGS='more flags'.
# docs/performance.md explains them.
SCENARIOS :=
N :=
STEADY :=
export PEER ?=
export BEFORE ?=
FLAGS :=
BENCHFLAGS :=
.PHONY: bench
bench: cluster-build ## Measure the controller beside plain clients, in half an hour. See docs/performance.md.
	@CGO_ENABLED=0 KUBE_CACHE_MUTATION_DETECTOR=false go run ./test/bench $(if $(SCENARIOS),-scenarios $(SCENARIOS)) $(if $(N),-n $(N)) \
	  $(if $(STEADY),-steady $(STEADY)) $(if $(FLAGS),-flags '$(FLAGS)') $(BENCHFLAGS)

.PHONY: bench-docs
bench-docs: ## Put the last benchmark's table and plots into docs/.
	cd hack/tools && CGO_ENABLED=0 go run ./benchplot -in ../../.local/bench/result.json -images ../../docs/images -page ../../docs/performance.md

.PHONY: dashboard-picture
dashboard-picture: ## Draw docs/images/dashboard.png from four minutes of the controller under load.
	CGO_ENABLED=0 go run ./test/record -out .local/scrapes.txt
	mkdir -p docs/images
	cd hack/monitoring && CGO_ENABLED=0 go run . -scrapes ../../.local/scrapes.txt -out ../../docs/images/dashboard.png

.PHONY: cover
cover: ## Show the coverage of the pure packages.
	go test -cover ./pkg/lifetime ./pkg/render/... ./pkg/runtimesnapshot ./pkg/trainjob ./pkg/validation

.PHONY: generate
generate: generate-docs ## Write everything that is generated.
	hack/update-codegen.sh

GENERATED_DOCS := ./cmd/trainjob-controller/app ./pkg/metrics -run '^TestThePage'

.PHONY: generate-docs
generate-docs: ## Write docs/flags.md and docs/metrics.md.
	CGO_ENABLED=0 go test -count 1 $(GENERATED_DOCS) -update

.PHONY: verify
verify: ## Check generated files, import rules and format.
	hack/verify-codegen.sh
	hack/verify-imports.sh
	hack/verify-format.sh
	CGO_ENABLED=0 go test -count 1 $(GENERATED_DOCS)

GOLANGCI_LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

.PHONY: lint
lint: ## Run golangci-lint (built from source the first time, which takes some minutes).
	CGO_ENABLED=0 go run $(GOLANGCI_LINT) run ./...

.PHONY: clean
clean: local-down ## Stop the local control plane and remove what was built here. The cache of its binaries stays.
	rm -rf bin .local

include hack/cluster/cluster.mk
