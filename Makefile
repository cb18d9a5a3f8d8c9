# Five verbs for whoever works here: demo, test, check, bench, serve.
# Each sets up what it needs; nothing is taken from outside this folder but Debian's and Python's packages.
.PHONY: demo test check bench serve setup clean
VENV := .venv
PYTHON ?= python3.11
BIN := $(VENV)/bin

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml scripts/setup
	@PYTHON=$(PYTHON) sh scripts/setup $(VENV)
	@touch $@

demo: setup  ## a live network on the embedded default, with people and posts in it
	@$(BIN)/shoal demo

serve: setup  ## the server on ./shoal.db
	@$(BIN)/shoal serve

check: setup  ## types, lint, imports
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

test: setup check  ## everything that must pass
	@$(BIN)/python -m pytest

bench: setup  ## the figures of docs/performance.md
	@$(BIN)/shoal bench

clean:  ## what was set up or made by the demo
	rm -rf $(VENV) demo
