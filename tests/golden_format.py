"""Golden files: a command with flags, its input, `----`, the expected output, a blank line. `#` begins a comment.

    table NAME [key=COLUMN] [arrives=t1:4,t2:3] [retracts=t2:0.2]    columns; then, for `run`, what comes at each point: `t1: o1 c1 100; o2 c2 null`, a lone `-` takes back
    build                                      SQL: the tree as bound, and what normalising makes of it
    fire rule=NAME [key=L.a] [retracts=R] [changes=L,R]    facts; what one rule says of them, or why it declines
    memo, plan, why view=VIEW, size, sql, run  SQL [methods=IM1,IM2] [deliver=t1,t2] [prices=0.2,1] [show=cost]

Facts are in the notation of `golden_facts`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb

from tempura.algebra.op import show_tree
from tempura.catalog import Catalog, Table
from tempura.explain.text import number
from tempura.explain.why import explain_view
from tempura.job import Job
from tempura.memo.show import show_memo
from tempura.optimizer import explore, plan
from tempura.plans import IncrementalPlan
from tempura.reference import Bag
from tempura.rules import methods as rule_sets
from tempura.rules.relational import normalize
from tempura.schema import Column
from tempura.sql.bind import bind
from tempura.timeline import MAIN, Point, Timeline
from tests.duck import register_history
from tests.duckrun import execute, run_batch
from tests.golden_facts import Facts


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
        words = shlex.split(head)
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
        rows = ", ".join(
            f"{point} {sum(b.values())}" for point, b in zip(self.points(), self.history[name], strict=True)
        )
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
            lines = ["results and states are right" if report.right else str(report)]
            for point in (p.name for p in job.timeline.points if p.deliver):
                run_batch(connection, "answer", job.queries[MAIN], point)
                rows = connection.execute("SELECT * FROM answer ORDER BY ALL").fetchall()
                lines.append(
                    f"{point}: " + "; ".join(" ".join("null" if v is None else str(v) for v in r) for r in rows)
                )
        return "\n".join(lines)

    def fire(self, block: Block) -> str:
        return Facts(block.text, block.flags).fire()


def _numbers(text: str) -> dict[str, float]:
    return {k: float(v) for k, v in (part.split(":") for part in text.split(",") if part)}


def _value(text: str, kind: str) -> Any:
    return None if text == "null" else text if kind == "string" else float(text) if kind == "double" else int(text)
