"""What is known of a column: how many values it may take at any time, its NULLs, range and width.

The number of values is that of the column over the whole timeline, its **domain**, not of the rows at hand: a snapshot, a delta and a
filtered part of one relation share it. Joins divide by domains, so their sizes are linear in each input, and the terms of a delta add up to the
difference of the snapshots. How many values are present among some rows is a question to `Stats.distinct`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, cast

from sqlglot import exp
from sqlglot.expressions.core import Expression

from tempura.schema import Column

ROW = "#"
"""The first letter of an invented column that stands for a base table's rows: `#sales` has a value for each row of sales,
numbered as they arrive. It bounds how many combinations the columns of one table take together, which their product greatly
overstates, and its range tells which rows of the table a view is made of: a delta has none of the rows of the snapshot before it."""


class ColumnStats(NamedTuple):
    """A column's domain, share of NULLs, least and greatest value (dates as days since 1970), and bytes per value."""

    domain: float
    null_share: float = 0.0
    least: float | None = None
    greatest: float | None = None
    width: float = 8.0
    row: str = ""
    """The invented column of the table it comes from; a constant's text, which tells constants apart; empty for other computed columns."""
    guessed: bool = False
    """Whether nothing was declared of the domain; a join prefers what is known of its other side."""
    kept: float = 1.0
    """Of an invented column: the share of its table's rows that filters on its other columns let through, at any time."""
    rises: bool = False
    """Whether it rises with the other columns of its table of which this holds."""
    text: bool = False
    """Whether its values are texts, or something else that is not compared in one step."""
    run: float = 1.0
    """Of a table's column: how many rows that come together agree on it. Of other relations `Stats.run` tells."""


Columns = Mapping[str, ColumnStats]


class Guess(NamedTuple):
    """What is assumed of a column of some type without statistics: rows**power distinct values, at most `most`, `width` bytes each, and whether they are texts or the like."""

    power: float
    most: float
    width: float
    text: bool = False


GUESSES: dict[str, Guess] = {
    "boolean": Guess(1.0, 2.0, 1.0),
    "date": Guess(1.0, 365.0 * 5, 4.0),
    "timestamp": Guess(1.0, math.inf, 8.0),
    "tinyint": Guess(0.75, 256.0, 1.0),
    "smallint": Guess(0.75, 65536.0, 2.0),
    "int": Guess(0.75, math.inf, 4.0),
    "bigint": Guess(0.75, math.inf, 8.0),
    "float": Guess(0.9, math.inf, 4.0),
    "double": Guess(0.9, math.inf, 8.0),
    "decimal": Guess(0.9, math.inf, 8.0),
    "string": Guess(0.75, math.inf, 16.0, True),
    "varchar": Guess(0.75, math.inf, 16.0, True),
    "char": Guess(0.75, math.inf, 16.0, True),
    "binary": Guess(1.0, math.inf, 64.0, True),
    "array": Guess(1.0, math.inf, 64.0, True),
    "map": Guess(1.0, math.inf, 64.0, True),
    "struct": Guess(1.0, math.inf, 64.0, True),
}
"""By the type's name without its arguments."""

OTHER_TYPE = Guess(0.75, math.inf, 12.0, True)

COMPUTED_DOMAIN = 10_000.0
"""The most values an expression over several columns is taken to have, unless one of the columns has more."""

AGGREGATE_DOMAINS: dict[str, float] = {"count": 100.0, "bool_and": 2.0, "bool_or": 2.0}
"""Distinct results of an aggregate; min and max have those of their argument, all others `COMPUTED_DOMAIN`."""

FUNCTION_DOMAINS: dict[type[Expression], float] = {
    exp.Year: 10.0,
    exp.Quarter: 4.0,
    exp.Month: 12.0,
    exp.Week: 53.0,
    exp.Day: 31.0,
    exp.DayOfMonth: 31.0,
    exp.DayOfWeek: 7.0,
    exp.DayOfYear: 366.0,
    exp.Hour: 24.0,
    exp.Minute: 60.0,
    exp.Second: 60.0,
    exp.Substring: 1000.0,
    exp.Left: 1000.0,
    exp.Right: 1000.0,
}
"""The most values of functions that map many values to one."""

_ONE_TO_ONE = (exp.Paren, exp.Alias, exp.Cast, exp.TryCast, exp.Neg, exp.Upper, exp.Lower, exp.Trim, exp.Round, exp.Abs)
_CONSTANT = (exp.Literal, exp.Null, exp.Boolean, exp.Interval)

_guesses: dict[str, Guess] = {}


def guess(type_name: str) -> Guess:
    """What is assumed of a type, `decimal(7,2)` like `decimal`."""
    found = _guesses.get(type_name)
    if found is None:
        found = _guesses[type_name] = GUESSES.get(type_name.split("(")[0].split("<")[0].strip(), OTHER_TYPE)
    return found


_unknown: dict[tuple[Column, float], ColumnStats] = {}


