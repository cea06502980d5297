"""A plan as people read it, and as programs do.

The text says for each point what is done, what it is estimated to cost, what is kept, why and until when; then what the plan is compared
with, and why other methods were not used. `to_json` has all of it under names that do not change.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from tempura.plans import IncrementalPlan, PlanLine, Reason, Run, State, Step

BAR = 40
"""The length of the longest bar."""
WIDEST = 88
"""Operators are shown up to this width; `to_json` has them whole."""

Row = tuple[str, ...]


def explain(plan: IncrementalPlan) -> str:
    """The explanation of a plan: costs by point, comparison, runs, states, reasons."""
    parts = [
        [f"{plan.name}: total cost {number(plan.cost.total)} ({plan.objective})"],
        _points(plan),
        _comparison(plan),
        *(_run(plan, run) for run in plan.runs),
        _states(plan.states),
        _reasons(plan.reasons),
        [f"note: {note}" for note in plan.notes],
        _planning(plan),
    ]
    return "\n\n".join("\n".join(line.rstrip() for line in part) for part in parts if part)


def number(value: float) -> str:
    """A number with three significant digits: 9, 11.8, 1,230, 4.56 M."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞"
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if abs(value) >= size * 0.9995:
            return f"{value / size:.3g} {unit}"
    if abs(value) < 1e-6:
        return "0"
    # From a hundred on, three digits are whole numbers; %g would turn them into powers of ten.
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:.3g}"


def size(value: float) -> str:
    """A number of bytes with three significant digits and its unit."""
    for unit, one in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(value) >= one * 0.9995:
            return f"{value / one:.3g} {unit}"
    return f"{value:.0f} B"


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


def _points(plan: IncrementalPlan) -> list[str]:
    most = max(plan.cost.by_point.values(), default=0.0)
    rows: list[Row] = [("point", "work", "price", "cost", "")]
    for point, cost in plan.cost.by_point.items():
        work = plan.cost.work.get(point, 0.0)
        rows.append((point, number(work), number(cost / work) if work else "", number(cost), _bar(cost, most)))
    return table(rows, left=(0, 4))


def _comparison(plan: IncrementalPlan) -> list[str]:
    total = plan.cost.total
    rows: list[Row] = [("this plan", number(total), "")]
    for name, cost in plan.baselines.items():
        label = "recomputing everything" if name == "full" else f"{name} alone"
        rows.append((label, number(cost), _difference(cost, total)))
    return ["compared with", *table(rows, left=(0, 2))] if plan.baselines else []


def _difference(cost: float, total: float) -> str:
    if not math.isfinite(cost):
        return "no plan"
    if total <= 0 or math.isclose(cost, total, rel_tol=1e-9):
        return "the same" if math.isclose(cost, total, rel_tol=1e-9) else ""
    return f"{cost / total:.3g} times as much" if cost >= 2 * total else f"{(cost / total - 1) * 100:+.3g} %"


def _run(plan: IncrementalPlan, run: Run) -> list[str]:
    head = f"at {run.point}: "
    if not run.steps:
        return [head + "nothing to do"]
    delivers = sum(s.kind == "result" for s in run.steps)
    keeps = len(run.steps) - delivers
    lines = [
        head
        + ", ".join(_counted(n, what) for n, what in ((keeps, "state written"), (delivers, "result delivered")) if n)
    ]
    read = [s for s in plan.states if run.point in s.read_at and s.written != run.point]
    if read:
        lines.append("  reads " + ", ".join(f"{s.name} (from {s.written})" for s in read))
    for step in run.steps:
        lines += _step(plan, step)
    return lines


def _counted(count: int, what: str) -> str:
    noun, _, verb = what.partition(" ")
    return f"{count} {noun}{'s' if count > 1 else ''} {verb}"


def _step(plan: IncrementalPlan, step: Step) -> Iterator[str]:
    methods = ", ".join(step.methods) or "no method: computed from snapshots"
    yield f"  {step.kind} {step.name} = {step.view}"
    yield f"    {number(step.rows)} {'row' if step.rows == 1 else 'rows'}, {size(step.bytes)}, cost {number(step.cost)}; {methods}"
    state = next((s for s in plan.states if s.name == step.name), None)
    if state is not None:
        yield f"    kept until {state.until}: {state.why}" if state.why else f"    kept until {state.until}"
    if step.partition:
        yield f"    distributed by {', '.join(step.partition)}"
    if step.order:
        yield f"    ordered by {', '.join(map(str, step.order))}"
    yield from _operators(step.lines)


def _operators(lines: Sequence[PlanLine]) -> list[str]:
    if not lines:
        return []
    rows: list[Row] = [("operator", "rows", "bytes", "cost", "method")]
    for line in lines:
        text = "  " * line.depth + line.operator + (f" → {line.view}" if line.view else "")
        method = " ".join(part for part in (line.method, f"({line.rule})" if line.rule else "") if part)
        rows.append((_cut(text), number(line.rows), size(line.bytes), number(line.cost), method))
    return table(rows, indent=6, left=(0, 4))


def _cut(text: str) -> str:
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"


def _states(states: Sequence[State]) -> list[str]:
    if not states:
        return ["states: none"]
    rows: list[Row] = [("name", "rows", "bytes", "written", "read at", "distributed by", "view")]
    for s in states:
        rows.append(
            (
                s.name,
                number(s.rows),
                size(s.bytes),
                s.written,
                ", ".join(s.read_at) or "–",
                ", ".join(s.partition) or "–",
                s.view,
            )
        )
    return [f"states: {len(states)}, {size(sum(s.bytes for s in states))} in all", *table(rows, left=(0, 3, 4, 5, 6))]


def _reasons(reasons: Sequence[Reason]) -> list[str]:
    if not reasons:
        return []
    lines = ["methods not used"]
    for operator, of_operator in groupby(sorted(reasons, key=lambda r: r.operator), key=lambda r: r.operator):
        lines.append(f"  {_cut(operator)}")
        # Two views may have one name; what is said of both is said once.
        lines += table(list(dict.fromkeys((r.method, r.reason) for r in of_operator)), indent=4, left=(0, 1))
    return lines


def _planning(plan: IncrementalPlan) -> list[str]:
    p = plan.planning
    if not (p.groups or p.explore_seconds or p.stop_reason):
        return []
    counts = ", ".join(f"{n:,} {what}" for what, n in _counts(plan).items())
    stop = f"; stopped: {p.stop_reason}" if p.stop_reason else ""
    return [
        f"planned in {p.explore_seconds + p.share_seconds:.2f} s (exploring {p.explore_seconds:.2f}, sharing {p.share_seconds:.2f}): {counts}{stop}"
    ]


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
