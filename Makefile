# make demo   a small Trainer run on this machine's CPU: recorded, explained, and shown in the browser
# make test   everything that must hold before a change is merged
SHELL := /bin/bash
PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3; do \
	if $$name -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then echo $$name; break; fi; done)
BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: demo test lint unit install browser tensorflow image clean

install: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt setup.py
	@if [ -z "$(PYTHON)" ]; then \
		echo "needs Python 3.11, 3.12 or 3.13 (torch_xla 2.9 has no other), and none was found: install one, or run: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; \
		exit 2; fi
	@[ -x $(BIN)/python ] || { echo "creating .venv with $(PYTHON)"; $(PYTHON) -m venv .venv; }
	@echo "installing the pinned packages into .venv (torch is large: the first time takes minutes)"
	@$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e ".[all,test]"
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

tensorflow: $(INSTALLED)
	@.ci/tensorflow

# The steps of the Dockerfile in a fresh environment, as far as they go without a Docker engine; a test goes through
# them in an environment that is there.
image: $(INSTALLED)
	@.ci/docker_steps $(BIN)/python

# The unit tests run once: where users read runs, in an environment without torch (tests/contract/test_wheel.py).
# Files stay whole, since most tests share what their file has recorded; the order, longest first, is tests/conftest.py's.
# Hundreds of short processes import our modules: each would compile them again if none kept what it compiled.
test: export PYTHONDONTWRITEBYTECODE :=
test: lint browser tensorflow
	$(BIN)/pytest -q -n 2 --dist loadfile --no-loadscope-reorder --durations=40 --ignore=tests/unit

clean:
	rm -rf .venv .venv-tensorflow build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
