# Two commands are all a fresh machine needs: `make test` and `make demo`. Both set up .venv first, if it is missing or stale.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
UV_VERSION = $(shell sed -n "s/^uv==\([^ ]*\).*/\1/p" requirements.lock)
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help test lint types unit demo test-tpcds test-tpcds-duckdb test-kill bench-planning lock test-functions test-tpcds-spark bench-refresh

help: ## Show what can be made
	@grep -hE '^[a-z][a-z-]*:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

test: lint types unit ## Lint, check types and run the tests (a few minutes on two cores)

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(READY)
	$(BIN)/pyright

unit: $(READY)
	$(BIN)/pytest -n 2 --maxschedchunk 1 $(ARGS)

demo: $(READY) ## Make a retailer's day of sales and returns, plan it, run it on Spark and compare with recomputing (one or two minutes)
	$(BIN)/python -m examples.retail.demo

test-tpcds: test-tpcds-duckdb test-tpcds-spark ## Both of the following (long)

test-tpcds-duckdb: $(READY) ## Run every plan of the TPC-DS grid on DuckDB; resumable (ARGS="--queries q1,q2 --patterns delta-big")
	$(BIN)/python -m tests.tpcds_grid $(ARGS)

test-kill: $(READY) ## Kill a run at every one of its fault points, and go on after each (long)
	$(BIN)/python -m tests.spark.kill_all $(ARGS)

test-functions: $(READY) ## Compare every example of Spark's functions with what Tempura prints for it (a minute)
	$(BIN)/python -m tests.spark.functions

test-tpcds-spark: $(READY) ## Run the TPC-DS queries through whole runs on Spark; resumable (ARGS="--queries q1,q2 --sf 0.01")
	$(BIN)/python -m tests.spark.tpcds_spark $(ARGS)

bench-refresh: $(READY) ## Measure refreshing against recomputing on Spark (ARGS="--sf 1 --queries star,q40")
	$(BIN)/python -m bench refresh $(ARGS)

bench-planning: $(READY) ## Measure how long planning takes, query by query
	$(BIN)/python -m bench planning $(ARGS)

lock: $(BIN)/uv ## Resolve the dependencies anew into requirements.lock
	$(BIN)/uv pip compile --quiet --python $(BIN)/python --upgrade --universal --generate-hashes --no-header \
		--no-emit-index-url --no-annotate --group dev pyproject.toml -o requirements.lock

# An environment made without pip gets it first, so that any .venv will do.
$(BIN)/uv:
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip >/dev/null
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

$(READY): $(BIN)/uv requirements.lock pyproject.toml
	$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@
