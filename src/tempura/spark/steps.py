"""One step of a plan as a frame: its SELECT over the frames that stand for what it reads.

Frames are handed to Spark with the text, not registered as views: nothing is left behind in the session, runs and threads do not meet, and it is the same
through Spark Connect. A sub-query that occurs twice in a step is computed twice, as the cost model assumes; what is worth computing once is a state.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError  # pyright: ignore[reportMissingTypeStubs]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tempura.algebra import Op, Project, Read, SortKey, TopK
from tempura.errors import TempuraError
from tempura.plans import Step


class StepError(TempuraError):
    """A step reads what is not there, or Spark refuses or fails to run it."""


@contextmanager
def explained(what: str, hint: str = "") -> Generator[None]:
    """Whatever Spark says against `what` meanwhile becomes an error of ours: its first words and its innermost cause, without the stack."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise StepError(f"Spark cannot run {what}: {_said(str(error))}", hint=hint) from error


_ENDING = (
    "SparkContext was shut down",
    "stopped SparkContext",
    "dagScheduler()",
    "OutOfMemoryError",
    "Java heap space",
)
"""What is in the errors of a driver that is just ending."""


@contextmanager
def driver() -> Generator[None]:
    """What Spark's driver cannot say itself, because it has ended, is said here."""
    try:
        yield
    except StepError as error:
        if any(sign in error.message for sign in _ENDING):
            raise _ended(error.message) from error
        raise
    except Py4JJavaError as error:
        said = _said(str(error))
        raise (_ended(said) if any(sign in said for sign in _ENDING) else StepError(f"Spark fails: {said}")) from error
    except (Py4JError, ConnectionError) as error:
        raise _ended("it does not answer") from error


def _ended(said: str) -> StepError:
    return StepError(
        f"Spark's driver has ended, or has no memory left: {said}",
        hint="give it more memory (`spark.driver.memory`; on a cluster perhaps `spark.executor.memory`), then run again: what is finished is not repeated",
    )


def _said(text: str) -> str:
    """The first line of a message of Spark that says something, and the cause at the bottom of it."""
    lines = [line.strip() for line in text.split("JVM stacktrace:")[0].splitlines()]
    first = next((li for li in lines if li and not li.startswith("An error occurred while calling")), text)
    causes = [line for line in lines if line.startswith("Caused by:")]
    found = [re.sub(r"^(: |Caused by: )?([a-z]+\.)+\w+(\$\w+)*: ", "", line) for line in (first, *causes[-1:])]
    return "; ".join(dict.fromkeys(found))


def frame(spark: SparkSession, step: Step, names: Mapping[str, DataFrame]) -> DataFrame:
    """The rows of a step, with the weight last if it is weighted; `names` has a frame for every name in `step.reads`.

    A result is not sorted yet: `order_left` says how it has to be.
    """
    missing = [name for name in step.reads if name not in names]
    if missing:
        raise StepError(
            f"{step.name} reads {', '.join(missing)}, which is not there",
            hint="give a frame for every name in `step.reads`",
        )
    marks = {name: f"{name}@{i}@" for i, name in enumerate(step.reads)}
    query = replace(step, tree=_renamed(step.tree, marks), order=()).sql
    given: dict[str, Any] = {}
    if marks:
        # Spark fills in what stands in braces, so the query's own braces are doubled.
        query = _doubled(query)
        for i, (name, mark) in enumerate(marks.items()):
            query = query.replace(_doubled(f"`{mark.replace('`', '``')}`"), f"{{frame_{i}}}")
            given[f"frame_{i}"] = names[name]
    with explained(step.name, f"the SQL is\n{query}"):
        return spark.sql(query, **given)


def order_left(step: Step) -> tuple[SortKey, ...]:
    """The order that the rows of a result have still to be brought into: none where a LIMIT has sorted them already, perhaps by columns that are gone."""
    tree: Op = step.tree
    wanted: tuple[SortKey, ...] = step.order
    while isinstance(tree, Project):
        origin = {o.name: o.expr.name for o in tree.outputs}
        if not all(origin[k.column] for k in wanted):
            return step.order
        wanted = tuple(SortKey(origin[k.column] or "", k.descending, k.nulls_first) for k in wanted)
        (tree,) = tree.inputs
    if isinstance(tree, TopK) and tree.limit is not None and tree.order[: len(wanted)] == wanted:
        return ()
    return step.order


def _renamed(tree: Op, marks: Mapping[str, str]) -> Op:
    """The tree with its reads under other names, which make the same aliases in SQL."""
    if isinstance(tree, Read):
        return Read(marks[tree.name], tree.columns, tree.weighted, tree.keys_held)
    return tree.over([_renamed(i, marks) for i in tree.inputs]) if tree.inputs else tree


def _doubled(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
