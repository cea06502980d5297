"""PART: recompute only the affected groups or partitions, and keep the rest of the result as it was.

Ours, not the paper's. It needs nothing of the aggregate or window function, so it serves min and max under deletion, count distinct,
medians, windows; and it needs only the new input and the old result, where IM-1 needs the old input too.
"""

# Conditions are lambdas over the names of the pattern, whose types are those of the body below.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
from __future__ import annotations

from typing import Any

from tempura.algebra import Aggregate, AggregateCall, AntiJoin, Minus, Plus, Window
from tempura.explore import Time, TvrRef
from tempura.expr import same_columns
from tempura.rules.deltas import Q, X, by, calls, t, u
from tempura.rules.im1 import functions, partition
from tempura.rules.lang import rule, rule_set, where
from tempura.rules.views import affected, key_names, touched


@rule(
    Q[:] == Aggregate(X[:], by, calls),
    X[t:u],
    where(lambda by: bool(by), "an aggregate without GROUP BY is one group"),
)
def recomputed_groups(Q: TvrRef, X: TvrRef, by: tuple[str, ...], calls: tuple[AggregateCall, ...], t: Time, u: Time):
    """γ(X') = γ(X) ▷ G + γ(X' ⋉ G), for the groups G of ΔX."""
    groups = affected(X[t:u], X.schema, by)
    fresh = Aggregate(touched(X[u], groups, by), by, calls)
    Q[u] = Plus((AntiJoin(Q[t], groups, same_columns(by, key_names(by))), fresh))
    Q[t:u] = Minus(fresh, touched(Q[t], groups, by))


@rule(
    Q[:] == Window(X[:], partition, functions),
    X[t:u],
    where(lambda partition: bool(partition), "a window without PARTITION BY is one partition"),
)
def recomputed_partitions(Q: TvrRef, X: TvrRef, partition: tuple[str, ...], functions: Any, t: Time, u: Time):
    """W(X') = W(X) ▷ P + W(X' ⋉ P), for the partitions P of ΔX."""
    parts = affected(X[t:u], X.schema, partition)
    fresh = Window(touched(X[u], parts, partition), partition, functions)
    Q[u] = Plus((AntiJoin(Q[t], parts, same_columns(partition, key_names(partition))), fresh))
    Q[t:u] = Minus(fresh, touched(Q[t], parts, partition))


PART = rule_set("PART", (recomputed_groups, recomputed_partitions))
