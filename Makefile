# Tidemark. `make` alone prints what there is to make.

GO       ?= go
BIN      := tidemark
TOOLS    := dist/tools
# How long each fuzz target runs, and which: one per format that other programs write, and the kernels against the plain loops; FUZZ_ALL are all of them.
FUZZTIME := 30s
FUZZ     := timeline:FuzzCommit internal/hudi/basefile:FuzzOpen internal/hudi/hfile:FuzzCells \
            internal/hudi/avrox:FuzzRecord internal/hudi/logfile:FuzzBlocks internal/hudi/logfile:FuzzContent \
            internal/hudi/mdt:FuzzDecodeState delta:FuzzDecode \
            internal/vector/simd:FuzzPlanes internal/vector/rabitq:FuzzScan internal/vector/rabitq:FuzzEncode
FUZZ_ALL  = $(shell grep -r --include='*_test.go' '^func Fuzz' . | sort | sed -E 's|^\./(.*)/[^/]*:func (Fuzz[A-Za-z]*).*|\1:\2|')
# Flags for a small program that is the same bytes wherever it is built.
LDFLAGS   = -s -w -buildid= $(if $(VERSION),-X main.stamped=$(VERSION))
# Leaves out what Google's client and gRPC bring along and nothing here uses: half of the program's size. See docs/stores.md.
TAGS     := disable_grpc_modules,grpcnotrace

.DEFAULT_GOAL := help
.PHONY: alerts release help demo build services services-long test test-long proofs fuzz fuzz-all conformance conformance-long stack lint check bench bench-all bench-peers generate

help: ## print the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: build ## build the program and show it at work on a real table (no network, no service)
	@./$(BIN) demo

build: ## build the static program ./tidemark
	@CGO_ENABLED=0 $(GO) build -trimpath -tags '$(TAGS)' -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/tidemark

# Two runs: the race detector over every package, and then, without it, the packages whose tests ask testkit about it. Those leave long
# proofs that run on one goroutine out of the first run, or thin them, and play them whole in the second, in a tenth of the time.
WHOLE = $(shell grep -rlE --include='*_test.go' 'testkit\.(Race|Thinned|Unraced)' . | xargs -n1 dirname | sort -u)

test: ## run every Go test with the race detector, the long proofs without it, the vector engine in every form
	$(GO) test -race -timeout 20m ./...
	$(GO) test -timeout 20m $(WHOLE)
	$(GO) test -tags purego ./internal/vector/...
	TIDEMARK_KERNELS=avx2 $(GO) test ./internal/vector/...

test-long: ## the same with larger inputs and more seeds
	TIDEMARK_TEST_LONG=1 $(GO) test -race -timeout 60m ./...
	TIDEMARK_TEST_LONG=1 $(GO) test -timeout 5h $(WHOLE)

proofs: ## kills at every call, flipped bytes, random schedules, in the numbers that are promised, which it prints (.ci/proofs)
	@GO='$(GO)' .ci/proofs

fuzz: ## feed hostile bytes to the readers of formats, FUZZTIME each
	@.ci/fuzz $(FUZZTIME) $(FUZZ)

fuzz-all: ## the same for every fuzz target (FUZZTIME=10m for a long run)
	@.ci/fuzz $(FUZZTIME) $(FUZZ_ALL)

conformance: build ## let real Hudi read and write what Tidemark wrote (needs python3, java 17, maven)
	@bash fixtures/conformance/run.sh

conformance-long: build ## the same with more tables and random histories by free seeds (TIDEMARK_SEED=n plays one again)
	@bash fixtures/conformance/run.sh --long

stack: build ## let a Spark job stream into a table and call back by Kafka, follow it, check what came of it (needs python3, java 17, maven)
	@TIDEMARK_BIN=$(CURDIR)/$(BIN) bash fixtures/stack/run.sh

services: ## run the stores and the main path against a real S3 server (needs python3)
	@bash fixtures/services/run.sh

