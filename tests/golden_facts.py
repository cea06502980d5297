"""What one rule says of facts given as text, in the memo's own notation.

    Q[:] = InnerJoin[L.a = R.b](L[:], R[:])    a definition
    QP(Q)[:] = P[:]                            a link
    L[t1:t2], R[t1:t2]                         deltas that are there

A name without a definition is a relation of its own; `L.a` says that the column a is L's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tempura import algebra
from tempura.algebra import AggregateCall, Op, Output, Rel, Scan, SortKey, WindowCall
from tempura.explore import Explorer
from tempura.expr import parse
from tempura.memo import Memo, SignatureSpans, ViewRef
from tempura.memo.memo import QUERY, RETRACTION, Member, Source, Term, passes
from tempura.memo.show import Names, show_member, show_term
from tempura.rules import methods as rule_sets
from tempura.rules.deltas import INTRA_UNPRUNED
from tempura.rules.lang import Rule, rule_set
from tempura.schema import Column, Keys, Schema
from tempura.timeline import Interval, Ticks


class Given(Op):
    """A relation of which nothing is known but its columns, its key, and the deltas that the facts list."""

    input: Rel

    def columns_from(self, inputs: Sequence[Schema]) -> Schema:
        return inputs[0]

    def keys_from(self, inputs: Sequence[Keys], schemas: Sequence[Schema]) -> Keys:
        return inputs[0]


RETRACTION[Given] = passes
GIVEN = Source("given", "given")
WIDEST = 90
"""Longer terms are shown with one operator a line."""
RULES: dict[str, Rule] = {r.name: r for r in (*rule_sets.rules(rule_sets.ALL).rules, *INTRA_UNPRUNED.rules)}
_TERM = re.compile(r"(\w+)(?:\[(.*)\])?\((.*)\)$")


class Facts:
    """The facts of a `fire` command, put into a memo."""

    def __init__(self, lines: Sequence[str], flags: Mapping[str, str]):
        self.rule = RULES[flags["rule"]]
        self.lines = lines
        text = "\n".join(lines)
        self.columns: dict[str, list[str]] = {n: [] for n in re.findall(r"\b(\w+)\[", text) if not hasattr(algebra, n)}
        for owner, column in re.findall(r"\b(\w+)\.(\w+)", text):
            self.columns[owner] += [column] if column not in self.columns[owner] else []
        defined = {line.split("[:]")[0] for line in self.lines if "[:] = " in line}
        leaves = [n for n in self.columns if n not in defined]
        changing = flags.get("changes", ",".join(leaves)).split(",")
        ticks = Ticks.of(2, [leaves, changing])
        self.memo = Memo(
            SignatureSpans(ticks, [Interval(0, len(changing))]),
            lambda t: t in flags.get("retracts", "").split(","),
        )
        self.explorer = Explorer(self.memo, rule_set(self.rule.method, (self.rule,)))
        key = flags.get("key", ".").split(".")
        self.ids: dict[str, int] = {}
        self.links: set[tuple[int, str]] = set()
        for name in leaves:
            columns = tuple(Column(c, "int", [name, c] != key) for c in self.columns[name])
            self.ids[name] = self.memo.insert(Given(Scan(name, columns, (key[1],) if key[0] == name else ())))

    def fire(self) -> str:
        for line in self.lines:
            self.read(line)
        outcome = self.explorer.run()
        names = Names(self.memo, {tvr: name for name, tvr in self.ids.items()})
        said: list[str] = []
        for record in self.memo.tvrs():
            if any(m.op is Scan for m in record.definitions):
                continue
            name = names.tvr(record.id)
            said += [
                f"{name}[:] = {show_member(names, m)}"
                for m, s in record.definitions.items()
                if s.rule == self.rule.name
            ]
            # A link to a TVR that has no other name goes without saying.
            said += [
                f"{link}({name}) = {names.tvr(to)}"
                for link, to in record.links.items()
                if (record.id, link) not in self.links and names.tvr(to) != f"{link}({name})"
            ]
            for views, mark in ((record.deltas, "[t:u]"), (record.news, "[u]")):
                for terms in views.values():
                    said += [f"{name}{mark} = {_shown(names, x)}" for x, s in terms.items() if s.rule == self.rule.name]
        said += [f"declined: {d.reason}" for d in outcome.declines]
        timed = "\n".join(said)
        return timed.replace("[t:u]", "[t1:t2]").replace("[t]", "[t1]").replace("[u]", "[t2]")

    def read(self, line: str) -> None:
        target, equals, term = line.partition(" = ")
        if not target.endswith("[:]") or not equals:
            for name in re.findall(r"(\w+)\[t1:t2\]", line):
                tvr = self.ids[name]
                for span in self.memo.spans_of(tvr):
                    self.memo.add_delta(tvr, span, ViewRef(tvr, "new"), GIVEN)
            return
        name = target.removesuffix("[:]")
        if "(" in name:
            link, owner = name.removesuffix(")").split("(")
            self.memo.link(self.ids[owner], link, self.ids[term.removesuffix("[:]")])
            self.links.add((self.ids[owner], link))
        else:
            self.ids[name] = self.term(term)

    def term(self, text: str) -> int:
        if text.endswith("[:]"):
            return self.ids[text.removesuffix("[:]")]
        found = _TERM.match(text)
        assert found, f"{text} is not an operator over TVRs"
        op: Any = getattr(algebra, found[1])
        inputs = tuple(map(self.term, _split(found[3], ",")))
        given = _split(re.sub(r"\b\w+\.(\w+)", r"\1", found[2] or ""), ";")
        kinds = [op.__dataclass_fields__[n].type for n in op.payload_names]
        payload = tuple(PAYLOADS[k](given[i] if i < len(given) else "") for i, k in enumerate(kinds))
        return self.memo.define(Member(op, inputs, payload), QUERY)


def _shown(names: Names, term: Term | ViewRef, depth: int = 0) -> str:
    """A term in one line if it is short, else with one operator a line."""
    line = show_term(names, term)
    if len(line) <= WIDEST or isinstance(term, ViewRef):
        return line
    inputs = [_shown(names, i, depth + 1) for i in term.inputs]
    indent = "\n" + "  " * (depth + 1)
    return term.op.build(term.inputs, term.payload).show() + "".join(indent + i for i in inputs)


def _split(text: str, mark: str) -> list[str]:
    """The parts between marks that are not inside brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "([") - (c in ")]")
        parts = [*parts, ""] if c == mark and not depth else [*parts[:-1], parts[-1] + c]
    return [p.strip() for p in parts]


