"""From the search's choice to a plan: derivations become steps, groups become names, and every number finds its place.

A plan may begin in the middle of a timeline: the points before are gone, and what their runs left can be loaded like anything written by this plan.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from tempura.algebra import Filter, MergeState, Op, Plus, Project, Read, SortKey, TopK
from tempura.algebra.joins import JOINS
from tempura.algebra.weights import is_weighted
from tempura.choose.derivation import Computed, Loaded, Written, loads
from tempura.choose.graph import Graph
from tempura.choose.search import EXISTING
from tempura.definitions import Definitions
from tempura.estimate import Stats
from tempura.expr import Expr, conjuncts
from tempura.implement import Choice, Implementation
from tempura.memo.show import Names, view_name
from tempura.plans import PlanLine, Run, Side, Spread, State, Step
from tempura.rules.views import kept
from tempura.schema import NO_KEYS, Keys, fresh, names
from tempura.space import Group, Space
from tempura.sql.bind import Query
from tempura.standing import Kept, Standing

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
        results: Mapping[tuple[int, int], str],
        queries: Mapping[str, Query],
        tvr_names: Names,
        definitions: Definitions,
        standing: Standing,
        existing: Mapping[int, Kept],
    ):
        self.space = space
        self.implementation = implementation
        self.graph = graph
        self.results = results
        """The query of each result, by group and point of the timeline."""
        self.queries = queries
        self.names = tvr_names
        self.definitions = definitions
        self.done = standing.done
        self.points = space.timeline.points[standing.done :]
        """Those that are planned; the search's points are counted from here."""
        self.kept = {kept.name: kept for kept in existing.values()}
        self.targets = {(n, EXISTING): Target(k.name, k.weighted, self._keys(n, k)) for n, k in existing.items()}
        self.taken = {kept.name for kept in standing.states}
        """Names that no step may be given."""
        self.used: dict[tuple[int, str], None] = {}
        """Which TVRs are computed by a rule of which method."""
        self.joined: set[tuple[int, int]] = set()
        """What is loaded to be joined as it lies, by node and the point at which it was written."""

    def _keys(self, node: int, kept: Kept) -> Keys:
        return NO_KEYS if kept.weighted else self.definitions.of(self.implementation.nodes[node][0]).keys

    def runs(self, derivations: Sequence[Written]) -> tuple[Run, ...]:
        for written in derivations:
            self._note_joined(written.tree)
        steps: dict[int, list[Step]] = {i: [] for i in range(len(self.points))}
        for written in derivations:
            steps[written.point].append(self._step(written))
        return tuple(Run(p.name, tuple(steps[i])) for i, p in enumerate(self.points))

    def states(self, derivations: Sequence[Written], runs: Sequence[Run]) -> tuple[State, ...]:
        """The states, with who reads them and why they are kept."""
        readers: dict[str, list[tuple[int, str]]] = {}
        for written in derivations:
            for load in loads(written.tree):
                target = self.targets[load.node, load.written]
                readers.setdefault(target.name, []).append((load.point, self.targets[written.node, written.point].name))
        points = self.points
        found = [self._standing(self.kept[name], read) for name, read in readers.items() if name in self.kept]
        for run in runs:
            for step in run.steps:
                read = readers.get(step.name, [])
                if step.kind == "result" and not read:
                    continue
                at = sorted({p for p, _ in read})
                why = self._read_by(read) if read else "not read again"
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

    def _standing(self, kept: Kept, read: list[tuple[int, str]]) -> State:
        """A state that was there before this plan."""
        at = tuple(self.points[p].name for p in sorted({p for p, _ in read}))
        why = "kept from an earlier run; " + self._read_by(read)
        return State(kept.name, kept.view, kept.written, at, kept.rows, kept.bytes, kept.partition, why)

    def _read_by(self, read: list[tuple[int, str]]) -> str:
        at = ", ".join(self.points[p].name for p in sorted({p for p, _ in read}))
        return f"read at {at} by {', '.join(dict.fromkeys(name for _, name in read))}"

    def _step(self, written: Written) -> Step:
        group, place = self.implementation.nodes[written.node]
        own = self.space.group(group)
        stats = self.implementation.stats(group)
        lines: list[PlanLine] = []
        copied: dict[int, Side] = {}
        spread: dict[int, tuple[str, ...]] = {}
        tree = self._tree(written.tree, lines, copied, spread, 0)
        result = written.kind == "result"
        query = self.queries[self.results[group, self.done + written.point]] if result else None
        tree = presented(tree, query) if query else unsorted(tree)
        point = self.points[written.point].name
        view = f"{query.name}[{point}]" if query and not own.views else self.view(own)
        wanted = f"{query.name}@{point}" if query else _slug(view)
        name = fresh(wanted, [*self.taken, *(t.name for t in self.targets.values())])
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
            definition=self.definitions.of(group),
            partition=place or (),
            ordered=(written.node, written.point) in self.joined,
            order=query.order if query and _shown(query.order, tree) else (),
            rows=stats.rows,
            bytes=stats.bytes,
            cost=cost,
            methods=methods,
            lines=tuple(lines),
            broadcasts=tuple((i, copied[id(op)]) for i, op in enumerate(tree.walk()) if id(op) in copied),
            spreads=tuple(Spread(i, spread[id(op)]) for i, op in enumerate(tree.walk()) if id(op) in spread),
        )

    def view(self, group: Group) -> str:
        return view_of(self.space, self.names, group)

    def _tree(
        self,
        tree: Computed | Loaded,
        lines: list[PlanLine],
        copied: dict[int, Side],
        spread: dict[int, tuple[str, ...]],
        depth: int,
    ) -> Op:
        """The operators of a derivation.

        What is to be said of them goes to `lines`; by the `id` of operators, the sides of joins to copy go to `copied`, and the columns by which to bring rows together to `spread`.
        """
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
                tuple(self.view(self.space.group(self.implementation.nodes[i.node][0])) for i in tree.inputs),
            )
        )
        if own.tvr is not None:
            self.used[own.tvr, chosen.source.method] = None
        inputs = [self._tree(i, lines, copied, spread, depth + 1) for i in tree.inputs]
        if chosen.op is None:
            return inputs[0]
        made = chosen.op if chosen.kind == "scan" else chosen.op.over(inputs)
        if chosen.broadcast:
            copied[id(made)] = chosen.broadcast
        elif isinstance(made, JOINS):
            left = self.implementation.stats(self.implementation.nodes[tree.inputs[0].node][0])
            made = replace(made, on=sorting_first(made.on, left))
        if isinstance(made, (Plus, MergeState)) and any(map(self._lies, tree.inputs)):
            for below, op in zip(tree.inputs, inputs, strict=True):
                place = self.implementation.nodes[below.node][1]
                if place is not None and op.inputs and not self._lies(below):
                    spread[id(op)] = place
        return made

    def _note_joined(self, tree: Computed | Loaded, whole: bool = False) -> None:
        """Note what is loaded below a join that sorts its sides; filters and projections leave rows as they lie."""
        if isinstance(tree, Loaded):
            if whole:
                self.joined.add((tree.node, tree.written))
            return
        chosen: Choice = self.graph.alternatives[tree.node][tree.alternative].tag
        joins = isinstance(chosen.op, JOINS) and not chosen.broadcast
        for below in tree.inputs:
            self._note_joined(below, joins or (whole and isinstance(chosen.op, Filter | Project)))

    def _lies(self, tree: Computed | Loaded) -> bool:
        """Whether rows lie as a distributed state's do: they are one's, or are added to one's."""
        if self.implementation.nodes[tree.node][1] is None:
            return False
        if isinstance(tree, Loaded):
            return True
        chosen: Choice = self.graph.alternatives[tree.node][tree.alternative].tag
        return isinstance(chosen.op, Plus) and any(map(self._lies, tree.inputs))


