"""Exploration: facts complete matches, matches fire rules, rules say new facts, until nothing new can be said.

One priority queue holds all matches, of relational laws and of TVR rules alike. A scoring function, which users can replace, orders
it; by default inter-TVR rules are boosted, and rules with the priority LAST wait until the rest is quiet (PNA: a delta by difference is
only taken where no rule gave a better one). Limits end exploration with a stop reason.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tempura.algebra import Empty, Op, Rel
from tempura.algebra.empties import prune
from tempura.errors import RuleError
from tempura.memo.memo import Fact, Member, Memo, Source, Term, ViewRef
from tempura.memo.spans import Span
from tempura.rules.compile import Trigger, compile_rule
from tempura.rules.lang import Declined, Rule, RuleSet
from tempura.schema import Keys, Schema, names


class Time(NamedTuple):
    """The start or the end of the span a rule fires for."""

    span: Span
    end: bool


@dataclass(frozen=True, eq=False)
class TvrUse(Rel):
    """`L[:]` in a body: the TVR as input of a definition."""

    ref: TvrRef


@dataclass(frozen=True, eq=False)
class ViewUse(Rel):
    """`L[t]`, `L[u]` or `L[t:u]` in a body."""

    ref: TvrRef
    kind: Any


class TvrRef:
    """A TVR as a rule's body sees it: subscripts give its views, assignments to them are recorded."""

    def __init__(self, firing: Firing, tvr: int | None, link: tuple[TvrRef, str] | None = None):
        self._firing = firing
        self._tvr = tvr
        self._link = link

    @property
    def id(self) -> int:
        if self._tvr is None:
            assert self._link is not None
            owner, name = self._link
            self._tvr = self._firing.memo.linked(owner.id, name)
            if self._tvr is None:
                raise RuleError(f"{name} of {owner.id} is used before it is assigned")
        return self._firing.memo.find(self._tvr)

    @property
    def exists(self) -> bool:
        return self._tvr is not None or (
            self._link is not None and self._firing.memo.linked(self._link[0].id, self._link[1]) is not None
        )

    @property
    def schema(self) -> Schema:
        return self._firing.memo.tvr(self.id).schema

    @property
    def columns(self) -> tuple[str, ...]:
        return names(self.schema)

    @property
    def keys(self) -> Keys:
        return self._firing.memo.tvr(self.id).keys

    @property
    def tables(self) -> frozenset[str]:
        return self._firing.memo.tvr(self.id).tables

    @property
    def additive(self) -> bool:
        return self._firing.memo.tvr(self.id).additive

    @property
    def empty(self) -> bool:
        return self._firing.memo.is_empty(self.id)

    @property
    def monotone(self) -> bool:
        """Whether it never takes rows back."""
        return self._firing.memo.monotone(self.id)

    @property
    def memo(self) -> Memo:
        """The memo itself, for rules that walk it (join orders)."""
        return self._firing.memo

    def ref(self, tvr: int) -> TvrRef:
        """Another TVR of the same memo."""
        return TvrRef(self._firing, tvr)

    def changes(self, t: Time) -> bool:
        """Whether it changes in the span at all."""
        return self._firing.memo.restrict(self.id, t.span) is not None

    def insert_only(self, t: Time) -> bool:
        """Whether its delta over the span takes nothing back."""
        return not self._firing.memo.retracts(self.id, t.span)

    def has_delta(self, t: Time) -> bool:
        return self._firing.memo.has_delta(self.id, t.span)

    def changed_tables(self, t: Time) -> frozenset[str]:
        """Its tables that change in the span."""
        return self._firing.memo.spans.changed(t.span) & self.tables

    def known(self, op: Op) -> int | None:
        """The TVR that the operator tree over TVRs is, if the memo has it."""
        return self._firing.known(op)

    def linked(self, name: str) -> TvrRef:
        known = self._firing.memo.linked(self.id, name)
        return TvrRef(self._firing, known, (self, name))

    def __getitem__(self, index: Any) -> Rel:
        if isinstance(index, slice):
            return TvrUse(self) if index.start is None else ViewUse(self, "delta")  # type: ignore[reportUnknownMemberType]
        return ViewUse(self, "new" if index.end else "old")

    def __setitem__(self, index: Any, op: Rel) -> None:
        if isinstance(index, slice):
            kind = "definition" if index.start is None else "delta"  # type: ignore[reportUnknownMemberType]
        else:
            if not index.end:
                raise RuleError("a rule cannot say how to compute the snapshot at the start of its span")
            kind = "new"
        self._firing.assignments.append((kind, self, op))


