"""How many rows of two sides find each other, and what each kind of join makes of that.

The share of pairs that agree on the keys is one over the larger domain of the two sides (the smaller set of values is taken to be contained in the larger). A
composite key has at most as many values as its table has rows. Domains do not change with time, so joins are linear in each side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlglot import exp

from tempura.algebra import AntiJoin, FullOuterJoin, InnerJoin, LeftOuterJoin, SemiJoin
from tempura.estimate.column import ROW, Columns, combined_domain, computed_column, filtered_domain, sample_distinct
from tempura.estimate.relation import MOST_ROWS, NOT_PADDED, Stats
from tempura.estimate.runs import Runs, filtered, joined
from tempura.estimate.selectivity import Padded, selectivity
from tempura.expr import Expr, conjuncts
from tempura.schema import Schema


class _Equality(NamedTuple):
    """One conjunct of a join condition; the sides of an equality, or None."""

    part: Expr
    a: Expr | None
    b: Expr | None
    null_safe: bool


_conditions: dict[Expr, tuple[_Equality, ...]] = {}


def _equalities(on: Expr) -> tuple[_Equality, ...]:
    found = _conditions.get(on)
    if found is None:
        parts: list[_Equality] = []
        for part in conjuncts(on):
            tree = part.tree
            if isinstance(tree, (exp.EQ, exp.NullSafeEQ)):
                a, b = Expr(tree.this.unnest()), Expr(tree.expression.unnest())
                if a.columns and b.columns:
                    parts.append(_Equality(part, a, b, isinstance(tree, exp.NullSafeEQ)))
                    continue
            parts.append(_Equality(part, None, None, False))
        found = _conditions[on] = tuple(parts)
    return found


class Side(NamedTuple):
    """One side of a join: its statistics, its keys, and the share of its rows whose keys are not NULL."""

    stats: Stats
    keys: tuple[Expr, ...]
    not_null: float


class Match(NamedTuple):
    """How the rows of two sides find each other."""

    left: Side
    right: Side
    domain: float
    """The values that the keys may take."""
    residual: float
    """The share of pairs with equal keys that satisfy the rest of the condition."""
    columns: Columns
    """Those of both sides."""

    @property
    def share(self) -> float:
        """The share of all pairs that satisfy the condition."""
        return self.left.not_null * self.right.not_null * self.residual / self.domain

    @property
    def left_partnered(self) -> float:
        """The share of left rows that have a partner."""
        return self.left.not_null * _partnered(self.left, self.right, self.domain, self.residual)

    @property
    def right_partnered(self) -> float:
        return self.right.not_null * _partnered(self.right, self.left, self.domain, self.residual)

    @property
    def equal(self) -> dict[str, str]:
        """Columns that are equal in all pairs, both ways."""
        pairs = [(a.name, b.name) for a, b in zip(self.left.keys, self.right.keys, strict=True)]
        return {a: b for x, y in pairs if x and y for a, b in ((x, y), (y, x))}


def match(on: Expr, left: Stats, right: Stats) -> Match:
    """How the rows of two sides find each other, by the containment of the smaller domain in the larger."""
    columns = _both_columns(left.columns, right.columns)
    lefts: tuple[Expr, ...] = ()
    rights: tuple[Expr, ...] = ()
    residual = left_not_null = right_not_null = 1.0
    for part, a, b, null_safe in _equalities(on):
        if a is not None and b is not None:
            swap = _reads(a, right) and _reads(b, left)
            if swap or (_reads(a, left) and _reads(b, right)):
                a, b = (b, a) if swap else (a, b)
                lefts, rights = (*lefts, a), (*rights, b)
                if not null_safe:
                    left_not_null *= 1 - _key_nulls(left, a)
                    right_not_null *= 1 - _key_nulls(right, b)
                continue
        residual *= selectivity(part, columns, NOT_PADDED)
    left_side, right_side = Side(left, lefts, left_not_null), Side(right, rights, right_not_null)
    if not lefts:
        return Match(left_side, right_side, 1.0, residual, columns)
    (left_domain, left_guessed), (right_domain, right_guessed) = _key_domain(left_side), _key_domain(right_side)
    domain = max(left_domain, right_domain, 1.0)
    if _same_origin(left_side, right_side):
        domain = min(domain, filtered_domain(left.columns, [k.name for k in lefts if k.name is not None]))
    if left_guessed != right_guessed:
        domain = right_domain if left_guessed else left_domain
    elif len(lefts) == 1 and left_domain != right_domain:
        domain = _reached(left_side, right_side) if left_domain < right_domain else _reached(right_side, left_side)
    # A key that was guessed too small would have more rows than values.
    if _is_unique(left_side):
        domain = max(domain, left.rows)
    if _is_unique(right_side):
        domain = max(domain, right.rows)
    return Match(left_side, right_side, max(domain, 1.0), residual, columns)


def _both_columns(left: Columns, right: Columns) -> Columns:
    columns = {**left, **right}
    if len(columns) < len(left) + len(right):
        # A table joined with itself: a row of the pair is no longer a row of the table.
        for name in left.keys() & right.keys():
            if name.startswith(ROW):
                del columns[name]
    return columns


def _reached(few: Side, many: Side) -> float:
    """The values of the larger side's key that the smaller side's may equal.

    Sales lie in five years of a calendar of two centuries. Who filters such a calendar to one year means one of the five, so the share
    of days kept is to be seen against those. A filter that keeps more than five years' worth of days, all Decembers say, is spread over all.
    """
    domain = _key_domain(many)[0]
    short, long = (side.stats.columns.get(side.keys[0].name or "") for side in (few, many))
    if short is None or long is None or short.least is None or short.greatest is None:
        return domain
    if long.least is None or long.greatest is None or long.greatest <= long.least or long.row not in many.stats.columns:
        return domain
    part = (min(short.greatest, long.greatest) - max(short.least, long.least)) / (long.greatest - long.least)
    if part <= 0 or many.stats.columns[long.row].kept > part:
        return domain
    return min(domain, max(short.domain, domain * part))


def join_keys(on: Expr, left: Stats, right: Stats) -> list[frozenset[str]]:
    """For each equality between the sides the columns that it reads. Without any, rows are not found by keys, and every pair is compared."""
    found: list[frozenset[str]] = []
    for _, a, b, _ in _equalities(on):
        if a is None or b is None:
            continue
        if (_reads(a, left) and _reads(b, right)) or (_reads(a, right) and _reads(b, left)):
            found.append(frozenset(a.columns | b.columns))
    return found


def _reads(key: Expr, side: Stats) -> bool:
    return key.columns <= side.columns.keys()


def _key_nulls(side: Stats, key: Expr) -> float:
    return side.nulls(key.name) if key.name is not None else max((side.nulls(c) for c in key.columns), default=0.0)


def _key_domain(whole: Side) -> tuple[float, bool]:
    """The values that a side's keys may take together, and whether that was guessed."""
    side, keys, _ = whole
    names = [k.name for k in keys if k.name is not None]
    if len(names) == len(keys):
        columns = [side.columns[n] for n in names]
        if len(names) == 1:
            return columns[0].domain, columns[0].guessed
        return combined_domain(side.columns, names), any(c.guessed for c in columns) and not _is_unique(whole)
    product, guessed = 1.0, False
    for key in keys:
        stats = computed_column(key.tree, side.columns)
        product *= max(stats.domain, 1.0)
        guessed = guessed or stats.guessed
    return min(product, 1e30), guessed


