# Verbs for whoever works here: demo, test, check, bench, serve, cluster, docs; and three more ways to test.
# Each sets up what it needs, and no more; nothing is taken from outside this folder but Debian's and Python's packages.
.PHONY: demo test test-all tests quick coverage check audit bench bench-check bench-ratios serve cluster shots docs setup ready clean
VENV := .venv
PYTHON ?= python3.11
BIN := $(VENV)/bin
# Two workers for each processor, since tests wait a third of their time, but no more than four: each has engines of its own. The
# tests of a file stay together, as what they share does.
WORKERS := $(shell n=$$(( $$(nproc) * 2 )); [ $$n -lt 4 ] || n=4; echo $$n)
SIDE_BY_SIDE := -n $(WORKERS) --dist loadfile --no-loadscope-reorder
INNER := tests/core tests/contracts tests/graph tests/timelines tests/tagcloud tests/streaming tests/test_outbox.py tests/test_settings.py
# Hundreds of processes start in a run of the tests. Where this is set, each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE
# Where demo and serve listen: make demo PORT=8600
PORT := 8500

setup: $(VENV)/.dev $(VENV)/.engines $(VENV)/.clients $(VENV)/.bare  ## everything that is needed here, the engines of a cluster included

ready: $(VENV)/.ready  ## what running needs

$(VENV)/.ready: pyproject.toml scripts/setup
	@PYTHON=$(PYTHON) sh scripts/setup $(VENV)
	@touch $@

$(VENV)/.dev: pyproject.toml scripts/setup | $(VENV)/.ready
	@PYTHON=$(PYTHON) sh scripts/setup $(VENV) dev
	@touch $@

$(VENV)/.docs: pyproject.toml scripts/setup | $(VENV)/.ready
	@PYTHON=$(PYTHON) sh scripts/setup $(VENV) docs
	@touch $@

$(VENV)/.engines: scripts/engines scripts/dynamodb | $(VENV)/.ready
	@sh scripts/engines $(VENV)
	@touch $@

$(VENV)/.clients: scripts/clients tests/clients/masto/package-lock.json tests/clients/axe/package-lock.json tests/clients/typescript/package-lock.json | $(VENV)/.dev
	@sh scripts/clients $(VENV)
	@touch $@

$(VENV)/.bare: scripts/bare pyproject.toml | $(VENV)/.dev
	@sh scripts/bare $(VENV)
	@touch $@

demo: ready  ## a live network on the embedded default, with people and posts in it
	@exec $(BIN)/shoal demo --port $(PORT)

serve: ready  ## the server on ./shoal.db
	@exec $(BIN)/shoal serve --port $(PORT)

cluster: $(VENV)/.dev $(VENV)/.engines  ## a whole small cluster on this machine, in ./cluster
	@exec $(BIN)/shoal cluster up

check: $(VENV)/.dev  ## formatting, lint, types, imports, known vulnerabilities
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(MAKE) --no-print-directory audit

audit: $(VENV)/.dev  ## known vulnerabilities of installed packages
	@$(BIN)/python -m scripts.audit

test: setup  ## checks and tests: every behaviour once
	@$(MAKE) --no-print-directory --jobs=2 check tests

# The first collection caches the compiled tests, which each worker would otherwise compile.
tests: setup  ## the tests of `make test`, without the checks
	@$(BIN)/python -m pytest --collect-only -qq > /dev/null 2>&1 || true
	@$(BIN)/python -m pytest $(SIDE_BY_SIDE)

test-all: setup check  ## every test: all combinations of backends, all faults, all pages, four times the examples of property tests
	@SHOAL_EXAMPLES=4 $(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "" --timeout 3600

quick: check  ## types, lint, imports, and the tests of the inner rooms without engines
	@SHOAL_ENGINES=none $(BIN)/python -m pytest $(SIDE_BY_SIDE) -rfE $(INNER)

coverage: setup  ## which lines and branches of rules, verbs, consequences and feeds no test reaches; fails below 95 %
	@$(BIN)/python -m pytest $(SIDE_BY_SIDE) --cov --cov-report=term-missing:skip-covered $(INNER) tests/flows tests/library tests/api

bench: setup  ## the figures of docs/performance.md, on a machine that has nothing else to do
	@$(BIN)/python -m benchmarks --page

bench-check: setup  ## whether each path is as near to the bare engine as the last release was
	@$(BIN)/python -m benchmarks.regression

bench-ratios: setup  ## keep how near each path is to the bare engine, for a release
	@$(BIN)/python -m benchmarks.regression --keep

shots: $(VENV)/.dev $(VENV)/.engines  ## pictures of every page, at a desk and on a phone, light and dark, in ./shots
	@$(BIN)/python -m scripts.shots

docs: $(VENV)/.docs  ## the documentation as a site, in ./site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "docs: site/index.html"

clean:  ## what was set up or made by the demo
	rm -rf $(VENV) demo site shots
