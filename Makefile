# make demo   a small Trainer run on this machine's CPU: recorded, explained, and shown in the browser
# make test   everything that must hold before a change is merged
SHELL := /bin/bash
PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3; do \
	if $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$name; break; fi; done)
BIN := .venv/bin
INSTALLED := .venv/.installed
MARK ?=
JOBS ?= 2

.PHONY: demo test lint unit install browser torch-free clean

install: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt setup.py
	@if [ -z "$(PYTHON)" ]; then \
		echo "xla-insight needs Python 3.11 or newer, and none was found: install it, or run: make PYTHON=/path/to/python3.11" >&2; \
		exit 2; fi
	@[ -x $(BIN)/python ] || { echo "creating .venv with $(PYTHON)"; $(PYTHON) -m venv .venv; }
	@echo "installing the pinned packages into .venv (torch is large: the first time takes minutes)"
	@$(BIN)/python -m pip install -q -c constraints.txt -e ".[all,test]"
	@touch $@

demo: $(INSTALLED)
	@$(BIN)/xla-insight demo

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Fast feedback while editing: no torch, no browser.
unit: $(INSTALLED)
	$(BIN)/pytest -q tests/unit tests/contract tests/app

browser:
	@.ci/browser

torch-free: $(INSTALLED)
	@.ci/torch-free

test: lint browser torch-free
	$(BIN)/pytest -q

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
