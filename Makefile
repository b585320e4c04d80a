# Every task of the project. The help is made from the lines with two hashes.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

# The default environment is .venv; `PYTHON=python3.12` keeps one of its own beside it, .venv-3.12.
PYTHON ?=
ifeq ($(strip $(PYTHON)),)
VENV := .venv
else
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
ifeq ($(VERSION),)
$(error PYTHON=$(PYTHON) does not run; name an interpreter of Python 3.11 or newer)
endif
VENV := .venv-$(VERSION)
endif
PY := $(VENV)/bin/python
READY := $(VENV)/.ready

VERSIONS := 3.11 3.12 3.13
WORKERS ?= 2
SEEDS ?= 10000
ARGS ?=
BENCH = $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(JOBS),--jobs $(JOBS)) $(if $(ONLY),--only '$(ONLY)') \
	$(if $(SYSTEMS),--systems '$(SYSTEMS)')
SOURCES = $(wildcard src tests bench examples)
OPENSPEC_VERSION := 1.13.2
OPENSPEC := .brooq/tools/openspec-$(OPENSPEC_VERSION)

.PHONY: help bin-deps test-db-up test-db-down test test-all lint format build demo dashboard screenshots simulate
.PHONY: models chaos chaos-full bench bench-peers bench-full bench-smoke
.PHONY: docs spec-validate migrate-up migrate-status run lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

bin-deps: $(READY) ## make the virtual environment, with the tools of development (PYTHON=python3.12: another one)

$(READY): pyproject.toml requirements/dev.txt scripts/environment
	@scripts/environment $(VENV) $(PYTHON)

test-db-up: $(READY) ## start Debian's PostgreSQL on port 55433 and print its TEST_DATABASE_URL (BROOQ_PG_BIN: another one)
	@scripts/test-db up $(PY)

test-db-down: $(READY) ## stop what test-db-up started; its data stays in .brooq/test-db
	@scripts/test-db down $(PY)

test: $(READY) ## run all tests on a PostgreSQL of their own (TEST_DATABASE_URL: on that one; ARGS: for pytest)
	@$(PY) -m pytest -n $(WORKERS) --dist loadgroup $(ARGS)

test-all: ## run all tests on every Python of 3.11, 3.12 and 3.13 that is on this machine
	@scripts/test-all "$(MAKE)" $(VERSIONS)

lint: $(READY) ## check style, types and the direction of imports
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy --strict $(SOURCES)
	@$(VENV)/bin/lint-imports

format: $(READY) ## put the source text in order
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

build: $(READY) ## build the wheel into dist/, and bin/brooq, one file that needs nothing but Python
	@scripts/build $(PY)

docs: $(READY) ## build the documentation as a site into site/
	@scripts/docs $(PY)

demo: $(READY) ## webhooks in, mails out, a worker killed half-way (INPUT=file.jsonl: your own deliveries)
	@$(PY) -m examples.webhooks $(if $(INPUT),--input $(INPUT)) $(ARGS)

dashboard: $(READY) ## the demo, and then its dashboard until Ctrl-C
	@$(PY) -m examples.webhooks --stay $(if $(INPUT),--input $(INPUT)) $(ARGS)

bench: $(READY) ## brooq beside the raw SQL limit of this machine, about 8 minutes (ROUNDS= JOBS= ONLY=drain,bulk SYSTEMS=)
	@$(PY) -m bench plain $(BENCH) $(ARGS)

bench-peers: $(READY) ## all systems side by side, about 30 minutes (same options; needs a package registry the first time)
	@$(PY) -m bench peers $(BENCH) $(ARGS)

bench-full: $(READY) ## as bench-peers, longer drains and tables of ten million rows; hours
	@$(PY) -m bench full $(BENCH) $(ARGS)

bench-smoke: $(READY) ## whether the bench works, in about a minute; the figures mean nothing
	@$(PY) -m bench smoke --output .brooq/bench/smoke/latest.json $(ARGS)

screenshots: $(READY) ## take the pictures of the dashboard in docs/screenshots anew (needs Chromium)
	@$(PY) -m tests.screenshots

simulate: $(READY) ## run the engine under virtual time with injected faults (SEEDS=n)
	@$(PY) -m tests.simulation --seeds $(SEEDS) $(ARGS)

models: $(READY) ## search the lease protocol far and wide, and compare the statements with it at length
	@$(PY) -m tests.models
	@BROOQ_MODELS=full $(PY) -m pytest -n $(WORKERS) --dist loadgroup tests/models $(ARGS)

chaos: $(READY) ## kill, pause, cut and starve real processes, check every promise, and find every planted bug (ARGS)
	@$(PY) -m tests.chaos $(ARGS)
	@$(PY) -m tests.planted

chaos-full: $(READY) ## the same for up to an hour: 10,000 jobs and 500 kills among others; writes docs/reliability.md
	@$(PY) -m tests.chaos --full --report docs/reliability.md $(ARGS)

spec-validate: $(OPENSPEC)/.ready ## validate openspec/ with its own tool (needs Node.js 20.19 or newer)
	@OPENSPEC_TELEMETRY=0 DO_NOT_TRACK=1 CI=true NO_COLOR=1 $(OPENSPEC)/node_modules/.bin/openspec validate --all --strict

$(OPENSPEC)/.ready:
	@command -v npm >/dev/null || { echo 'npm is missing: install Node.js 20.19 or newer' >&2; exit 1; }
	@mkdir -p $(OPENSPEC)
	@npm install --prefix $(OPENSPEC) --no-package-lock --no-audit --no-fund --ignore-scripts --loglevel error \
		@fission-ai/openspec@$(OPENSPEC_VERSION)
	@touch $@

migrate-up: $(READY) ## bring the schema of DATABASE_URL (environment or .env) up to date
	@$(VENV)/bin/brooq migrate up $(ARGS)

migrate-status: $(READY) ## show the migrations of DATABASE_URL (environment or .env)
	@$(VENV)/bin/brooq migrate status $(ARGS)

run: $(READY) ## run the worker until Ctrl-C
	@$(VENV)/bin/brooq worker $(ARGS)

lock: $(READY) ## choose the versions in requirements/ anew from pyproject.toml
	@scripts/lock $(PY)

clean: ## remove what builds and tools left behind; environments and .brooq stay
	@rm -rf dist bin build site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@find src tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
