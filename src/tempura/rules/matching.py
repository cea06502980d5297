"""Who finds a partner: semi-joins, DISTINCT, and joins whose right side stays. Monotone, so every method builds on these.

With equalities only, a row of L finds a partner in R iff its key is among the distinct keys D of R. D is a TVR of its own (the link `matches`), small, and its
delta is exactly the keys that flip, so R itself is not needed to decide what changes.
"""

# Conditions are lambdas over the names of the pattern, whose types are those of the body below.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
from __future__ import annotations

from typing import Any

from tempura.algebra import Aggregate, AntiJoin, InnerJoin, LeftOuterJoin, Output, Plus, Project, SemiJoin
from tempura.explore import Time, TvrRef
from tempura.expr import TRUE, Expr, col, same_columns
from tempura.rules.deltas import LINEAR, L, Q, R, X, by, on, t, u
from tempura.rules.lang import Link, rule, rule_set, where
from tempura.rules.views import compared, condition, join_key_condition, join_key_outputs, kept, key_names
from tempura.schema import Column

matches = Link("matches")
"""The distinct join keys of the right side of a semi-, anti- or outer join."""


def by_key(L: TvrRef, R: TvrRef, on: Expr) -> bool:
    """Whether equalities alone decide who matches."""
    split = condition(L, R, on)
    return bool(split.equi) and split.residual is TRUE


def by_row(L: TvrRef, R: TvrRef, on: Expr) -> bool:
    split = condition(L, R, on)
    return bool(split.equi) and split.residual is not TRUE


def define_matches(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr) -> None:
    if not matches(Q).exists:
        matches(Q)[:] = _matches(L, R, on)


def _matches(L: TvrRef, R: TvrRef, on: Expr) -> Aggregate:
    outputs = join_key_outputs(condition(L, R, on), R.schema)
    return Aggregate(Project(R[:], outputs), tuple(o.name for o in outputs), ())


def decides(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr) -> bool:
    """Whether the link leads to the keys of this very join: Q may be defined by several."""
    return by_key(L, R, on) and matches(Q).id == Q.known(_matches(L, R, on))


@rule(Q[:] == SemiJoin(L[:], R[:], on), where(by_key))
def matches_of_semi_join(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr):
    """The keys that decide a semi-join."""
    define_matches(Q, L, R, on)


@rule(Q[:] == AntiJoin(L[:], R[:], on), where(by_key))
def matches_of_anti_join(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr):
    """The keys that decide an anti-join."""
    define_matches(Q, L, R, on)


@rule(Q[:] == SemiJoin(L[:], R[:], on), matches(Q)[:], where(decides))
def semi_join_with_matches(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr):
    """L ⋉ R = L ⋉ D, of whose keys there may be far fewer than rows of R."""
    Q[:] = SemiJoin(L[:], matches(Q)[:], join_key_condition(condition(L, R, on)))


@rule(Q[:] == AntiJoin(L[:], R[:], on), matches(Q)[:], where(decides))
def anti_join_with_matches(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr):
    """L ▷ R = L ▷ D."""
    Q[:] = AntiJoin(L[:], matches(Q)[:], join_key_condition(condition(L, R, on)))


def flips(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr, t: Time, u: Time) -> Project:
    """The rows of L' whose partners appeared (positive) or vanished (negative): L' ⋈ ΔD, without the key columns."""
    return Project(InnerJoin(L[u], matches(Q)[t:u], join_key_condition(condition(L, R, on))), kept(L.schema))


@rule(Q[:] == SemiJoin(L[:], R[:], on), L[t:u], matches(Q)[t:u], where(decides))
def delta_semi_join(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr, t: Time, u: Time):
    """Δ(L ⋉ R) = ΔL ⋉ R + L' ⋈ ΔD; whether ΔL finds a partner can be asked of R or of D."""
    keys = join_key_condition(condition(L, R, on))
    Q[t:u] = Plus((SemiJoin(L[t:u], R[t], on), flips(Q, L, R, on, t, u)))
    Q[t:u] = Plus((SemiJoin(L[t:u], matches(Q)[t], keys), flips(Q, L, R, on, t, u)))


# While the right side stays, these joins are linear in the left.


@rule(Q[:] == SemiJoin(L[:], R[:], on), L[t:u], where(lambda R, t: not R.changes(t)))
def delta_semi_join_left(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr, t: Time, u: Time):
    """Δ(L ⋉ R) = ΔL ⋉ R while R stays."""
    Q[t:u] = SemiJoin(L[t:u], R[t], on)


@rule(Q[:] == AntiJoin(L[:], R[:], on), L[t:u], where(lambda R, t: not R.changes(t)))
def delta_anti_join_left(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr, t: Time, u: Time):
    """Δ(L ▷ R) = ΔL ▷ R while R stays."""
    Q[t:u] = AntiJoin(L[t:u], R[t], on)


@rule(Q[:] == LeftOuterJoin(L[:], R[:], on), L[t:u], where(lambda R, t: not R.changes(t)))
def delta_left_outer_join_left(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr, t: Time, u: Time):
    """Δ(L ⟕ R) = ΔL ⟕ R while R stays."""
    Q[t:u] = LeftOuterJoin(L[t:u], R[t], on)


def group_keys(groups: Any, Q: TvrRef, by: tuple[str, ...]) -> Project:
    """The grouping columns of some groups, under the names `key_names` gives."""
    keys = zip(compared(Q.schema, by), key_names(by), strict=True)
    return Project(groups, tuple(Output(Column(k, c.type, True), col(c.name)) for c, k in keys))


@rule(Q[:] == Aggregate(X[:], by, ()), X[t:u], where(lambda X, t: X.insert_only(t)))
def delta_distinct_insert_only(Q: TvrRef, X: TvrRef, by: tuple[str, ...], t: Time, u: Time):
    """Δδ(X) = δ(ΔX) ▷ δ(X) while rows only come."""
    Q[t:u] = AntiJoin(Aggregate(X[t:u], by, ()), group_keys(Q[t], Q, by), same_columns(by, key_names(by)))


MONOTONE = rule_set(
    "monotone",
    (
        *LINEAR,
        matches_of_semi_join,
        matches_of_anti_join,
        semi_join_with_matches,
        anti_join_with_matches,
        delta_semi_join,
        delta_semi_join_left,
        delta_anti_join_left,
        delta_left_outer_join_left,
        delta_distinct_insert_only,
    ),
)
"""What every method builds on: the delta rules of operators that take rows back only where an input does."""
