"""The language of rules: a rule is an equation with a Python body.

    @rule(Q[:] == InnerJoin(L[:], R[:], on), L[t:u], R[t:u])
    def delta_inner_join(Q, L, R, on, t, u):
        Q[t:u] = Plus(InnerJoin(L[t:u], R[t], on), InnerJoin(L[u], R[t:u], on))

The decorator holds the pattern, what the paper draws solid; the body assigns what it draws dotted.

    Q[:] == Op(L[:], …, payload)   an operator operand that defines the TVR Q, with its operator edges; operators may be nested
    Q[:]                           a TVR operand
    L[t:u]                         an intra-TVR edge: L has a delta over the span from t to u
    L[t], L[u]                     an intra-TVR edge that is always there: the snapshots at the ends of any span in which L changes
    QP(L)[:], QP(L)[t:u]           an inter-TVR edge: L has a linked TVR, and it a delta
    where(f, reason)               a predicate over the names it mentions; where it fails, the reason is kept for explanations
    unless=f                       a skipping condition, looked at when the rule is about to fire

Equal names are equal values. The body runs once per new match. `view = operator` is recorded, and applied as one transaction when the
body returns: `Q[:] =` says a definition, `Q[t:u] =` a way to compute the delta, `Q[u] =` a way to compute the later snapshot,
`QP(Q)[:] =` a linked TVR, made if there is none. Operators may be nested; an unchanged TVR's delta is the empty view, so rules need no
variants for it. A body that assigns nothing declines; `decline(reason)` says why. There is no second mechanism: a body that needs computation is a longer function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from tempura.algebra.op import Op, Rel
from tempura.errors import RuleError

LAST = -1e9
"""The priority of rules that wait until nothing else can fire."""


# Pattern terms. Module-level names such as Q, L, on, t, u are variables of patterns; bodies get values under the same names.


@dataclass(frozen=True, eq=False)
class Var(Rel):
    """A name in a pattern."""

    name: str

    def __repr__(self) -> str:
        return self.name


class PayloadVar(Var):
    """Stands for a payload: a condition, a list of columns."""


class TimeVar(Var):
    """Stands for a time: the start or the end of the span."""


@dataclass(frozen=True, eq=False)
class TvrTerm(Rel):
    """`Q[:]`: a TVR in a pattern; compared with an operator it says that the operator defines it."""

    var: Var

    def __eq__(self, op: object) -> Any:
        if not isinstance(op, Op):
            raise RuleError(f"{self.var}[:] == {op!r}: the right side is not an operator")
        return Definition(self.var, op)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, eq=False)
class DeltaTerm(Rel):
    """`L[t:u]`: L has a delta."""

    var: Var
    start: str
    end: str


@dataclass(frozen=True, eq=False)
class SnapshotTerm(Rel):
    """`Q[t]`: Q before or after a span; there is one at every time."""

    var: Var
    time: str


@dataclass(frozen=True, eq=False)
class LinkTerm(Rel):
    """`QP(L)[:]`: L has the linked TVR; `QP(L)[t:u]`: and that has a delta."""

    link: Link
    var: Var
    ends: tuple[str, str] | None = None


@dataclass(frozen=True, eq=False)
class Definition:
    """`Q[:] == Op(…)`."""

    var: Var
    op: Op


def _ends(index: Any) -> tuple[str, str] | None:
    """The names of a slice's ends; None for `[:]`."""
    return None if index.start is None else (index.start.name, index.stop.name)


class TvrVar(Var):
    """Stands for a TVR; subscripts make terms of it."""

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, TimeVar):
            return SnapshotTerm(self, index.name)
        ends = _ends(index)
        return TvrTerm(self) if ends is None else DeltaTerm(self, *ends)


def tvrs(names: str) -> Any:
    """Pattern variables for TVRs."""
    found = [TvrVar(n) for n in names.split()]
    return found if len(found) > 1 else found[0]