class Firing:
    """One run of a body: its handles and what it assigned."""

    def __init__(self, memo: Memo, rule: Rule, span: Span | None):
        self.memo = memo
        self.rule = rule
        self.span = span
        self.assignments: list[tuple[str, TvrRef, Rel]] = []
        self.source = Source(rule.name, rule.method)

    def arguments(self, variables: Sequence[str], values: Sequence[Any], tvr_names: frozenset[str]) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for name, value in zip(variables, values, strict=True):
            if name in tvr_names:
                given[name] = self._refs(value)
            else:
                given[name] = value
        if self.rule.times is not None and self.span is not None:
            start, end = self.rule.times
            given[start], given[end] = Time(self.span, False), Time(self.span, True)
        return given

    def _refs(self, value: Any) -> Any:
        return [TvrRef(self, v) for v in value] if isinstance(value, tuple) else TvrRef(self, value)  # type: ignore[reportUnknownVariableType]

    def apply(self) -> None:
        """Put all that the body assigned into the memo."""
        for kind, target, op in self.assignments:
            if kind == "definition":
                self._define(target, op)
            else:
                assert self.span is not None
                span = self.memo.restrict(target.id, self.span)
                if span is None:
                    continue
                term = self.term(op)
                if kind == "delta":
                    if term != ViewRef(target.id, "delta"):
                        self.memo.add_delta(target.id, span, term, self.source)
                elif term != ViewRef(target.id, "new"):
                    self.memo.add_new(target.id, span, term, self.source)

    def _define(self, target: TvrRef, op: Rel) -> None:
        link = target._link  # pyright: ignore[reportPrivateUsage]
        if link is None:
            if isinstance(op, Op):
                inputs = [self.tvr(i) for i in op.inputs]
                self.define(type(op), inputs, op.payload, target.id)
            else:
                self.memo.unify(target.id, self.tvr(op))
        else:
            self.memo.link(link[0].id, link[1], self.tvr(op))

    def tvr(self, rel: Rel) -> int:
        """The TVR of an operator tree over TVRs."""
        match rel:
            case TvrUse():
                return rel.ref.id
            case Op():
                return self.define(type(rel), [self.tvr(i) for i in rel.inputs], rel.payload)
            case _:
                raise RuleError(
                    f"rule {self.rule.name}: {rel!r} has a time, but stands where something timeless is needed",
                    hint="write L[:]",
                )

    def known(self, rel: Rel) -> int | None:
        """The TVR of an operator tree over TVRs, if there is one already."""
        if isinstance(rel, TvrUse):
            return rel.ref.id
        assert isinstance(rel, Op)
        inputs = [self.known(i) for i in rel.inputs]
        if any(i is None for i in inputs):
            return None
        return self.memo.lookup(Member(type(rel), tuple(i for i in inputs if i is not None), rel.payload))

    def define(self, op: type[Op], inputs: list[int], payload: tuple[Any, ...], tvr: int | None = None) -> int:
        memo = self.memo
        empty = [memo.is_empty(i) for i in inputs]
        if any(empty):
            kept = prune(op, payload, empty)
            if kept == ():
                schema = op.build(inputs, payload).columns_from([memo.tvr(i).schema for i in inputs])
                return memo.define(Member(Empty, (), (schema,)), self.source, tvr)
            if kept is not None and len(kept) == 1:
                same = inputs[kept[0]]
                if tvr is not None:
                    memo.unify(tvr, same)
                return memo.find(same)
            if kept is not None:
                inputs = [inputs[i] for i in kept]
        return memo.define(Member(op, tuple(inputs), payload), self.source, tvr)

    def term(self, rel: Rel) -> Term | ViewRef:
        """The term of an operator tree over views."""
        match rel:
            case ViewUse():
                return ViewRef(rel.ref.id, rel.kind)
            case Op():
                return Term(type(rel), tuple(self.term(i) for i in rel.inputs), rel.payload)
            case _:
                raise RuleError(
                    f"rule {self.rule.name}: {rel!r} has no time, but stands where a view is needed",
                    hint="write L[t], L[u] or L[t:u]",
                )


def boosted(rule: Rule) -> float:
    """The default score: a rule's own priority, and a boost for inter-TVR rules."""
    return rule.priority + (1.0 if rule.inter_tvr else 0.0)


@dataclass(frozen=True)
class Limits:
    """When to stop exploring."""

    facts: int = 200_000
    seconds: float = 30.0


UNHURRIED = Limits()


class Decline(NamedTuple):
    """A method that does not apply to a TVR, and why."""

    tvr: int
    method: str
    rule: str
    reason: str


