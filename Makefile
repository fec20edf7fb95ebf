# Two commands do everything on a machine that has only Python 3.11+ and make:
#   make up      run the product     make up ARGS='--port 8001' passes options to `foryou up`
#   make test    lint, check types and import contracts, run every test
# `make install` is the first half of both; once done, all works offline.

VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --no-input
PYTHON ?= $(firstword $(foreach name,python3 python3.14 python3.13 python3.12 python3.11,\
    $(shell $(name) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $(name))))

# A virtual environment holds absolute paths, so a copied folder must make its own.
MADE      := $(VENV)/made-for-$(shell printf %s "$(CURDIR)" | cksum | cut -d ' ' -f 1)
INSTALLED := $(VENV)/installed

.PHONY: up test install

up: install
	@exec $(BIN)/foryou up $(ARGS)

test: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest --numprocesses 3 --dist worksteal $(ARGS)

install: $(INSTALLED)

$(MADE):
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed: install it, or name it with make PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(INSTALLED): requirements.txt pyproject.toml $(MADE)
	@echo "Installing into $(VENV); the first time this takes a few minutes."
	$(PIP) install --quiet --require-hashes -r requirements.txt
	$(PIP) install --quiet --no-deps --no-build-isolation -e .
	@touch $@
