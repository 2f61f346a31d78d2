# Two commands on a fresh machine: `make demo` and `make test`. They need Python 3.11 or newer, and nothing else.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: help demo test slow lint docs bench faults clean

help:
	@echo "make demo    install into $(VENV), attack plain and private models, and write privet-report.html"
	@echo "make test    install the tools and run the tests"
	@echo "make slow    run the tests that take minutes"
	@echo "make lint    check format, style, types, who imports whom, and import cycles"
	@echo "make docs    build the documentation into site/; a warning is an error"
	@echo "make bench   measure beside the peers"
	@echo "make faults  kill ledgers, training and caches some thousand times, and count what is lost"
	@echo "make clean   remove everything that make has made"

demo: $(VENV)/.installed-demo
	@$(BIN)/privet demo

# Bytecode is kept, whatever the environment says: each worker, and each process that a test starts, would compile
# all sources again, and collecting would take twice as long.
test: $(VENV)/.installed-dev
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2

slow: $(VENV)/.installed-dev
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2 -m slow

lint: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/contract/import_cycles.py src/privet

# Not with --quiet: then no warning is counted, and strict is not.
docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench:
	bash bench/accounting/run.sh
	bash bench/noise/run.sh
	bash bench/release/run.sh
	bash bench/synthetic/run.sh
	bash bench/training/run.sh
	bash bench/attacks/run.sh

faults: $(VENV)/.installed-dev
	$(BIN)/python bench/faults/run.py

clean:
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache privet-report.html examples-out
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Privet needs Python 3.11 or newer, and '$(PYTHON)' is not; name one, as in: make PYTHON=python3.12" >&2; \
		exit 1; }
	@echo "Making $(VENV) …"
	@$(PYTHON) -m venv $(VENV)

# A stamp is newer than pyproject.toml and constraints.txt once what they ask for is installed.
$(VENV)/.installed-demo: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing Privet and what the demo needs into $(VENV) …"
	@$(PIP) --editable '.[demo]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing Privet and the tools for its tests into $(VENV) …"
	@$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.installed-demo

# Signatures and docstrings are read from the sources, so none of Privet's own dependencies beyond the core is needed.
$(VENV)/.installed-docs: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing what builds the documentation into $(VENV) …"
	@$(PIP) --editable '.[docs]'
	@touch $@