def _same_origin(left: Side, right: Side) -> bool:
    """Whether several keys are columns of the same tables on both sides, after filters that let as much of these through."""
    for a, b in zip(left.keys, right.keys, strict=True):
        one, other = left.stats.columns.get(a.name or ""), right.stats.columns.get(b.name or "")
        if one is None or other is None or one.row != other.row:
            return False
        mine, theirs = left.stats.columns.get(one.row), right.stats.columns.get(other.row)
        if mine is not None and theirs is not None and not math.isclose(mine.kept, theirs.kept):
            return False
    return len(left.keys) > 1


def _is_unique(side: Side) -> bool:
    """Whether no two rows of the side have the same keys."""
    unique = side.stats.unique
    if unique is None:
        return False
    names = [k.name for k in side.keys]
    return all(c in names for c in unique)


def _partnered(side: Side, other: Side, domain: float, residual: float) -> float:
    """The share of a side's rows, with keys that are not NULL, that find a partner in the other side."""
    present = _present(other, domain)
    share = _set_by_set(side, other)
    if share is None:
        share = _akin(side, other, domain)
    if share is None:
        share = min(1.0, present / domain)
    if residual < 1 and present > 0:
        share *= 1 - (1 - residual) ** (other.stats.rows / present)
    return share


def _present(side: Side, domain: float) -> float:
    """How many values a side's keys have."""
    names = [k.name for k in side.keys if k.name is not None]
    return side.stats.groups(names) if len(names) == len(side.keys) else min(side.stats.rows, domain)


