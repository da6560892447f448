# `make help` lists the targets. Needs Go and bash; `make race` a C compiler too.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help build demo test race bench check fmt tools

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
GO_BUILD = CGO_ENABLED=0 go build -trimpath -tags timetzdata -ldflags "-X main.release=$(VERSION)"
# A throw-away PostgreSQL beside a command, on a free port, never as root.
WITH_POSTGRES = go run ./internal/testkit/pgserver/withpostgres
# What to test and how: make test PKG=./internal/fsm ARGS='-run TestPlan -v'
PKG ?= ./...
ARGS ?=

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "%-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## bin/vobo, one static file
	$(GO_BUILD) -o bin/vobo ./cmd/vobo

demo: ## a whole working service with sample data, here and now
	go run ./cmd/vobo demo

tools: ## what the tests need beside Go: PostgreSQL and Chromium
	@scripts/bring postgresql chromium

test: tools build ## all tests, on SQLite, PostgreSQL and in a real browser
	VOBOTEST_BINARY="$(CURDIR)/bin/vobo" $(WITH_POSTGRES) go test -shuffle=on -timeout=15m $(ARGS) $(PKG)

race: tools ## all tests with the race detector, in the binary under test as well
	$(WITH_POSTGRES) go test -race -shuffle=on -timeout=40m $(ARGS) $(PKG)

bench: tools build ## one approval over HTTP beside what PostgreSQL alone can do
	VOBOTEST_FSYNC=on VOBOTEST_BINARY="$(CURDIR)/bin/vobo" $(WITH_POSTGRES) go -C bench run . $(ARGS)

fmt: ## format the code
	go tool gofumpt -w .

check: ## format, vet, staticcheck, go.mod, layers, links in the docs, packaging
	@unformatted="$$(go tool gofumpt -l .)"; \
	if [ -n "$$unformatted" ]; then printf 'Not formatted (run make fmt):\n%s\n' "$$unformatted"; exit 1; fi
	go vet ./...
	go tool staticcheck ./...
	go mod tidy -diff
	go mod verify
	@if [ -f bench/go.mod ]; then go -C bench vet ./... && go -C bench mod tidy -diff; fi
	go test -count=1 -run '^(TestLayers|TestDocs|TestPackaging)$$' ./internal/testkit
