"""Why: all the ways to compute a view, the rule behind each, and which of them the plan took."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from tempura.assemble import view_of
from tempura.errors import PlanError
from tempura.plans import IncrementalPlan
from tempura.space import Group

if TYPE_CHECKING:
    from tempura.optimizer import Explored


def explain_view(explored: Explored, plan: IncrementalPlan, view: str) -> str:
    """The members of a view's group as text."""
    space = explored.space

    def shown(group: Group) -> str:
        return view_of(space, explored.names, group)

    views: dict[str, list[Group]] = {}
    for group in space.all_groups():
        if group.tvr is not None and group.interval is not None:
            views.setdefault(shown(group), []).append(group)
    if view not in views:
        near = difflib.get_close_matches(view, views, n=5, cutoff=0.3)
        raise PlanError(
            f"the plan space has no view {view!r}", hint="near are " + ", ".join(near) if near else "see --memo"
        )
    lines = [line for run in plan.runs for step in run.steps for line in step.lines if line.view == view]
    taken = {(line.operator.split(" broadcast")[0], line.rule, line.reads) for line in lines}
    text: list[str] = []
    for group in views[view]:  # What a projection makes of a view goes by the same name.
        text.append(f"{view}: {len(space.members(group.id))} ways")
        for member, source in space.members(group.id):
            operator = member.op.build(member.inputs, member.payload).show()
            inputs = tuple(shown(space.group(i)) for i in member.inputs)
            # What reads a table and takes some of its columns is one line of a plan, which has no inputs.
            mark = "->" if {(operator, source.rule, inputs), (operator, source.rule, ())} & taken else "  "
            text.append(f"{mark} {operator}({', '.join(inputs)})  -- {source.rule} ({source.method})")
    if any(line.rule == "load" for line in lines):
        text.append("-> loaded from a state where the plan reads it again")
    if not lines:
        text.append("the plan does not use this view")
    return "\n".join(text)
