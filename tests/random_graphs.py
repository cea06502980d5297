"""Random AND-OR graphs with cycles, for the tests of search and sharing."""

from __future__ import annotations

import math
import random

from tempura.choose.graph import Alternative, Graph


def random_graph(
    seed: int,
    nodes: int = 6,
    points: int = 2,
    prices: list[float] | None = None,
    results: int = 1,
    cyclic: bool = True,
    fan: int = 3,
) -> Graph:
    """Whole-number work; the last nodes are results; every node has a derivation by nodes below it, some have others that read nodes above."""
    rng = random.Random(seed)
    available = [rng.randrange(points) if n < 2 else 0 for n in range(nodes)]
    available[0] = 0
    alternatives: list[list[Alternative]] = []
    for n in range(nodes):
        options: list[Alternative] = []
        if n < 2:
            options.append(Alternative(rng.randint(1, 12), (), "scan"))
        else:
            for _ in range(rng.randint(1, fan)):
                inputs = tuple(rng.randrange(n) for _ in range(rng.randint(1, 2)))
                options.append(Alternative(rng.randint(1, 12), inputs, "up"))
        alternatives.append(options)
    for n in range(2, nodes):
        earliest = [max(available[i] for i in a.inputs) for a in alternatives[n]]
        available[n] = min(earliest)
    if cyclic:
        for n in range(nodes):
            if rng.random() < 0.4:
                above = rng.randrange(nodes)
                alternatives[n].append(Alternative(rng.randint(1, 6), (above, rng.randrange(nodes)), "across"))
    required: list[tuple[int, int]] = []
    for n in range(nodes - results, nodes):
        required.append((n, points - 1))
        if rng.random() < 0.4 and available[n] < points - 1:
            required.append((n, rng.randrange(available[n], points - 1)))
    return Graph(
        alternatives=alternatives,
        available=available,
        save=[math.inf if rng.random() < 0.1 else float(rng.randint(1, 6)) for _ in range(nodes)],
        load=[float(rng.randint(1, 5)) for _ in range(nodes)],
        required=required,
        deliver={n: float(rng.randint(1, 5)) for n, _ in required},
        existing=frozenset(n for n in range(nodes) if rng.random() < 0.08),
        size=[float(rng.randint(1, 20)) for _ in range(nodes)],
        prices=prices or [round(rng.uniform(0.1, 2.0), 2) for _ in range(points)],
        groups=[],
    )


def chain_graph(seed: int, tables: int = 12, points: int = 3, properties: int = 3) -> Graph:
    """A graph of the size and shape of a memo: a chain of joins in all orders under two aggregates.

    Every view has a snapshot at each point and a delta between points, each from the other and the joins of its parts; every one of them in
    several distributions that can be turned into one another.
    """
    rng = random.Random(seed)
    alternatives: list[list[Alternative]] = []
    available: list[int] = []
    rows: list[float] = []
    groups: list[tuple[int, ...]] = []
    views: dict[tuple[int, int], list[list[int]]] = {}
    """Per interval of tables and property: its snapshots, then its deltas."""

    def view(size: float) -> list[list[int]]:
        small = size * rng.uniform(0.05, 0.4)
        out: list[list[int]] = [[] for _ in range(properties)]
        for kind, point in [("whole", p) for p in range(points)] + [("delta", p) for p in range(1, points)]:
            first = len(alternatives)
            for prop in range(properties):
                out[prop].append(len(alternatives))
                rows.append(size * (0.7 + 0.3 * point / points) if kind == "whole" else small)
                available.append(point)
                others = [first + q for q in range(properties) if q != prop]
                alternatives.append([Alternative(2 * rows[-1] + 20, (other,), "exchange") for other in others])
        for prop in range(properties):
            for p in range(1, points):
                whole, before, delta = out[prop][p], out[prop][p - 1], out[prop][points + p - 1]
                alternatives[whole].append(Alternative(0.2 * (rows[before] + rows[delta]), (before, delta), "plus"))
                alternatives[delta].append(Alternative(2 * rows[whole], (whole, before), "minus"))
        return out

    def derive(ids: list[list[int]], left: list[int], right: list[int], prop: int) -> None:
        for p in range(points):
            alternatives[ids[prop][p]].append(Alternative(rows[left[p]] + rows[right[p]], (left[p], right[p]), "join"))
        for p in range(1, points):
            inputs = (left[p - 1], right[p - 1], left[points + p - 1], right[points + p - 1])
            work = 0.5 * (rows[inputs[0]] + rows[inputs[1]]) + rows[inputs[2]] + rows[inputs[3]]
            alternatives[ids[prop][points + p - 1]].append(Alternative(work, inputs, "delta join"))
            groups.append(inputs[:2])

    for width in range(1, tables + 1):
        for start in range(tables - width + 1):
            ids = view(rng.uniform(100, 1000) * (1 if width == 1 else rng.uniform(0.2, 1.5)))
            views[start, start + width] = ids
            if width == 1:
                for node in ids[0]:
                    alternatives[node].append(Alternative(rows[node], (), "scan"))
            for cut in range(start + 1, start + width):
                prop = rng.randrange(properties)
                derive(ids, views[start, cut][prop], views[cut, start + width][prop], prop)
    required: list[tuple[int, int]] = []
    for interval in ((0, tables), (0, tables - 1)):
        joined = views[interval][0]
        ids = view(50.0)[0]
        for p, node in enumerate(ids):
            alternatives[node].append(Alternative(rows[joined[p]], (joined[p],), "aggregate"))
        required.append((ids[points - 1], points - 1))
    return Graph(
        alternatives=alternatives,
        available=available,
        save=[0.5 * r + 10 for r in rows],
        load=[0.3 * r + 5 for r in rows],
        required=required,
        deliver={},
        existing=frozenset(),
        size=rows,
        prices=[0.2 + 0.8 * p / (points - 1) for p in range(points)],
        groups=groups,
    )
