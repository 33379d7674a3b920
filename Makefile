# `make` explains itself. The work is in scripts/ and integration/release/.
# Modules are those of go.work; nothing here lists them again.

MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help
# A clone that belongs to somebody else has no commit to ask git for.
export GOFLAGS += -buildvcs=false

# What the demo and the benchmarks run on: sqlite needs no server.
BACKEND ?= sqlite
# Which benchmarks, and how often.
BENCH ?= .
COUNT ?= 1
# What bench-peers measures: `go run -C bench ./peers -help`.
PEERS ?=
# How long make torture works on each provider, on which, and where the timelines go.
FOR ?= 2m
PROVIDERS ?=
FOLDER ?= $(or $(TMPDIR),/tmp)/leasing-torture
# Which mutants, and how: `go run -C integration ./mutants -help`.
MUTANTS ?=
# Which runs of the models beside the short ones: long.
RUNS ?=
# Least coverage of package leasing, in percent.
COVER_MIN ?= 90

# What the tests need: files of scripts/servers/. Tests that kill Redis servers,
# or need a cluster or sentinels, start theirs themselves.
SERVERS := postgres redis redlock azurite cosmos cosmosnpm s3 gofakes3 etcd mariadb promtool chromium
# Servers that take minutes to build: make test-all.
SLOW_SERVERS := consul kubernetes

# The servers of a backend: blob runs on azurite.
servers = $(patsubst blob,azurite,$(filter-out sqlite memory,$(BACKEND)))
on_backend = $(if $(servers),scripts/with-servers $(servers) --)
# The peers are those on Redis, unless somebody names another BACKEND. What a database
# promises costs a sync.
peers_backend = $(if $(filter file,$(origin BACKEND)),,$(BACKEND))
on_peers = $(if $(filter sqlite%,$(peers_backend)),,POSTGRES_FSYNC=on scripts/with-servers $(or $(filter postgres,$(peers_backend)),redis redlock) --)

.PHONY: help
help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: toolchain ## Leader election under kill and pause; BACKEND=postgres, redis, redlock, blob, cosmos, s3, etcd or mariadb
	@$(on_backend) bash -c '. scripts/lib.sh && go run -C integration ./scenarios election -url "$$(url_of $(BACKEND))"'

.PHONY: samples
samples: toolchain ## The five examples, one after the other; URL=redis://... for a server
	@go run -C integration ./scenarios all -url '$(URL)'

.PHONY: chaos
chaos: toolchain ## The chaos test of samples/chaos: over memory in virtual time; BACKEND=redis or blob
	@$(on_backend) bash -c '. scripts/lib.sh && export LEASING_URL="$(if $(servers),$$(url_of $(BACKEND)))" && go test -C samples -count=1 -parallel 8 -v ./chaos'

.PHONY: sequence
sequence: toolchain ## A ledger whose writers are killed, paused and cut off; BACKEND=postgres
	@$(on_backend) bash -c '. scripts/lib.sh && go run -C integration ./scenarios sequence -url "$$(url_of $(BACKEND))"'

.PHONY: agents
agents: toolchain ## Six processes edit one tree: two deadlock, one is killed, one is forced out; BACKEND=postgres or redis
	@$(on_backend) bash -c '. scripts/lib.sh && go run -C integration ./scenarios agents -url "$$(url_of $(BACKEND))"'

.PHONY: test
test: toolchain ## Every module's tests with -race against real servers, in about 10 minutes
	@scripts/with-servers $(SERVERS) -- scripts/test

.PHONY: test-slow-servers
test-slow-servers: toolchain ## The providers whose servers take minutes to build: Consul, Kubernetes
	@scripts/with-servers $(SLOW_SERVERS) -- bash -c 'status=0; \
		scripts/test --part ./providers/consul/... ./providers/kubernetes/... || status=$$?; \
		scripts/test --real-time ./providers/consul ./providers/kubernetes || status=$$?; exit $$status'

.PHONY: test-real-time
test-real-time: toolchain ## A manager over each provider on its server: the checks Manager_RealTime_..., in about 3 minutes
	@scripts/with-servers $(filter-out cosmos promtool chromium,$(SERVERS)) -- scripts/test --real-time $(addprefix ./providers/,redis sql/postgres sql/sqlite sql/mysql blob cosmos s3 etcd file)

.PHONY: test-all
test-all: toolchain ## Also the long tests, Consul and Kubernetes, the models and the release check
	@scripts/with-servers $(SERVERS) $(SLOW_SERVERS) -- scripts/test --all

.PHONY: model
model: toolchain ## Searches the code and Redlock's model in small worlds, with each trap; RUNS=long for larger ones
	@scripts/model $(RUNS)

.PHONY: mutants
mutants: toolchain ## Damages the code on purpose, one change at a time, and says which layer of tests notices; MUTANTS='-run trust'
	@scripts/with-servers $(filter-out cosmosnpm chromium,$(SERVERS)) $(SLOW_SERVERS) -- go run -C integration ./mutants $(MUTANTS)

.PHONY: torture
torture: toolchain ## Every provider for 2 minutes under the ready-made plans, worker processes, the slow suites; FOR=10m, REQUESTS=1000000, PROVIDERS='redis cosmos', FOLDER=timelines
	@scripts/with-servers $(filter-out cosmosnpm chromium,$(SERVERS)) $(SLOW_SERVERS) -- scripts/torture $(FOR) $(FOLDER) $(PROVIDERS)

.PHONY: bench
bench: toolchain ## Benchmarks; BENCH=regexp, COUNT=n, BACKEND=name to have that server
	@$(on_backend) go test -C bench -run='^$$' -bench='$(BENCH)' -benchmem -count=$(COUNT) -timeout=60m ./...

.PHONY: bench-peers
bench-peers: toolchain ## This library beside every Go peer on Redis, in about 10 minutes; PEERS=-long, or '-workloads cycles,held'; BACKEND=postgres, sqlite
	@$(on_peers) go run -C bench ./peers $(if $(peers_backend),-backend $(peers_backend)) $(PEERS)

.PHONY: cover
cover: toolchain ## Coverage of package leasing; HTML=file writes a page
	@scripts/cover $(COVER_MIN) $(HTML)

.PHONY: lint
lint: toolchain ## The linters of .golangci.yml
	@scripts/lint

.PHONY: vet
vet: toolchain ## go vet on every module; the core also builds for other systems
	@go vet $$(go list -m -f '{{.Dir}}/...')
	@for os in darwin windows; do GOOS=$$os CGO_ENABLED=0 go build ./... || exit; done

.PHONY: fmt
fmt: ## Format the code
	@gofmt -l -w .

.PHONY: fmt-check
fmt-check: ## Fail if anything is not formatted
	@files=$$(gofmt -l .) && [ -z "$$files" ] || { echo "not formatted; run make fmt:"; echo "$$files"; exit 1; }

.PHONY: tidy
tidy: toolchain ## go mod tidy in every module, as if the siblings were published
	@scripts/tidy

.PHONY: tidy-check
tidy-check: toolchain ## Fail if make tidy would change anything
	@scripts/tidy -diff

.PHONY: release-check
release-check: toolchain ## Pack every released module and use it the way a stranger would
	@scripts/with-servers redis azurite cosmos s3 etcd mariadb postgres -- go run ./integration/release

.PHONY: toolchain
toolchain:
	@scripts/toolchain

.PHONY: clean
clean: ## Forget cached test results
	@go clean -testcache -fuzzcache
