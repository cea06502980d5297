"""IM-1: delta rules for every operator, also where inserts make rows go.

Anti- and outer joins: the keys D of the right side decide who finds a partner (`rules/matching.py`), and what flips is taken back or padded. With a
residual predicate keys do not decide, and the rows of L' that share a key with ΔR are looked at again.
"""

# Conditions are lambdas over the names of the pattern, whose types are those of the body below.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
from __future__ import annotations

from typing import Any

from tempura.algebra import (
    Affected,
    Aggregate,
    AggregateCall,
    AntiJoin,
    FinalState,
    FullOuterJoin,
    InnerJoin,
    LeftOuterJoin,
    MergeState,
    Minus,
    Output,
    Plus,
    Project,
    SemiJoin,
    SortKey,
    TopK,
    Window,
)
from tempura.explore import Time, TvrRef
from tempura.expr import TRUE, Expr, col, same_columns
from tempura.failing import fails
from tempura.rules.deltas import (
    UNREPEATABLE,
    L,
    Q,
    R,
    X,
    by,
    calls,
    mergeable,
    on,
    repeatable,
    repeatable_windows,
    subtractable,
    t,
    u,
)
from tempura.rules.lang import Link, decline, payloads, rule, rule_set, tvrs, where
from tempura.rules.matching import by_key, by_row, decides, define_matches, flips, group_keys, matches
from tempura.rules.views import (
    affected,
    condition,
    join_key_condition,
    join_key_outputs,
    kept,
    key_names,
    padded,
    padded_left,
    touched,
)
from tempura.schema import UNKNOWN, Column

S = tvrs("S")
order, limit, offset, partition, functions = payloads("order limit offset partition functions")

buffer = Link("buffer")
"""The first limit + offset rows, which LIMIT with OFFSET is taken from."""


@rule(Q[:] == LeftOuterJoin(L[:], R[:], on), where(by_key))
def matches_of_left_outer_join(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr):
    """The keys that decide which rows of a left outer join are padded."""
    define_matches(Q, L, R, on)


@rule(Q[:] == AntiJoin(L[:], R[:], on), L[t:u], matches(Q)[t:u], where(decides))
def delta_anti_join(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr, t: Time, u: Time):
    """Δ(L ▷ R) = ΔL ▷ R - L' ⋈ ΔD. An insert into R takes rows back: {1} ▷ ∅ is {1}, {1} ▷ {1} is empty."""
    keys = join_key_condition(condition(L, R, on))
    Q[t:u] = Minus(AntiJoin(L[t:u], R[t], on), flips(Q, L, R, on, t, u))
    Q[t:u] = Minus(AntiJoin(L[t:u], matches(Q)[t], keys), flips(Q, L, R, on, t, u))


@rule(Q[:] == LeftOuterJoin(L[:], R[:], on), L[t:u], R[t:u], matches(Q)[t:u], where(decides))
def delta_left_outer_join(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr, t: Time, u: Time):
    """Δ(L ⟕ R) = ΔL ⟕ R + L' ⋈ ΔR - pad(L' ⋈ ΔD): who finds a first partner is no longer padded."""
    grown = Plus((LeftOuterJoin(L[t:u], R[t], on), InnerJoin(L[u], R[t:u], on)))
    Q[t:u] = Minus(grown, Project(flips(Q, L, R, on, t, u), padded(L.schema, R.schema)))


# With a residual predicate: look again at the rows of L' that share a key with ΔR.


def _candidates(L: TvrRef, R: TvrRef, on: Expr, t: Time, u: Time) -> SemiJoin:
    """The rows of L' that share a key with a row of ΔR: no other row can gain or lose its partners.

    The keys are those of the rows of ΔR, not the change of the keys: where (1, a) goes and (1, b) comes, the keys stay as they were.
    """
    split = condition(L, R, on)
    if not R.insert_only(t) and any(fails(e.right, R.schema) for e in split.equi):
        decline("a key of the join may fail for a row that came and went")
    read = frozenset[str]().union(*(e.right.columns for e in split.equi))
    rows = Affected(R[t:u], tuple(c for c in R.columns if c in read))
    return SemiJoin(L[u], Project(rows, join_key_outputs(split, R.schema)), join_key_condition(split))


