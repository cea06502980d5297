"""The share of rows for which a predicate is true.

A predicate is compiled once into a function of its columns' statistics. Comparisons of a column with constants are kept as **bounds** per
column, so that `x >= 1200 AND x <= 1211` is one narrow range and not two wide ones, and a filter above a filter sees what the first
has left (`narrowed`). All else is taken to be independent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import NamedTuple, cast

from sqlglot import exp
from sqlglot.expressions.core import Expression

from tempura.estimate.column import Columns, ColumnStats, computed_column
from tempura.estimate.rising import risen
from tempura.expr import Expr, conjuncts

Padded = Mapping[str, float]
"""For columns that an outer join padded: the share of rows where it did."""

Share = Callable[[Columns, Padded], float]

DEFAULTS: dict[str, float] = {
    "range": 1 / 3,  # x < c, nothing known of x
    "between": 0.1,  # c1 <= x AND x <= c2, nothing known of x
    "prefix": 0.05,  # x LIKE 'abc%'
    "pattern": 0.1,  # x LIKE '%abc%'
    "boolean": 0.5,  # a column or function that is a truth value
    "null": 0.01,  # x IS NULL where no NULLs were declared
    "other": 1 / 3,  # anything else
    "least": 1e-7,  # no predicate is taken to be surely false unless it says FALSE
}
"""The shares assumed where the statistics do not tell."""


class Bounds(NamedTuple):
    """What a conjunction says of one column: a range, a number of values, or only that it is not NULL."""

    column: str
    low: float | None = None
    high: float | None = None
    sides: int = 0
    """Bit 1: bounded below; bit 2: bounded above. The bound itself may be something that is not a number."""
    values: float | None = None
    """At most this many values, from = and IN."""

    def meet(self, other: Bounds) -> Bounds:
        low = other.low if self.low is None else self.low if other.low is None else max(self.low, other.low)
        high = other.high if self.high is None else self.high if other.high is None else min(self.high, other.high)
        values = (
            other.values
            if self.values is None
            else self.values
            if other.values is None
            else min(self.values, other.values)
        )
        return Bounds(self.column, low, high, self.sides | other.sides, values)

    def part_of(self, column: ColumnStats) -> float:
        """The part of a column's values, NULLs aside, that lies within."""
        if self.values is not None:
            return min(1.0, self.values / max(column.domain, 1.0))
        if self.sides == 0:
            return 1.0
        least, greatest = column.least, column.greatest
        if least is None or greatest is None or (self.low is None and self.high is None):
            return DEFAULTS["between"] if self.sides == 3 else DEFAULTS["range"]
        low = least if self.low is None else max(self.low, least)
        high = greatest if self.high is None else min(self.high, greatest)
        one = 1 / max(column.domain, 1.0)
        # Outside of the known range: statistics age, so a value's worth of rows rather than none.
        if low > high or greatest <= least:
            return min(one, DEFAULTS["range"])
        return min(1.0, max((high - low) / (greatest - least), one))

    def narrow(self, column: ColumnStats) -> ColumnStats:
        """The column within the bounds."""
        least, greatest = column.least, column.greatest
        if least is not None and greatest is not None:
            low = least if self.low is None else max(self.low, least)
            high = greatest if self.high is None else min(self.high, greatest)
            least, greatest = (low, high) if low <= high else (low, low)
        domain = max(1.0, column.domain * self.part_of(column))
        return column._replace(
            domain=min(domain, max(column.domain, 1.0)), null_share=0.0, least=least, greatest=greatest
        )


class Predicate(NamedTuple):
    """A compiled conjunction: bounds on columns, one each, and the shares of all other parts."""

    bounds: tuple[Bounds, ...]
    rest: tuple[Share, ...]
    either: tuple[tuple[Predicate, ...], ...]
    """The disjunctions among the other parts."""


_compiled: dict[Expr, Predicate] = {}


def selectivity(predicate: Expr, columns: Columns, padded: Padded) -> float:
    """The share of rows for which `predicate` is true."""
    share = _product(compiled(predicate), columns, padded)
    return share if share >= DEFAULTS["least"] or share <= 0 else DEFAULTS["least"]


