# Targets for developers; CONTRIBUTING.md describes them. Each installs only what it needs, from Debian and PyPI.
.PHONY: demo test test-all tests quick coverage check audit bench bench-check bench-ratios serve cluster shots docs setup tools ready clean
VENV := .venv
# Debian's Python, unlike one that is built without profile-guided optimization, runs the tests in a tenth less time.
PYTHON ?= $(shell /usr/bin/python3.11 -c 'import ensurepip' 2>/dev/null && echo /usr/bin/python3.11 || echo python3.11)
BIN := $(VENV)/bin
# Three workers for each processor, since tests wait a third of their time, but at most six: each uses half a gigabyte. The tests of a
# file run in one worker, because they share fixtures.
WORKERS := $(shell n=$$(( $$(nproc) * 3 )); [ $$n -lt 6 ] || n=6; echo $$n)
SIDE_BY_SIDE := -n $(WORKERS) --dist loadfile --no-loadscope-reorder
# Temporary files of the tests are in memory if it has room for them (8 GB), since databases wait for the disk at every commit.
IN_MEMORY := $(shell [ "$$(df --output=avail /dev/shm 2>/dev/null | tail -1)" -gt 8000000 ] 2>/dev/null && [ "$$(sed -n 's/MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo)" -gt 12000000 ] && echo /dev/shm)
INNER := tests/core tests/contracts tests/graph tests/timelines tests/tagcloud tests/streaming tests/test_outbox_runner.py tests/test_settings.py
# Tests start hundreds of processes. With this variable set, each would compile every module that it imports.
unexport PYTHONDONTWRITEBYTECODE
# Every build generates it too. The directory is a prerequisite because it changes when a module is deleted.
SYNC := src/shoal/sync/_generated.py
# Port of demo and serve: make demo PORT=8600
PORT := 8500

setup: tools $(VENV)/.bare  ## install all dependencies, including engines, browsers and a bare Debian

tools: $(VENV)/.dev $(VENV)/.engines $(VENV)/.clients $(SYNC)  ## install the dependencies of the first tier of the tests

ready: $(VENV)/.ready $(SYNC)  ## install the runtime dependencies

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

$(VENV)/.clients: scripts/clients tests/clients/masto/package-lock.json tests/clients/axe/package-lock.json sdk/typescript/package-lock.json tests/clients/oidc/package-lock.json examples/shop/package-lock.json examples/gallery/package-lock.json | $(VENV)/.dev
	@sh scripts/clients $(VENV)
	@touch $@

$(VENV)/.bare: scripts/bare pyproject.toml | $(VENV)/.dev
	@sh scripts/bare $(VENV)
	@touch $@

$(SYNC): scripts/sync_library.py src/shoal/library $(wildcard src/shoal/library/*.py) src/shoal/admin/blocklists.py src/shoal/settings.py | $(VENV)/.ready
	@$(BIN)/python -m scripts.sync_library

demo: ready  ## run a demo network with people and posts
	@exec $(BIN)/shoal demo --port $(PORT)

serve: ready  ## run a server on ./shoal.db
	@exec $(BIN)/shoal serve --port $(PORT)

cluster: $(VENV)/.dev $(VENV)/.engines $(SYNC)  ## run a small cluster on this machine, in ./cluster
	@exec $(BIN)/shoal cluster up

check: $(VENV)/.dev $(SYNC)  ## check formatting, lint, types, imports, English, spelling, known vulnerabilities
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m scripts.prose
	@$(BIN)/codespell
	@$(MAKE) --no-print-directory audit

audit: $(VENV)/.dev  ## check installed packages for known vulnerabilities
	@$(BIN)/python -m scripts.audit

test:  ## run the checks and the first tier of the tests
	@$(MAKE) --no-print-directory --jobs=2 tools
	@$(MAKE) --no-print-directory --jobs=2 check tests

tests: tools  ## run the first tier of the tests, without the checks
	@$(if $(IN_MEMORY),TMPDIR=$(IN_MEMORY)) $(BIN)/python -m pytest $(SIDE_BY_SIDE)

test-all: setup check  ## run the checks and both tiers of the tests
	@SHOAL_EXAMPLES=4 $(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "" --timeout 3600

quick: check  ## run the checks, and the tests of the lower layers without engines
	@SHOAL_ENGINES=none $(BIN)/python -m pytest $(SIDE_BY_SIDE) -rfE $(INNER)

coverage: tools  ## measure the coverage of rules, commands, consumers and queries; fails below 95 %
	@$(BIN)/python -m pytest $(SIDE_BY_SIDE) --cov --cov-report=term-missing:skip-covered $(INNER) tests/flows tests/library tests/api

bench: tools  ## measure the figures of docs/performance.md, on an idle machine
	@$(BIN)/python -m benchmarks --page

bench-check: tools  ## compare the ratios to the bare engine with those of the last release
	@$(BIN)/python -m benchmarks.regression

bench-ratios: tools  ## record the ratios to the bare engine for a release
	@$(BIN)/python -m benchmarks.regression --keep

shots: $(VENV)/.dev $(VENV)/.engines $(SYNC)  ## take screenshots of 61 pages and states in eight looks, in ./build/shots
	@$(BIN)/python -m scripts.shots

docs: $(VENV)/.docs $(SYNC)  ## build the documentation as a site, in ./site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "docs: site/index.html"

clean:  ## remove the environment, the demo and generated files
	rm -rf $(VENV) demo site build/shots $(SYNC) src/shoal/library/_generated.py
