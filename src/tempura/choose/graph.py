"""The AND-OR graph that plans are chosen on. It knows nothing of relational algebra.

A node is a view with a physical property; each of its alternatives is an operator over other nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple


class Alternative(NamedTuple):
    """One operator that computes a node."""

    work: float
    """Unpriced work, charged at the point where it runs."""
    inputs: tuple[int, ...]
    """The nodes it needs, at the same point; a node may occur twice."""
    tag: Any = None
    """The caller's own, found again by `alternatives[node][index].tag`."""


@dataclass
class Graph:
    """What can be computed from what, when, and for how much work. Nodes are numbered from 0, points too."""

    alternatives: list[list[Alternative]]
    """Per node; a node without any can only be had if it exists already."""
    available: list[int]
    """Per node: the earliest point at which it can be computed."""
    save: list[float]
    """Per node: unpriced work of writing it as a state; infinite if it may not be kept."""
    load: list[float]
    """Per node: unpriced work of reading it back."""
    required: list[tuple[int, int]]
    """The results, as (node, point): each is produced and written there, and can be loaded from then on."""
    deliver: dict[int, float]
    """Unpriced work of writing a result; where a node is not named, its `save`."""
    existing: frozenset[int]
    """The nodes that were written before the first point and can be loaded at any."""
    size: list[float]
    """Bytes per node, for the state budget."""
    prices: list[float]
    """Per point: the price of a unit of work."""
    groups: list[tuple[int, ...]]
    """Sets of nodes that one incremental operator needs together, and which may therefore only pay together."""
    held: frozenset[int] = frozenset()
    """Those of them that take up room as long as they are to be read."""
    until: list[int] | None = None
    """Per node: the last point at which computing it is considered; None if that is the last one for all."""

    def write(self, node: int, kind: Literal["state", "result"]) -> float:
        """The unpriced work of writing the node."""
        return self.save[node] if kind == "state" else self.deliver.get(node, self.save[node])
