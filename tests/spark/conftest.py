"""What the tests on Spark share: one local session with few partitions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tempura.spark.session import session
from tempura.spark.states import States

HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "spark: needs a Spark session")


@pytest.hookimpl(tryfirst=True)  # Before tests are dealt out by group.
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)
            # All of them in one process where tests are dealt out by group, for a session takes ten seconds to start; but for those that need none here.
            if item.get_closest_marker("xdist_group") is None:
                item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    started = session(
        **{
            "spark.master": "local[2]",
            "spark.default.parallelism": "2",
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "2g",
            # Nothing here runs long enough for the second compiler to pay.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        }
    )
    yield started
    started.stop()


@pytest.fixture
def states(spark: SparkSession) -> Iterator[States]:
    with States(spark) as opened:
        yield opened
