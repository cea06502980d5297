"""Names that people can read: of TVRs, of views, and the memo as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tempura.algebra import (
    Aggregate,
    AggregateState,
    AntiJoin,
    Expand,
    Filter,
    FinalState,
    FullOuterJoin,
    InnerJoin,
    LeftOuterJoin,
    Minus,
    Op,
    Plus,
    Project,
    Scan,
    SemiJoin,
    TopK,
    Window,
)
from tempura.memo.memo import Member, Memo, Term, ViewRef
from tempura.timeline import Interval, Ticks, Timeline

_SIGNS: Mapping[type[Op], str] = {
    InnerJoin: " ⋈ ",
    LeftOuterJoin: " ⟕ ",
    FullOuterJoin: " ⟗ ",
    SemiJoin: " ⋉ ",
    AntiJoin: " ▷ ",
    Plus: " + ",
    Minus: " - ",
}
_PREFIXES: Mapping[type[Op], str] = {
    Filter: "σ",
    Aggregate: "γ",
    Window: "window",
    TopK: "limit",
    Expand: "sets",
    FinalState: "final",
    AggregateState: "state",
}
_LONGEST = 60


class Names:
    """Names of a memo's TVRs: given ones (the queries), tables, links, or what defines them."""

    def __init__(self, memo: Memo, given: Mapping[int, str]):
        self.memo = memo
        self._names = {memo.find(tvr): name for tvr, name in given.items()}
        self._links: dict[int, tuple[int, str]] = {}
        for record in memo.tvrs():
            for link, to in record.links.items():
                target = memo.find(to)
                if target != record.id and target not in self._links and target > record.id:
                    self._links[target] = (record.id, link)

    def tvr(self, tvr: int) -> str:
        tvr = self.memo.find(tvr)
        found = self._names.get(tvr)
        if found is None:
            self._names[tvr] = f"#{tvr}"  # for definitions that lead back here
            found = self._make(tvr)
            if len(found) > _LONGEST:
                found = f"{self._short(tvr)}#{tvr}"
            self._names[tvr] = found
        return found

    def _make(self, tvr: int) -> str:
        if tvr in self._links:
            owner, link = self._links[tvr]
            return f"{link}({self.tvr(owner)})"
        first = next(iter(self.memo.tvr(tvr).definitions))
        if first.op is Scan:
            return str(first.payload[0])
        inputs = [self.tvr(i) for i in first.inputs]
        if first.op is Project:
            return inputs[0]
        if first.op in _SIGNS:
            return "(" + _SIGNS[first.op].join(inputs) + ")"
        name = _PREFIXES.get(first.op, first.op.__name__)
        inner = inputs[0] if len(inputs) == 1 else ", ".join(inputs)
        return f"{name}{inner}" if inner.startswith("(") else f"{name}({inner})"

    def _short(self, tvr: int) -> str:
        first = next(iter(self.memo.tvr(tvr).definitions))
        tables = len(self.memo.tvr(tvr).tables)
        return f"{first.op.__name__} of {tables} tables "


def time_name(ticks: Ticks, timeline: Timeline, tables: frozenset[str], tick: int) -> str:
    """A tick as people say it: the point, or between two points which tables have already changed."""
    point = ticks.point_of(tick)
    name = timeline.points[point].name
    last = ticks.seen(tables, ticks.last_of_point[point])
    if tick == last:
        return name
    return f"{name}~{'+'.join(sorted(ticks.ticks[tick].tables))}"


def view_name(names: Names, ticks: Ticks, timeline: Timeline, tvr: int, interval: Interval) -> str:
    """`summary[t2]`, `sales[t1:t2]`."""
    tables = names.memo.tvr(tvr).tables
    end = time_name(ticks, timeline, tables, interval.end)
    if interval.start < 0:
        return f"{names.tvr(tvr)}[{end}]"
    return f"{names.tvr(tvr)}[{time_name(ticks, timeline, tables, interval.start)}:{end}]"


def show_member(names: Names, member: Member) -> str:
    op = member.op.build(member.inputs, member.payload)
    inputs = ", ".join(names.tvr(i) + "[:]" for i in member.inputs)
    return f"{op.show()}({inputs})" if member.inputs else op.show()


def show_term(names: Names, term: Term | ViewRef) -> str:
    if isinstance(term, ViewRef):
        return names.tvr(term.tvr) + {"old": "[t]", "new": "[u]", "delta": "[t:u]"}[term.kind]
    op = term.op.build(term.inputs, term.payload)
    return f"{op.show()}({', '.join(show_term(names, i) for i in term.inputs)})"


def show_memo(memo: Memo, names: Names) -> str:
    """All TVRs with their definitions, links and deltas, and the rule that said each."""
    lines: list[str] = []
    for record in memo.tvrs():
        lines.append(f"{names.tvr(record.id)}")
        lines += [f"  [:] = {show_member(names, m)}  -- {source.rule}" for m, source in record.definitions.items()]
        lines += [f"  {link} = {names.tvr(to)}" for link, to in record.links.items()]
        for said, mark in ((record.deltas, "t:u"), (record.news, "u")):
            for span, members in said.items():
                over = show_span(span)
                lines += [
                    f"  [{mark}] over {over} = {show_term(names, t)}  -- {source.rule}" for t, source in members.items()
                ]
    return "\n".join(lines)


def show_span(span: Any) -> str:
    return "{" + ", ".join(sorted(span)) + "}" if isinstance(span, frozenset) else f"[{span.start}:{span.end}]"  # type: ignore[reportUnknownArgumentType]