@rule(Q[:] == SemiJoin(L[:], R[:], on), L[t:u], R[t:u], where(by_row))
def delta_semi_join_residual(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr, t: Time, u: Time):
    """Δ(L ⋉ R) = ΔL ⋉ R + C ⋉ R' - C ⋉ R, for the candidates C."""
    rows = _candidates(L, R, on, t, u)
    Q[t:u] = Plus((SemiJoin(L[t:u], R[t], on), Minus(SemiJoin(rows, R[u], on), SemiJoin(rows, R[t], on))))


@rule(Q[:] == AntiJoin(L[:], R[:], on), L[t:u], R[t:u], where(by_row))
def delta_anti_join_residual(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr, t: Time, u: Time):
    """Δ(L ▷ R) = ΔL ▷ R + C ▷ R' - C ▷ R, for the candidates C."""
    rows = _candidates(L, R, on, t, u)
    Q[t:u] = Plus((AntiJoin(L[t:u], R[t], on), Minus(AntiJoin(rows, R[u], on), AntiJoin(rows, R[t], on))))


@rule(Q[:] == LeftOuterJoin(L[:], R[:], on), L[t:u], R[t:u], where(by_row))
def delta_left_outer_join_residual(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr, t: Time, u: Time):
    """Δ(L ⟕ R) = ΔL ⟕ R + L' ⋈ ΔR + pad(C ▷ R' - C ▷ R), for the candidates C."""
    rows = _candidates(L, R, on, t, u)
    flips = Project(Minus(AntiJoin(rows, R[u], on), AntiJoin(rows, R[t], on)), padded(L.schema, R.schema))
    Q[t:u] = Plus((LeftOuterJoin(L[t:u], R[t], on), InnerJoin(L[u], R[t:u], on), flips))


def _no_equality(L: TvrRef, R: TvrRef, on: Expr, t: Time) -> None:
    if not condition(L, R, on).equi and R.changes(t):
        decline("no equality in the join condition, so every row may be affected")


@rule(Q[:] == LeftOuterJoin(L[:], R[:], on), R[t:u], where(lambda L, R, on: not condition(L, R, on).equi))
def delta_left_outer_join_unkeyed(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr, t: Time, u: Time):
    """Without an equality there is nothing to find the affected rows by."""
    _no_equality(L, R, on, t)


@rule(Q[:] == FullOuterJoin(L[:], R[:], on))
def full_outer_join_parts(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr):
    """L ⟗ R = L ⟕ R + pad(R ▷ L)."""
    Q[:] = Plus((LeftOuterJoin(L[:], R[:], on), Project(AntiJoin(R[:], L[:], on), padded_left(L.schema, R.schema))))


# Aggregates, seen as bags: the rows of affected groups go and come.


@rule(Q[:] == FinalState(S[:], by, calls), S[t:u], where(lambda by, calls: bool(by) and bool(calls)))
def delta_aggregate(Q: TvrRef, S: TvrRef, by: tuple[str, ...], calls: tuple[AggregateCall, ...], t: Time, u: Time):
    """Rule 2: Δγ = Final(state' of the affected groups) - Final(their state)."""
    before = touched(S[t], affected(S[t:u], S.schema, by), by)
    after = MergeState((before, S[t:u]), by, calls)
    Q[t:u] = Minus(FinalState(after, by, calls), FinalState(before, by, calls))


@rule(Q[:] == FinalState(S[:], by, ()), S[t:u], where(lambda by: bool(by)), where(lambda Q, t: not Q.insert_only(t)))
def delta_distinct(Q: TvrRef, S: TvrRef, by: tuple[str, ...], t: Time, u: Time):
    """Δδ: the groups that are there now and were not, less those that were there and are not; counts decide."""
    before = touched(S[t], affected(S[t:u], S.schema, by), by)
    after = MergeState((before, S[t:u]), by, ())
    was, now = group_keys(before, Q, by), group_keys(after, Q, by)
    came = AntiJoin(Project(after, kept(Q.schema)), was, same_columns(by, key_names(by)))
    went = AntiJoin(Project(before, kept(Q.schema)), now, same_columns(by, key_names(by)))
    Q[t:u] = Minus(came, went)


def keeps_no_state(X: TvrRef, calls: tuple[AggregateCall, ...], t: Time) -> bool:
    """Whether the aggregate cannot be maintained by its state over this span."""
    return not mergeable(calls) or not (subtractable(calls) or X.insert_only(t))


