# One environment, .venv, for the course, its tests and its training. `make help` lists what can be made.
SHELL := /bin/sh
BIN := .venv/bin
STAMP := .venv/installed

# Passed on, for example: make lab LAB_ARGS="--no-browser --port 9999", make test TEST_ARGS="-k rope"
LAB_ARGS ?=
TEST_ARGS ?=
# One process a core; `make test SPREAD=` runs in one, in order.
SPREAD ?= -n auto --dist worksteal
# A test that hangs is named with where it stood, and its process is replaced; no test takes a tenth of this.
ENDING ?= -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true

# Shapes written as strings look like undefined names, so ruff lets those be; where there are no shapes it does not.
SHAPELESS := course training benchmarks $(addprefix nanolm/,budget cli grammar hf_config machine openai_api serving watching web workload)

.DEFAULT_GOAL := help
.PHONY: help lab test nightly lint build book wheel

help:  ## this list
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/make \1|\2/p' Makefile | awk -F'|' '{ printf "%-14s %s\n", $$1, $$2 }'

lab: $(STAMP)  ## open your copies of the notebooks, work/, in JupyterLab
	$(BIN)/course start
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/jupyter lab --LabApp.default_url=/lab/tree/work/start.ipynb $(LAB_ARGS)

# One thread a test: two that wait for each other on a busy machine are slower than one.
test nightly: export OMP_NUM_THREADS := 1
# Hundreds of processes read the same files of ours: each is compiled once, whatever is set outside.
test nightly: export PYTHONDONTWRITEBYTECODE :=

test: $(STAMP)  ## run the tests, without the slow ones; which those are stands at the end
	$(BIN)/python -m pytest $(SPREAD) $(ENDING) --durations=10 -m 'not slow' $(TEST_ARGS)

nightly: $(STAMP)  ## run all tests
	$(BIN)/python -m pytest $(SPREAD) --durations=25 $(TEST_ARGS)

lint: $(STAMP)  ## check the style and the types
	$(BIN)/ruff check .
	$(BIN)/ruff check --isolated --select F821 $(SHAPELESS)
	$(BIN)/basedpyright

build: $(STAMP)  ## make notebooks/ and exercises/ from solutions/ and nanolm/
	$(BIN)/course build

book: $(STAMP)  ## make the web book in site/; what cells put out is kept in build/book/
	@$(BIN)/python -c 'import sphinx, myst_nb, furo, mathjax' 2>/dev/null || \
	  $(BIN)/python -m pip install --disable-pip-version-check -e '.[book]' -c constraints.txt
	$(BIN)/course book

wheel: $(STAMP)  ## make the wheel in dist/, which needs nothing of this folder where it is installed
	$(BIN)/python -m pip wheel . --disable-pip-version-check --no-deps -q -w dist

# Installed once, and again when the requirements have changed.
$(STAMP): pyproject.toml constraints.txt | $(BIN)/python
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || \
	  { echo ".venv has no pip, so it is half made: remove the folder .venv and run make again." >&2; exit 1; }
	$(BIN)/python -m pip install --disable-pip-version-check -e '.[course,serve,test,train]' -c constraints.txt
	@touch $@

# The name of a Python does not say that it runs (version managers leave stand-ins), so each one is asked.
$(BIN)/python:
	@[ -e .venv ] && ours=no || ours=yes; \
	for python in python3 python3.13 python3.12 python3.11 python; do \
	  if $$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1; then \
	    echo "creating .venv with $$python, $$($$python --version)"; \
	    $$python -m venv .venv && exit 0; \
	    [ $$ours = yes ] && rm -rf .venv; \
	    echo "$$python could not create .venv; on Debian or Ubuntu install python3-venv and run make again." >&2; \
	    exit 1; \
	  fi; \
	done; \
	echo "NanoLM needs Python 3.11, 3.12 or 3.13; found: $$(python3 --version 2>/dev/null || echo none)." >&2; \
	echo "Install one of them so that python3 or python3.13 starts it, and run make again." >&2; \
	exit 1
