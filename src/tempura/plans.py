"""An incremental plan is data: runs, their steps, the states between them, what they cost, and why.

Building one has no side effects; anyone who can run Spark SQL can execute it, because each step is a plain SELECT with a named target.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from tempura.algebra import Op, SortKey
from tempura.schema import Schema

Side = Literal["left", "right"]


class Spread(NamedTuple):
    """An operator, by its place in `tree.walk()`, whose rows are brought together by some columns."""

    place: int
    by: tuple[str, ...]
    parts: int = 0
    """In how many parts; 0: nobody has said yet."""


@dataclass(frozen=True)
class Step:
    """One SELECT whose rows are written to a state or a result."""

    name: str
    """The target. Steps of later runs read it by this name."""
    kind: Literal["state", "result"]
    view: str
    """What it is, in the notation of the rules: `state(summary)[t1]`, `sales_status[t1:t2]`."""
    tree: Op
    """Operators over `Read` leaves."""
    weighted: bool
    """Whether the target has the weight column."""
    definition: Op
    """What the target equals by definition: the batch query for it, over `Read` leaves that are snapshots of base tables only."""
    partition: tuple[str, ...] = ()
    """The columns by which the target is distributed (bucketed), if it is."""
    order: tuple[SortKey, ...] = ()
    """ORDER BY of a result, where the query has one over its columns; where it has one over others, the tree sorts."""
    rows: float = 0.0
    bytes: float = 0.0
    cost: float = 0.0
    """Work of this step under the cost model, before prices."""
    methods: tuple[str, ...] = ()
    """The methods behind its operators, without repetition."""
    lines: tuple[PlanLine, ...] = ()
    """The operators one by one, for explanations."""
    broadcasts: tuple[tuple[int, Side], ...] = ()
    """Joins, by their place in `tree.walk()`, and the side of each that every core gets a copy of."""
    spreads: tuple[Spread, ...] = ()
    """Summands that are to lie as the states do that they are added to."""
    ordered: bool = False
    """Whether the target is sorted by the columns of `partition`, too: for joins that read it as it is."""

    @property
    def schema(self) -> Schema:
        return self.tree.schema

    @property
    def sql(self) -> str:
        """The SELECT in Spark SQL."""
        return self.to_sql("spark")

    def to_sql(self, dialect: str) -> str:
        from tempura.sql.lower import step_sql

        return step_sql(self, dialect)

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of what it reads, without repetition."""
        from tempura.algebra import Read

        return tuple(dict.fromkeys(op.name for op in self.tree.walk() if isinstance(op, Read)))


@dataclass(frozen=True)
class PlanLine:
    """One operator of a step as an explanation shows it."""

    depth: int
    view: str
    operator: str
    rows: float
    bytes: float
    cost: float
    method: str
    rule: str
    reads: tuple[str, ...] = ()
    """The views that it is computed from."""


@dataclass(frozen=True)
class Run:
    """What is done at one point: steps in an order in which each finds what it reads."""

    point: str
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class State:
    """A view kept from one run for later ones."""

    name: str
    view: str
    written: str
    read_at: tuple[str, ...]
    """The points at which it is read; after the last it can be dropped."""
    rows: float
    bytes: float
    partition: tuple[str, ...]
    why: str

    @property
    def until(self) -> str:
        return self.read_at[-1] if self.read_at else self.written


@dataclass(frozen=True)
class Cost:
    """What a plan costs under its objective, and the priced and unpriced work at each point."""

    total: float
    """The sum of priced work; under `latest-first` the work of the last run, unpriced."""
    by_point: Mapping[str, float]
    work: Mapping[str, float]


@dataclass(frozen=True)
class Reason:
    """Why an operator of the query was not computed by a method: it could not, or it would have been dearer."""

    operator: str
    method: str
    reason: str


@dataclass(frozen=True)
class Planning:
    """How much work planning was."""

    explore_seconds: float = 0.0
    """Binding, and until the rules had nothing more to say."""
    share_seconds: float = 0.0
    """Laying that out over the timeline, pricing it, searching, and choosing the states to keep."""
    groups: int = 0
    tvrs: int = 0
    facts: int = 0
    firings: int = 0
    costings: int = 0
    stop_reason: str = ""


@dataclass(frozen=True)
class IncrementalPlan:
    """The whole timeline's work."""

    name: str
    objective: str
    runs: tuple[Run, ...]
    states: tuple[State, ...]
    cost: Cost
    baselines: Mapping[str, float] = field(default_factory=dict[str, float])
    """The total under the same objective of recomputing (`full`) and of each method alone."""
    reasons: tuple[Reason, ...] = ()
    notes: tuple[str, ...] = ()
    """What else the user should know: branches that are recomputed and why, limits reached."""
    planning: Planning = Planning()

    @property
    def results(self) -> tuple[tuple[str, Step], ...]:
        """The points and steps that deliver results."""
        return tuple((run.point, s) for run in self.runs for s in run.steps if s.kind == "result")

    def __str__(self) -> str:
        from tempura.explain import explain

        return explain(self)
