"""IM-2: hold back what may be retracted. Q = QP + QN, where QP only ever grows and QN is left for when it is due.

A decomposition is not unique, so a TVR gets one, from the first of its definitions that offers it (`unless`).
For tables that only grow. Whatever never retracts is its own QP; the decomposition starts at outer and anti-joins and is carried up
through the operators above them. An aggregate keeps the state of QP early and adds that of QN at the end.
"""

# Conditions are lambdas over the names of the pattern, whose types are those of the body below.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
from __future__ import annotations

from typing import Any

from tempura.algebra import (
    AggregateCall,
    AggregateState,
    AntiJoin,
    Empty,
    Expand,
    Filter,
    FullOuterJoin,
    InnerJoin,
    LeftOuterJoin,
    MergeState,
    Minus,
    Plus,
    Project,
    SemiJoin,
)
from tempura.explore import TvrRef
from tempura.expr import Expr
from tempura.rules.deltas import L, Q, R, X, Xs, by, calls, columns, on, outputs, predicate, sets, tag
from tempura.rules.lang import Link, rule, rule_set, where
from tempura.rules.views import padded, padded_left

QP = Link("QP")
"""The part that never takes a row back."""
QN = Link("QN")
"""The rest."""


@rule(Q[:], where(lambda Q: Q.additive and bool(Q.memo.spans_of(Q.id)) and Q.monotone), unless=lambda Q: QP(Q).exists)
def positive_whole(Q: TvrRef):
    """What never retracts is its own positive part."""
    QP(Q)[:] = Q[:]
    QN(Q)[:] = Empty(Q.schema)


@rule(Q[:], where(lambda Q: Q.additive and not Q.memo.spans_of(Q.id) and not Q.empty), unless=lambda Q: QP(Q).exists)
def positive_static(Q: TvrRef):
    """What never changes never retracts."""
    QP(Q)[:] = Q[:]
    QN(Q)[:] = Empty(Q.schema)


@rule(QP(Q)[:], QN(Q)[:], where(lambda Q: not QN(Q).empty))
def sum_of_parts(Q: TvrRef):
    """Q = QP + QN, at every time."""
    Q[:] = Plus((QP(Q)[:], QN(Q)[:]))


@rule(
    Q[:] == Filter(X[:], predicate), QP(X)[:], QN(X)[:], where(lambda Q: not Q.monotone), unless=lambda Q: QP(Q).exists
)
def positive_filter(Q: TvrRef, X: TvrRef, predicate: Expr):
    """Linear operators act on each part."""
    QP(Q)[:] = Filter(QP(X)[:], predicate)
    QN(Q)[:] = Filter(QN(X)[:], predicate)


@rule(
    Q[:] == Project(X[:], outputs), QP(X)[:], QN(X)[:], where(lambda Q: not Q.monotone), unless=lambda Q: QP(Q).exists
)
def positive_project(Q: TvrRef, X: TvrRef, outputs: Any):
    """Linear operators act on each part."""
    QP(Q)[:] = Project(QP(X)[:], outputs)
    QN(Q)[:] = Project(QN(X)[:], outputs)


@rule(
    Q[:] == Expand(X[:], columns, sets, tag),
    QP(X)[:],
    QN(X)[:],
    where(lambda Q: not Q.monotone),
    unless=lambda Q: QP(Q).exists,
)
def positive_expand(Q: TvrRef, X: TvrRef, columns: Any, sets: Any, tag: str):
    """Linear operators act on each part."""
    QP(Q)[:] = Expand(QP(X)[:], columns, sets, tag)
    QN(Q)[:] = Expand(QN(X)[:], columns, sets, tag)


@rule(Q[:] == Plus(Xs[:]), where(lambda Q: not Q.monotone), unless=lambda Q: QP(Q).exists, priority=-10)
def positive_plus(Q: TvrRef, Xs: tuple[TvrRef, ...]):
    """The parts of a sum are the sums of the parts; an input without parts is held back whole."""
    if not any(QP(x).exists for x in Xs):
        return
    QP(Q)[:] = Plus(tuple(QP(x)[:] for x in Xs if QP(x).exists))
    QN(Q)[:] = Plus(tuple(QN(x)[:] if QN(x).exists else x[:] for x in Xs))