def _set_by_set(side: Side, other: Side) -> float | None:
    """The share of a side's rows whose keys the other has, where both are rows of the same grouping sets, told apart by their keys."""
    mine, theirs = side.stats.sets, other.stats.sets
    names = [k.name for k in side.keys if k.name is not None]
    keys = {k.name: o.name for k, o in zip(side.keys, other.keys, strict=True)}
    if mine is None or theirs is None or keys.get(mine.tag) != theirs.tag or len(names) < len(keys):
        return None
    present = other.stats.groups_by_set(theirs, [o.name for o in other.keys if o.name is not None])
    possible = [filtered_domain(side.stats.columns, part) for part in mine.of(names)]
    parts = zip(mine.shares, present, possible, strict=True)
    return sum(share * min(1.0, some / max(domain, 1.0)) for share, some, domain in parts)


_WHOLE = 0.8
"""A side with at least this part of the key values that its rows should have was thinned by nothing but what is known of."""


def _akin(side: Side, other: Side, domain: float) -> float | None:
    """The share of a side's keys that the other has, where both are the same columns of one table at different times.

    They are then not independent draws from the domain. Where one side's rows are among the other's, so are its values. Where they have no
    row in common, what the other lacks is what both have together, less what it has: all of a key's values, none of a column with few.
    """
    lefts = [side.stats.columns.get(k.name or "") for k in side.keys]
    rights = [other.stats.columns.get(k.name or "") for k in other.keys]
    tables = {c.row if c is not None else "" for c in (*lefts, *rights)}
    row = tables.pop() if len(tables) == 1 else ""
    mine, theirs = side.stats.columns.get(row), other.stats.columns.get(row)
    if mine is None or theirs is None or not math.isclose(mine.kept, theirs.kept):
        return None
    spans: list[tuple[float, float]] = []
    values: list[float] = []
    for one, rows in ((side, mine), (other, theirs)):
        if rows.least is None or rows.greatest is None:
            return None
        present = _present(one, domain)
        if present < _WHOLE * sample_distinct(domain, rows.domain, (rows.greatest - rows.least) * rows.kept):
            return None
        spans.append((rows.least, rows.greatest))
        values.append(present)
    (a, b), (c, d) = spans
    if b <= c or d <= a:
        both = sample_distinct(domain, mine.domain, (b - a + d - c) * mine.kept)
        return min(1.0, max(0.0, 1 - (both - values[1]) / values[0])) if values[0] > 0 else 1.0
    if (a <= c and d <= b) or (c <= a and b <= d):
        return min(1.0, values[1] / values[0]) if values[0] > 0 else 1.0
    return None


def _joined(
    found: Match, rows: float, net: float, padded: Padded, equal: Mapping[str, str], full: bool = False
) -> Stats:
    left, right = found.left.stats, found.right.stats

    def distinct(name: str) -> float:
        mine, theirs = (left, right) if name in left.columns else (right, left)
        here = sample_distinct(mine.distinct(name), mine.rows, rows)
        other = equal.get(name)
        return here if other is None else min(here, theirs.distinct(other))

    unique = None
    if left.unique is not None and not full and _is_unique(found.right):
        unique = left.unique
    elif left.unique is not None and right.unique is not None:
        unique = left.unique + right.unique
    return Stats(rows, net, left.width + right.width, found.columns, distinct, padded, unique, runs=_runs(found, rows))


