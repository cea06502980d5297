"""A snapshot kept as a base and its deltas is read as one table.

Which snapshots are kept so is the plan's choice: a state of the base, a state of each delta, and their sum wherever the snapshot is read; where reading many parts gets
dearer than merging them, the plan has a state of the sum instead. Spark adds up two bucketed tables by a union, which forgets below an inner join where the rows lie. One table
with a partition per folder does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tempura.algebra import Op, Plus, Read
from tempura.algebra.weights import is_weighted
from tempura.plans import Step
from tempura.schema import WEIGHT
from tempura.workspace import StateEntry


@dataclass(frozen=True)
class Gathered:
    """A step in which sums of bucketed states are single reads, and those reads as states of several folders."""

    step: Step
    entries: Mapping[str, StateEntry]


def gather(step: Step, entries: Mapping[str, StateEntry]) -> Gathered:
    """Every sum of states that lie alike becomes one read; whatever else is added to them is brought to lie as they do."""
    gathering = _Gathering(entries)
    tree = gathering.over(step.tree, 0)
    if step.spreads:
        # All states of a workspace have the same number of buckets.
        parts = max((entries[name].buckets for name in step.reads if name in entries), default=0)
        step = replace(step, spreads=tuple(s._replace(parts=parts) for s in step.spreads))
    if not gathering.made:
        return Gathered(step, {})
    places = {old: new for new, old in enumerate(gathering.kept)}
    broadcasts = tuple((places[place], side) for place, side in step.broadcasts)
    spreads = tuple(s._replace(place=places[s.place]) for s in step.spreads)
    return Gathered(replace(step, tree=tree, broadcasts=broadcasts, spreads=spreads), gathering.made)


class _Gathering:
    """A tree while it is rewritten; operators have a place in `walk`, before and after."""

    def __init__(self, entries: Mapping[str, StateEntry]):
        self.entries = entries
        self.made: dict[str, StateEntry] = {}
        self.kept: list[int] = []
        """The old place of each new one."""

    def over(self, tree: Op, first: int) -> Op:
        """The tree, whose own places begin at `first`, with its sums as reads."""
        read = self._read(tree) if isinstance(tree, Plus) else None
        last = first + sum(1 for _ in tree.walk()) - 1
        inputs: list[Op] = []
        for below in tree.inputs if read is None else ():
            inputs.append(self.over(below, first))
            first += sum(1 for _ in below.walk())
        self.kept.append(last)
        return read or (tree.over(inputs) if inputs else tree)

    def _read(self, tree: Plus) -> Read | None:
        parts = _parts(tree)
        held = [self.entries[p.name] for p in parts if isinstance(p, Read) and p.name in self.entries]
        if len(held) < len(parts) or not _alike(held):
            return None
        name = "+".join(e.name for e in held)
        self.made[name] = _sum(held, name)
        return Read(name, tree.schema, is_weighted(tree), tree.keys)


def _parts(tree: Op) -> list[Op]:
    """What a sum, or a sum of sums, adds up."""
    return [part for i in tree.inputs for part in _parts(i)] if isinstance(tree, Plus) else [tree]


def _alike(held: list[StateEntry]) -> bool:
    """Whether the states are distributed in the same way and have the same columns but for the weight."""
    first, *rest = held
    columns = [c for c in first.schema if c[0] != WEIGHT]
    return bool(first.partition) and all(
        (e.partition, e.buckets) == (first.partition, first.buckets)
        and [c for c in e.schema if c[0] != WEIGHT] == columns
        for e in rest
    )


def _sum(held: list[StateEntry], name: str) -> StateEntry:
    widest = next((e for e in held if e.weighted), held[0])
    folders = tuple(f for e in held for f in e.folders)
    return replace(widest, name=name, folders=folders, ordered=all(e.ordered for e in held))
