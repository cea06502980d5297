"""What rule authors test with: every member of every group must give the same bag.

    check_sound(MY_RULES, "SELECT …", tables)

binds the query, explores it with the rules, lays the plan space out over a timeline, fills the base tables with small random data that has NULLs,
duplicates, retractions and empty deltas, and evaluates every member of every group with the reference interpreter. A snapshot must equal its
TVR's definition at that time, a delta the difference of two snapshots, the delta of a state the state of the delta.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from tempura.catalog import Catalog, Table
from tempura.errors import TempuraError
from tempura.job import Job
from tempura.optimizer import USUAL, Explored, Settings, explore
from tempura.reference import Bag
from tempura.reference.views import Evaluation, History
from tempura.rules.lang import RuleSet
from tempura.rules.methods import ALL
from tempura.timeline import Point, Timeline

POINTS = tuple(f"t{i}" for i in range(1, 10))
"""The points of the timeline on which rules are checked: tables say what arrives at `t1`, `t2`, …"""


class Unsound(TempuraError):
    """A rule said something that is not so."""


def random_value(type_name: str, random_: random.Random, nullable: bool = True) -> Any:
    """A value of a type, often NULL where that may be, from a small domain."""
    if nullable and random_.random() < 0.2:
        return None
    if type_name.startswith(("string", "varchar", "char")):
        return random_.choice("abc")
    if type_name == "boolean":
        return random_.random() < 0.5
    return random_.randrange(4)


def random_history(table: Table, points: int, random_: random.Random, rows: int = 4) -> list[Bag]:
    """A table at each point: rows come and go where the table says that they do; keys are kept."""
    history: list[Bag] = []
    held: Bag = {}
    key = [i for i, c in enumerate(table.columns) if c.name in table.key]
    used: set[tuple[Any, ...]] = set()
    for point, name in enumerate(POINTS[:points]):
        held = dict(held)
        if point and table.retracts.get(name, 0.0) > 0:
            for row in sorted(held, key=repr):
                if random_.random() < 0.3:
                    held[row] -= 1
        comes = table.arrives.get(name, 0.0) > 0 and (point == 0 or random_.random() < 0.8)
        for _ in range(random_.randrange(rows) if comes else 0):
            row = tuple(random_value(c.type, random_, c.nullable) for c in table.columns)
            if key:
                row = tuple(_key_value(table.columns[i].type, len(used)) if i in key else v for i, v in enumerate(row))
                used.add(tuple(row[i] for i in key))
            held[row] = held.get(row, 0) + 1
        held = {row: n for row, n in held.items() if n}
        history.append(held)
    return history


def _key_value(type_name: str, n: int) -> Any:
    return f"k{n}" if type_name.startswith(("string", "varchar", "char")) else n


def check_explored(explored: Explored, history: History) -> int:
    """Evaluate every member of every group; the number of members, or Unsound with the rule that is wrong."""
    evaluation = Evaluation(explored.space, history)
    try:
        wrong = evaluation.disagreements()
    except TempuraError as error:
        culprit = evaluation.first_wrong()
        if culprit is None:
            raise
        raise Unsound(f"rule {culprit.rule}: what it says cannot be computed: {error}") from error
    if wrong:
        # A wrong law also unifies what is not the same, and then others look wrong: so ask who said it first.
        culprit = evaluation.first_wrong() or wrong[0][2]
        group, member, _, want, got = next((w for w in wrong if w[2] == culprit), wrong[0])
        view = f"{explored.names.tvr(group.tvr)} over {group.interval}" if group.tvr is not None else "a term"
        raise Unsound(
            f"rule {culprit.rule}: {member.op.__name__}{member.payload} does not give {view}:\n  expected {want}\n  got      {got}",
            hint=f"{len(wrong)} members disagree; the data were {dict(history)}",
        )
    return sum(len(explored.space.members(g.id)) for g in explored.space.all_groups())


def check_sound(
    rules: RuleSet = ALL,
    query: str = "",
    tables: Catalog | Sequence[Table] = (),
    *,
    points: int = 3,
    examples: int = 20,
    seed: int = 0,
    settings: Settings = USUAL,
) -> int:
    """Explore a query with some rules and check every member of every group on random data; the number of members checked."""
    catalog = tables if isinstance(tables, Catalog) else Catalog(*tables)
    timeline = Timeline(tuple(Point(name, 1.0, ("result",)) for name in POINTS[:points]))
    job = Job(query=query, catalog=catalog, timeline=timeline)
    explored = explore(job, rules, settings)
    checked = 0
    for example in range(examples):
        random_ = random.Random(seed * 1000 + example)
        history = {t.name: random_history(t, points, random_) for t in catalog.values()}
        checked += check_explored(explored, history)
    return checked
