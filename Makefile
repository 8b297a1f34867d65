# Everything a newcomer needs: `make demo` and `make test`. Both set up `.venv` by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: help setup demo test lint docs slow benchmarks

help: ## show this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile

setup: $(INSTALLED) ## make .venv and install the package into it

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	@touch $@

demo: setup ## train a standard and a robust classifier, attack both, compare
	$(BIN)/soar demo

test: lint ## lint, type-check and run the tests
	$(BIN)/python -m pytest -n 2 -m "not slow and not network"

lint: setup ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: setup ## write the documentation to site/; open site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

slow: setup ## the tests that take minutes or need a network
	$(BIN)/python -m pytest -m "slow or network"

# The other libraries pin old packages, so they get an environment of their own, and only our version of torch.
benchmarks: ## measure attacks and trainer beside other libraries; prints ratios
	$(PYTHON) -m venv $(VENV)-benchmarks
	grep '^torch==' constraints.txt > $(VENV)-benchmarks/torch.txt
	$(VENV)-benchmarks/bin/python -m pip install --quiet --constraint $(VENV)-benchmarks/torch.txt \
		--editable . --requirement benchmarks/requirements.txt
	$(VENV)-benchmarks/bin/python benchmarks/trainer.py
	$(VENV)-benchmarks/bin/python benchmarks/attacks.py
