"""What an operator comes to when some of its inputs are known to be empty."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tempura.algebra.incremental import Affected, AggregateState, FinalState, MergeState, Minus
from tempura.algebra.op import Op
from tempura.algebra.relational import (
    Aggregate,
    AntiJoin,
    Expand,
    Filter,
    InnerJoin,
    LeftOuterJoin,
    Plus,
    Project,
    Replicate,
    SemiJoin,
    TopK,
    Window,
)

NOTHING: tuple[int, ...] = ()
Pruned = tuple[int, ...] | None
"""None: the operator stays as it is. Otherwise the inputs that matter: none means that the result is empty, one that it is that
input itself, more that the operator is taken over these alone."""


def _empty(empty: Sequence[bool], payload: tuple[Any, ...]) -> Pruned:
    return NOTHING


def _grouped(empty: Sequence[bool], payload: tuple[Any, ...]) -> Pruned:
    """Without grouping columns there is a row even for no input."""
    return NOTHING if payload[0] else None


def _join(empty: Sequence[bool], payload: tuple[Any, ...]) -> Pruned:
    return NOTHING


def _left(empty: Sequence[bool], payload: tuple[Any, ...]) -> Pruned:
    return NOTHING if empty[0] else None


def _anti(empty: Sequence[bool], payload: tuple[Any, ...]) -> Pruned:
    return NOTHING if empty[0] else (0,)


def _sum(empty: Sequence[bool], payload: tuple[Any, ...]) -> Pruned:
    return tuple(i for i, e in enumerate(empty) if not e)


def _minus(empty: Sequence[bool], payload: tuple[Any, ...]) -> Pruned:
    return _sum(empty, payload) if empty[1] else None


_RULES: dict[type[Op], Callable[[Sequence[bool], tuple[Any, ...]], Pruned]] = {
    **dict.fromkeys((Filter, Project, Expand, Replicate, Window, TopK, AggregateState, Affected), _empty),
    **dict.fromkeys((Aggregate, FinalState), _grouped),
    **dict.fromkeys((InnerJoin, SemiJoin), _join),
    **dict.fromkeys((Plus, MergeState), _sum),
    LeftOuterJoin: _left,
    AntiJoin: _anti,
    Minus: _minus,
}


def prune(op: type[Op], payload: tuple[Any, ...], empty: Sequence[bool]) -> Pruned:
    """What the operator comes to, given which inputs are empty (at least one is)."""
    rule = _RULES.get(op)
    return None if rule is None else rule(empty, payload)
