"""Where a job stands in its timeline: how many points lie behind it, and the states that their runs left.

A plan made there covers the points that are left. A state is known by the fingerprint of its definition, so it serves any plan in which that view occurs: after
new statistics, with other methods, and under a changed query or schedule too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tempura.definitions import Definitions, Fingerprints
from tempura.implement import Implementation


@dataclass(frozen=True)
class Kept:
    """A state that an earlier run left."""

    name: str
    view: str
    fingerprint: str
    weighted: bool
    written: str
    """The point at which it was written."""
    partition: tuple[str, ...] = ()
    rows: float = 0.0
    bytes: float = 0.0
    result: bool = False
    """Whether it is a delivered result, which stays whoever reads it."""


@dataclass(frozen=True)
class Standing:
    """The points behind, and what they left."""

    done: int = 0
    states: tuple[Kept, ...] = ()


BEGINNING = Standing()


def found(implementation: Implementation, definitions: Definitions, states: Sequence[Kept]) -> dict[int, Kept]:
    """The nodes of a search graph that a state holds: its group, distributed as it is, or anyhow."""
    if not states:
        return {}
    by_print: dict[str, list[Kept]] = {}
    for state in states:
        by_print.setdefault(state.fingerprint, []).append(state)
    prints = Fingerprints()
    out: dict[int, Kept] = {}
    for node, (group, place) in enumerate(implementation.nodes):
        held = by_print.get(prints.of(definitions.of(group)), ())
        fitting = [state for state in held if place is None or state.partition == place]
        if fitting:
            out[node] = fitting[0]
    return out
