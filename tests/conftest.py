"""What tests share: the running example on DuckDB, and TPC-DS relations."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import settings

from tests import running_example

# Deadlines measure the machine, and two test processes share it; examples are the same in every run.
settings.register_profile("tempura", deadline=None, derandomize=True)
settings.load_profile("tempura")


@pytest.fixture
def sales_connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with the rows of the running example."""
    with running_example.connect() as connection:
        yield connection


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write what there is into goldens and pages")
