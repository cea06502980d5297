"""The delta rules of linear operators, joins and aggregate states, and the rules inside one TVR. Every method builds on these.

L' is L[u], ΔL is L[t:u]. All of them hold for deltas with retractions as well, except where a condition says otherwise.
"""

# Conditions are lambdas over the names of the pattern, whose types are those of the body below.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
from __future__ import annotations

from typing import Any

from sqlglot import exp

from tempura.algebra import (
    Aggregate,
    AggregateCall,
    AggregateState,
    Expand,
    Filter,
    FinalState,
    InnerJoin,
    MergeState,
    Minus,
    Plus,
    Project,
    Replicate,
    WindowCall,
)
from tempura.algebra.incremental import parts
from tempura.explore import Time, TvrRef
from tempura.expr import Expr, passes_nulls
from tempura.rules.lang import LAST, Link, payloads, rule, rule_set, times, tvrs, where

Q, L, R, X, Xs = tvrs("Q L R X Xs")
on, predicate, outputs, columns, sets, tag, count, by, calls = payloads(
    "on predicate outputs columns sets tag count by calls"
)
t, u = times("t u")

state = Link("state")
"""The attribute perspective of an aggregate: what `FinalState` makes its rows of."""


# Linear operators: apply them to the delta.


@rule(Q[:] == Filter(X[:], predicate), X[t:u])
def delta_filter(Q: TvrRef, X: TvrRef, predicate: Expr, t: Time, u: Time):
    """Δσ(X) = σ(ΔX)."""
    Q[t:u] = Filter(X[t:u], predicate)


@rule(Q[:] == Project(X[:], outputs), X[t:u])
def delta_project(Q: TvrRef, X: TvrRef, outputs: Any, t: Time, u: Time):
    """Δπ(X) = π(ΔX), as duplicates stay."""
    Q[t:u] = Project(X[t:u], outputs)


@rule(Q[:] == Expand(X[:], columns, sets, tag), X[t:u])
def delta_expand(Q: TvrRef, X: TvrRef, columns: Any, sets: Any, tag: str, t: Time, u: Time):
    """Grouping sets repeat each row of the delta."""
    Q[t:u] = Expand(X[t:u], columns, sets, tag)


@rule(Q[:] == Replicate(X[:], count), X[t:u])
def delta_replicate(Q: TvrRef, X: TvrRef, count: Expr, t: Time, u: Time):
    """Each row of the delta as often as it says."""
    Q[t:u] = Replicate(X[t:u], count)


@rule(Q[:] == Plus(Xs[:]), Xs[t:u])
def delta_plus(Q: TvrRef, Xs: tuple[TvrRef, ...], t: Time, u: Time):
    """Δ(X + Y) = ΔX + ΔY."""
    Q[t:u] = Plus(tuple(x[t:u] for x in Xs))


@rule(Q[:] == Minus(L[:], R[:]), L[t:u], R[t:u])
def delta_minus(Q: TvrRef, L: TvrRef, R: TvrRef, t: Time, u: Time):
    """Δ(L - R) = ΔL - ΔR."""
    Q[t:u] = Minus(L[t:u], R[t:u])


# Joins: the two ways to telescope. Which is cheaper depends on which snapshots are at hand.


@rule(Q[:] == InnerJoin(L[:], R[:], on), L[t:u], R[t:u])
def delta_inner_join(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr, t: Time, u: Time):
    """Rule 1: Δ(L ⋈ R) = ΔL ⋈ R + L' ⋈ ΔR."""
    Q[t:u] = Plus((InnerJoin(L[t:u], R[t], on), InnerJoin(L[u], R[t:u], on)))


@rule(
    Q[:] == InnerJoin(L[:], R[:], on),
    L[t:u],
    R[t:u],
    where(lambda L, R, t: L.changes(t) and R.changes(t)),
)
def delta_inner_join_mirrored(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr, t: Time, u: Time):
    """Rule 1, the other way round: Δ(L ⋈ R) = ΔL ⋈ R' + L ⋈ ΔR."""
    Q[t:u] = Plus((InnerJoin(L[t:u], R[u], on), InnerJoin(L[t], R[t:u], on)))


# Aggregates in the attribute perspective.


def mergeable(calls: tuple[AggregateCall, ...]) -> bool:
    """Whether every call can be kept as a state that merges."""
    return all(parts(c) is not None for c in calls)


def subtractable(calls: tuple[AggregateCall, ...]) -> bool:
    """Whether rows can be taken back out of the state: all its parts are sums."""
    return all("m" not in (parts(c) or ("m",)) for c in calls)


UNREPEATABLE = "computed again, the old value may differ from the one that was delivered"
_REPEATABLE = ("count", "min", "max", "any_value", "bool_and", "bool_or", "single_value", "approx_count_distinct", "percentile", "percentile_cont", "percentile_disc", "median",
               "bit_and", "bit_or", "bit_xor")  # fmt: skip


