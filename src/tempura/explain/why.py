"""Why: all the ways to compute a view, the rule behind each, and which of them the plan took."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from tempura.errors import PlanError
from tempura.memo.show import view_name
from tempura.plans import IncrementalPlan
from tempura.space import Group

if TYPE_CHECKING:
    from tempura.optimizer import Explored


def explain_view(explored: Explored, plan: IncrementalPlan, view: str) -> str:
    """The members of a view's group as text."""
    space, names = explored.space, explored.names

    def shown(group: Group) -> str:
        if group.tvr is not None and group.interval is not None:
            return view_name(names, space.ticks, space.timeline, group.tvr, group.interval)
        if group.empty:
            return "∅"
        member, _ = space.members(group.id)[0]
        return f"{member.op.__name__}({', '.join(shown(space.group(i)) for i in member.inputs)})"

    views = {shown(g): g for g in space.all_groups() if g.tvr is not None and g.interval is not None}
    group = views.get(view)
    if group is None:
        near = difflib.get_close_matches(view, views, n=5, cutoff=0.3)
        raise PlanError(
            f"the plan space has no view {view!r}", hint="near are " + ", ".join(near) if near else "see --memo"
        )
    lines = [line for run in plan.runs for step in run.steps for line in step.lines if line.view == view]
    taken = {(line.operator.split(" broadcast")[0], line.rule) for line in lines}
    text = [f"{view}: {len(space.members(group.id))} ways"]
    for member, source in space.members(group.id):
        op = member.op.build(member.inputs, member.payload)
        mark = "->" if (op.show(), source.rule) in taken else "  "
        inputs = ", ".join(shown(space.group(i)) for i in member.inputs)
        text.append(f"{mark} {op.show()}({inputs})  -- {source.rule} ({source.method})")
    if any(line.rule == "load" for line in lines):
        text.append("-> loaded from a state where the plan reads it again")
    if not lines:
        text.append("the plan does not use this view")
    return "\n".join(text)
