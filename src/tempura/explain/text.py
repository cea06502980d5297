"""A plan as people read it, and as programs do.

The text says for each point what is done, what it is estimated to cost, what is kept, why and until when; then what the plan is compared
with, and why other methods were not used. `to_json` has all of it under names that do not change.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tempura.plans import IncrementalPlan, PlanLine, Reason, Run, State, Step

BAR = 32
"""The length of the longest bar."""
WIDEST = 64
"""Operators are shown up to this width; `to_json` has them whole."""
NAME = 40
"""Names of views and states are shown up to this width."""
POINT = 10
"""Names of points above the picture of the states are shown up to this width."""
PAGE = 100
"""Lists are wrapped at this width."""
DEEP = 12
"""Trees up to this depth are indented by two columns a level, deeper ones by one, which leaves room for the operators."""
SHOWN = 3
"""So many operators are named beside a reason; `to_json` has all."""

NOT_METHODS = {"query": "as written", "physical": "", "joins": "join order"}
"""What is said where no method was needed."""

SHARED = frozenset({"intra", "monotone", "eager"})
"""What all methods build on (merges, deltas of monotone operators, pieces of states) goes by the name of its rule."""

Row = tuple[str, ...]


def explain(plan: IncrementalPlan) -> str:
    """The explanation of a plan: costs by point, comparison, states, runs, reasons."""
    parts = [
        [_headline(plan)],
        _points(plan),
        _comparison(plan),
        _states(plan),
        *(_run(plan, run) for run in plan.runs),
        _reasons(plan.reasons),
        [f"note: {note}" for note in plan.notes],
        _planning(plan),
    ]
    return "\n\n".join("\n".join(line.rstrip() for line in part) for part in parts if part)


def number(value: float) -> str:
    """A number with three significant digits, or none where it is next to nothing: 9, 11.8, 1,230, 4.56 M."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞"
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if abs(value) >= size * 0.9995:
            return f"{value / size:.3g} {unit}"
    if abs(value) < 1e-3:
        return "<0.001" if value > 1e-9 else "0"
    # From a hundred on, three digits are whole numbers; %g would turn them into powers of ten.
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:.3g}"


def size(value: float) -> str:
    """A number of bytes with three significant digits and its unit."""
    for unit, one in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(value) >= one * 0.9995:
            return f"{value / one:.3g} {unit}"
    return f"{value:.0f} B"


def cut(text: str, widest: int) -> str:
    """Text of at most this width. The middle is left out: names differ at their ends, and a view's time stands last."""
    if len(text) <= widest:
        return text
    kept = widest - 1
    return f"{text[: kept - kept // 3]}…{text[-(kept // 3) :]}"