@rule(
    Q[:] == InnerJoin(L[:], R[:], on),
    QP(L)[:],
    QN(L)[:],
    QP(R)[:],
    QN(R)[:],
    where(lambda Q: not Q.monotone),
    unless=lambda Q: QP(Q).exists,
)
def positive_inner_join(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr):
    """P = PL ⋈ PR; N = NL ⋈ R + PL ⋈ NR."""
    QP(Q)[:] = InnerJoin(QP(L)[:], QP(R)[:], on)
    QN(Q)[:] = Plus((InnerJoin(QN(L)[:], R[:], on), InnerJoin(QP(L)[:], QN(R)[:], on)))


@rule(
    Q[:] == LeftOuterJoin(L[:], R[:], on),
    QP(L)[:],
    QN(L)[:],
    QP(R)[:],
    QN(R)[:],
    where(lambda Q: not Q.monotone),
    unless=lambda Q: QP(Q).exists,
)
def positive_left_outer_join(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr):
    """Rule 2 of the paper: P = PL ⋈ PR; N = NL ⋈ R + PL ⋈ NR + pad(L ▷ R), the rows whose partner may still come."""
    QP(Q)[:] = InnerJoin(QP(L)[:], QP(R)[:], on)
    QN(Q)[:] = Plus(
        (
            InnerJoin(QN(L)[:], R[:], on),
            InnerJoin(QP(L)[:], QN(R)[:], on),
            Project(AntiJoin(L[:], R[:], on), padded(L.schema, R.schema)),
        )
    )


@rule(
    Q[:] == FullOuterJoin(L[:], R[:], on),
    QP(L)[:],
    QN(L)[:],
    QP(R)[:],
    QN(R)[:],
    where(lambda Q: not Q.monotone),
    unless=lambda Q: QP(Q).exists,
)
def positive_full_outer_join(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr):
    """As for the left outer join, with both paddings held back."""
    QP(Q)[:] = InnerJoin(QP(L)[:], QP(R)[:], on)
    QN(Q)[:] = Plus(
        (
            InnerJoin(QN(L)[:], R[:], on),
            InnerJoin(QP(L)[:], QN(R)[:], on),
            Project(AntiJoin(L[:], R[:], on), padded(L.schema, R.schema)),
            Project(AntiJoin(R[:], L[:], on), padded_left(L.schema, R.schema)),
        )
    )


@rule(
    Q[:] == SemiJoin(L[:], R[:], on), QP(L)[:], QP(R)[:], where(lambda Q: not Q.monotone), unless=lambda Q: QP(Q).exists
)
def positive_semi_join(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr):
    """P = PL ⋉ PR only grows; N is what that leaves out."""
    if QP(L).empty or QP(R).empty:
        return
    QP(Q)[:] = SemiJoin(QP(L)[:], QP(R)[:], on)
    QN(Q)[:] = Minus(SemiJoin(L[:], R[:], on), SemiJoin(QP(L)[:], QP(R)[:], on))


@rule(
    Q[:] == AggregateState(X[:], by, calls),
    QP(X)[:],
    QN(X)[:],
    where(lambda X: not QN(X).empty and not QP(X).empty),
)
def state_of_parts(Q: TvrRef, X: TvrRef, by: tuple[str, ...], calls: tuple[AggregateCall, ...]):
    """state(P + N) = state(P) +γ state(N): the first is kept up early, the second made at the end."""
    Q[:] = MergeState((AggregateState(QP(X)[:], by, calls), AggregateState(QN(X)[:], by, calls)), by, calls)


IM2 = rule_set(
    "IM2",
    (
        positive_whole,
        positive_static,
        sum_of_parts,
        positive_filter,
        positive_project,
        positive_expand,
        positive_plus,
        positive_inner_join,
        positive_left_outer_join,
        positive_full_outer_join,
        positive_semi_join,
        state_of_parts,
    ),
)
