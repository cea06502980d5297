"""Golden files: a command with flags, its input, `----`, the expected output, a blank line. `#` begins a comment.

    table NAME [key=COLUMN] [arrives=t1:4,t2:3] [retracts=t2:0.2]    columns; then, for `run`, what comes at each point: `t1: o1 c1 100; o2 c2 null`, a lone `-` takes back
    build                                      SQL: the tree as bound, and what normalising makes of it
    fire rule=NAME [key=L.a] [retracts=R] [changes=L,R]    facts; what one rule says of them, or why it declines
    memo, plan, why view=VIEW, size, sql, run  SQL [methods=IM1,IM2] [deliver=t1,t2] [prices=0.2,1] [show=cost]

Facts are in the memo's own notation. A name without a definition is a relation of its own; `L.a` says that the column a is L's.

    Q[:] = InnerJoin[L.a = R.b](L[:], R[:])    a definition
    QP(Q)[:] = P[:]                            a link
    L[t1:t2], R[t1:t2]                         deltas that are there
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb

from tempura import algebra
from tempura.algebra import AggregateCall, Op, Output, Rel, Scan, SortKey
from tempura.algebra.op import show_tree
from tempura.catalog import Catalog, Table
from tempura.explain.text import number
from tempura.explain.why import explain_view
from tempura.explore import Explorer
from tempura.expr import col, parse
from tempura.job import Job
from tempura.memo import Memo, SignatureSpans, ViewRef
from tempura.memo.memo import QUERY, RETRACTION, Member, Source, passes
from tempura.memo.show import Names, show_member, show_memo, show_term
from tempura.optimizer import explore, plan
from tempura.plans import IncrementalPlan
from tempura.reference import Bag
from tempura.rules import methods as rule_sets
from tempura.rules.deltas import INTRA_UNPRUNED
from tempura.rules.lang import Rule, rule_set
from tempura.rules.relational import normalize
from tempura.schema import Column, Keys, Schema
from tempura.sql.bind import bind
from tempura.timeline import MAIN, Interval, Point, Ticks, Timeline
from tests.duck import register_history
from tests.duckrun import execute, run_batch


@dataclass
class Block:
    """A command of a golden file, with the comments above it."""

    comments: list[str]
    command: str
    flags: dict[str, str]
    head: str
    text: list[str]
    expected: list[str]
    line: int

    def __str__(self) -> str:
        return "\n".join([*self.comments, *([self.head, *self.text, "----", *self.expected] if self.head else [])])


def read(text: str) -> list[Block]:
    """The blocks of a file."""
    blocks: list[Block] = []
    line = 1
    for part in re.split(r"\n\s*\n", text.strip("\n")):
        lines = part.split("\n")
        comments = [x for x in lines if x.startswith("#")]
        rest = lines[len(comments) :]
        head, *body = rest or [""]
        words = head.split()
        at = body.index("----") if "----" in body else len(body)
        flags = dict(w.split("=", 1) if "=" in w else ("name", w) for w in words[1:])
        blocks.append(Block(comments, words[0] if words else "", flags, head, body[:at], body[at + 1 :], line))
        line += len(lines) + 1
    return blocks


def write(blocks: Sequence[Block]) -> str:
    return "\n\n".join(map(str, blocks)) + "\n"


@dataclass
class Session:
    """What the commands of one file share: its tables and their rows."""

    tables: dict[str, Table] = field(default_factory=dict[str, Table])
    history: dict[str, list[Bag]] = field(default_factory=dict[str, list[Bag]])

    def output(self, block: Block) -> list[str]:
        """What a command prints, without blank lines."""
        found: str = getattr(self, block.command)(block)
        return [line.rstrip() for line in found.split("\n") if line.strip()]

    # Tables and jobs.

    def table(self, block: Block) -> str:
        name, flags = block.flags["name"], block.flags
        columns = tuple(Column(*c.split(), c.split()[0] != flags.get("key")) for c in block.text[0].split(", "))  # type: ignore[arg-type]
        arrives, retracts = (_numbers(flags.get(f, "")) for f in ("arrives", "retracts"))
        self.tables[name] = Table(name, columns, (flags["key"],) if "key" in flags else (), arrives, retracts)
        held: Bag = {}
        self.history[name] = []
        changes = dict(line.split(": ", 1) for line in block.text[1:])
        for point in self.points():
            for row in filter(None, changes.get(point, "").split("; ")):
                values = row.removeprefix("- ").split()
                key = tuple(_value(v, c.type) for v, c in zip(values, columns, strict=True))
                held = {**held, key: held.get(key, 0) + (-1 if row.startswith("- ") else 1)}
            self.history[name].append({row: n for row, n in held.items() if n})
        rows = ", ".join(f"{point} {sum(b.values())}" for point, b in zip(self.points(), self.history[name], strict=True))
        return f"{name}: {len(columns)} columns; rows at {rows}"

    def points(self) -> list[str]:
        return sorted({p for t in self.tables.values() for p in t.arrives} | {"t1", "t2"})

    def job(self, block: Block) -> Job:
        flags, points = block.flags, self.points()
        due = flags.get("deliver", points[-1]).split(",")
        prices = [float(p) for p in flags.get("prices", ",".join("1" for _ in points)).split(",")]
        timeline = Timeline(
            tuple(Point(p, price, (MAIN,) if p in due else ()) for p, price in zip(points, prices, strict=True))
        )
        methods = {"methods": flags["methods"].split(",")} if "methods" in flags else {}
        return Job(query="\n".join(block.text), catalog=Catalog(*self.tables.values()), timeline=timeline, **methods)  # type: ignore[arg-type]

    def planned(self, block: Block) -> IncrementalPlan:
        return plan(self.job(block), cost="unit", baselines=False)

    # Commands.

    def build(self, block: Block) -> str:
        bound = bind("\n".join(block.text), Catalog(*self.tables.values())).root
        normal = normalize(bound)
        return show_tree(bound) + ("" if normal == bound else f"\nnormalised\n{show_tree(normal)}")

    def memo(self, block: Block) -> str:
        explored = explore(self.job(block), self.rules(block))
        return show_memo(explored.memo, explored.names)

    def rules(self, block: Block) -> Any:
        return rule_sets.methods(block.flags["methods"].split(",")) if "methods" in block.flags else rule_sets.ALL

    def size(self, block: Block) -> str:
        explored = explore(self.job(block), self.rules(block))
        tvrs, groups = sum(1 for _ in explored.memo.tvrs()), len(explored.space.all_groups())
        return f"{explored.memo.facts} facts, {explored.exploration.firings} firings, {tvrs} TVRs, {groups} groups"

    def plan(self, block: Block) -> str:
        made = self.planned(block)
        costs = block.flags.get("show") == "cost"
        lines = [f"total {number(made.cost.total)}" if costs else ""]
        for run in made.runs:
            lines.append(f"at {run.point}" + (f": {number(made.cost.work[run.point])}" if costs else ""))
            for step in run.steps:
                lines.append(f"  {step.kind} {step.name} = {step.view}")
                for x in step.lines:
                    cost = f"  {number(x.rows)} rows, cost {number(x.cost)}" if costs else ""
                    lines.append(f"    {'  ' * x.depth}{x.operator}  -- {x.rule}{cost}")
        return "\n".join(lines)

    def why(self, block: Block) -> str:
        explored = explore(self.job(block), self.rules(block))
        return explain_view(explored, self.planned(block), block.flags["view"])

    def sql(self, block: Block) -> str:
        steps = [(run.point, step) for run in self.planned(block).runs for step in run.steps]
        return "\n".join(f"{point} {step.name}:\n{step.sql}" for point, step in steps)

    def run(self, block: Block) -> str:
        """Execute every run, compare results and states, and show the results."""
        job = self.job(block)
        with duckdb.connect() as connection:
            register_history(connection, job.catalog, self.points(), self.history)
            report = execute(self.planned(block), connection, job.queries)
            lines = [str(report)]
            for point in (p.name for p in job.timeline.points if p.deliver):
                run_batch(connection, "answer", job.queries[MAIN], point)
                rows = connection.execute("SELECT * FROM answer ORDER BY ALL").fetchall()
                lines.append(f"{point}: " + "; ".join(" ".join("null" if v is None else str(v) for v in r) for r in rows))
        return "\n".join(lines)

    def fire(self, block: Block) -> str:
        return Facts(block).fire()


def _numbers(text: str) -> dict[str, float]:
    return {k: float(v) for k, v in (part.split(":") for part in text.split(",") if part)}


def _value(text: str, kind: str) -> Any:
    return None if text == "null" else text if kind == "string" else float(text) if kind == "double" else int(text)


# One rule on facts given as text.


class Given(Op):
    """A relation of which nothing is known but its columns, its key, and the deltas that the facts list."""

    input: Rel

    def columns_from(self, inputs: Sequence[Schema]) -> Schema:
        return inputs[0]

    def keys_from(self, inputs: Sequence[Keys], schemas: Sequence[Schema]) -> Keys:
        return inputs[0]


RETRACTION[Given] = passes
GIVEN = Source("given", "given")
RULES: dict[str, Rule] = {
    r.name: r for r in (*rule_sets.rules(rule_sets.ALL).rules, *INTRA_UNPRUNED.rules)
}
_TERM = re.compile(r"(\w+)(?:\[(.*)\])?\((.*)\)$")


class Facts:
    """The facts of a `fire` command, put into a memo."""

    def __init__(self, block: Block):
        self.rule = RULES[block.flags["rule"]]
        self.lines = block.text
        text = "\n".join(block.text)
        self.columns: dict[str, list[str]] = {n: [] for n in re.findall(r"\b(\w+)\[", text) if not hasattr(algebra, n)}
        for owner, column in re.findall(r"\b(\w+)\.(\w+)", text):
            self.columns[owner] += [column] if column not in self.columns[owner] else []
        defined = {line.split("[:]")[0] for line in self.lines if "[:] = " in line}
        leaves = [n for n in self.columns if n not in defined]
        changing = block.flags.get("changes", ",".join(leaves)).split(",")
        ticks = Ticks.of(2, [leaves, changing])
        self.memo = Memo(
            SignatureSpans(ticks, [Interval(0, len(changing))]), lambda t: t in block.flags.get("retracts", "").split(",")
        )
        self.explorer = Explorer(self.memo, rule_set(self.rule.method, (self.rule,)))
        key = block.flags.get("key", ".").split(".")
        self.ids: dict[str, int] = {}
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
            name = names.tvr(record.id)
            said += [f"{name}[:] = {show_member(names, m)}" for m, s in record.definitions.items() if s.rule == self.rule.name]
            said += [f"{link}({name}) = {names.tvr(to)}" for link, to in record.links.items() if (record.id, link) not in self.links]
            for views, mark in ((record.deltas, "[t:u]"), (record.news, "[u]")):
                for terms in views.values():
                    said += [f"{name}{mark} = {show_term(names, x)}" for x, s in terms.items() if s.rule == self.rule.name]
        said += [f"declined: {d.reason}" for d in outcome.declines]
        timed = "\n".join(said)
        return timed.replace("[t:u]", "[t1:t2]").replace("[t]", "[t1]").replace("[u]", "[t2]")

    links: set[tuple[int, str]] = set()

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
            self.links = {*self.links, (self.ids[owner], link)}
        else:
            self.ids[name] = self.term(term)

    def term(self, text: str) -> int:
        if text.endswith("[:]"):
            return self.ids[text.removesuffix("[:]")]
        found = _TERM.match(text)
        assert found, f"{text} is not an operator over TVRs"
        op: Any = getattr(algebra, found[1])
        inputs = tuple(self.term(i) for i in _split(found[3], ","))
        given = _split(re.sub(r"\b\w+\.(\w+)", r"\1", found[2] or ""), ";")
        kinds = [op.__dataclass_fields__[n].type for n in op.payload_names]
        payload = tuple(PAYLOADS[k](given[i] if i < len(given) else "") for i, k in enumerate(kinds))
        return self.memo.define(Member(op, inputs, payload), QUERY)


def _split(text: str, mark: str) -> list[str]:
    """The parts between marks that are not inside brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "([") - (c in ")]")
        parts = [*parts, ""] if c == mark and not depth else [*parts[:-1], parts[-1] + c]
    return [p.strip() for p in parts if p.strip()]


def _call(text: str) -> AggregateCall:
    call, _, name = text.rpartition(" as ")
    function, argument = call.removesuffix(")").split("(")
    plain = argument.removeprefix("distinct ")
    return AggregateCall(
        Column(name, "bigint"), function, None if argument == "*" else parse(plain), distinct=plain != argument
    )


def _output(text: str) -> Output:
    expr, _, name = text.rpartition(" as ")
    return Output(Column(name, "int"), parse(expr or name))


PAYLOADS: dict[str, Callable[[str], Any]] = {
    "Expr": parse,
    "tuple[str, ...]": lambda text: tuple(_split(text, ",")),
    "tuple[AggregateCall, ...]": lambda text: tuple(map(_call, _split(text, ","))),
    "tuple[Output, ...]": lambda text: tuple(map(_output, _split(text, ","))),
    "tuple[SortKey, ...]": lambda text: tuple(SortKey(col(c)) for c in _split(text, ",")),
    "int | None": lambda text: int(text) if text else None,
    "int": lambda text: int(text or 0),
}
