# SPDX-License-Identifier: Apache-2.0
# All targets need only Go; their tools are Go modules pinned in tools/.

MODULE  := github.com/rdma-relay/rdma-relay
# A source tree without git builds too: the stamp is then what VERSION says.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
BIN     := bin/
LDFLAGS := -s -w -X $(MODULE)/internal/version.stamp=$(VERSION)
# grpcnotrace leaves out grpc's /debug/requests page, which nothing here serves; with it
# the linker can drop a quarter of each program.
BUF     := go tool -modfile=tools/go.mod buf
LINT    := go tool -modfile=tools/golangci/go.mod golangci-lint

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the static bin/discoveryd and bin/pluginproxy
	CGO_ENABLED=0 go build -tags grpcnotrace -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o $(BIN) ./discoveryd ./pluginproxy

.PHONY: demo
demo: build ## See the main job on a sample host: no root, no cluster (KEEP=1 stays up)
	@go build -o bin/demo ./test/demo
	@bin/demo $(if $(KEEP),-keep)

.PHONY: test
test: ## Run all tests of the main module with the race detector
	./test/run.sh ./...

.PHONY: chaos
chaos: ## Fire random faults at both programs for STEPS (default 100), beginning with SEED
	./test/run.sh -count 1 ./test/chaos -chaos.steps=$(or $(STEPS),100) -chaos.seed=$(or $(SEED),1) $(if $(ONLY),-chaos.only=$(ONLY))

.PHONY: e2e-kubelet
e2e-kubelet: build ## Run the binaries against kubelet's real device manager (first build: about 11 minutes)
	cd test/k8s && RDMA_RELAY_BIN=$(CURDIR)/bin ../run.sh -norace ./...

bin/helm: tools/helm/go.mod
	CGO_ENABLED=0 go build -C tools/helm -ldflags '-s -w' -o $(CURDIR)/bin/helm helm.sh/helm/v4/cmd/helm

.PHONY: test-chart
test-chart: build bin/helm ## Lint the Helm chart, render it with a dozen sets of values and check the manifests
	cd test/chart && RDMA_RELAY_BIN=$(CURDIR)/bin ../run.sh -norace ./...

.PHONY: images
images: ## Build both images with docker or buildah (LOCAL_BASE=1: without a registry)
	./test/images/build.sh

.PHONY: images-save
images-save: ## Build them for amd64 and arm64 as OCI archives in dist/images
	./test/images/build.sh save

.PHONY: release
release: ## Make the files of a release in dist/VERSION (VERSION=v1.2.3; IMAGES=no leaves the images out)
	VERSION='$(VERSION)' ./test/release/release.sh build

.PHONY: e2e-rdma
e2e-rdma: build ## Run both programs on a real RDMA kernel in a virtual machine (Debian with root, or QEMU; RUN=regexp picks tests)
	TEST_TIMEOUT=12m RDMA_RELAY_VM=1 RDMA_RELAY_VM_RUN='$(RUN)' ./test/run.sh -norace -v -count 1 ./test/vm/...

.PHONY: e2e-cluster
e2e-cluster: ## Install the chart on a real cluster on this machine; root only (first build: about 20 minutes)
	./test/k8s/cluster/build.sh
	cd test/k8s && ../run.sh -norace -tags cluster -count=1 ./cluster

.PHONY: e2e-prometheus
e2e-prometheus: build ## Have a real Prometheus scrape both programs, with the chart's alerts and dashboard (Debian's package)
	./test/prometheus/install.sh
	RDMA_RELAY_PROMETHEUS=1 ./test/run.sh -norace -count 1 ./test/prometheus

.PHONY: bench
bench: build ## Measure what the README claims, COUNT times (default 3; benchstat-friendly)
	go test -tags grpcnotrace -p 1 -run '^$$' -bench . -benchmem -count $(or $(COUNT),3) ./...

.PHONY: bench-kubelet
bench-kubelet: build ## The same against kubelet's real device manager
	cd test/k8s && RDMA_RELAY_BIN=$(CURDIR)/bin go test -run '^$$' -bench . -benchtime 50x -count $(or $(COUNT),3) . 2>/dev/null

.PHONY: fuzz
fuzz: ## Fuzz each parser for FUZZTIME (default 30s)
	./test/fuzz.sh $(or $(FUZZTIME),30s)

.PHONY: generate
generate: ## Make the Go code of proto/ anew
	$(BUF) generate

.PHONY: lint
lint: ## gofmt, go vet, golangci-lint, buf lint, buf breaking, generated code and versions up to date
	@test -z "$$(gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go'))" || { echo "not gofmt-clean:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	go vet ./...
	cd test/chart && go vet ./...
	go mod tidy -diff
	$(LINT) run ./...
	$(BUF) lint
	./test/breaking.sh $(BUF)
	./test/generated.sh $(BUF)
	./test/release/release.sh lint

.PHONY: vulncheck
vulncheck: ## Look for known vulnerabilities (needs vuln.go.dev)
	go tool -modfile=tools/go.mod govulncheck ./...

.PHONY: clean
clean: ## Remove what build made
	rm -rf bin dist