@dataclass
class Exploration:
    """What exploration did."""

    firings: int = 0
    matches: int = 0
    seconds: float = 0.0
    stop_reason: str = "complete"
    fired: dict[str, int] = field(default_factory=dict[str, int])
    declines: dict[Decline, None] = field(default_factory=dict[Decline, None])
    trace: list[tuple[str, str, int, Span | None]] = field(default_factory=list["tuple[str, str, int, Span | None]"])


_compiled: dict[Rule, list[Trigger]] = {}


def triggers(rule: Rule) -> list[Trigger]:
    found = _compiled.get(rule)
    if found is None:
        found = _compiled[rule] = compile_rule(rule)
    return found


class Explorer:
    """The engine: a worklist of facts and a queue of matches."""

    def __init__(
        self, memo: Memo, rules: RuleSet, score: Callable[[Rule], float] = boosted, limits: Limits = UNHURRIED
    ):
        self.memo = memo
        self.limits = limits
        self.score = score
        self.outcome = Exploration()
        self._index: dict[tuple[str, Any], list[Trigger]] = {}
        self._tvr_names: dict[Rule, frozenset[str]] = {}
        for rule in rules.rules:
            self._tvr_names[rule] = frozenset(n.lstrip("*") for a in rule.atoms for n in (a.tvr, *a.inputs))
            for trigger in triggers(rule):
                self._index.setdefault(trigger.key, []).append(trigger)
        self._queue: list[tuple[float, int, Trigger, tuple[Any, ...], Span | None]] = []
        self._seen: set[tuple[Rule, tuple[Any, ...], Span | None]] = set()
        self._facts: list[Fact] = []
        memo.on_fact = self._facts.append

    def run(self) -> Exploration:
        """Fire until nothing is left, or a limit is reached."""
        started = time.perf_counter()
        outcome = self.outcome
        self._match_all()
        while self._queue:
            if self.memo.facts > self.limits.facts:
                outcome.stop_reason = f"limit of {self.limits.facts} facts"
                break
            if outcome.firings % 64 == 0 and time.perf_counter() - started > self.limits.seconds:
                outcome.stop_reason = f"limit of {self.limits.seconds:g} seconds"
                break
            _, _, trigger, values, span = heapq.heappop(self._queue)
            self._fire(trigger, values, span)
            self._match_all()
        outcome.seconds += time.perf_counter() - started
        return outcome

    def _match_all(self) -> None:
        facts = self._facts
        while facts:
            fact = facts.pop()
            key = (
                fact.kind,
                fact.value.op if fact.kind == "definition" else fact.value if fact.kind == "link" else None,
            )
            for trigger in self._index.get(key, ()):
                self._match(trigger, fact)

    def _match(self, trigger: Trigger, fact: Fact) -> None:
        rule = trigger.rule

        def emit(values: tuple[Any, ...], span: Span | None) -> None:
            match = (rule, values, span)
            if match in self._seen:
                return
            self._seen.add(match)
            self.outcome.matches += 1
            heapq.heappush(self._queue, (-self.score(rule), self.outcome.matches, trigger, values, span))

        trigger.match(self.memo, self.memo.find(fact.tvr), fact.value, emit)

    def _fire(self, trigger: Trigger, values: tuple[Any, ...], span: Span | None) -> None:
        rule = trigger.rule
        firing = Firing(self.memo, rule, span)
        given = firing.arguments(trigger.variables, values, self._tvr_names[rule])
        if rule.unless is not None and rule.unless.test(*(given[n] for n in rule.unless.needs)):
            return
        subject = given[rule.atoms[0].tvr]
        if span is not None:
            volatile = self.memo.tvr(subject.id).volatile
            if volatile:
                self._declined(subject, rule, f"non-deterministic expression {volatile}")
                return
        for condition in rule.conditions:
            if not condition.test(*(given[n] for n in condition.needs)):
                if condition.reason:
                    self._declined(subject, rule, condition.reason)
                return
        try:
            rule.body(*(given[n] for n in rule.parameters))
        except Declined as declined:
            self._declined(subject, rule, declined.reason)
            return
        if firing.assignments:
            self.outcome.firings += 1
            self.outcome.fired[rule.name] = self.outcome.fired.get(rule.name, 0) + 1
            self.outcome.trace.append((rule.name, rule.method, subject.id, span))
            firing.apply()

    def _declined(self, subject: TvrRef, rule: Rule, reason: str) -> None:
        self.outcome.declines[Decline(subject.id, rule.method, rule.name, reason)] = None