def table(rows: Sequence[Row], indent: int = 2, left: Iterable[int] = (0,)) -> list[str]:
    """Rows as aligned text; the columns in `left` are aligned to the left, the others to the right."""
    if not rows:
        return []
    lefts = set(left)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    cells = (
        (c.ljust(w) if i in lefts else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    )
    return [" " * indent + "  ".join(row) for row in cells]


def _bar(value: float, most: float) -> str:
    if not (math.isfinite(value) and math.isfinite(most)) or value <= 0 or most <= 0:
        return ""
    eighths = max(1, round(value / most * BAR * 8))
    return "█" * (eighths // 8) + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[eighths % 8]


def _headline(plan: IncrementalPlan) -> str:
    what = "work of the last run" if plan.objective == "latest-first" else "total cost"
    text = f"{plan.name}: {what} {number(plan.cost.total)} ({plan.objective})"
    full = plan.baselines.get("full")
    if full is None or not math.isfinite(full) or full <= 0:
        return text
    saved = 1 - plan.cost.total / full
    if abs(saved) < 5e-4:
        return f"{text}, the same as recomputing"
    return f"{text}, {_percent(abs(saved))} {'less' if saved > 0 else 'more'} than recomputing"


def _percent(share: float) -> str:
    return f"{number(share * 100)} %"


def _points(plan: IncrementalPlan) -> list[str]:
    most = max(plan.cost.by_point.values(), default=0.0)
    rows: list[Row] = [("point", "work", "price", "cost", "")]
    for point, cost in plan.cost.by_point.items():
        work = plan.cost.work.get(point, 0.0)
        rows.append((point, number(work), number(cost / work) if work else "", number(cost), _bar(cost, most)))
    return table(rows, left=(0, 4))


def _comparison(plan: IncrementalPlan) -> list[str]:
    """The plan beside recomputing and beside each method alone; methods that cost the same share a line."""
    total = plan.cost.total
    alone: dict[str, list[str]] = {}
    costs = dict(plan.baselines)
    if not costs:
        return []
    for name, cost in costs.items():
        if name != "full":
            alone.setdefault(number(cost), []).append(name)
    most = max([total, *(c for c in costs.values() if math.isfinite(c))])
    last = " (last run)" if plan.objective == "latest-first" else ""
    rows: list[Row] = [(f"this plan{last}", number(total), "", _bar(total, most))]
    if "full" in costs:
        rows.append(
            (f"recomputing{last}", number(costs["full"]), _difference(costs["full"], total), _bar(costs["full"], most))
        )
    for text, names in alone.items():
        cost = costs[names[0]]
        rows.append((f"{', '.join(names)} alone", text, _difference(cost, total), _bar(cost, most)))
    return ["compared with", *table(rows, left=(0, 3))]


def _difference(cost: float, total: float) -> str:
    if not math.isfinite(cost):
        return "no plan"
    if math.isclose(cost, total, rel_tol=5e-4):
        return "the same"
    if total <= 0:
        return ""
    return (
        f"{number(cost / total)} times"
        if cost >= 2 * total
        else f"{'+' if cost > total else '-'}{_percent(abs(cost / total - 1))}"
    )


def _states(plan: IncrementalPlan) -> list[str]:
    """The states as spans over the points: written at ●, kept along ━, read at ○."""
    if not plan.states:
        return ["states: none"]
    points = [run.point for run in plan.runs]
    held = [sum(s.bytes for s in plan.states if _holds(s, points, i)) for i in range(len(points))]
    head = f"states: {len(plan.states)}"
    if max(held, default=0.0) > 0:
        head += f", at most {size(max(held))} at once"
    shown = [cut(p, POINT) for p in points]
    widths = [len(p) + 2 for p in shown]
    above = "".join(p.ljust(w) for p, w in zip(shown, widths, strict=True))
    rows: list[Row] = [("", above, "rows", "bytes", "distributed by", "why")]
    for s in plan.states:
        by = cut(", ".join(s.partition), NAME) or "–"
        rows.append(
            (cut(s.name, NAME), _span(s, points, widths), number(s.rows), size(s.bytes), by, cut(s.why, WIDEST))
        )
    return [head + "  (● written, ○ read, dropped after the last)", *table(rows, left=(0, 1, 4, 5))]


def _holds(state: State, points: Sequence[str], point: int) -> bool:
    """Whether a state has to be there from this point to the next."""
    return _since(state, points) <= point < points.index(state.until)


def _since(state: State, points: Sequence[str]) -> int:
    """The point at which a state is written; -1 if an earlier run has left it."""
    return points.index(state.written) if state.written in points else -1


def _span(state: State, points: Sequence[str], widths: Sequence[int]) -> str:
    first, last = _since(state, points), points.index(state.until)
    cells: list[str] = []
    for i, width in enumerate(widths):
        mark = "●" if i == first else "○" if points[i] in state.read_at else "━" if first < i < last else " "
        cells.append(mark + ("━" if first <= i < last else " ") * (width - 1))
    return "".join(cells)


def _run(plan: IncrementalPlan, run: Run) -> list[str]:
    head = f"at {run.point}: "
    if not run.steps:
        return [head + "nothing to do"]
    delivers = sum(s.kind == "result" for s in run.steps)
    keeps = len(run.steps) - delivers
    counted = ((keeps, "state written"), (delivers, "result delivered"))
    lines = [head + ", ".join(_counted(n, what) for n, what in counted if n)]
    read = [s for s in plan.states if run.point in s.read_at and s.written != run.point]
    if read:
        named = ", ".join(f"{cut(s.name, NAME)}\u00a0(from\u00a0{s.written})" for s in read)
        wrapped = textwrap.wrap(named, PAGE, break_long_words=False, break_on_hyphens=False)
        lines += [f"{'        ' if i else '  reads '}{line}".replace("\u00a0", " ") for i, line in enumerate(wrapped)]
    for step in run.steps:
        lines += _step(plan, step)
    return lines


def _counted(count: int, what: str) -> str:
    noun, _, verb = what.partition(" ")
    return f"{count} {noun}{'s' if count > 1 else ''} {verb}"


def _step(plan: IncrementalPlan, step: Step) -> Iterator[str]:
    methods = ", ".join(step.methods) or "no method needed"
    rows = f"{number(step.rows)} {'row' if step.rows == 1 else 'rows'}"
    yield f"  {step.kind} {cut(step.name, NAME)} = {cut(step.view, WIDEST)}"
    yield f"    {rows}, {size(step.bytes)}, cost {number(step.cost)}; {methods}"
    state = next((s for s in plan.states if s.name == step.name), None)
    details = [f"kept until {state.until}"] if state is not None and state.until != state.written else []
    if step.partition:
        details.append(f"distributed by {', '.join(step.partition)}")
    if step.order:
        details.append(f"ordered by {', '.join(map(str, step.order))}")
    if details:
        yield "    " + "; ".join(details)
    yield from _operators(step.lines)


def _operators(lines: Sequence[PlanLine]) -> list[str]:
    if not lines:
        return []
    rows: list[Row] = [("operator", "rows", "bytes", "cost", "method", "view")]
    indent = "  " if max(line.depth for line in lines) <= DEEP else " "
    for line in lines:
        text = cut(indent * line.depth + line.operator, WIDEST)
        rows.append((text, number(line.rows), size(line.bytes), number(line.cost), _method(line), cut(line.view, NAME)))
    return table(rows, indent=6, left=(0, 4, 5))


def _method(line: PlanLine) -> str:
    """The method and its rule; where none was needed, why."""
    plain = NOT_METHODS.get(line.method)
    if plain is not None:
        return plain
    return line.rule if line.method in SHARED else " ".join(p for p in (line.method, line.rule) if p)


def _reasons(reasons: Sequence[Reason]) -> list[str]:
    """Why methods were not used, by method and reason."""
    if not reasons:
        return []
    found: dict[str, dict[str, dict[str, None]]] = {}
    for r in reasons:
        found.setdefault(r.method, {}).setdefault(r.reason, {})[r.operator] = None
    rows: list[Row] = []
    for method, by_reason in found.items():
        for i, (reason, operators) in enumerate(by_reason.items()):
            named = [cut(o, NAME) for o in list(operators)[:SHOWN]]
            more = f" and {len(operators) - SHOWN} more" if len(operators) > SHOWN else ""
            rows.append(("" if i else method, cut(reason, PAGE), ", ".join(named) + more))
    return ["methods not used", *table(rows, left=(0, 1, 2))]


def _planning(plan: IncrementalPlan) -> list[str]:
    p = plan.planning
    if not (p.groups or p.explore_seconds or p.stop_reason):
        return []
    counts = ", ".join(f"{n:,} {what}" for what, n in _counts(plan).items())
    seconds = f"planned in {p.explore_seconds + p.share_seconds:.2f} s"
    stop = f"; stopped: {p.stop_reason}" if p.stop_reason and p.stop_reason != "complete" else ""
    return [f"{seconds} (exploring {p.explore_seconds:.2f}, sharing {p.share_seconds:.2f}): {counts}{stop}"]


def _counts(plan: IncrementalPlan) -> Mapping[str, int]:
    p = plan.planning
    return {"groups": p.groups, "TVRs": p.tvrs, "facts": p.facts, "firings": p.firings, "costings": p.costings}


def to_json(plan: IncrementalPlan) -> dict[str, Any]:
    """The plan as JSON values. Names stay as they are; numbers that are not finite, such as the cost of no plan, are null."""
    return _finite(
        {
            "name": plan.name,
            "objective": plan.objective,
            "cost": {"total": plan.cost.total, "by_point": dict(plan.cost.by_point), "work": dict(plan.cost.work)},
            "baselines": dict(plan.baselines),
            "runs": [{"point": run.point, "steps": [_step_json(s) for s in run.steps]} for run in plan.runs],
            "states": [asdict(s) | {"until": s.until} for s in plan.states],
            "reasons": [asdict(r) for r in plan.reasons],
            "notes": list(plan.notes),
            "planning": asdict(plan.planning),
        }
    )


def _step_json(step: Step) -> dict[str, Any]:
    return {
        "name": step.name,
        "kind": step.kind,
        "view": step.view,
        "sql": step.sql,
        "rows": step.rows,
        "bytes": step.bytes,
        "cost": step.cost,
        "methods": step.methods,
        "columns": [{"name": c.name, "type": c.type, "nullable": c.nullable} for c in step.schema],
        "weighted": step.weighted,
        "partition": step.partition,
        "order": [str(key) for key in step.order],
        "reads": step.reads,
        "operators": [asdict(line) for line in step.lines],
    }


def _finite(value: Any) -> Any:
    match value:
        case dict():
            return {str(k): _finite(v) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        case list() | tuple():
            return [_finite(v) for v in value]  # pyright: ignore[reportUnknownVariableType]
        case float() if not math.isfinite(value):
            return None
        case _:
            return value
