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
