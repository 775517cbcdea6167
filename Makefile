# `make run` to try it, `make check` before every commit, `make test` before every merge.
# Each of them makes the environment it needs, and does so again when a lock file changes.

PYTHONS := python3 python3.14 python3.13 python3.12 python3.11
BIN := .venv/bin
PYTEST := $(BIN)/pytest -n auto --dist worksteal  # Neighbours share a worker, and its gateways.
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet install
COMPILE := $(BIN)/uv pip compile -qU --universal --generate-hashes --no-annotate --no-header

# Tests start thousands of processes. Each would compile the package anew where this is set.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: run check test test-all lint real-env bench compatibility soak fix lock clean help

run: .venv/run.stamp  # the gateway over HTTP, with the demo server behind it
	@trap : INT; cd .venv && XDG_CONFIG_HOME='$(CURDIR)/.venv' bin/anyport serve \
	  || [ $$? -eq 130 ]  # No configuration is there, and Ctrl-C is no failure.

check: lint  # the quick gate: under a minute
	$(PYTEST) -m "not slow and not real"

test: lint real-env  # before every merge: slow tests and real servers and clients, too
	$(PYTEST) -m "not exhaustive"

test-all: lint real-env  # everything: the whole of what `make test` tries pairwise or in part
	$(PYTEST)

lint: .venv/dev.stamp  # linters, types, layers, shape
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/shape.py

real-env: .venv/dev.stamp  # the real servers and clients that tests need
	@node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2>/dev/null \
	  || { echo 'The real tests need Node.js 20 or newer (`node` on the PATH).' >&2; exit 1; }
	@if [ -x tests/real/install ]; then PYTHON=$(BIN)/python tests/real/install; fi

bench: .venv/run.stamp  # Anyport beside nginx and other proxies; writes docs/evidence/performance.md
	$(BIN)/python bench/run.py

compatibility: .venv/dev.stamp  # every client to every server; writes docs/evidence/compatibility.md
	$(BIN)/python tools/compatibility.py

soak: .venv/dev.stamp  # reliability at full scale, for hours; writes docs/evidence/soak.md
	$(BIN)/python tools/soak.py

fix: .venv/dev.stamp  # puts right what the linter and the formatter can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: $(BIN)/pip  # renews requirements/
	$(PIP) uv
	$(COMPILE) pyproject.toml -o requirements/run.txt
	$(COMPILE) --group build -o requirements/build.txt
	$(COMPILE) pyproject.toml --extra otel --group dev -o requirements/dev.txt \
	  -c requirements/run.txt -c requirements/build.txt

clean:  # removes environments and caches
	rm -rf .venv .real .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache dist

help:  # this list
	@sed -n 's/^\([a-z-]*\):.*  # /make \1: /p' Makefile

.venv/dev.stamp: requirements/dev.txt .venv/run.stamp
	@$(PIP) --require-hashes -r requirements/dev.txt >&2
	@touch $@

.venv/run.stamp: requirements/run.txt requirements/build.txt pyproject.toml | $(BIN)/pip
	@$(PIP) --require-hashes -r requirements/run.txt -r requirements/build.txt >&2
	@$(PIP) --no-deps --no-build-isolation -e . >&2
	@touch $@

$(BIN)/pip:
	@for python in $(PYTHONS); do \
	  $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	  exec $$python -m venv .venv; \
	done; echo 'Anyport needs Python 3.11 or newer; found none among: $(PYTHONS)' >&2; exit 1