def unknown_column(column: Column, domain: float = COMPUTED_DOMAIN) -> ColumnStats:
    """A column of which only the type is known."""
    found = _unknown.get((column, domain))
    if found is None:
        assumed = guess(column.type)
        most = min(domain, assumed.most)
        found = _unknown[column, domain] = ColumnStats(most, width=assumed.width, guessed=True, text=assumed.text)
    return found


def sample_distinct(distinct: float, rows: float, taken: float) -> float:
    """How many of `distinct` values are expected among `taken` of `rows` rows (Yao, with equally frequent values).

    Exact at both ends of frequency: a key has as many values as rows are taken, a column with few values keeps them all. Taking
    all rows leaves all values, so that it can be applied again and again without wearing a column down.
    """
    if taken >= rows or distinct <= 0:
        return max(distinct, 0.0)
    if taken <= 0:
        return 0.0
    if distinct >= rows:
        return taken
    # log1p and expm1 because for large tables the share is far below the precision of 1 - share.
    return min(-distinct * math.expm1(rows * math.log1p(-taken / rows) / distinct), taken)


def united_distinct(domain: float, parts: Iterable[tuple[float, float]]) -> float:
    """The distinct values of several bags together, each given as (distinct, rows per distinct value).

    Values that are unique in every part (one row each) are different rows' keys and do not overlap; the more rows a value has, the
    more the parts are like independent draws from the domain.
    """
    united, frequency = 0.0, 1.0
    for distinct, per_value in parts:
        if distinct <= 0:
            continue
        frequency = max(frequency, per_value)
        overlap = 0.0 if domain <= 0 else united * distinct / domain * (1 - 1 / frequency)
        united = max(united, distinct, min(united + distinct - overlap, domain))
    return united


def damped_product(factors: Iterable[float]) -> float:
    """The combinations of columns of one table, which depend on each other: each further column counts by a smaller root."""
    product, power = 1.0, 1.0
    for factor in sorted(factors, reverse=True):
        product *= max(factor, 1.0) ** power
        power /= 2
    return product


def combined_domain(columns: Columns, names: Iterable[str]) -> float:
    """How many combinations of values several columns may take together."""
    return combinations(columns, names, lambda name: columns[name].domain)


def filtered_domain(columns: Columns, names: Iterable[str]) -> float:
    """The same where none but rows that the filters so far let through count: of each table there are fewer."""
    return combinations(columns, names, lambda name: columns[name].domain * columns[name].kept)


def combinations(columns: Columns, names: Iterable[str], size: Callable[[str], float]) -> float:
    """The combinations of columns, given the size of each: per table at most one per row; tables independent of each other."""
    tables: dict[str, list[float]] = {}
    for name in names:
        tables.setdefault(columns[name].row, []).append(size(name))
    product = 1.0
    for row, factors in tables.items():
        together = factors[0] if len(factors) == 1 else damped_product(factors)
        if row in columns and len(factors) > 1:
            together = min(together, size(row))
        product *= max(together, 1.0)
    # A product of dozens of columns may leave the range of floats; nothing has that many rows.
    return min(product, 1e30)


def computed_column(tree: Expression, columns: Columns) -> ColumnStats:
    """What is known of an expression's values."""
    if isinstance(tree, exp.Column):
        return columns.get(tree.name) or ColumnStats(COMPUTED_DOMAIN, guessed=True)
    if isinstance(tree, _CONSTANT):
        return ColumnStats(1.0, float(isinstance(tree, exp.Null)), row=str(tree))
    if isinstance(tree, _ONE_TO_ONE):
        inner = computed_column(cast(Expression, tree.this), columns)
        if isinstance(tree, (exp.Cast, exp.TryCast)) and not isinstance(tree.this, exp.Literal):
            return inner
        return inner if isinstance(tree, (exp.Paren, exp.Alias)) else inner._replace(least=None, greatest=None)
    most = FUNCTION_DOMAINS.get(type(tree))
    known = [columns[c.name] for c in tree.find_all(exp.Column) if c.name in columns]
    nulls = max((c.null_share for c in known), default=0.0)
    row = known[0].row if known and all(c.row == known[0].row for c in known) else ""
    if isinstance(tree, (exp.Predicate, exp.Connector, exp.Not)):
        return ColumnStats(2.0, nulls, width=1.0, row=row)
    if isinstance(tree, exp.Case):
        results = [cast(Expression, branch.args["true"]) for branch in cast(list[Expression], tree.args["ifs"])]
        default = cast(Expression | None, tree.args.get("default"))
        domain = sum(computed_column(r, columns).domain for r in (*results, *([default] if default else [])))
        return ColumnStats(domain, nulls if default else 0.5, row=row)
    if isinstance(tree, exp.Coalesce):
        return ColumnStats(max((c.domain for c in known), default=0.0) + 1, 0.0, row=row)
    if len(known) == 1:
        return ColumnStats(min(known[0].domain, most or math.inf), nulls, row=row)
    largest = max((c.domain for c in known), default=1.0)
    domain = min(damped_product(c.domain for c in known), max(largest, COMPUTED_DOMAIN))
    return ColumnStats(min(domain, most or math.inf), nulls, row=row)