@rule(
    Q[:] == Aggregate(X[:], by, calls),
    X[t:u],
    where(keeps_no_state),
    where(lambda by: bool(by), "an aggregate without GROUP BY is one group: it is recomputed whole"),
    where(repeatable, UNREPEATABLE),
)
def delta_affected_groups(
    Q: TvrRef, X: TvrRef, by: tuple[str, ...], calls: tuple[AggregateCall, ...], t: Time, u: Time
):
    """Δγ(X) = γ(X' ⋉ G) - γ(X ⋉ G), for the groups G of ΔX."""
    groups = affected(X[t:u], X.schema, by)
    Q[t:u] = Minus(Aggregate(touched(X[u], groups, by), by, calls), Aggregate(touched(X[t], groups, by), by, calls))


def all_distinct(calls: tuple[AggregateCall, ...]) -> bool:
    return bool(calls) and all(c.distinct for c in calls)


@rule(Q[:] == Aggregate(X[:], by, calls), where(lambda calls: all_distinct(calls)))
def distinct_calls(Q: TvrRef, X: TvrRef, by: tuple[str, ...], calls: tuple[AggregateCall, ...]):
    """γ(f(distinct x)) = γ(f(x)) over the distinct values per group, which have a delta of their own."""
    arguments = {(c.argument, c.where) for c in calls}
    if len(arguments) > 1:
        decline("several DISTINCT arguments in one aggregate")
    argument, condition_ = arguments.pop()
    if argument is None or condition_ is not TRUE:
        decline("DISTINCT with FILTER")
        return
    given = {c.name: c for c in X.schema}
    type_ = given[argument.name].type if argument.name in given else UNKNOWN
    if type_ == UNKNOWN and any(c.function in ("sum", "avg") and c.column.type == "double" for c in calls):
        decline(
            "a DISTINCT sum of what may be text or whole numbers, which are added up otherwise than they are written"
        )
    pairs = Project(X[:], (*(Output(given[c], col(c)) for c in by), Output(Column("__d", type_), argument)))
    plain = tuple(c._replace(distinct=False, argument=col("__d")) for c in calls)
    Q[:] = Aggregate(Aggregate(pairs, (*by, "__d"), ()), by, plain)


# Windows and LIMIT.


@rule(
    Q[:] == Window(X[:], partition, functions),
    X[t:u],
    where(lambda partition: bool(partition), "a window without PARTITION BY is one partition: it is recomputed whole"),
    where(lambda functions: repeatable_windows(functions), UNREPEATABLE),
)
def delta_window(Q: TvrRef, X: TvrRef, partition: tuple[str, ...], functions: Any, t: Time, u: Time):
    """ΔW(X) = W(X' ⋉ P) - W(X ⋉ P), for the partitions P of ΔX."""
    parts = affected(X[t:u], X.schema, partition)
    Q[t:u] = Minus(
        Window(touched(X[u], parts, partition), partition, functions),
        Window(touched(X[t], parts, partition), partition, functions),
    )


@rule(Q[:] == TopK(X[:], order, limit, offset), where(lambda offset: offset > 0))
def limit_buffer(Q: TvrRef, X: TvrRef, order: tuple[SortKey, ...], limit: int | None, offset: int):
    """Rows offset … offset + limit are among the first offset + limit."""
    if limit is None:
        decline("OFFSET without LIMIT keeps all rows")
        return
    if buffer(Q).exists or any(m.op is TopK for m in X.memo.tvr(X.id).definitions):
        return
    buffer(Q)[:] = TopK(X[:], order, limit + offset, 0)
    Q[:] = TopK(buffer(Q)[:], order, limit, offset)


@rule(
    Q[:] == TopK(X[:], order, limit, 0),
    X[t:u],
    where(lambda X, t: X.insert_only(t), "rows below LIMIT may be taken back, and what follows them was not kept"),
)
def merged_limit(Q: TvrRef, X: TvrRef, order: tuple[SortKey, ...], limit: int | None, t: Time, u: Time):
    """The first k of X' are among the first k of X and ΔX while rows only come."""
    Q[u] = TopK(Plus((Q[t], X[t:u])), order, limit, 0)


IM1 = rule_set(
    "IM1",
    (
        matches_of_left_outer_join,
        delta_anti_join,
        delta_left_outer_join,
        delta_semi_join_residual,
        delta_anti_join_residual,
        delta_left_outer_join_residual,
        delta_left_outer_join_unkeyed,
        full_outer_join_parts,
        delta_aggregate,
        delta_distinct,
        delta_affected_groups,
        distinct_calls,
        delta_window,
        limit_buffer,
        merged_limit,
    ),
)