def repeatable(X: TvrRef, calls: tuple[AggregateCall, ...]) -> bool:
    """Whether an aggregate of the same rows is the same again to the last digit, in whatever order they come: not a list, nor a sum of floats."""
    whole = {c.name for c in X.schema if c.type in ("tinyint", "smallint", "int")}

    def same_again(call: AggregateCall) -> bool:
        if call.function in ("sum", "avg") and call.call is None:
            exact = call.column.type == "bigint" or call.column.type.startswith("decimal")
            return exact or (call.argument is not None and call.argument.name in whole)
        return call.function in _REPEATABLE

    return all(map(same_again, calls))


_RANKS = (
    exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist, exp.RowNumber, exp.Ntile, exp.Lag, exp.Lead,
    exp.FirstValue, exp.LastValue, exp.NthValue, exp.First, exp.Last, exp.Count, exp.Min, exp.Max,
)  # fmt: skip
"""Window functions that are the same again; ties are broken, where they matter, by all columns."""


_FIRST = (exp.FirstValue, exp.First)
_PICKED = (*_FIRST, exp.LastValue, exp.NthValue, exp.Last)


def _picks_one(window: Any, first: bool) -> bool:
    """Whether a frame has one row at the end that is picked from: a frame by values may have several there that are equal in order, and which comes first is open."""
    spec, order = window.args.get("spec"), window.args.get("order")
    one = first and not passes_nulls(window)
    if spec is None:
        return one or order is None
    start, end = (str(spec.args.get(side)).upper() for side in ("start", "end"))
    if str(spec.args.get("kind")).upper() == "ROWS":
        return True
    return start == "UNBOUNDED" and (end == "UNBOUNDED" or (one and end == "CURRENT ROW"))


def repeatable_windows(functions: tuple[WindowCall, ...]) -> bool:
    """The same of window functions."""

    def same_again(call: WindowCall) -> bool:
        function: Any = call.call.tree.this
        while isinstance(function, (exp.IgnoreNulls, exp.RespectNulls, exp.Filter)):
            function = function.this
        if isinstance(function, (exp.Sum, exp.Avg)):
            return call.column.type == "bigint" or call.column.type.startswith("decimal")
        if isinstance(function, _PICKED) and not _picks_one(call.call.tree, isinstance(function, _FIRST)):
            return False
        return isinstance(function, _RANKS)

    return all(map(same_again, functions))


@rule(
    Q[:] == Aggregate(X[:], by, calls),
    where(lambda calls: mergeable(calls), "an aggregate function whose state is the bag of its arguments"),
)
def aggregate_state(Q: TvrRef, X: TvrRef, by: tuple[str, ...], calls: tuple[AggregateCall, ...]):
    """γ(X) = Final(state), the attribute perspective of an aggregate."""
    kept = AggregateState(X[:], by, calls)
    Q[:] = FinalState(kept, by, calls)
    if not state(Q).exists:
        state(Q)[:] = kept


@rule(
    Q[:] == AggregateState(X[:], by, calls),
    X[t:u],
    where(
        lambda X, calls, t: subtractable(calls) or X.insert_only(t),
        "min, max and their like cannot take rows back, and the input retracts",
    ),
)
def delta_state(Q: TvrRef, X: TvrRef, by: tuple[str, ...], calls: tuple[AggregateCall, ...], t: Time, u: Time):
    """The state's delta is the state of the delta. The least value seen cannot forget: of {1, 2} without 1, min remains 1."""
    Q[t:u] = AggregateState(X[t:u], by, calls)


@rule(Q[:] == AggregateState(X[:], by, calls), Q[t:u])
def merged_state(Q: TvrRef, by: tuple[str, ...], calls: tuple[AggregateCall, ...], t: Time, u: Time):
    """Rule 4: state' = state +γ Δstate."""
    Q[u] = MergeState((Q[t], Q[t:u]), by, calls)


# Inside one TVR.


@rule(Q[t], Q[t:u], where(lambda Q: Q.additive))
def plus_delta(Q: TvrRef, t: Time, u: Time):
    """Rule 3: Q' = Q + ΔQ."""
    Q[u] = Plus((Q[t], Q[t:u]))


@rule(Q[t], Q[u], where(lambda Q: Q.additive), unless=lambda Q, t: Q.has_delta(t), priority=LAST)
def minus_snapshots(Q: TvrRef, t: Time, u: Time):
    """ΔQ = Q' - Q, where nothing better is known (PNA)."""
    Q[t:u] = Minus(Q[u], Q[t])


@rule(Q[t], Q[u], where(lambda Q: Q.additive))
def minus_snapshots_always(Q: TvrRef, t: Time, u: Time):
    """ΔQ = Q' - Q, whatever else is known."""
    Q[t:u] = Minus(Q[u], Q[t])


LINEAR = (
    delta_filter,
    delta_project,
    delta_expand,
    delta_replicate,
    delta_plus,
    delta_minus,
    delta_inner_join,
    delta_inner_join_mirrored,
    aggregate_state,
    delta_state,
    merged_state,
)
MERGE = rule_set("intra", (plus_delta,))
INTRA = rule_set("intra", (plus_delta, minus_snapshots))
INTRA_UNPRUNED = rule_set("intra", (plus_delta, minus_snapshots_always))
