"""Other costs and other rules give other plans and the same answers; a delta, nothing, and the delta taken back give +V, 0, -V."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import duckdb
import pytest
from hypothesis import given, settings

from tempura.algebra import AggregateState, Minus, Op, Plus, Read
from tempura.catalog import Catalog, Table
from tempura.estimate import CostModel, Shape, SparkCost, Stats
from tempura.job import Job
from tempura.job.shapes import Policy
from tempura.optimizer import explore, plan
from tempura.plans import IncrementalPlan
from tempura.reference import Bag
from tempura.reference.views import Evaluation, History, minus
from tempura.rules.lang import RuleSet
from tempura.rules.methods import ALL, NONE
from tempura.schema import NO_KEYS, Column
from tempura.sql.lower import lower
from tempura.testing import check_explored, random_history
from tempura.timeline import MAIN, Point, Timeline
from tests.duck import register, register_history, run
from tests.duckrun import execute
from tests.random_queries import Case, cases
from tests.running_example import JOB, ROWS

POINTS = ("t1", "t2", "t3")
SEEDS = range(12)


class Perturbed(SparkCost):
    """The Spark model with every price multiplied by a random factor between a hundredth and a hundred, the same one for the same question."""

    def __init__(self, seed: int):
        super().__init__()
        self.seed = seed

    def _factor(self, *asked: object) -> float:
        return 100.0 ** random.Random(zlib.crc32(repr((self.seed, asked)).encode())).uniform(-1, 1)

    def work(self, op: Op, inputs: Sequence[Stats], output: Stats, shape: Shape = Shape()) -> float:  # noqa: B008
        return super().work(op, inputs, output, shape) * self._factor(op.show(), [round(s.rows, 3) for s in inputs])

    def exchange(self, stats: Stats) -> float:
        return super().exchange(stats) * self._factor("exchange", round(stats.rows, 3))

    def save(self, stats: Stats, partitioned: bool) -> float:
        return super().save(stats, partitioned) * self._factor("save")

    def load(self, stats: Stats, partitioned: bool) -> float:
        return super().load(stats, partitioned) * self._factor("load")


@dataclass(frozen=True)
class Example:
    """A job and the rows of its tables at each point."""

    job: Job
    history: History

    @contextmanager
    def connection(self) -> Iterator[duckdb.DuckDBPyConnection]:
        with duckdb.connect() as connection:
            register_history(connection, self.job.catalog, [p.name for p in self.job.timeline.points], self.history)
            yield connection


def columns(text: str) -> tuple[Column, ...]:
    return tuple(Column(*c.split(" ")) for c in text.split(", "))


def sales() -> Example:
    """The running example."""
    history: dict[str, list[Bag]] = {}
    for table, rows in ROWS.items():
        first = {row: 1 for row in rows["t1"]}
        history[table] = [first, first | {row: 1 for row in rows["t2"]}]
    return Example(Job.load(JOB), history)


def small(query: str) -> Example:
    """Orders with a key and lines without; both retract, and the result is due at the last two of three points."""
    retracts = {"t2": 0.3, "t3": 0.3}
    catalog = Catalog(
        Table("orders", columns("id int, c string, p int"), ("id",), {"t1": 4, "t2": 3, "t3": 3}, retracts),
        Table("lines", columns("o int, x int"), (), {"t1": 5, "t2": 3, "t3": 3}, retracts),
        Table("names", columns("c string, n int"), (), {"t1": 3}),
    )
    timeline = Timeline((Point("t1", 0.3), Point("t2", 0.3, (MAIN,)), Point("t3", 1.0, (MAIN,))))
    made = random.Random(5)
    history = {t.name: random_history(t, 3, made, rows=8) for t in catalog.values()}
    return Example(Job(query=query, catalog=catalog, timeline=timeline), history)


def late(query: str) -> Example:
    """Names that are there from the start, and numbers of which there are none at first."""
    catalog = Catalog(
        Table("names", columns("c string, n int"), (), {"t1": 1000}),
        Table("late", columns("o int, y int"), (), {"t1": 0, "t2": 50000, "t3": 50000}),
    )
    timeline = Timeline((Point("t1", 0.3), Point("t2", 0.3, (MAIN,)), Point("t3", 1.0, (MAIN,))))
    names: Bag = {("a", 1): 1, ("a", 2): 1, ("b", 3): 1, (None, 3): 2}
    second: Bag = {(1, 5): 1, (2, 7): 1, (3, 1): 2}
    history = {"names": [names] * 3, "late": [{}, second, {**second, (2, 9): 1, (3, None): 1}]}
    return Example(Job(query=query, catalog=catalog, timeline=timeline), history)


EXAMPLES = {
    "sales": sales(),
    "late": late(
        "SELECT c, sum(y) AS g FROM names JOIN late ON n = o GROUP BY c UNION ALL SELECT c, y FROM names JOIN late ON n = o"
    ),
    "outer": small(
        "SELECT c, count(*) AS n, sum(CASE WHEN x IS NULL THEN p ELSE x END) AS g, max(x) AS m "
        "FROM orders LEFT JOIN lines ON id = o GROUP BY c"
    ),
    "joins": small(
        "SELECT p, n, x FROM orders JOIN lines ON id = o JOIN names ON names.c = orders.c AND names.n <= lines.x"
    ),
    "chain": small(
        "SELECT n, sum(p * x) AS g FROM orders JOIN lines ON id = o JOIN names ON names.c = orders.c GROUP BY n "
        "UNION ALL SELECT id, p FROM orders WHERE NOT EXISTS (SELECT 1 FROM lines WHERE o = id)"
    ),
}


SAME = {
    "nothing at first": {"a": "SELECT o, y FROM grown", "b": "SELECT o, y FROM grown WHERE y > 1", "c": "SELECT o, CAST(y AS STRING) AS y FROM grown"},
    "never anything": {"a": "SELECT * FROM names WHERE false", "b": "SELECT c, n FROM names WHERE 1 = 2"},
    "the same twice": {"a": "SELECT n, count(*) AS k FROM names GROUP BY n", "b": "SELECT n, count(*) AS k FROM names GROUP BY n"},
    "in two orders": {"a": "SELECT o, y FROM grown ORDER BY o", "b": "SELECT o, y FROM grown ORDER BY y, o"},
    "one side is gone": {"a": "SELECT o, y FROM stays UNION ALL SELECT o, y FROM gone", "b": "SELECT o, y FROM stays"},
    "one side comes": {"a": "SELECT o, count(*) AS k FROM (SELECT * FROM stays UNION ALL SELECT * FROM grown) GROUP BY o"},
}  # fmt: skip
"""Queries whose results are nothing, or the same as others or as a table, at some points."""


def alike(queries: dict[str, str], points: int) -> Example:
    """Tables that stay, that have nothing at first and then grow, and that lose all."""
    times = [f"t{i + 1}" for i in range(points)]
    catalog = Catalog(
        Table("names", columns("c string, n int"), (), {"t1": 1000}),
        Table("stays", columns("o int, y int"), (), {"t1": 1000}),
        Table("grown", columns("o int, y int"), (), {t: 0 if t == "t1" else 1000 for t in times}),
        Table("gone", columns("o int, y int"), (), {"t1": 10}, {"t2": 1.0}),
    )
    rows: list[Bag] = [{(o, o % 3): 1 for o in range(3 * i)} for i in range(points)]
    history = {
        "names": [{("a", 1): 1, (None, 3): 2}] * points,
        "stays": [{(1, 1): 1, (2, None): 2}] * points,
        "grown": rows,
        "gone": [{(1, 1): 1, (7, 7): 1}, *([{}] * (points - 1))],
    }
    timeline = Timeline(tuple(Point(t, 0.5 if t == "t1" else 1.0, tuple(queries)) for t in times))
    return Example(Job(queries=queries, catalog=catalog, timeline=timeline), history)


@pytest.mark.parametrize("policy", ["auto", "incremental", "full"])
@pytest.mark.parametrize("points", [2, 5])
@pytest.mark.parametrize("name", SAME)
def test_results_that_are_nothing_or_the_same_are_delivered(name: str, points: int, policy: Policy):
    example = alike(SAME[name], points)
    example = Example(replace(example.job, policy=policy), example.history)
    with example.connection() as connection:
        check(example, connection, ALL if policy != "full" else NONE, "spark")


def text(made: IncrementalPlan) -> str:
    return "\n".join(f"{run.point} {step.name}: {step.sql}" for run in made.runs for step in run.steps)


def check(example: Example, connection: duckdb.DuckDBPyConnection, rules: RuleSet, cost: str | CostModel) -> str:
    made = plan(example.job, rules, cost=cost, baselines=False)
    # On nothing, ROLLUP and its like give a grand total on DuckDB and none on Spark; which of equal rows is numbered first is open. There the definition decides.
    left_open = ("ROLLUP", "CUBE", "GROUPING", "row_number", "lag")
    decided = not any(word in q for q in example.job.queries.values() for word in left_open)
    report = execute(made, connection, example.job.queries if decided else None)
    assert report.right, f"{report}\n{text(made)}"
    assert report.results == sum(len(p.deliver) for p in example.job.timeline.points)
    return text(made)


@pytest.mark.parametrize("name", EXAMPLES)
def test_other_costs_other_plans_same_answers(name: str):
    example = EXAMPLES[name]
    with example.connection() as connection:
        plans = {check(example, connection, ALL, Perturbed(seed)) for seed in SEEDS}
    assert len(plans) > 2


@pytest.mark.parametrize("name", EXAMPLES)
def test_fewer_rules_other_plans_same_answers(name: str):
    example = EXAMPLES[name]
    with example.connection() as connection:
        plans = {check(example, connection, some_rules(seed), Perturbed(seed)) for seed in SEEDS}
    assert len(plans) > 2


def some_rules(seed: int) -> RuleSet:
    """About half of the rules of every method."""
    made = random.Random(seed)
    parts = [RuleSet(part.name, tuple(r for r in part.rules if made.random() < 0.5)) for part in ALL.parts]
    return RuleSet("some", tuple(r for part in parts for r in part.rules), tuple(parts))


@given(cases(depth=2))
@settings(max_examples=30)
def test_random_queries_give_the_batch_result(case: Case):
    """Planned with random costs, executed on DuckDB, every result and every state is right."""
    timeline = Timeline((Point("t1", 0.2), Point("t2", 0.5, (MAIN,)), Point("t3", 1.0, (MAIN,))))
    seed = zlib.crc32(case.query.encode())
    made = random.Random(seed)
    history = {t.name: random_history(t, 3, made) for t in case.tables.values()}
    example = Example(Job(query=case.query, catalog=case.tables, timeline=timeline), history)
    with example.connection() as connection:
        check(example, connection, ALL, Perturbed(seed))


def test_terms_of_a_sum_may_have_their_columns_in_other_orders():
    """Joins in different orders give the same rows with their columns in different orders; a sum goes by name."""
    one, other = columns("a int, b int"), columns("b int, a int")
    for kind in (
        Plus((Read("r", one, False, NO_KEYS), Read("s", other, False, NO_KEYS))),
        Minus(Read("r", one, True, NO_KEYS), Read("s", other, True, NO_KEYS)),
    ):
        weighted = isinstance(kind, Minus)
        sign = -1 if weighted else 1
        with duckdb.connect() as connection:
            register(connection, "r", one, {(1, 2): 1}, weighted)
            register(connection, "s", other, {(3, 4): 1}, weighted)
            assert run(connection, kind, rows=not weighted) == {(1, 2): 1, (4, 3): sign}


def test_what_distinct_keeps_lists_no_group_that_is_gone():
    """Its change is found by who is in it: a group of rows that cancel out would seem to have been there."""
    given = columns("a int, b int")
    with duckdb.connect() as connection:
        register(connection, "r", given, {(1, 2): 2}, weighted=True)
        state = AggregateState(Read("r", given, True, NO_KEYS), ("b",), ())
        assert connection.execute(lower(state, "duckdb").select.sql(dialect="duckdb")).fetchall() == [(2, 2)]


CHANGING: dict[str, float] = {"t1": 3, "t2": 2, "t3": 1, "t4": 1}


@pytest.mark.parametrize(
    "query",
    [
        "SELECT c, sum(p) AS g, count(*) AS n FROM orders LEFT JOIN lines ON id = o GROUP BY c",
        "SELECT id, c, x FROM orders FULL JOIN lines ON id = o",
        "SELECT DISTINCT c FROM orders WHERE id NOT IN (SELECT o FROM lines)",
        "SELECT c, min(p) AS m, count(DISTINCT p) AS d FROM orders GROUP BY c",
        "SELECT c, p, rank() OVER (PARTITION BY c ORDER BY p) AS r FROM orders",
        "SELECT id FROM orders EXCEPT ALL SELECT o FROM lines",
    ],
)
def test_there_and_back(query: str):
    """Rows come at t2, nothing at t3, and the same rows go at t4."""
    retracts = {p: 0.3 for p in CHANGING if p != "t1"}
    catalog = Catalog(
        Table("orders", columns("id int, c string, p int"), ("id",), CHANGING, retracts),
        Table("lines", columns("o int, x int"), (), CHANGING, retracts),
    )
    base: dict[str, Bag] = {
        "orders": {(1, "a", 5): 1, (2, "b", 7): 1, (3, None, None): 1},
        "lines": {(1, 2): 2, (9, 1): 1, (3, 3): 1},
    }
    change: dict[str, Bag] = {
        "orders": {(4, "a", 1): 1, (5, "c", None): 1},
        "lines": {(2, 4): 1, (1, 2): 1, (4, 0): 1, (None, 1): 1},
    }
    grown = {t: minus(base[t], {row: -n for row, n in change[t].items()}) for t in base}
    history = {t: [base[t], grown[t], grown[t], base[t]] for t in base}
    timeline = Timeline(tuple(Point(p, 1.0, (MAIN,)) for p in CHANGING))
    example = Example(Job(query=query, catalog=catalog, timeline=timeline), history)
    explored = explore(example.job)
    check_explored(explored, history)
    evaluation, ends = Evaluation(explored.space, history), explored.space.ticks.last_of_point
    came, stayed, went = (evaluation.view(explored.roots[MAIN], ends[i], ends[i + 1]) for i in range(3))
    assert came and not stayed and went == {row: -n for row, n in came.items()}
    with example.connection() as connection:
        check(example, connection, ALL, "spark")
        check(example, connection, ALL, Perturbed(1))
