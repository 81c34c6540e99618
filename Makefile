# `make` lists the targets. Works with GNU make 3.81 (macOS) and any POSIX sh; nothing has to be set up first.

PYTHON ?=
VENV   ?= .venv
EXTRAS ?=
ARGS   ?=
PYTEST_ARGS ?=
LOCK_ARGS   ?=

BIN   := $(VENV)/bin
BASE  := $(VENV)/.ready
READY := $(BASE)$(if $(filter yes,$(EXTRAS)),-extras)
FAST  := not loopback and not real and not shared and not packaging
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1

.DEFAULT_GOAL := help
.PHONY: help run test check lint format lock bench clean

help: ## list the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "  EXTRAS=yes adds the heavy extras, as in EXTRAS=yes make test; what needs them is skipped without."
	@echo "  PYTHON=python3.12 chooses the interpreter, ARGS='--port 9000' goes to the daemon, PYTEST_ARGS='-k ecb' to pytest."

run: $(READY) ## start the daemon in the foreground (sets everything up; Ctrl-C ends it)
	@exec $(BIN)/breakeven run $(ARGS)

test: $(READY) ## run all tests (sets everything up)
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

check: lint ## lint and the unit tests, in minutes
	@$(BIN)/python -m pytest -q -m "$(FAST)" $(PYTEST_ARGS)

lint: $(READY) ## format, lint, types and import rules, in seconds
	@$(BIN)/ruff format --check --quiet --output-format concise . || { echo "make format puts it right"; exit 1; }
	@$(BIN)/ruff check --quiet --output-format concise .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

format: $(READY) ## format the code and mend what the linter can mend
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .

lock: ## resolve requirements.lock and extras.lock again (LOCK_ARGS=--upgrade for newer versions)
	@PYTHON="$(PYTHON)" sh .ci/lock $(LOCK_ARGS)

bench: $(READY) ## run the benchmarks of tests/bench, one after the other
	@missed=""; for script in tests/bench/*.py; do echo "$$script"; $(BIN)/python "$$script" || missed="$$missed $$script"; done; \
	test -z "$$missed" || { echo "goals missed:$$missed"; exit 1; }

clean: ## remove the environment, caches and build results
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment is always exactly the lock: made anew when the lock or pyproject.toml changes. The stamp comes last and
# lies inside, so an interrupted set-up is never taken for a whole one.
$(BASE): requirements.lock pyproject.toml
	@python=$$(PYTHON="$(PYTHON)" sh .ci/python) || exit 1; \
	echo "Setting up $(VENV) with $$("$$python" --version) (about a minute, once) ..."; \
	"$$python" -m venv --clear $(VENV) && \
	$(BIN)/python -m pip install -qq --require-hashes -r requirements.lock && \
	$(BIN)/python -m pip install -qq --no-build-isolation --no-deps --editable . && \
	touch $@

# EXTRAS=yes adds what only some need (Parquet files) to the same environment.
$(BASE)-extras: $(BASE) extras.lock
	@echo "Adding the extras to $(VENV) ..."; \
	$(BIN)/python -m pip install -qq --no-deps --require-hashes -r extras.lock && touch $@
