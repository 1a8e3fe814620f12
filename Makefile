# Everything happens in a virtual environment of its own (.venv). A machine needs Python 3.11, make, git and g++.
#
#   make migrate CODE=path/to/plugin   take a code base to V1; without CODE, a copy of our example plugin
#   make test                          lint, types, tests
#   make test-full                     the slow tests, too

PYTHON ?= $(shell command -v python3.11 || command -v python3)
CODE   ?=
ARGS   ?=
VENV   := .venv
BIN    := $(VENV)/bin
TRIAL  := build/legacy_plugin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: migrate test test-full lint format docs docs-check clean
.DELETE_ON_ERROR:

# Exit code 1 says that something is left for a person: that is an answer, not a failure.
migrate: $(VENV)/installed
ifeq ($(strip $(CODE)),)
	@rm -rf $(TRIAL) && mkdir -p build && cp -R docs/examples/legacy_plugin $(TRIAL)
	@$(BIN)/v1-migrate rewrite $(TRIAL) --allow-dirty --report $(TRIAL).html $(ARGS) || test $$? -eq 1
	@echo
	@echo "This was a copy of docs/examples/legacy_plugin. What changed: diff -ru docs/examples/legacy_plugin $(TRIAL)"
	@echo "The same findings as a page: $(TRIAL).html. Your own code: make migrate CODE=path/to/plugin"
	@echo "v1-migrate is $(BIN)/v1-migrate here."
else
	@$(BIN)/v1-migrate rewrite "$(CODE)" $(ARGS) || test $$? -eq 1
endif

test: $(VENV)/installed-test lint docs-check
	$(BIN)/python -m pytest -n 2 -m "not slow"

test-full: $(VENV)/installed-test lint docs-check
	$(BIN)/python -m pytest -n 2

lint: $(VENV)/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/installed-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/installed
	$(BIN)/v1-migrate rules --write docs/rules

docs-check: $(VENV)/installed
	$(BIN)/v1-migrate rules --check docs/rules

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is needed; PYTHON=/path/to/python names one"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "$(PYTHON) is older than Python 3.11; PYTHON=/path/to/python names another"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) -e .
	@touch $@

$(VENV)/installed-test: $(VENV)/installed
	$(PIP) -e '.[backend,test]'
	@touch $@
