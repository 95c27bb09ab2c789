# Two commands need nothing but CPython 3.11 or newer: make demo, make test. The rest is for people who work here.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
READY = $(VENV)/.ready
ROOM = src/dragoman
COVERED = $(ROOM)/model/*,$(ROOM)/search/*,$(ROOM)/text/*,$(ROOM)/data/*,$(ROOM)/loss.py,$(ROOM)/store/*

.PHONY: demo test test-all check fix clean

demo: $(READY)  ## make a translator from our own sentences and use it, in about two minutes
	$(BIN)/dragoman demo

test: $(READY)  ## everything that is quick: style, types, contracts, tests with coverage
	$(MAKE) check
	$(BIN)/python -m pytest -m "not slow" -n 2 --cov --cov-report=
	$(BIN)/coverage report --skip-covered --include '$(COVERED)' --fail-under 95

test-all: $(READY)  ## the slow stories too
	$(BIN)/python -m pytest -n 2

check: $(READY)  ## style, types, and who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fix: $(READY)  ## mend the style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build demo .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

# PyTorch first and alone: asked for by another package, an index may answer with a build for GPUs of several GB.
$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'torch>=2.11,<2.14'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@
