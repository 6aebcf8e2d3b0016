# Every target sets up what it needs: a clone, Python 3.11 or later and make are enough.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
FOLDERS := $(wildcard src tests benchmarks examples)

.DEFAULT_GOAL := help
.PHONY: help install demo test lint bench docs clean

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:[^#]*## */: /'

# An interpreter that is already there is kept; the constraints hold torch to the tested build.
$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

install: $(INSTALLED)  ## make .venv, with everything in it

demo: $(INSTALLED)  ## compare four mechanisms on embedded data, and write build/demo/page.html
	$(BIN)/regard study first-look --out build/demo

# Each worker keeps torch to one thread (tests/conftest.py); more than four only cost memory.
test: $(INSTALLED)  ## run every test
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal

lint: $(INSTALLED)  ## style, formatting and types
	$(BIN)/ruff check $(FOLDERS)
	$(BIN)/ruff format --check $(FOLDERS)
	$(BIN)/mypy $(FOLDERS)

# The rivals are only needed here.
.venv/.rivals: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,bench]'
	touch $@

bench: .venv/.rivals  ## measure speed
	$(BIN)/python -m benchmarks

# With --quiet, mkdocs would not count the warnings that --strict turns into a failure.
docs: $(INSTALLED)  ## write build/site, the documents as pages
	$(BIN)/mkdocs build --strict --site-dir build/site

clean:  ## remove what the other targets wrote, except .venv
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache
	find $(FOLDERS) -name __pycache__ -type d -prune -exec rm -rf {} +