services-long: ## the same with three more servers (needs npm)
	@bash fixtures/services/run.sh --long

lint: $(TOOLS)/staticcheck ## format, vet, import rules, banned idioms, static analysis
	@out=$$(gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go')); \
	  if [ -n "$$out" ]; then echo "not formatted; run gofmt -w:"; echo "$$out"; exit 1; fi
	$(GO) vet ./...
	$(GO) test ./internal/archtest
	CGO_ENABLED=0 $(TOOLS)/staticcheck ./...
	@tmp=$$(mktemp -d) && trap 'rm -r $$tmp' EXIT && for p in simd peak; do \
	  dir=.; [ $$p = simd ] || dir=./peak; \
	  $(GO) -C tools/kernels run $$dir -out $$tmp/$$p.s -stubs $$tmp/$$p.go -pkg $$p || exit 1; \
	  for e in s go; do sed 1d internal/vector/$$p/$${p}_amd64.$$e >$$tmp/is; sed 1d $$tmp/$$p.$$e | cmp -s - $$tmp/is || \
	    { echo "internal/vector/$$p/$${p}_amd64.$$e differs from what tools/kernels writes; run make generate"; exit 1; }; done; done

$(TOOLS)/staticcheck: tools/go.mod tools/go.sum
	@mkdir -p $(TOOLS)
	$(GO) -C tools build -o ../$@ honnef.co/go/tools/cmd/staticcheck

check: lint test ## lint and test: what must pass before a change lands
	$(GO) mod tidy -diff
	$(GO) -C tools mod tidy -diff
	$(GO) -C tools/kernels mod tidy -diff

alerts: ## check the alert rules and run their tests (needs promtool: on the path, or PROMTOOL)
	@tool="$${PROMTOOL:-$$(command -v promtool)}"; \
	  [ -n "$$tool" ] || { echo "promtool is not here: install Prometheus, or say where it is with PROMTOOL=..."; exit 1; }; \
	  cd deploy/prometheus && "$$tool" check rules tidemark.rules.yml && "$$tool" test rules tidemark.rules.test.yml

# What a release is built for.
PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64

release: build ## build archives for Linux and macOS in dist/release, with shell completions and checksums (VERSION=v1.2.3)
	@[ -n "$(VERSION)" ] || { echo "say which version it is: make release VERSION=v1.2.3"; exit 1; }
	@rm -rf dist/release && mkdir -p dist/release/completions
	@for shell in bash zsh fish; do ./$(BIN) completion $$shell > dist/release/completions/$(BIN).$$shell || exit 1; done
	@for p in $(PLATFORMS); do \
	  os=$${p%/*}; arch=$${p#*/}; dir=dist/release/$(BIN)-$(VERSION)-$$os-$$arch; echo "$$dir.tar.gz"; mkdir $$dir && \
	  CGO_ENABLED=0 GOOS=$$os GOARCH=$$arch $(GO) build -trimpath -tags '$(TAGS)' -ldflags '$(LDFLAGS)' -o $$dir/$(BIN) ./cmd/tidemark && \
	  cp -r LICENSE NOTICE README.md CHANGELOG.md dist/release/completions $$dir && tar -C dist/release -czf $$dir.tar.gz $${dir##*/} && rm -r $$dir || exit 1; \
	done
	@rm -r dist/release/completions && cd dist/release && sha256sum *.tar.gz > SHA256SUMS && cat SHA256SUMS

bench: ## measure the vector engine against its goals, as shares of the machine's peaks (a minute or two)
	@$(GO) -C tools/kernels run ./goals

bench-all: ## run every Go benchmark (half an hour)
	$(GO) test -run '^$$' -bench . -benchmem -timeout 60m ./...

bench-peers: ## compare with LanceDB and Faiss on the same data (needs npm, apt-get; 1 GB in dist/peers)
	@bash bench/peers/run.sh

generate: ## write the assembly in internal/vector anew from tools/kernels
	$(GO) generate ./internal/vector/simd ./internal/vector/peak