def _product(predicate: Predicate, columns: Columns, padded: Padded) -> float:
    share = 1.0
    for bounds in predicate.bounds:
        share *= _bounded(bounds, columns, padded)
    for other in predicate.rest:
        share *= other(columns, padded)
    return share


def narrowed(predicate: Expr, columns: Columns) -> dict[str, ColumnStats]:
    """The columns whose range or domain is smaller where `predicate` is true."""
    return risen(_narrowed(compiled(predicate), columns), columns)


def _narrowed(predicate: Predicate, columns: Columns) -> dict[str, ColumnStats]:
    found = {b.column: b.narrow(columns[b.column]) for b in predicate.bounds if b.column in columns}
    for disjuncts in predicate.either:
        first, *others = [_narrowed(d, columns) for d in disjuncts]
        for name in first.keys() - found.keys():
            if all(name in other for other in others):
                found[name] = _together(columns[name], [first[name], *(other[name] for other in others)])
    return found


def _together(column: ColumnStats, parts: Sequence[ColumnStats]) -> ColumnStats:
    """A column that is within one of several bounds."""
    ends = [(p.least, p.greatest) for p in parts]
    least = min((a for a, _ in ends if a is not None), default=None) if all(a is not None for a, _ in ends) else None
    greatest = max((b for _, b in ends if b is not None), default=None) if all(b is not None for _, b in ends) else None
    return column._replace(
        domain=min(column.domain, sum(p.domain for p in parts)), null_share=0.0, least=least, greatest=greatest
    )


def null_share(name: str, columns: Columns, padded: Padded) -> float:
    """The share of rows in which a column is NULL."""
    column = columns.get(name)
    own = 0.0 if column is None else column.null_share
    pad = padded.get(name) if padded else None
    return own if pad is None else 1 - (1 - own) * (1 - pad)


def compiled(predicate: Expr) -> Predicate:
    """The predicate, taken apart once."""
    found = _compiled.get(predicate)
    if found is None:
        found = _compiled[predicate] = _conjunction([part.tree for part in conjuncts(predicate)])
    return found


def _conjunction(parts: list[Expression]) -> Predicate:
    by_column: dict[str, Bounds] = {}
    rest: list[Share] = []
    either: list[tuple[Predicate, ...]] = []
    for tree in parts:
        bounds = bounds_of(tree)
        if bounds is None:
            rest.append(_share(tree))
            plain = _stripped(tree)
            if isinstance(plain, exp.Or):
                either.append(tuple(compiled(Expr(d.unnest())) for d in plain.flatten()))
        else:
            known = by_column.get(bounds.column)
            by_column[bounds.column] = bounds if known is None else known.meet(bounds)
    return Predicate(tuple(by_column.values()), tuple(rest), tuple(either))


def _stripped(tree: Expression) -> Expression:
    while isinstance(tree, exp.Paren):
        tree = cast(Expression, tree.this)
    return tree


def _column_name(tree: Expression) -> str | None:
    """The column that an expression is, perhaps cast to another type."""
    while isinstance(tree, (exp.Paren, exp.Cast)):
        tree = cast(Expression, tree.this)
    return tree.name if isinstance(tree, exp.Column) else None


def _constant(tree: Expression) -> bool:
    return tree.find(exp.Column) is None


_MIRRORED: dict[type[Expression], type[Expression]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
}


