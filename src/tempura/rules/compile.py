"""Patterns become nested loops: one Python function per rule and triggering condition.

A match is found once, when its last fact arrives: for each condition of a pattern there is a function that starts from a new fact
of that kind and looks the other conditions up in the memo, the most bound first. `delta_inner_join`, started by a delta of L, becomes

    def match(memo, tvr, value, emit):
        L = tvr
        for Q, m in memo.uses(L, InnerJoin):
            if m.inputs[0] != L: continue
            R = m.inputs[1]
            on = m.payload[0]
            for s in memo.spans_of(Q):
                if memo.restrict(L, s) != value: continue
                if not memo.has_delta(R, s): continue
                emit((Q, L, R, on), s)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tempura.algebra.op import Op
from tempura.rules.lang import Atom, Rule, Var

Matcher = Callable[..., None]


class Trigger:
    """A compiled matcher and the facts that start it."""

    __slots__ = ("key", "match", "rule", "source", "variables")

    def __init__(self, rule: Rule, key: tuple[str, Any], match: Matcher, source: str, variables: tuple[str, ...]):
        self.rule = rule
        self.key = key
        self.match = match
        self.source = source
        self.variables = variables


def compile_rule(rule: Rule) -> list[Trigger]:
    """The rule's matchers, one per condition of its pattern."""
    return [_compile(rule, i) for i in range(len(rule.atoms))]


def trigger_key(atom: Atom) -> tuple[str, Any]:
    """What a fact must be to start a matcher: its kind, and the operator or link it speaks of."""
    kind = "tvr" if atom.kind == "snapshot" else atom.kind
    return kind, atom.op if kind == "definition" else atom.link or None


class _Writer:
    """Writes one matcher; `bound` are the names that have values so far."""

    def __init__(self, rule: Rule):
        self.rule = rule
        self.lines: list[str] = []
        self.depth = 1
        self.bound: set[str] = set()
        self.constants: dict[str, Any] = {}
        self.span_owner = next(
            (a.tvr for a in rule.atoms if a.kind in ("definition", "tvr", "snapshot")), rule.atoms[0].tvr
        )
        self.has_span = any(a.kind in ("delta", "snapshot") for a in rule.atoms)
        self.span_bound = False

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def loop(self, text: str) -> None:
        self.line(text)
        self.depth += 1

    def skip_unless(self, test: str) -> None:
        leave = "return" if self.depth == 1 else "continue"
        self.line(f"if not ({test}): {leave}")

    def bind(self, name: str, value: str) -> None:
        """Give a name its value, or check that it is the same one."""
        if name in self.bound:
            self.skip_unless(f"{name} == {value}")
        else:
            self.line(f"{name} = {value}")
            self.bound.add(name)

    def constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    def member(self, atom: Atom, name: str) -> None:
        """Take a definition apart."""
        if atom.inputs and atom.inputs[0].startswith("*"):
            self.bind(atom.inputs[0][1:], f"{name}.inputs")
        else:
            for i, var in enumerate(atom.inputs):
                self.bind(var, f"{name}.inputs[{i}]")
        for i, value in enumerate(atom.payload):
            if isinstance(value, Var):
                self.bind(value.name, f"{name}.payload[{i}]")
            else:
                self.skip_unless(f"{name}.payload[{i}] == {self.constant(value)}")

    def start(self, atom: Atom) -> None:
        """Begin from the fact."""
        self.bind(atom.tvr, "tvr")
        if atom.kind == "definition":
            self.member(atom, "value")
        elif atom.kind == "link":
            self.bind(atom.inputs[0], f"memo.linked(tvr, {atom.link!r})")

    def cost(self, atom: Atom) -> int:
        """How much of a condition is open: checks first, then look-ups, then loops."""
        inputs = {i.lstrip("*") for i in atom.inputs}
        if atom.kind in ("delta", "snapshot"):
            return 0 if self.span_bound else 3 if self.span_owner in self.bound else 9
        if atom.kind == "link":
            return 1 if atom.tvr in self.bound else 2 if atom.inputs[0] in self.bound else 9
        if atom.kind == "definition":
            return 1 if atom.tvr in self.bound else 2 if inputs & self.bound else 9
        return 0 if atom.tvr in self.bound else 9

    def condition(self, atom: Atom) -> None:
        n = len(self.lines)
        match atom.kind:
            case "definition":
                op = self.constant(atom.op)
                if atom.tvr in self.bound:
                    self.loop(f"for m{n} in memo.definitions({atom.tvr}, {op}):")
                else:
                    known = next(i.lstrip("*") for i in atom.inputs if i.lstrip("*") in self.bound)
                    self.loop(f"for out{n}, m{n} in memo.uses({known}, {op}):")
                    self.bind(atom.tvr, f"out{n}")
                self.member(atom, f"m{n}")
            case "link" if atom.tvr not in self.bound:
                self.loop(f"for {atom.tvr} in memo.linked_from({atom.inputs[0]}, {atom.link!r}):")
                self.bound.add(atom.tvr)
            case "link":
                self.line(f"to{n} = memo.linked({atom.tvr}, {atom.link!r})")
                self.skip_unless(f"to{n} is not None")
                self.bind(atom.inputs[0], f"to{n}")
            case "snapshot":
                self.bind_span()
            case "delta":
                self.bind_span()
                self.skip_unless(self.delta_test(atom.tvr))
            case _:
                pass

    def bind_span(self) -> None:
        if not self.span_bound:
            self.loop(f"for s in memo.spans_of({self.span_owner}):")
            self.span_bound = True

    def delta_test(self, var: str) -> str:
        many = any(a.inputs and a.inputs[0] == "*" + var for a in self.rule.atoms)
        return f"all(memo.has_delta(x, s) for x in {var})" if many else f"memo.has_delta({var}, s)"


def _compile(rule: Rule, start: int) -> Trigger:
    w = _Writer(rule)
    first, rest = rule.atoms[start], [a for i, a in enumerate(rule.atoms) if i != start]
    many = next((a for a in rule.atoms if a.inputs and a.inputs[0] == "*" + first.tvr), None)
    if first.kind == "delta" and many is not None:
        # One of many inputs has a new delta: go to the definitions that use it.
        w.loop(f"for {many.tvr}, m in memo.uses(tvr, {w.constant(many.op)}):")
        w.bound.add(many.tvr)
        w.member(many, "m")
        rest.remove(many)
        w.condition(first)
    else:
        w.start(first)
    while rest:
        atom = min(rest, key=w.cost)
        rest.remove(atom)
        w.condition(atom)
    if w.has_span:
        w.bind_span()
    if first.kind == "delta" and many is None:
        w.skip_unless(f"memo.restrict({first.tvr}, s) == value")
    variables = tuple(sorted(v for v in w.bound if not v.startswith("_")))
    span = "s" if w.has_span else "None"
    w.line(f"emit(({', '.join(variables)},), {span})")
    source = "def match(memo, tvr, value, emit):\n" + "\n".join(w.lines) + "\n"
    namespace: dict[str, Any] = dict(w.constants)
    exec(compile(source, f"<rule {rule.name} from {first.kind} {first.tvr}>", "exec"), namespace)
    return Trigger(rule, trigger_key(first), namespace["match"], source, variables)


def operators(rule: Rule) -> set[type[Op]]:
    """The operators a rule's pattern speaks of."""
    return {a.op for a in rule.atoms if a.op is not None}
