"""Figures of the experiments that run on Spark: distributions over a day, growth, choices, peers, and methods side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bench._plots_style import COLOURS, bars, common_legend, dots, key_parts, names_beside, ordered, plain_log
from bench._record import CLOSE
from bench.calibration import GUESS, HERE, SHIPPED, runs_of
from bench.refresh import AIM
from bench.warehouse import KINDS, ratios_of

Document = Mapping[str, Any]
TASKS, JVM, BATCH = "#0072B2", "#D55E00", "#999999"


def warehouse(document: Document) -> Figure:
    """The distribution over queries of the ratios to recomputing."""
    cells = [c for c in document["cells"].values() if "weighted_ratio" in c]
    ratios = {kind: [ratios_of(c, parts) for c in cells] for kind, parts in KINDS.items()}
    figure, both = plt.subplots(1, 2, figsize=(11, 4.2), sharey=True)
    for axes, which, title in zip(
        both, (0, 1), ("the whole day, at its prices", "at the deadline, 24:00"), strict=True
    ):
        for kind, colour in zip(KINDS, (TASKS, JVM, "#009E73"), strict=True):
            values = sorted(pair[which] for pair in ratios[kind])
            shares = [(n + 1) / len(values) * 100 for n in range(len(values))]
            axes.step([0, *values], [0, *shares], where="post", color=colour, linewidth=2, label=kind)
        axes.axvline(1, color="#444444", linewidth=1, linestyle="--")
        axes.text(1.01, 3, " recomputing", color="#444444", fontsize=9)
        most = max((max(pair) for pairs in ratios.values() for pair in pairs), default=0.0)
        axes.set_xlim(0, max(1.5, min(3.0, most * 1.05)))
        axes.set_title(title)
        axes.set_xlabel("CPU relative to recomputing at 24:00")
        axes.grid(True, axis="both")
    both[0].set_ylabel("queries, %")
    both[0].set_ylim(0, 102)
    both[1].legend(loc="lower right", bbox_to_anchor=(1, 0.1))
    return figure


def growth(document: Document) -> Figure:
    """The last run and recomputing as history grows, a panel for each query."""
    cells = document["cells"]
    views = ordered(key_parts(key)[0] for key in cells)
    figure, panels = plt.subplots(1, len(views), figsize=(3.8 * len(views) + 0.6, 3.9), squeeze=False, sharey=True)
    for axes, view in zip(panels[0], views, strict=True):
        mine = sorted((c for key, c in cells.items() if key_parts(key)[0] == view), key=lambda c: c["history"])
        history = [c["history"] for c in mine]
        for part, word, colour, line in (
            ("last_cpu", "last run, tasks", TASKS, "-"), ("last_jvm", "last run, JVM", TASKS, ":"),
            ("batch_cpu", "recomputing, tasks", BATCH, "-"), ("batch_jvm", "recomputing, JVM", BATCH, ":"),
        ):  # fmt: skip
            axes.plot(history, [c[part] for c in mine], color=colour, linestyle=line, marker="o", label=word, linewidth=2)  # fmt: skip
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(history, [f"{h:g}x" for h in history])
        axes.minorticks_off()
        plain_log(axes.yaxis)
        axes.set_title(view)
        axes.set_xlabel("history")
    panels[0][0].set_ylabel("CPU seconds")
    common_legend(figure, panels[0][0], 4)
    return figure


def refresh(document: Document) -> Figure:
    """The CPU of the last run and of recomputing, by what it was spent for, relative to recomputing."""
    cells = document["cells"]
    parts = {"tasks": TASKS, "compiling": "#E69F00", "garbage": "#CC79A7", "driver": "#BBBBBB"}
    figure, axes = plt.subplots(figsize=(max(6.5, 1.5 * len(cells) + 1), 4.2))
    for n, cell in enumerate(cells.values()):
        for side, place in (("last", n - 0.2), ("batch", n + 0.2)):
            floor = 0.0
            for part, colour in parts.items():
                height = cell[side][part] / cell["batch"]["cpu"]
                axes.bar(
                    place, height, 0.36, bottom=floor, color=colour, label=part if (n, side) == (0, "last") else None
                )
                floor += height
            seconds = f"{cell[side]['cpu']:.3g} s"
            axes.text(place, floor, seconds, ha="center", va="bottom", fontsize=9, color="#444444")
    axes.axhline(AIM, color="#666666", linewidth=0.9, linestyle="--")
    axes.set_xlim(-0.6, len(cells) - 0.4)
    axes.text(len(cells) - 0.4, AIM, f" aim,\n {AIM}", fontsize=9, color="#444444", va="center")
    axes.set_xticks(range(len(cells)), [f"{name}\nrefresh · batch" for name in cells])
    axes.tick_params(axis="x", length=0)
    axes.set_ylabel("CPU of the JVM\nrelative to recomputing")
    common_legend(figure, axes, len(parts))
    return figure


def limit(document: Document) -> Figure:
    """The last run beside the least that any method could do."""
    cells = document["cells"]
    figure, both = plt.subplots(1, 2, figsize=(10.5, 3.8))
    for axes, kind, title in zip(both, ("cpu", "jvm"), ("CPU of tasks", "CPU of the JVM"), strict=True):
        heights = {word: [c[f"{part}_{kind}"] for c in cells.values()] for part, word in (("last", "last run"), ("least", "scan the delta, write the result"))}  # fmt: skip
        bars(axes, list(cells), heights, dict(zip(heights, (TASKS, BATCH), strict=True)))
        for n, c in enumerate(cells.values()):
            times = c[f"last_{kind}"] / c[f"least_{kind}"]
            axes.text(n, c[f"last_{kind}"], f"{times:.1f}x", ha="right", va="bottom", fontsize=9)
        axes.set_title(title)
    both[0].set_ylabel("CPU seconds")
    common_legend(figure, both[0], 2)
    return figure


def choice(document: Document) -> Figure:
    """The chosen plan against the best of its rivals, by tasks and by the JVM, and estimates against measurements of each plan."""
    cells = document["cells"]
    figure, (*both, right) = plt.subplots(1, 3, figsize=(17, 5))
    for axes, part, word in zip(both, ("measured", "measured_jvm"), ("CPU of tasks", "CPU of the JVM"), strict=True):
        # What takes nothing, as the query of tables that never change, has no place on these axes.
        rivals = {
            key: (min(v for m, v in c[part].items() if m != "all"), c[part]["all"])
            for key, c in cells.items() if all(c[part].values())
        }  # fmt: skip
        low, high = _range([v for pair in rivals.values() for v in pair], room=1.6)
        axes.fill_between([low, high], [low, low], [CLOSE * low, CLOSE * high], color=TASKS, alpha=0.1)  # fmt: skip
        axes.plot([low, high], [low, high], color="#666666", linewidth=0.9, linestyle="--")
        axes.plot(*zip(*rivals.values(), strict=True), "o", color=TASKS, markersize=6)
        missed = {key: pair for key, pair in rivals.items() if pair[1] > CLOSE * pair[0]}
        _logarithmic(axes, low, high)
        names_beside(axes, missed, low, high)
        axes.set_title(f"{word}: best, or within 10 %, in {len(rivals) - len(missed)} of {len(rivals)}")
        axes.set_xlabel("best other plan, seconds")
        axes.set_ylabel("chosen plan, seconds")
    plans = [(m, c["estimated"][m], c["measured_jvm"][m]) for c in cells.values() for m in c["distinct"]]
    plans = [plan for plan in plans if all(plan)]
    for m in sorted({m for m, _, _ in plans}, key=list(COLOURS).index):
        mine = [(estimated, measured) for name, estimated, measured in plans if name == m]
        right.plot(*zip(*mine, strict=True), "o", color=COLOURS[m], label=_named(m), markersize=5, markeredgecolor="white", markeredgewidth=0.3)  # fmt: skip
    low, high = _range([seconds for _, *pair in plans for seconds in pair])
    right.plot([low, high], [low, high], color="#666666", linewidth=0.9, linestyle="--")
    _logarithmic(right, low, high)
    right.set_title("estimates, each plan once")
    right.set_xlabel("estimated, seconds")
    right.set_ylabel("CPU of the JVM, seconds")
    right.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=9)
    return figure


def _range(values: list[float], room: float = 1.3) -> tuple[float, float]:
    return min(values) / room, max(values) * room


def _logarithmic(axes: Axes, low: float, high: float) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(low, high)
    axes.set_ylim(low, high)
    axes.grid(True, axis="both")
    for axis in (axes.xaxis, axes.yaxis):
        plain_log(axis)


def peers(document: Document) -> Figure:
    """CPU of each system for each view, relative to Tempura's; a cross where it refuses."""
    cells = document["cells"]
    views = ordered(key.rsplit(" ", 1)[0] for key in cells)
    systems = ordered(key.rsplit(" ", 1)[1] for key in cells)
    palette = dict(zip(systems, ("#0072B2", "#999999", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"), strict=False))  # fmt: skip
    figure, axes = plt.subplots(figsize=(11, 4.2))
    unit = {view: cells[f"{view} tempura"].get("cpu") for view in views}
    times = {s: [_over(cells[f"{v} {s}"].get("cpu"), unit[v]) for v in views] for s in systems}
    dots(axes, views, times, palette)
    axes.axhline(1, color="#666666", linewidth=0.9, linestyle="--", zorder=0)
    for n, seconds in enumerate(unit.values()):
        told = "–" if seconds is None else f"{seconds:.3g} s"
        axes.text(n, 1.0, told, ha="center", va="bottom", fontsize=9, color="#444444", transform=axes.get_xaxis_transform())  # fmt: skip
    axes.set_title("above, what Tempura takes", loc="left", pad=18)
    axes.set_ylabel("CPU relative to Tempura's")
    cross = Line2D([], [], color="#444444", marker="x", linestyle="none", markeredgewidth=2)
    common_legend(figure, axes, 4, **{"refused or not installed": cross})
    return figure


def _over(one: float | None, other: float | None) -> float | None:
    return one / other if one and other else None


def _real(document: Document, part: str, label: str) -> Figure:
    """CPU relative to recomputing, and megabytes shuffled, of each method."""
    cells = document["cells"]
    groups = ordered(key.rsplit(" ", 1)[0] for key in cells)
    names = ordered(key.rsplit(" ", 1)[1] for key in cells)
    figure, panels = plt.subplots(3, 1, figsize=(max(11, 0.82 * len(groups)), 8.8), sharex=True)
    labels, colours = [g.replace(" ", "\n") for g in groups], {_named(m): COLOURS[m] for m in names}
    for axes, ending, word in zip(panels[:-1], ("cpu", "jvm"), ("CPU of tasks", "CPU of the JVM"), strict=True):
        batch = [cells[f"{g} full"][f"{part}_{ending}"] for g in groups]
        heights = {
            _named(m): [cells[f"{g} {m}"][f"{part}_{ending}"] / b for g, b in zip(groups, batch, strict=True)] for m in names
        }  # fmt: skip
        bars(axes, labels, heights, colours)
        for n, seconds in enumerate(batch):
            axes.text(n, axes.get_ylim()[1], f"{seconds:.3g} s", ha="center", va="bottom", fontsize=9, color="#444444")
        axes.set_title(f"{word}; above, what recomputing takes", loc="left", pad=18)
        axes.set_ylabel(f"{label}\nrelative to recomputing")
    megabytes = {_named(m): [cells[f"{g} {m}"]["bytes_shuffled"] / 1e6 for g in groups] for m in names}
    dots(panels[-1], labels, megabytes, colours)
    panels[-1].set_title("shuffled, at all points together", loc="left")
    panels[-1].tick_params(axis="x", labelsize=8 if len(groups) > 8 else 11)
    panels[-1].set_ylabel("MB")
    common_legend(figure, panels[0], len(names))
    return figure


def _named(method: str) -> str:
    return {
        "all": "all methods",
        "wrong": "all, planned wrong",
        "plan": "recomputing, by Tempura's plan",
        "full": "recomputing",
    }.get(method, method)


def real_ivm(document: Document) -> Figure:
    return _real(document, "last", "last run")


def real_pdw(document: Document) -> Figure:
    return _real(document, "weighted", "weighted")


def calibration(document: Document) -> Figure:
    """Estimated against measured CPU of each run and of each step, under guessed coefficients, those that ship, and those measured here."""
    runs = [taken for cell in runs_of(document["cells"]).values() for taken in cell.values()]
    steps = [step for taken in runs for step in taken["steps"].values() if step["measured"]]
    profiles = {GUESS: "guessed", SHIPPED: "before calibration (as shipped)", HERE: "after calibration here"}
    figure, both = plt.subplots(1, 2, figsize=(11, 5.2))
    for axes, ones, title in zip(both, (runs, steps), ("runs: CPU of the JVM", "steps: CPU of tasks, without fixed costs"), strict=True):  # fmt: skip
        if not ones:
            continue
        low, high = _range([o[n] for o in ones for n in ("measured", *profiles) if o[n]])
        for (part, word), colour in zip(profiles.items(), ("#BBBBBB", "#E69F00", TASKS), strict=True):
            axes.plot([o["measured"] for o in ones], [o[part] for o in ones], "o", color=colour, label=word, markersize=5)  # fmt: skip
        axes.plot([low, high], [low, high], color="#666666", linewidth=0.9, linestyle="--")
        _logarithmic(axes, low, high)
        axes.set_title(title)
        axes.set_xlabel("measured, CPU seconds")
        axes.set_ylabel("estimated, CPU seconds")
    both[0].legend(loc="lower right")
    return figure


PLOTS: dict[str, Callable[[Document], Figure]] = {
    "warehouse": warehouse,
    "refresh": refresh,
    "growth": growth,
    "limit": limit,
    "choice": choice,
    "peers": peers,
    "real-ivm": real_ivm,
    "real-pdw": real_pdw,
    "real-sensitivity": real_ivm,
    "calibration": calibration,
}
