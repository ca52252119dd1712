# Local control plane; see docs/local-cluster.md. Included by the Makefile.

.PHONY: cluster-build local-up local-down

cluster-build: ## Build the local control plane's binaries into the cache folder.
	go run ./test/cluster/cmd/localcluster build

local-up: ## Start a local control plane with simulated nodes and wait until it is ready.
	go run ./test/cluster/cmd/localcluster up

local-down: ## Stop the local control plane and remove its folder.
	go run ./test/cluster/cmd/localcluster down
