"""What all figures look like."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

STYLE = {
    "figure.constrained_layout.use": True,
    "font.family": "sans-serif",
    "font.sans-serif": ["Helvetica", "Arial", "DejaVu Sans"],
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#E6E6E6",
    "legend.frameon": False,
    "svg.fonttype": "path",
    "hatch.linewidth": 0.7,
}
COLOURS = {
    "all": "#0072B2", "wrong": "#D55E00", "IM1": "#E69F00", "IM2": "#009E73", "OJV": "#CC79A7", "HOV": "#F0E442", "PART": "#56B4E9", "plan": "#444444", "full": "#999999",
}  # fmt: skip


def ordered(names: Iterable[str]) -> list[str]:
    """The names without repetition, in the order in which they came."""
    return list(dict.fromkeys(names))


def key_parts(key: str) -> tuple[str, str]:
    """The first word of a cell's key, and the rest."""
    first, _, rest = key.partition(" ")
    return first, rest


def bars(
    axes: Axes, groups: Sequence[str], heights: Mapping[str, Sequence[float]], colours: Mapping[str, str]
) -> float:
    """Bars side by side, a group for each label; the width of one."""
    width = 0.82 / len(heights)
    for k, (name, values) in enumerate(heights.items()):
        places = [n + (k - (len(heights) - 1) / 2) * width for n in range(len(groups))]
        axes.bar(places, values, width, color=colours[name], label=name, edgecolor="white", linewidth=0.4)
    axes.set_xticks(range(len(groups)), groups)
    axes.tick_params(axis="x", length=0)
    return width


def dots(
    axes: Axes, groups: Sequence[str], heights: Mapping[str, Sequence[float | None]], colours: Mapping[str, str]
) -> None:
    """Points side by side on a logarithmic axis, a group for each label; a cross at the bottom where there is none.

    A bar would begin at some floor, and its length say nothing.
    """
    step = 0.6 / len(heights)
    for k, (name, values) in enumerate(heights.items()):
        place = {n: n + (k - (len(heights) - 1) / 2) * step for n in range(len(groups))}
        taken = {place[n]: value for n, value in enumerate(values) if value}
        axes.plot(list(taken), list(taken.values()), "o", color=colours[name], label=name, markersize=7)
        none = [place[n] for n, value in enumerate(values) if value is None]
        bottom = axes.get_xaxis_transform()
        axes.plot(none, [0.04] * len(none), "x", color=colours[name], markersize=7, markeredgewidth=2, transform=bottom)
    for n in range(1, len(groups)):
        axes.axvline(n - 0.5, color="#E6E6E6", linewidth=0.8)
    axes.set_xticks(range(len(groups)), groups)
    axes.set_xlim(-0.5, len(groups) - 0.5)
    axes.tick_params(axis="x", length=0)
    axes.set_yscale("log")
    shown = [value for values in heights.values() for value in values if value]
    axes.set_ylim(min(shown, default=1) / 1.8, max(shown, default=1) * 1.3)
    plain_log(axes.yaxis)


def names_beside(axes: Axes, points: Mapping[str, tuple[float, float]], low: float, high: float) -> None:
    """Names to the left of their points on logarithmic axes from low to high, one above the other where they would meet."""
    step = (high / low) ** 0.035
    level = 0.0
    for name, (x, y) in sorted(points.items(), key=lambda point: point[1][1]):
        level = max(y * step, level * step)
        axes.annotate(
            name, (x, y), (x / step**1.5, level), ha="right", va="center", fontsize=8, color="#444444",
            arrowprops={"arrowstyle": "-", "color": "#BBBBBB", "linewidth": 0.7, "shrinkA": 0, "shrinkB": 3},
        )  # fmt: skip


def legend_above(axes: Axes, columns: int) -> None:
    """The legend above the plot, where it hides nothing."""
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=columns)


def common_legend(figure: Figure, axes: Axes, columns: int, **more: Artist) -> None:
    """The legend of one panel, and what it lacks, above all panels."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend([*handles, *more.values()], [*labels, *more], loc="outside upper center", ncols=columns)


def plain_log(axis: Axis) -> None:
    """Plain numbers, not powers of ten, on a logarithmic axis; more of them where it is short."""
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1.0,) if high > 300 * low else (1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
