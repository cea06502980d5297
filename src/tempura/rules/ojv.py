"""OJV: outer-join views maintained from the view itself (Larson and Zhou), one table at a time.

When the right side of L ⟕ R changes and the left does not, QD is the part with a partner, L ⋈ R; its delta is joined once. QI are the padded rows:
which of them go or come follows from ΔQD and the old view alone, so R is not looked at again. The left side needs a key (else the number of
equal padded rows is lost), and the join a column of R that tells a partner from padding. Nested outer joins compose: the inner
view's delta is the outer one's ΔR, so larger terms are settled before smaller ones.
"""

# Conditions are lambdas over the names of the pattern, whose types are those of the body below.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
from __future__ import annotations

from tempura.algebra import (
    AggregateCall,
    AggregateState,
    AntiJoin,
    Filter,
    FullOuterJoin,
    InnerJoin,
    LeftOuterJoin,
    Minus,
    Output,
    Plus,
    Project,
)
from tempura.explore import Time, TvrRef
from tempura.expr import Expr, col, parse
from tempura.rules.deltas import L, Q, R, on, t, u
from tempura.rules.lang import Link, decline, rule, rule_set, where
from tempura.rules.views import affected, condition, kept, padded, padded_left, touched
from tempura.schema import Column

QD = Link("QD")
"""The directly affected part: the rows with a partner."""

NO_KEY = "the preserved side has no key"
NO_PRESENCE = "no column tells a padded row from a match"


def presence(L: TvrRef, R: TvrRef, on: Expr) -> Expr | None:
    """A column of R that is never NULL in a row with a partner: one that an ordinary equality compares."""
    return next((e.right for e in condition(L, R, on).equi if e.right.name and not e.null_safe), None)


def _usable(kept_side: TvrRef, other: TvrRef, on: Expr) -> None:
    if not kept_side.keys:
        decline(NO_KEY)
    if presence(kept_side, other, on) is None:
        decline(NO_PRESENCE)


@rule(Q[:] == LeftOuterJoin(L[:], R[:], on), unless=lambda Q: QD(Q).exists)
def directly_affected(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr):
    """QD = L ⋈ R."""
    _usable(L, R, on)
    QD(Q)[:] = InnerJoin(L[:], R[:], on)


@rule(Q[:] == FullOuterJoin(L[:], R[:], on), unless=lambda Q: QD(Q).exists)
def directly_affected_full(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr):
    """QD = L ⋈ R for the full outer join as well; what is padded on the changed side is added beside it."""
    _usable(L, R, on)
    QD(Q)[:] = InnerJoin(L[:], R[:], on)


def _orphans(Q: TvrRef, side: TvrRef, other: TvrRef, on: Expr, pad: tuple[Output, ...], t: Time, u: Time) -> Minus:
    """ΔQI: per row of `side`, its partners before (from the view) and after (with ΔQD); none left: padded, first one: no longer."""
    there = presence(side, other, on)
    assert there is not None
    key = tuple(min((sorted(k) for k in side.keys), key=lambda k: (len(k), k)))
    delta = QD(Q)[t:u]
    view = touched(Q[t], affected(delta, QD(Q).schema, key), key)
    columns = side.columns
    counted = parse(f"CASE WHEN `{there.name}` IS NULL THEN 0 ELSE 1 END")
    zero, one = parse("0"), parse("1")
    old, new = Column("__old", "int", False), Column("__new", "int", False)
    rows = Plus(
        (
            Project(view, (*kept(side.schema), Output(old, counted), Output(new, counted))),
            Project(delta, (*kept(side.schema), Output(old, zero), Output(new, one))),
        )
    )
    calls = tuple(AggregateCall(Column(c.name, "bigint"), "sum", col(c.name)) for c in (old, new))
    counts = AggregateState(rows, columns, calls)
    lost = Filter(counts, parse("__s___old > 0 AND __s___new = 0"))
    found = Filter(counts, parse("__s___old = 0 AND __s___new > 0"))
    return Minus(Project(lost, pad), Project(found, pad))


def alone(changing: TvrRef, still: TvrRef, t: Time) -> bool:
    return changing.changes(t) and not still.changes(t)


@rule(Q[:] == LeftOuterJoin(L[:], R[:], on), QD(Q)[t:u], where(lambda L, R, t: alone(R, L, t)))
def delta_by_view(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr, t: Time, u: Time):
    """ΔQ = ΔQD + ΔQI, with ΔQI from the old view and ΔQD."""
    if QD(Q).id != Q.known(InnerJoin(L[:], R[:], on)):
        return
    Q[t:u] = Plus((QD(Q)[t:u], _orphans(Q, L, R, on, padded(L.schema, R.schema), t, u)))


@rule(Q[:] == LeftOuterJoin(L[:], R[:], on), L[t:u], where(lambda L, R, t: alone(L, R, t)))
def delta_preserved_side(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr, t: Time, u: Time):
    """Changes of the preserved side affect nothing indirectly: ΔQ = ΔL ⟕ R."""
    Q[t:u] = LeftOuterJoin(L[t:u], R[t], on)


@rule(Q[:] == FullOuterJoin(L[:], R[:], on), QD(Q)[t:u], R[t:u], where(lambda L, R, t: alone(R, L, t)))
def delta_by_view_full_right(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr, t: Time, u: Time):
    """ΔQ = ΔQD + pad(ΔR ▷ L) + ΔQI, when R changes."""
    if QD(Q).id != Q.known(InnerJoin(L[:], R[:], on)):
        return
    if presence(R, L, on) is None:
        # A row of L that is NULL throughout may have partners, and would be taken for the padding of others.
        decline(NO_PRESENCE)
    unmatched = Project(AntiJoin(R[t:u], L[t], on), padded_left(L.schema, R.schema))
    Q[t:u] = Plus((QD(Q)[t:u], unmatched, _orphans(Q, L, R, on, padded(L.schema, R.schema), t, u)))


@rule(Q[:] == FullOuterJoin(L[:], R[:], on), QD(Q)[t:u], L[t:u], where(lambda L, R, t: alone(L, R, t)))
def delta_by_view_full_left(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr, t: Time, u: Time):
    """ΔQ = ΔQD + pad(ΔL ▷ R) + ΔQI, when L changes."""
    if QD(Q).id != Q.known(InnerJoin(L[:], R[:], on)):
        return
    _usable(R, L, on)
    unmatched = Project(AntiJoin(L[t:u], R[t], on), padded(L.schema, R.schema))
    Q[t:u] = Plus((QD(Q)[t:u], unmatched, _orphans(Q, R, L, on, padded_left(L.schema, R.schema), t, u)))


OJV = rule_set(
    "OJV",
    (
        directly_affected,
        directly_affected_full,
        delta_by_view,
        delta_preserved_side,
        delta_by_view_full_right,
        delta_by_view_full_left,
    ),
)
