"""What the tests on Spark share: in each process one local session with few partitions."""

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)


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