def payloads(names: str) -> Any:
    """Pattern variables for payloads."""
    found = [PayloadVar(n) for n in names.split()]
    return found if len(found) > 1 else found[0]


def times(names: str) -> Any:
    """Pattern variables for times."""
    return tuple(TimeVar(n) for n in names.split())


@dataclass(frozen=True)
class Link:
    """A named function from TVR to TVR; users add theirs by naming it."""

    name: str

    def __call__(self, tvr: Any) -> Any:
        if isinstance(tvr, TvrVar):
            return _LinkPattern(self, tvr)
        return tvr.linked(self.name)

    def of(self, detail: object) -> Link:
        """The link with a parameter: HOV's M is a view per updated table."""
        return Link(f"{self.name}[{detail}]")


@dataclass(frozen=True)
class _LinkPattern:
    link: Link
    var: Var

    def __getitem__(self, index: Any) -> LinkTerm:
        ends = _ends(index)
        return LinkTerm(self.link, self.var, ends)


@dataclass(frozen=True)
class Where:
    """A predicate on a match, and what to tell people where it fails."""

    test: Callable[..., bool]
    reason: str
    needs: tuple[str, ...]


def where(test: Callable[..., bool], reason: str = "") -> Where:
    """A predicate over the names of its parameters: `where(lambda R, t, u: R.insert_only(t, u), "retractions in the input")`."""
    return Where(test, reason, tuple(inspect.signature(test).parameters))


class Declined(Exception):
    """A body found that the rule does not apply."""

    def __init__(self, reason: str):
        self.reason = reason
        super().__init__(reason)


def decline(reason: str) -> None:
    """Leave the body: the method does not apply here, and this is why."""
    raise Declined(reason)


# Rules and rule sets.


@dataclass(frozen=True)
class Atom:
    """One condition of a pattern, flat: what the compiler makes a loop or a check of."""

    kind: str
    """tvr, definition, snapshot, delta or link"""
    tvr: str
    op: type[Op] | None = None
    inputs: tuple[str, ...] = ()
    payload: tuple[Any, ...] = ()
    link: str = ""


@dataclass(eq=False)
class Rule:
    """A pattern and a body."""

    name: str
    atoms: tuple[Atom, ...]
    conditions: tuple[Where, ...]
    body: Callable[..., None]
    parameters: tuple[str, ...]
    times: tuple[str, str] | None
    unless: Where | None = None
    priority: float = 0.0
    law: str = ""
    method: str = ""

    @property
    def inter_tvr(self) -> bool:
        return any(a.kind == "link" for a in self.atoms)

    def __repr__(self) -> str:
        return f"<rule {self.name}>"


@dataclass(frozen=True)
class RuleSet:
    """A method: a name and its rules. Sets are joined with `|`."""

    name: str
    rules: tuple[Rule, ...]
    includes: tuple[RuleSet, ...] = field(default=())

    def __post_init__(self) -> None:
        if not self.includes:
            for r in self.rules:
                r.method = r.method or self.name

    def __or__(self, other: RuleSet) -> RuleSet:
        parts = tuple(dict.fromkeys((*self.parts, *other.parts)))
        rules = tuple(dict.fromkeys(r for part in parts for r in part.rules))
        return RuleSet("+".join(p.name for p in parts), rules, parts)

    @property
    def parts(self) -> tuple[RuleSet, ...]:
        return self.includes or (self,)

    def __hash__(self) -> int:
        return hash((self.name, self.rules))


Body = Callable[..., None]


