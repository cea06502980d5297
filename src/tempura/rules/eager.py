"""Eager aggregation: aggregate one side of a join before joining it, by what the join and the grouping need of it.

    state(γ(L ⋈ R)) = +γ π(L ⋈ state(R by its join and grouping columns))

if every argument is a column of R. The inner state is a TVR of its own with deltas of its own; joined with L it is a bag of pieces of the outer state, to be merged.
With L the updated table this is HOV's pre-aggregated view M; with R the updated table its delta shrinks before it meets the rest. Offered
where the estimates say that it shrinks R at least by half, and only for sums and counts, which pieces may be taken back from.
"""

# Conditions are lambdas over the names of the pattern, whose types are those of the body below.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
from __future__ import annotations

from typing import Any

from tempura.algebra import AggregateCall, AggregateState, InnerJoin, MergeState, Output, Plus, Project
from tempura.algebra.incremental import state_columns
from tempura.algebra.weights import may_fail_added
from tempura.explore import Time, TvrRef
from tempura.expr import Expr, col
from tempura.failing import fails
from tempura.rules.deltas import L, Q, R, Xs, by, calls, on, outputs, subtractable, t, u
from tempura.rules.lang import rule, rule_set, where

SHRINKS = 0.5
"""The share of rows that may be left for eager aggregation to be offered."""


@rule(Q[:] == AggregateState(InnerJoin(L[:], R[:], on), by, calls), where(lambda calls: subtractable(calls)))
def eager_state(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr, by: tuple[str, ...], calls: tuple[AggregateCall, ...]):
    """state(γ(L ⋈ R)) = +γ π(L ⋈ state(R)), for either side."""
    same = {c: c for c in (*L.columns, *R.columns)}
    _push(Q, L, R, on, by, calls, same)


@rule(
    Q[:] == AggregateState(Project(InnerJoin(L[:], R[:], on), outputs), by, calls),
    where(lambda calls: subtractable(calls)),
)
def eager_state_below_project(
    Q: TvrRef,
    L: TvrRef,
    R: TvrRef,
    on: Expr,
    outputs: tuple[Output, ...],
    by: tuple[str, ...],
    calls: tuple[AggregateCall, ...],
):
    """The same where columns are dropped or renamed between the join and the aggregate."""
    plain = {o.name: o.expr.name for o in outputs if o.expr.name is not None}
    if len(plain) == len(outputs):
        _push(Q, L, R, on, by, calls, plain)


def _push(
    Q: TvrRef,
    L: TvrRef,
    R: TvrRef,
    on: Expr,
    by: tuple[str, ...],
    calls: tuple[AggregateCall, ...],
    below: dict[str, str],
) -> None:
    inner = tuple(_renamed(c, below) for c in calls)
    asked = [on, *(e for c in inner for e in (c.argument, c.where) if e is not None)]
    given = (*L.schema, *R.schema)
    if any(fails(e, given) for e in asked) or any(may_fail_added(c, given) for c in inner):
        return  # Of rows that find no partner it is not to be asked, nor of groups whose rows have gone.
    read = frozenset[str]().union(
        *(c.where.columns | (c.argument.columns if c.argument else frozenset()) for c in inner)
    )
    for side, other in ((L, R), (R, L)):
        needed = tuple(c for c in side.columns if c in on.columns or c in {below[b] for b in by})
        if not read <= set(side.columns) or not needed or not _shrinks(side, needed):
            continue
        pieces = AggregateState(side[:], needed, inner)
        joined = InnerJoin(pieces, other[:], on) if side is L else InnerJoin(other[:], pieces, on)
        columns = {c.name: c for c in given}
        groups = tuple(Output(columns[below[c]]._replace(name=c), col(below[c])) for c in by)
        parts = tuple(Output(c, col(c.name)) for c in state_columns(inner))
        Q[:] = MergeState((Project(joined, (*groups, *parts)),), by, calls)


def _renamed(call: AggregateCall, below: dict[str, str]) -> AggregateCall:
    argument = call.argument.rename(below) if call.argument else None
    return call._replace(argument=argument, where=call.where.rename(below))


def _shrinks(side: TvrRef, needed: tuple[str, ...]) -> bool:
    sizes: Any = side.memo.sizes
    if sizes is None:
        return True
    stats = sizes.final(side.memo, side.id)
    return stats.groups(needed) < SHRINKS * stats.rows


@rule(Q[:] == MergeState(Xs[:], by, calls), Xs[t:u], where(lambda calls: subtractable(calls)))
def delta_of_pieces(Q: TvrRef, Xs: tuple[TvrRef, ...], by: tuple[str, ...], calls: Any, t: Time, u: Time):
    """The delta of a merged state is all deltas of what it is merged from: they are merged when they are used."""
    Q[t:u] = Plus(tuple(x[t:u] for x in Xs))


EAGER = rule_set("eager", (eager_state, eager_state_below_project, delta_of_pieces))
