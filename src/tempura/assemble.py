"""From the search's choice to a plan: derivations become steps, groups become names, and every number finds its place.

A step's definition, which tests compare it with, is its group's batch query: the TVR's first definition over snapshots of base tables; a delta
is the difference of two of those, the delta of a state the state of its input's delta.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tempura.algebra import AggregateState, Minus, Op, Plus, Project, Read
from tempura.algebra.physical import snapshot_name
from tempura.algebra.weights import is_weighted
from tempura.catalog import Catalog
from tempura.choose.derivation import Computed, Loaded, Written, loads
from tempura.choose.search import Graph
from tempura.implement import Choice, Implementation
from tempura.memo.show import Names, view_name
from tempura.plans import PlanLine, Run, State, Step
from tempura.rules.views import kept
from tempura.schema import Keys, fresh, names
from tempura.space import Group, GroupMember, Space
from tempura.sql.bind import Query
from tempura.timeline import Interval

PLAIN_METHODS = frozenset({"query", "physical", "joins", "intra", "monotone", "eager"})


@dataclass(frozen=True)
class Target:
    """Where a written group is found."""

    name: str
    weighted: bool
    keys: Keys


class Assembler:
    """Turns derivations into steps."""

    def __init__(
        self,
        space: Space,
        implementation: Implementation,
        graph: Graph,
        roots: Mapping[int, str],
        queries: Mapping[str, Query],
        tvr_names: Names,
    ):
        self.space = space
        self.implementation = implementation
        self.graph = graph
        self.roots = roots
        self.queries = queries
        self.names = tvr_names
        self.targets: dict[tuple[int, int], Target] = {}
        self.used: dict[tuple[int, str], None] = {}
        """Which TVRs are computed by a rule of which method."""
        self._definitions: dict[tuple[int, int | None], Op] = {}

    def runs(self, derivations: Sequence[Written]) -> tuple[Run, ...]:
        steps: dict[int, list[Step]] = {i: [] for i in range(len(self.space.timeline))}
        for written in derivations:
            steps[written.point].append(self._step(written))
        return tuple(Run(p.name, tuple(steps[i])) for i, p in enumerate(self.space.timeline.points))

    def states(self, derivations: Sequence[Written], runs: Sequence[Run]) -> tuple[State, ...]:
        """The states, with who reads them and why they are kept."""
        readers: dict[str, list[tuple[int, str]]] = {}
        for written in derivations:
            for load in loads(written.tree):
                target = self.targets[load.node, load.written]
                readers.setdefault(target.name, []).append((load.point, self.targets[written.node, written.point].name))
        points = self.space.timeline.points
        found: list[State] = []
        for run in runs:
            for step in run.steps:
                read = readers.get(step.name, [])
                if step.kind == "result" and not read:
                    continue
                at = sorted({p for p, _ in read})
                into = ", ".join(dict.fromkeys(name for _, name in read))
                why = f"read at {', '.join(points[p].name for p in at)} by {into}" if read else "not read again"
                if step.kind == "result":
                    why = "delivered; " + why
                found.append(
                    State(
                        step.name,
                        step.view,
                        run.point,
                        tuple(points[p].name for p in at),
                        step.rows,
                        step.bytes,
                        step.partition,
                        why,
                    )
                )
        return tuple(found)

    def _step(self, written: Written) -> Step:
        group, place = self.implementation.nodes[written.node]
        own = self.space.group(group)
        stats = self.implementation.stats(group)
        view = self.view(own)
        lines: list[PlanLine] = []
        tree = self._tree(written.tree, lines, 0)
        query = self.queries[self._root(own)] if written.kind == "result" else None
        if query is not None and names(tree.schema) != names(query.root.schema):
            tree = Project(tree, kept(query.root.schema))
        point = self.space.timeline.points[written.point].name
        wanted = f"{query.name}@{point}" if query else _slug(view)
        name = fresh(wanted, [t.name for t in self.targets.values()])
        weighted = is_weighted(tree) and written.kind == "state"
        self.targets[written.node, written.point] = Target(name, weighted, tree.keys)
        write = self.graph.write(written.node, written.kind)
        cost = write + sum(line.cost for line in lines)
        methods = tuple(dict.fromkeys(line.method for line in lines if line.method not in PLAIN_METHODS))
        return Step(
            name=name,
            kind=written.kind,
            view=view,
            tree=tree,
            weighted=weighted,
            definition=self.definition(group),
            partition=place or (),
            order=query.order if query else (),
            rows=stats.rows,
            bytes=stats.bytes,
            cost=cost,
            methods=methods,
            lines=tuple(lines),
        )

    def _root(self, group: Group) -> str:
        assert group.tvr is not None
        return self.roots[self.space.memo.find(group.tvr)]

    def view(self, group: Group) -> str:
        """The group's name: a view's own, or its operator over its inputs' names."""
        space = self.space
        if group.tvr is not None and group.interval is not None:
            return view_name(self.names, space.ticks, space.timeline, group.tvr, group.interval)
        member, _ = space.members(group.id)[0]
        inputs = ", ".join(self.view(space.group(i)) for i in member.inputs)
        return f"{member.op.__name__}({inputs})"

    def _tree(self, tree: Computed | Loaded, lines: list[PlanLine], depth: int) -> Op:
        group, _ = self.implementation.nodes[tree.node]
        own = self.space.group(group)
        stats = self.implementation.stats(group)
        if isinstance(tree, Loaded):
            target = self.targets[tree.node, tree.written]
            lines.append(
                PlanLine(
                    depth,
                    self.view(own),
                    f"load {target.name}",
                    stats.rows,
                    stats.bytes,
                    self.graph.load[tree.node],
                    "physical",
                    "load",
                )
            )
            return Read(target.name, own.schema, target.weighted, target.keys)
        alternative = self.graph.alternatives[tree.node][tree.alternative]
        chosen: Choice = alternative.tag
        shown = "exchange" if chosen.op is None else chosen.op.show()
        if chosen.broadcast:
            shown += f" broadcast {chosen.broadcast}"
        lines.append(
            PlanLine(
                depth,
                self.view(own),
                shown,
                stats.rows,
                stats.bytes,
                alternative.work,
                chosen.source.method,
                chosen.source.rule,
            )
        )
        if own.tvr is not None:
            self.used[own.tvr, chosen.source.method] = None
        inputs = [self._tree(i, lines, depth + 1) for i in tree.inputs]
        if chosen.op is None:
            return inputs[0]
        return chosen.op if chosen.kind == "scan" else chosen.op.over(inputs)

    # Definitions.

    def definition(self, group: int) -> Op:
        """What the group is, as a batch query over snapshots of base tables."""
        own = self.space.group(group)
        if own.tvr is None or own.interval is None:
            member, _ = self.space.members(group)[0]
            return _over(member, [self.definition(i) for i in member.inputs])
        return self._view_definition(own.tvr, own.interval)

    def _view_definition(self, tvr: int, interval: Interval) -> Op:
        space = self.space
        record = space.memo.tvr(tvr)
        first = next(iter(record.definitions))
        start, end = interval
        if start < 0:
            at = space.ticks.seen(record.tables, end)
            found = self._definitions.get((record.id, at))
            if found is None:
                if not first.inputs and first.op.__name__ == "Scan":
                    found = _base(space.catalog, first.payload, space.timeline.points[space.ticks.point_of(at)].name)
                else:
                    found = first.op.build(
                        [self._view_definition(i, Interval(-1, at)) for i in first.inputs], first.payload
                    )
                self._definitions[record.id, at] = found
            return found
        if record.additive:
            return Minus(self._view_definition(tvr, Interval(-1, end)), self._view_definition(tvr, Interval(-1, start)))
        if first.op is AggregateState:
            return AggregateState(self._view_definition(first.inputs[0], interval), *first.payload)
        return Plus(tuple(self._view_definition(i, interval) for i in first.inputs))


def _base(catalog: Catalog, payload: tuple[Any, ...], point: str) -> Read:
    table, schema, _ = payload
    return Read(snapshot_name(table, point), schema, False, catalog[table].keys)


def _over(member: GroupMember, inputs: list[Op]) -> Op:
    return member.op.build(inputs, member.payload)


def _slug(view: str) -> str:
    """A name for a table: letters, digits and underscores, not too long."""
    text = view
    for sign, word in (
        ("⟕", "left_join"),
        ("⟗", "full_join"),
        ("⋈", "join"),
        ("⋉", "semi"),
        ("▷", "anti"),
        ("γ", "agg"),
        ("σ", "filter"),
        ("+", "plus"),
    ):
        text = text.replace(sign, f" {word} ")
    words = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_").lower()
    return words if len(words) <= 48 else words[:48].rstrip("_")
