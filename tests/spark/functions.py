"""Every example in Spark's own documentation of its functions, run as it stands and as Tempura prints it: both must give the same.

make test-functions          # a minute
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import track
from sqlglot.errors import ParseError

from tempura.spark.session import session
from tempura.sqltext import read_expression

EXAMPLE = re.compile(r"> (SELECT [^>]*?);\s*$", re.MULTILINE | re.DOTALL)
DIFFER = re.compile(r"random\(\)|current_|localtime|now\(\)|curdate|uuid\(\)|TIME ?'|VALUES '", re.IGNORECASE)
"""Examples that cannot agree: what another evaluation changes, and what the binder refuses (the type TIME, rows of VALUES without parentheses)."""


def examples(spark: SparkSession) -> Iterator[tuple[str, str]]:
    """The examples of each function."""
    registry = spark._jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry.builtin()  # type: ignore[union-attr]
    listed = registry.listFunction().iterator()
    while listed.hasNext():
        name = listed.next()
        told = registry.lookupFunction(name).get().getExamples()
        for text in EXAMPLE.findall(told):
            yield name.funcName(), text.replace("_FUNC_", name.funcName())


def plain(text: str) -> str:
    return re.sub(r"[\s`]+", "", text).lower()


def answer(spark: SparkSession, query: str) -> Any:
    """The rows of a query as texts; or that it cannot be run."""
    try:
        return sorted(str(tuple(map(str, row))) for row in spark.sql(query).collect())
    except PySparkException as error:
        return error.getCondition()


def main() -> int:
    logging.disable(logging.WARNING)
    console, spark = Console(), session()
    spark.conf.set("spark.sql.codegen.wholeStage", "false")  # Each runs once.
    unread, todo = 0, []
    for name, text in examples(spark):
        try:
            printed = read_expression(text).sql(dialect="spark")
        except ParseError:
            unread += 1
            continue
        if plain(printed) != plain(text) and not DIFFER.search(text):
            todo.append((name, text, printed))
    wrong = 0
    for name, text, printed in track(todo, "examples that are printed otherwise", console=console):
        ours, theirs = answer(spark, printed), answer(spark, text)
        if ours != theirs:
            wrong += 1
            console.print(f"{name}: {text}\n  is {theirs}\n  {printed}\n  is {ours}", markup=False, highlight=False)
    console.print(
        f"{len(todo)} examples are printed otherwise, {wrong} of them mean something else; {unread} cannot be read, and are refused"
    )
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