def bounds_of(tree: Expression) -> Bounds | None:
    """The bounds that a predicate sets on one column, if that is all it does."""
    tree = _stripped(tree)
    kind = type(tree)
    if isinstance(tree, (exp.EQ, exp.NullSafeEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)):
        left, right = cast(Expression, tree.this), cast(Expression, tree.expression)
        if _constant(left):
            left, right, kind = right, left, _MIRRORED.get(kind, kind)
        name = _column_name(left)
        if name is None or not _constant(right):
            return None
        value = number(right)
        if kind in (exp.EQ, exp.NullSafeEQ):
            return Bounds(name, value, value, values=1.0)
        return Bounds(name, low=value, sides=1) if kind in (exp.GT, exp.GTE) else Bounds(name, high=value, sides=2)
    if isinstance(tree, exp.Between):
        low, high = cast(Expression, tree.args["low"]), cast(Expression, tree.args["high"])
        name = _column_name(cast(Expression, tree.this))
        if name is None or not (_constant(low) and _constant(high)):
            return None
        return Bounds(name, low=number(low), high=number(high), sides=3)
    if isinstance(tree, exp.In):
        listed = cast(list[Expression], tree.expressions)
        name = _column_name(cast(Expression, tree.this))
        if name is None or not listed or not all(map(_constant, listed)):
            return None
        return _one_of(name, [number(value) for value in listed], float(len(listed)))
    if isinstance(tree, exp.Or):
        # x = 1 OR x = 2 is x IN (1, 2).
        parts = [bounds_of(part) for part in cast(list[Expression], list(tree.flatten()))]
        first = parts[0]
        if first is not None and all(
            p is not None and p.column == first.column and p.values is not None for p in parts
        ):
            ends = [end for p in parts if p is not None for end in (p.low, p.high)]
            return _one_of(first.column, ends, sum(p.values or 0.0 for p in parts if p is not None))
        return None
    if isinstance(tree, exp.Not):
        inner = _stripped(cast(Expression, tree.this))
        if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
            name = _column_name(cast(Expression, inner.this))
            return None if name is None else Bounds(name)
    return None


def _one_of(column: str, among: Sequence[float | None], values: float) -> Bounds:
    known = [value for value in among if value is not None]
    low, high = (min(known), max(known)) if len(known) == len(among) else (None, None)
    return Bounds(column, low, high, values=values)


_DAYS = {
    "DAY": 1.0,
    "WEEK": 7.0,
    "MONTH": 30.44,
    "QUARTER": 91.3,
    "YEAR": 365.25,
    "HOUR": 1 / 24,
    "MINUTE": 1 / 1440,
    "SECOND": 1 / 86400,
}


def number(tree: Expression) -> float | None:
    """The value of a constant expression as a number, dates in days since 1970; None where it has none."""
    tree = _stripped(tree)
    if isinstance(tree, exp.Literal):
        return _literal(str(tree.this))
    if isinstance(tree, (exp.Cast, exp.TryCast, exp.Neg, exp.Date, exp.TsOrDsToDate)):
        value = number(cast(Expression, tree.this))
        return -value if value is not None and isinstance(tree, exp.Neg) else value
    if isinstance(tree, exp.Interval):
        count = number(cast(Expression, tree.this)) if tree.this is not None else None
        unit = cast("Expression | None", tree.args.get("unit"))
        days = _DAYS.get(unit.name.upper().rstrip("S")) if unit is not None else None
        return None if count is None or days is None else count * days
    if isinstance(tree, (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.DateAdd, exp.DateSub, exp.TsOrDsAdd)):
        a, b = number(cast(Expression, tree.this)), number(cast(Expression, tree.expression))
        if a is None or b is None:
            return None
        if isinstance(tree, (exp.Sub, exp.DateSub)):
            return a - b
        if isinstance(tree, exp.Mul):
            return a * b
        if isinstance(tree, exp.Div):
            return a / b if b else None
        return a + b
    return None


_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,2})?\s*")
_DATE = re.compile(r"\s*(\d{4})-(0?[1-9]|1[0-2])-(0?[1-9]|[12]\d|3[01])\b.*")


def _literal(text: str) -> float | None:
    if _NUMBER.fullmatch(text):
        return float(text)
    found = _DATE.fullmatch(text)
    if found is None:
        return None
    year, month, day = map(int, found.groups())
    # The first of the month and days from there: the 31st of a short month is a day too late, not an error.
    return float(date(max(year, 1), month, 1).toordinal() + day - 1 - date(1970, 1, 1).toordinal())