def _runs(found: Match, rows: float) -> Runs:
    """The runs of the side whose rows find at most one partner each, or of the larger one; the other side follows, or has none."""
    left, right = found.left, found.right
    if _is_unique(left) != _is_unique(right):
        one, other = (left, right) if _is_unique(right) else (right, left)
    else:
        one, other = (left, right) if left.stats.rows >= right.stats.rows else (right, left)
    runs = joined(one.stats, _columns(one.keys), other.stats, rows)
    return runs if _is_unique(other) else lambda name: runs(name) if name in one.stats.columns else 1.0


def _columns(keys: Sequence[Expr]) -> list[str]:
    return sorted({column for key in keys for column in key.columns})


def _signed(rows: float, left: Stats, right: Stats) -> float:
    """The net number of pairs: signs multiply like weights."""
    return rows * (left.net / left.rows) * (right.net / right.rows) if rows > 0 else 0.0


def _both_padded(left: Stats, right: Stats) -> Padded:
    return {**left.padded, **right.padded} if left.padded or right.padded else NOT_PADDED


def inner_join(op: InnerJoin, inputs: Sequence[Stats], schemas: Sequence[Schema]) -> Stats:
    left, right = inputs
    found = match(op.on, left, right)
    rows = min(left.rows * right.rows * found.share, MOST_ROWS)
    return _joined(found, rows, _signed(rows, left, right), _both_padded(left, right), found.equal)


def _pad(padded: dict[str, float], side: Stats, share: float) -> None:
    if any(name in side.columns for name in padded):
        for name in side.columns:
            padded[name] = 1 - (1 - padded.get(name, 0.0)) * (1 - share)
    else:
        padded.update(dict.fromkeys(side.columns, share))


def outer_join(op: LeftOuterJoin | FullOuterJoin, inputs: Sequence[Stats], schemas: Sequence[Schema]) -> Stats:
    """The pairs, and the rows without a partner, whose other columns are NULL."""
    left, right = inputs
    found = match(op.on, left, right)
    matched = min(left.rows * right.rows * found.share, MOST_ROWS)
    lone = 1 - found.left_partnered
    lone_right = 1 - found.right_partnered if isinstance(op, FullOuterJoin) else 0.0
    rows = matched + left.rows * lone + right.rows * lone_right
    net = _signed(matched, left, right) + left.net * lone + right.net * lone_right
    padded = dict(_both_padded(left, right))
    if rows > 0:
        _pad(padded, right, left.rows * lone / rows)
        if lone_right:
            _pad(padded, left, right.rows * lone_right / rows)
    # The padded side's key is NULL rather than equal, so the kept side keeps all of its values.
    return _joined(found, rows, net, padded, {}, full=isinstance(op, FullOuterJoin))


def semi_join(op: SemiJoin, inputs: Sequence[Stats], schemas: Sequence[Schema]) -> Stats:
    left, right = inputs
    found = match(op.on, left, right)
    share, equal = found.left_partnered, found.equal
    rows = left.rows * share

    def distinct(name: str) -> float:
        here = sample_distinct(left.distinct(name), left.rows, rows)
        return min(here, right.distinct(equal[name])) if name in equal else here

    return Stats(
        rows,
        left.net * share,
        left.width,
        left.columns,
        distinct,
        left.padded,
        left.unique,
        left.folded,
        runs=filtered(left, share, _columns(found.left.keys)),
    )


def anti_join(op: AntiJoin, inputs: Sequence[Stats], schemas: Sequence[Schema]) -> Stats:
    left, right = inputs
    share = 1 - match(op.on, left, right).left_partnered
    return left.thinned(left.rows * share, left.net * share)
