"""Figures of finished experiments: a table from an experiment's name to the function that draws its document.

Colours are those of Okabe and Ito, which colour-blind people tell apart; a method has the same colour everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TextIO

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from bench import _plots_spark
from bench._plots_style import COLOURS, STYLE, bars, common_legend, key_parts, legend_above, ordered, plain_log

Document = Mapping[str, Any]

EXPLORE, SHARE = "#0072B2", "#E69F00"
METHODS = ("all", "IM1", "IM2", "OJV", "HOV", "PART")


def figure_of(document: Document) -> Figure | None:
    """The figure of an experiment, if there is one for it."""
    draw = PLOTS.get(document["name"])
    if draw is None or not document["cells"]:
        return None
    with plt.rc_context(STYLE):
        return draw(document)


def write_svg(figure: Figure, to: TextIO, name: str) -> None:
    """Write a figure as SVG, the same one for the same figures, with ids of its own: several stand on one page."""
    with plt.rc_context(STYLE | {"svg.hashsalt": name}):
        figure.savefig(to, format="svg", metadata={"Date": None})
    plt.close(figure)


def planning(document: Document) -> Figure:
    """Seconds per query, slowest last, beside one point and Spark."""
    points = document["settings"]["points"]
    series = {f"|T|={points}": f"Tempura, |T| = {points}", "|T|=1": "Tempura, |T| = 1", "spark": "Spark's own planning"}
    cells = document["cells"]
    by = {kind: {q: cells[f"{q} {kind}"]["seconds"] for q, k in map(key_parts, cells) if k == kind} for kind in series}
    order = sorted(by[f"|T|={points}"], key=by[f"|T|={points}"].__getitem__)
    figure, axes = plt.subplots(figsize=(11, 4.2))
    for (kind, label), colour, mark in zip(series.items(), ("#0072B2", "#56B4E9", "#D55E00"), "o^s", strict=True):
        if by[kind]:
            axes.plot(range(len(order)), [by[kind].get(q, math.nan) for q in order], mark, color=colour, label=label, markersize=4.5)  # fmt: skip
    for seconds, said in ((0.5, "80 % within 0.5 s"), (3.0, "all within 3 s")):
        axes.axhline(seconds, color="#666666", linewidth=0.9, linestyle="--", zorder=0)
        axes.text(0, seconds * 1.06, said, color="#444444", fontsize=9)
    axes.set_yscale("log")
    plain_log(axes.yaxis)
    axes.set_xticks(range(len(order)), order, rotation=90, fontsize=6 if len(order) > 40 else 9)
    axes.set_xlim(-1, len(order))
    axes.set_ylabel("planning, CPU seconds")
    axes.set_xlabel("TPC-DS query, by planning time")
    legend_above(axes, 3)
    return figure


def complexity(document: Document) -> Figure:
    """Exploration and sharing, stacked."""
    cells = document["cells"]
    figure, axes = plt.subplots(figsize=(8, 3.8))
    explore, share = ([c[part] for c in cells.values()] for part in ("explore_seconds", "share_seconds"))
    axes.bar(list(cells), explore, color=EXPLORE, label="exploration", width=0.65)
    axes.bar(list(cells), share, bottom=explore, color=SHARE, label="sharing", width=0.65)
    axes.set_ylabel("planning, CPU seconds")
    axes.set_xlabel("query, from simple to complex")
    legend_above(axes, 2)
    return figure


def _growing(document: Document, steps: Sequence[str], label: str, shown: Callable[[str], str], first: str) -> Figure:
    """Exploration and sharing over steps, relative to the first: each query in grey, all together in colour, the extremes named."""
    cells = document["cells"]
    queries = ordered(key_parts(key)[0] for key in cells)
    figure, both = plt.subplots(1, 2, figsize=(10, 4))
    for axes, part, word, colour in zip(both, ("explore_seconds", "share_seconds"), ("exploration", "sharing"), (EXPLORE, "#D55E00"), strict=True):  # fmt: skip
        lines = {q: [cells[f"{q} {s}"][part] for s in steps] for q in queries}
        relative = {q: [v / line[0] for v in line] for q, line in lines.items()}
        for line in relative.values():
            axes.plot(range(len(steps)), line, color="#BBBBBB", linewidth=1)
        for q in dict.fromkeys(pick(relative, key=lambda q: relative[q][-1]) for pick in (max, min)):
            axes.text(len(steps) - 0.93, relative[q][-1], q, color="#666666", va="center", fontsize=9)
        total = [sum(values) for values in zip(*lines.values(), strict=True)]
        axes.plot(range(len(steps)), [v / total[0] for v in total], color=colour, linewidth=2.6, marker="o", label="all queries")  # fmt: skip
        axes.plot([], [], color="#BBBBBB", label="one query")
        axes.set_xticks(range(len(steps)), [shown(s) for s in steps])
        axes.set_xlim(-0.15, len(steps) - 0.55)
        axes.set_ylim(bottom=0)
        axes.set_title(word)
        axes.set_xlabel(label)
        axes.set_ylabel(f"CPU time relative to {first}")
    common_legend(figure, both[0], 2)
    return figure


def size(document: Document) -> Figure:
    steps = ordered(key_parts(key)[1] for key in document["cells"])
    return _growing(document, steps, "points of the timeline, |T|", lambda s: s.removeprefix("|T|="), f"{steps[0]}")


def methods(document: Document) -> Figure:
    steps = ordered(key_parts(key)[1] for key in document["cells"])
    return _growing(
        document, steps, "methods added one by one", lambda s: ("+" if "+" in s else "") + s.split("+")[-1], "IM1 alone"
    )


def ablation(document: Document) -> Figure:
    """Exploration time per query with and without its speed-ups."""
    cells = {key: cell for key, cell in document["cells"].items() if "|T|" not in key}
    queries = ordered(key_parts(key)[0] for key in cells)
    variants = ordered(key_parts(key)[1] for key in cells)
    figure, axes = plt.subplots(figsize=(10, 3.9))
    colours = dict(zip(variants, ("#999999", "#56B4E9", "#E69F00", "#CC79A7", "#0072B2"), strict=True))
    bars(axes, queries, {v: [1e3 * cells[f"{q} {v}"]["seconds"] for q in queries] for v in variants}, colours)
    axes.set_ylabel("exploration, CPU milliseconds")
    legend_above(axes, len(variants))
    return figure


def _costs(axes: Axes, cells: Document, groups: Mapping[str, str], title: str) -> None:
    """Methods throughout as bars, alone as marks, all relative to IM-1 alone. Groups are labels by the beginning of their keys."""
    names = (*METHODS, "full")
    unit = {g: cells[f"{g} IM1"]["cost"] for g in groups}
    heights = {
        m: [cells[f"{g} {m}"]["cost" if m in ("all", "full") else "throughout"] / unit[g] for g in groups] for m in names
    }  # fmt: skip
    labels = {"all": "all methods", "full": "recomputing"} | {m: f"{m} throughout" for m in METHODS[1:]}
    width = bars(axes, list(groups.values()), {labels[m]: heights[m] for m in names}, {labels[m]: COLOURS[m] for m in names})  # fmt: skip
    for k, m in enumerate(METHODS[1:], 1):
        for n, g in enumerate(groups):
            middle = n + (k - (len(names) - 1) / 2) * width
            alone = cells[f"{g} {m}"]["cost"] / unit[g]
            axes.plot([middle - width / 2, middle + width / 2], [alone, alone], color="black", linewidth=1.4)
    axes.axhline(1, color="#666666", linewidth=0.8, linestyle="--", zorder=0)
    axes.set_title(title)


def _effect(document: Document, what: str, prices: Sequence[str]) -> Figure:
    cells = document["cells"]
    figure, grid = plt.subplots(len(prices), 2, figsize=(12, 3.6 * len(prices) + 0.4), squeeze=False, sharey="row")
    for row, price in zip(grid, prices, strict=True):
        keys = ordered(key.rsplit(" ", 1)[0] for key in cells if not price or f" {price} " in key)
        queries = {k: k.split()[0] for k in keys if " delta-big" in k}
        patterns = {k: k.split()[1] for k in keys if k.startswith("q10 ")}
        ending = f", early work at {price}" if price else ""
        _costs(row[0], cells, queries, f"queries on delta-big{ending}")
        if patterns:
            _costs(row[1], cells, patterns, f"q10 by arrival pattern{ending}")
        row[0].set_ylabel(what)
    common_legend(figure, grid[0][0], 4, **{"the method alone": Line2D([], [], color="black", linewidth=1.4)})
    return figure


def effect_ivm(document: Document) -> Figure:
    return _effect(document, "estimated cost of the last run\nrelative to IM-1 alone", [""])


def effect_pdw(document: Document) -> Figure:
    prices = ordered(key.split()[2] for key in document["cells"])
    return _effect(document, "estimated weighted cost\nrelative to IM-1 alone", prices)


def states(document: Document) -> Figure:
    """Sizes relative to the largest of a setting, which stands above; what is bucketed is hatched."""
    cells = document["cells"]
    figure, both = plt.subplots(2, 1, figsize=(11, 6.4))
    for axes, scenario in zip(both, ("refresh", "warehouse"), strict=True):
        groups = ordered(key.rsplit(" ", 1)[0] for key in cells if f" {scenario} " in key)
        size_of = {m: [_kept(cells[f"{g} {m}"], m, "bytes") for g in groups] for m in METHODS}
        largest = [max(sizes) or 1.0 for sizes in zip(*size_of.values(), strict=True)]
        labels = [" ".join(g.split()[:2]).replace(" ", "\n") for g in groups]
        shown = {_throughout(m): [b / most for b, most in zip(size_of[m], largest, strict=True)] for m in METHODS}
        width = bars(axes, labels, shown, {_throughout(m): COLOURS[m] for m in METHODS})
        for k, m in enumerate(METHODS):
            for n, g in enumerate(groups):
                middle = n + (k - (len(METHODS) - 1) / 2) * width
                part = _kept(cells[f"{g} {m}"], m, "bucketed") / largest[n]
                axes.bar(middle, part, width, color="none", edgecolor="white", hatch="////", linewidth=0)
        for n, most in enumerate(largest):
            told = f"{most / 1e9:.2g} GB" if most >= 1e9 else f"{most / 1e6:.2g} MB"
            axes.text(n, 1.03, told, ha="center", fontsize=9)
        axes.set_ylim(0, 1.18)
        axes.set_ylabel("states, relative\nto the largest")
        axes.set_title(scenario, loc="left")
    hatched = Rectangle((0, 0), 1, 1, facecolor="#888888", edgecolor="white", hatch="////", linewidth=0)
    common_legend(figure, both[0], 4, **{"bucketed: a shuffle reused": hatched})
    return figure


def _throughout(method: str) -> str:
    return "all methods" if method == "all" else f"{method} throughout"


def _kept(cell: Mapping[str, float], method: str, part: str) -> float:
    return cell[part if method == "all" else f"throughout_{part}"]


def sensitivity(document: Document) -> Figure:
    """Wrong plans and single methods, relative to the right plan."""
    cells = document["cells"]
    series = {"wrong": "wrong plan, as planned", "replanned": "wrong plan, replanned at the last point"}
    series |= {m: f"{m} throughout" for m in ("IM1", "IM2", "OJV", "HOV")}
    colours = {"wrong": "#0072B2", "replanned": "#56B4E9"} | COLOURS
    figure, axes = plt.subplots(figsize=(11, 3.9))
    groups: Iterable[str] = list(cells)
    heights = {label: [cells[g][s] / cells[g]["right"] for g in groups] for s, label in series.items()}
    bars(axes, [g.replace(" ", "\n") for g in groups], heights, {label: colours[s] for s, label in series.items()})
    axes.axhline(1, color="#666666", linewidth=0.9, linestyle="--")
    axes.set_ylabel("estimated cost of the last run\nrelative to the right plan")
    legend_above(axes, 3)
    return figure


def exact(document: Document) -> Figure:
    """What sharing saves on each planner graph: found greedily, beside the most that can be."""
    cells = {key: c for key, c in document["cells"].items() if "exact" in c}
    figure, axes = plt.subplots(figsize=(11, 3.9))
    heights = {word: [c[part] / c["unshared"] for c in cells.values()] for part, word in (("greedy", "greedy sharing"), ("exact", "the exact optimum"))}  # fmt: skip
    bars(axes, list(cells), heights, dict(zip(heights, (EXPLORE, "#999999"), strict=True)))
    plt.setp(axes.get_xticklabels(), rotation=40, ha="right", rotation_mode="anchor")
    axes.axhline(1, color="#666666", linewidth=0.9, linestyle="--", zorder=0)
    axes.set_ylabel("cost relative to\nsharing nothing")
    legend_above(axes, 2)
    return figure


PLOTS: dict[str, Callable[[Document], Figure]] = {
    "planning": planning,
    "complexity": complexity,
    "size": size,
    "methods": methods,
    "ablation": ablation,
    "exact": exact,
    "effect-ivm": effect_ivm,
    "effect-pdw": effect_pdw,
    "states": states,
    "sensitivity": sensitivity,
    **_plots_spark.PLOTS,
}