def _share(tree: Expression) -> Share:
    """The share of a predicate that is more than bounds on a column, as a function of the statistics."""
    tree = _stripped(tree)
    bounds = bounds_of(tree)
    if bounds is not None:
        return lambda columns, padded: _bounded(bounds, columns, padded)
    match tree:
        case exp.Boolean():
            return _always(1.0 if tree.this else 0.0)
        case exp.Null():
            return _always(0.0)
        case exp.And():
            inner = _conjunction(cast(list[Expression], list(tree.flatten())))
            return lambda columns, padded: _product(inner, columns, padded)
        case exp.Or():
            return _any([_share(part) for part in cast(list[Expression], list(tree.flatten()))])
        case exp.Not():
            return _negated(_stripped(cast(Expression, tree.this)))
        case exp.Is(expression=exp.Null()):
            return _is_null(cast(Expression, tree.this))
        case exp.Is():
            return _share(cast(Expression, tree.this))
        case exp.EQ() | exp.NullSafeEQ():
            return _equal(cast(Expression, tree.this), cast(Expression, tree.expression))
        case exp.NEQ() | exp.NullSafeNEQ():
            equal = exp.EQ(this=tree.this.copy(), expression=tree.expression.copy())
            return _negated(equal)
        case exp.In() if tree.expressions:
            subject, count = cast(Expression, tree.this), len(cast(list[Expression], tree.expressions))
            return lambda columns, padded: min(1.0, count / max(computed_column(subject, columns).domain, 1.0))
        case exp.Like(args={"negate": True}) | exp.ILike(args={"negate": True}):
            # sqlglot keeps NOT LIKE as a flag, unlike NOT IN and NOT BETWEEN.
            return _negated(exp.Like(this=tree.this.copy(), expression=tree.expression.copy()))
        case exp.RegexpLike():
            return _always(DEFAULTS["pattern"])
        case exp.Like() | exp.ILike():
            return _like(cast(Expression, tree.this), cast(Expression, tree.expression))
        case exp.StartsWith():
            return _always(DEFAULTS["prefix"])
        case exp.Between():
            return _always(DEFAULTS["between"])
        case exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            return _always(DEFAULTS["range"])
        case exp.Column() | exp.Cast():
            return _always(DEFAULTS["boolean"])
        case _:
            return _always(DEFAULTS["other"])


def _bounded(bounds: Bounds, columns: Columns, padded: Padded) -> float:
    column = columns.get(bounds.column)
    return (
        DEFAULTS["other"]
        if column is None
        else bounds.part_of(column) * (1 - null_share(bounds.column, columns, padded))
    )


def _always(share: float) -> Share:
    return lambda columns, padded: share


def _any(parts: list[Share]) -> Share:
    def share(columns: Columns, padded: Padded) -> float:
        none = 1.0
        for part in parts:
            none *= 1 - min(1.0, part(columns, padded))
        return 1 - none

    return share


def _negated(tree: Expression) -> Share:
    """NOT p: the rows for which p is neither true nor NULL."""
    inner = _share(tree)
    names = [] if isinstance(tree, exp.Is) else [c.name for c in tree.find_all(exp.Column)]

    def share(columns: Columns, padded: Padded) -> float:
        known = 1 - max((null_share(n, columns, padded) for n in names), default=0.0)
        return max(0.0, known - inner(columns, padded))

    return share


def _is_null(tree: Expression) -> Share:
    name = _column_name(tree)
    if name is None:
        return _always(DEFAULTS["null"])
    return lambda columns, padded: max(null_share(name, columns, padded), DEFAULTS["null"])


def _equal(left: Expression, right: Expression) -> Share:
    if _constant(left):
        left, right = right, left
    if _constant(right):
        return lambda columns, padded: 1 / max(computed_column(left, columns).domain, 1.0)

    def share(columns: Columns, padded: Padded) -> float:
        a, b = computed_column(left, columns), computed_column(right, columns)
        # As in a join, what was declared of one side counts for more than a guess at the other.
        domain = (
            a.domain
            if b.guessed and not a.guessed
            else b.domain
            if a.guessed and not b.guessed
            else max(a.domain, b.domain)
        )
        return (1 - a.null_share) * (1 - b.null_share) / max(domain, 1.0)

    return share


def _like(subject: Expression, pattern: Expression) -> Share:
    text = str(pattern.this) if isinstance(pattern, exp.Literal) else "%"
    if "%" not in text and "_" not in text:
        return _equal(subject, pattern)
    return _always(DEFAULTS["pattern" if text[:1] in "%_" else "prefix"])