def view_of(space: Space, names: Names, group: Group) -> str:
    """A group's name: a view's own, or its operator over its inputs' names."""
    if group.tvr is not None and group.interval is not None:
        return view_name(names, space.ticks, space.timeline, group.tvr, group.interval)
    if group.empty:
        return "∅"
    member, _ = space.members(group.id)[0]
    return f"{member.op.__name__}({', '.join(view_of(space, names, space.group(i)) for i in member.inputs)})"


def sorting_first(on: Expr, left: Stats) -> Expr:
    """A join's condition with the keys of most values first: Spark sorts both sides by them in this order, and compares the next where one is equal."""

    def values(part: Expr) -> float:
        return max((left.distinct(c) for c in part.columns if c in left.columns), default=0.0)

    # What is no key keeps its place: a conjunct may guard those after it.
    keys = [part for part in conjuncts(on) if isinstance(part.tree, (exp.EQ, exp.NullSafeEQ))]
    rest = [part for part in conjuncts(on) if part not in keys]
    parts = [*sorted(keys, key=values, reverse=True), *rest]
    return Expr(exp.and_(*(part.tree for part in parts))) if len(parts) > 1 else on


def presented(tree: Op, query: Query) -> Op:
    """The tree of a result with the query's columns, sorted here if ORDER BY needs columns that it does not show."""
    if names(tree.schema) != names(query.root.schema):
        tree = Project(tree, kept(query.root.schema))
    return tree if _shown(query.order, tree) else _sorted(tree, query.order)


def unsorted(tree: Op) -> Op:
    """The tree of a state, which is a bag: a TopK that keeps all rows is nothing but an order."""
    return tree.inputs[0] if isinstance(tree, TopK) and tree.limit is None and not tree.offset else tree


def _shown(order: Sequence[SortKey], tree: Op) -> bool:
    return {k.column for k in order} <= set(names(tree.schema))


def _sorted(tree: Op, order: tuple[SortKey, ...]) -> Op:
    """The tree with its rows sorted where the columns for that are still there: they may have been loaded from a state, which has no order.

    An earlier result that is delivered again has been sorted, and has these columns no more.
    """
    if isinstance(tree, TopK) and tree.order[: len(order)] == order:
        return tree
    if _shown(order, tree):
        return TopK(tree, order, None, 0)
    return tree.over([_sorted(i, order) for i in tree.inputs]) if isinstance(tree, Project) else tree


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
