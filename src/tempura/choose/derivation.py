"""A derivation says how each state and result is made: trees of operators at one point, whose leaves may be loaded.

Work is counted once for every occurrence of an operator in a tree, even where the tree shares the object: Spark inlines a common table expression
wherever it is named, so only what is written is computed once. A tree never spans two points: what crosses is written at the one and loaded at
the other, and written once however many readers it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from tempura.choose.graph import Graph
from tempura.choose.search import COMPUTED, EXISTING, Problem, Tables

Key = tuple[int, int]
"""A node and the point at which it is written."""


@dataclass(frozen=True, slots=True, eq=False)
class Computed:
    """A node computed at a point by one of its alternatives; within one tree a node has one object, however often it is read."""

    node: int
    point: int
    alternative: int
    """Index into the graph's `alternatives[node]`."""
    inputs: tuple[Computed | Loaded, ...]


@dataclass(frozen=True, slots=True)
class Loaded:
    """A node read at a point, from what was written at `written` (-1: before the first point)."""

    node: int
    point: int
    written: int


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """A state or a result, written once at a point. A result may merely be loaded, if it was written before."""

    node: int
    point: int
    kind: Literal["state", "result"]
    tree: Computed | Loaded

    @property
    def reads(self) -> tuple[Loaded, ...]:
        """What it loads, without repetition."""
        return tuple(dict.fromkeys(loads(self.tree)))


@lru_cache(maxsize=1024)  # The search asks for those of the same trees again and again.
def operators(tree: Computed | Loaded) -> tuple[Computed, ...]:
    """The operators of a tree, each object once, inputs before what reads them."""
    done: dict[int, Computed] = {}
    stack = [tree]
    while stack:
        top = stack[-1]
        if isinstance(top, Loaded) or id(top) in done:
            stack.pop()
        elif missing := [i for i in top.inputs if isinstance(i, Computed) and id(i) not in done]:
            stack += missing
        else:
            done[id(stack.pop())] = top
    return tuple(done.values())


def occurrences(tree: Computed | Loaded) -> dict[int, int]:
    """How often each node is computed in a tree when what is shared is written out."""
    counts: dict[int, int] = {}
    times = {id(tree): 1}
    for operator in reversed(operators(tree)):  # readers before their inputs
        here = times[id(operator)]
        counts[operator.node] = counts.get(operator.node, 0) + here
        for i in operator.inputs:
            times[id(i)] = times.get(id(i), 0) + here
    return counts


def loads(tree: Computed | Loaded) -> Iterator[Loaded]:
    """What a tree loads, once for each operator that reads it."""
    if isinstance(tree, Loaded):
        yield tree
    for operator in operators(tree):
        yield from (i for i in operator.inputs if isinstance(i, Loaded))


def work_of(graph: Graph, derivations: Iterable[Written]) -> list[float]:
    """The unpriced work at each point: every occurrence of an operator, every load, every write."""
    work = [0.0] * len(graph.prices)
    for written in derivations:
        below: dict[int, float] = {}
        for operator in operators(written.tree):
            cost = graph.alternatives[operator.node][operator.alternative].work
            below[id(operator)] = cost + sum(
                graph.load[i.node] if isinstance(i, Loaded) else below[id(i)] for i in operator.inputs
            )
        tree = graph.load[written.tree.node] if isinstance(written.tree, Loaded) else below[id(written.tree)]
        work[written.point] += tree + graph.write(written.node, written.kind)
    return work


def kept_bytes(graph: Graph, derivations: Sequence[Written]) -> list[float]:
    """Per point: the bytes of states written by then, or held before, that a later point reads. Results are no states."""
    states = {(w.node, w.point) for w in derivations if w.kind == "state"} | {(n, EXISTING) for n in graph.held}
    until: dict[Key, int] = {}
    for written in derivations:
        for load in loads(written.tree):
            if (load.node, load.written) in states:
                until[load.node, load.written] = max(until.get((load.node, load.written), 0), load.point)
    kept = [0.0] * len(graph.prices)
    for (node, written), last in until.items():
        for point in range(max(written, 0), last):
            kept[point] += graph.size[node]
    return kept


def derive(problem: Problem, tables: Tables, node: int, point: int, compute: bool) -> Computed | Loaded:
    """The cheapest derivation that the tables record; with `compute` the node itself is not loaded."""
    source, chosen = tables.source[point], tables.alternative[point]
    if not compute and source[node] != COMPUTED:
        return Loaded(node, point, source[node])
    done: dict[int, Computed] = {}
    stack = [node]
    while stack:
        top = stack[-1]
        if top in done:
            stack.pop()
            continue
        inputs = problem.inputs[chosen[top]]
        if missing := [i for i in inputs if source[i] == COMPUTED and i not in done]:
            stack += missing
            continue
        stack.pop()
        done[top] = Computed(
            top,
            point,
            chosen[top] - problem.alternatives[top].start,
            tuple(done[i] if source[i] == COMPUTED else Loaded(i, point, source[i]) for i in inputs),
        )
    return done[node]


def same_run_reads(problem: Problem, tables: Tables, node: int, point: int) -> set[int]:
    """The nodes that the node's cheapest derivation loads from what was written at the same point."""
    source, chosen = tables.source[point], tables.alternative[point]
    seen = {node}
    found: set[int] = set()
    todo = [node]
    for top in todo:  # grows while it is read
        for i in problem.inputs[chosen[top]]:
            if source[i] == point:
                found.add(i)
            elif source[i] == COMPUTED and i not in seen:
                seen.add(i)
                todo.append(i)
    return found


def show(derivations: Iterable[Written]) -> str:
    """The derivations as text, one line each, for tests and traces."""

    def text(tree: Computed | Loaded) -> str:
        if isinstance(tree, Loaded):
            return f"load {tree.node}" + ("" if tree.written == EXISTING else f"@{tree.written}")
        inputs = ", ".join(text(i) for i in tree.inputs)
        return f"{tree.node}.{tree.alternative}" + (f"({inputs})" if inputs else "")

    return "\n".join(f"{w.point}: {w.kind} {w.node} = {text(w.tree)}" for w in derivations)