def _list(text: str) -> list[str]:
    return [part for part in _split(text, ",") if part]


def _call(text: str) -> AggregateCall:
    call, _, name = text.rpartition(" as ")
    function, argument = call.removesuffix(")").split("(")
    plain = argument.removeprefix("distinct ")
    return AggregateCall(
        Column(name, "bigint"), function, None if argument == "*" else parse(plain), distinct=plain != argument
    )


def _output(text: str) -> Output:
    nullable = not text.endswith(" not null")
    expr, _, name = text.removesuffix(" not null").rpartition(" as ")
    return Output(Column(name, "int", nullable), parse(expr or name))


PAYLOADS: dict[str, Callable[[str], Any]] = {
    "Expr": parse,
    "tuple[str, ...]": lambda text: tuple(_list(text)),
    "tuple[AggregateCall, ...]": lambda text: tuple(map(_call, _list(text))),
    "tuple[Output, ...]": lambda text: tuple(map(_output, _list(text))),
    "tuple[WindowCall, ...]": lambda text: tuple(WindowCall(o.column, o.expr) for o in map(_output, _list(text))),
    "tuple[SortKey, ...]": lambda text: tuple(SortKey(c) for c in _list(text)),
    "int | None": lambda text: int(text) if text else None,
    "int": lambda text: int(text or 0),
}