def rule(*pattern: Any, unless: Callable[..., bool] | None = None, priority: float = 0.0) -> Callable[[Body], Rule]:
    """Make a rule of a pattern and the function below it; mistakes in the pattern are errors here, at import."""

    def make(body: Body) -> Rule:
        name = body.__name__
        atoms, conditions = _flatten(name, pattern)
        parameters = tuple(inspect.signature(body).parameters)
        bound = {v.lstrip("*") for a in atoms for v in (a.tvr, *a.inputs)} | {
            p.name for a in atoms for p in a.payload if isinstance(p, Var)
        }
        limits = {(d.start, d.end) for d in pattern if isinstance(d, DeltaTerm)}
        limits |= {d.ends for d in pattern if isinstance(d, LinkTerm) and d.ends}
        if not limits and (ends := tuple(p.time for p in pattern if isinstance(p, SnapshotTerm))):
            limits = {ends}
        if len(limits) > 1 or any(len(ends) != 2 for ends in limits):
            raise RuleError(f"rule {name}: a rule speaks of one span, with a start and an end, not of {limits}")
        if limits:
            bound |= set(next(iter(limits)))
        for needed in (*parameters, *(n for c in conditions for n in c.needs)):
            if needed not in bound:
                raise RuleError(
                    f"rule {name}: {needed!r} is not bound by the pattern", hint=f"bound are {', '.join(sorted(bound))}"
                )
        _check_connected(name, atoms)
        return Rule(
            name=name,
            atoms=tuple(atoms),
            conditions=tuple(conditions),
            body=body,
            parameters=parameters,
            times=cast("tuple[str, str]", next(iter(limits))) if limits else None,
            unless=where(unless) if unless else None,
            priority=priority,
            law=inspect.getdoc(body) or "",
        )

    return make


def _flatten(name: str, pattern: Sequence[Any]) -> tuple[list[Atom], list[Where]]:
    """The pattern as a flat list of conditions; nested operators get TVR names of their own."""
    atoms: list[Atom] = []
    conditions: list[Where] = []

    def operand(term: Any) -> str:
        match term:
            case TvrTerm():
                return term.var.name
            case TvrVar():
                return term.name
            case Op():
                inner = f"_{len(atoms)}"
                definition(inner, term)
                return inner
            case LinkTerm():
                inner = f"_{len(atoms)}"
                atoms.append(Atom("link", term.var.name, inputs=(inner,), link=term.link.name))
                return inner
            case _:
                raise RuleError(
                    f"rule {name}: {term!r} cannot be the input of an operator", hint="write L[:] or an operator"
                )

    def definition(out: str, op: Op) -> None:
        position = len(atoms)
        atoms.append(Atom("definition", out, type(op)))
        # Plus(Xs[:]): one name stands for all inputs.
        inputs = ("*" + operand(op.inputs),) if type(op).variadic else tuple(operand(i) for i in op.inputs)
        atoms[position] = Atom("definition", out, type(op), inputs, op.payload)

    for part in pattern:
        match part:
            case Definition():
                definition(part.var.name, part.op)
            case DeltaTerm():
                atoms.append(Atom("delta", part.var.name))
            case TvrTerm():
                atoms.append(Atom("tvr", part.var.name))
            case SnapshotTerm():
                atoms.append(Atom("snapshot", part.var.name))
            case LinkTerm():
                to = operand(part)
                if part.ends:
                    atoms.append(Atom("delta", to))
            case Where():
                conditions.append(part)
            case _:
                raise RuleError(f"rule {name}: {part!r} is not a pattern")
    return atoms, conditions


def _check_connected(name: str, atoms: Sequence[Atom]) -> None:
    if not atoms:
        raise RuleError(f"rule {name} has no pattern")
    reached = {atoms[0].tvr, *atoms[0].inputs}
    left = list(atoms[1:])
    while left:
        joined = [a for a in left if {a.tvr, *a.inputs, "*" + a.tvr} & reached]
        if not joined:
            raise RuleError(
                f"rule {name}: the pattern falls apart: {', '.join(a.tvr for a in left)} is not connected to the rest"
            )
        for a in joined:
            reached |= {a.tvr, *a.inputs}
            left.remove(a)


def rule_set(name: str, rules: Iterable[Rule]) -> RuleSet:
    return RuleSet(name, tuple(rules))
