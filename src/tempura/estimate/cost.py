"""What operators cost: on Spark, in core-seconds with fixed costs per job, shuffle and file; or in tuples.

An operator's work is that of its rows where they are. Moving them (`exchange`, `broadcast`), keeping them (`save`, `load`) and reading tables
(`scan`) are priced on their own, because the search decides about them on its own. `SparkCost.vector` tells where the time goes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from tempura.algebra import (
    Affected,
    Aggregate,
    AggregateState,
    AntiJoin,
    Empty,
    Expand,
    Filter,
    FinalState,
    FullOuterJoin,
    InnerJoin,
    LeftOuterJoin,
    MergeState,
    Minus,
    Op,
    Plus,
    Project,
    Read,
    Replicate,
    Scan,
    SemiJoin,
    TopK,
    Values,
    Window,
)
from tempura.algebra.joins import JOINS
from tempura.errors import PlanError
from tempura.estimate.column import ROW, sample_distinct
from tempura.estimate.joins import join_keys
from tempura.estimate.profile import DEFAULT, Profile
from tempura.estimate.relation import Stats

Side = Literal["left", "right"]


class Shape(NamedTuple):
    """The physical choices for one operator."""

    broadcast: Side | None = None
    """The side of a join of which every executor has a copy. None: the sides lie together by their keys."""
    new: Sequence[bool] | None = None
    """For each input, whether its tuples are new to the operator: a delta, or a first snapshot. None: all are."""


PARTITIONED = Shape()


class CostVector(NamedTuple):
    """Where the work goes, in core-seconds: processors, reading and writing, memory held, network, and what is the same for any size."""

    cpu: float = 0.0
    io: float = 0.0
    memory: float = 0.0
    network: float = 0.0
    fixed: float = 0.0

    def plus(self, other: CostVector) -> CostVector:
        return CostVector(*(a + b for a, b in zip(self, other, strict=True)))


class CostModel(Protocol):
    """What the search asks of a cost model. All answers are in one unit, before the prices of the points."""

    @property
    def name(self) -> str: ...
    @property
    def holds(self) -> bool:
        """Whether operators hold what they were given, so that copies of base tables are as good as states."""
        ...

    def work(self, op: Op, inputs: Sequence[Stats], output: Stats, shape: Shape = PARTITIONED) -> float:
        """An operator's own work; its inputs are where its shape wants them."""
        ...

    def scan(self, stats: Stats, log: Stats | None = None) -> float:
        """Reading (a part of) a base table, of the columns in `stats`; where it is kept as a log, by adding that up."""
        ...

    def exchange(self, stats: Stats) -> float:
        """Bringing rows together by keys."""
        ...

    def broadcast(self, stats: Stats) -> float:
        """Copying rows to every executor."""
        ...

    def may_broadcast(self, op: Op, side: Side, stats: Stats) -> bool:
        """Whether a join may have a copy of that side on every executor."""
        ...

    def shipped(self, op: Op, inputs: Sequence[Stats], output: Stats) -> Stats:
        """What an aggregate sends through an exchange, after each core has aggregated what it has."""
        ...

    def save(self, stats: Stats, partitioned: bool) -> float:
        """Writing a state or a result."""
        ...

    def load(self, stats: Stats, partitioned: bool) -> float:
        """Reading a state."""
        ...

    def job(self) -> float:
        """What every written state or result costs, however small."""
        ...


_GROUPINGS = (Aggregate, AggregateState)

_BROADCAST: dict[type[Op], tuple[Side, ...]] = {
    InnerJoin: ("left", "right"),
    LeftOuterJoin: ("right",),
    SemiJoin: ("right",),
    AntiJoin: ("right",),
}
"""The sides of which every executor may have a copy: not one whose lone rows the join keeps, or each copy would keep them."""

_SINGLE_PHASE = frozenset({"collect_list", "collect_set", "percentile", "median", "array_agg"})
"""Functions of which a core's own part is no smaller than its rows."""


class SparkCost:
    """The work of Spark's operators in core-seconds, by the coefficients of a profile."""

    name = "spark"
    holds = False

    def __init__(self, profile: Profile = DEFAULT):
        self.profile = profile

    def total(self, vector: CostVector) -> float:
        """A vector as one number."""
        p = self.profile
        cpu, io, memory, network, fixed = vector
        return cpu * p.cpu + io * p.io + memory * p.memory + network * p.network + fixed

    def vector(self, op: Op, inputs: Sequence[Stats], output: Stats, shape: Shape = PARTITIONED) -> CostVector:
        """An operator's own work, by resource."""
        function = WORK.get(type(op))
        if function is None:
            raise PlanError(
                f"there is no cost for the operator {type(op).__name__}",
                hint="for an operator of your own add a function to tempura.estimate.cost.WORK",
            )
        found = function(self.profile, op, inputs, output, shape)
        return found._replace(fixed=found.fixed + _planned(self.profile, output))

    def work(self, op: Op, inputs: Sequence[Stats], output: Stats, shape: Shape = PARTITIONED) -> float:
        return self.total(self.vector(op, inputs, output, shape))

    def scan(self, stats: Stats, log: Stats | None = None) -> float:
        p = self.profile
        if log is None:
            return self.total(_scan(p, stats))
        columns = tuple(c for c in log.columns if not c.startswith(ROW))
        shipped = log.thinned(_grouped_by_task(columns, [log], log.groups(columns), p))
        adding_up = _grouping(p, log.rows, columns, 1, stats)._replace(fixed=_planned(p, stats))
        return self.total(_scan(p, log).plus(adding_up)) + self.exchange(shipped)

    def exchange(self, stats: Stats) -> float:
        p = self.profile
        network = stats.bytes * p.exchange_byte
        return self.total(CostVector(cpu=stats.rows * p.exchange_row, network=network, fixed=p.shuffle))

    def broadcast(self, stats: Stats) -> float:
        p = self.profile
        network = stats.bytes * p.broadcast_byte * p.executors
        return self.total(CostVector(cpu=stats.rows * p.broadcast_row, network=network, fixed=p.broadcast))

    def may_broadcast(self, op: Op, side: Side, stats: Stats) -> bool:
        return side in _BROADCAST.get(type(op), ()) and stats.bytes <= self.profile.broadcast_limit

    def shipped(self, op: Op, inputs: Sequence[Stats], output: Stats) -> Stats:
        return output.thinned(partial_rows(op, inputs, output, self.profile))

    def save(self, stats: Stats, partitioned: bool) -> float:
        p = self.profile
        files = _files(p, stats, partitioned)
        return self.total(CostVector(stats.rows * p.save_row, stats.bytes * p.save_byte, fixed=files * p.file))

    def load(self, stats: Stats, partitioned: bool) -> float:
        return self.total(_load(self.profile, stats, partitioned))

    def job(self) -> float:
        return self.profile.job


class UnitCost:
    """Tuples that newly arrive at the operators of the query as written: the measure of the paper's running example.

    A base tuple is charged when it is read, that is when it arrives at the operator above it; what an operator was given it holds, so keeping and
    loading are free, and whoever computes with it again pays nothing. Joins and aggregates are charged the derived tuples that are new to them, and the
    difference of two snapshots all that it compares.
    """

    name = "unit"
    holds = True

    def work(self, op: Op, inputs: Sequence[Stats], output: Stats, shape: Shape = PARTITIONED) -> float:
        if not isinstance(op, (*JOINS, *_GROUPINGS, Minus)):
            return 0.0
        new = [True] * len(inputs) if shape.new is None else shape.new
        return sum(i.rows for i, fresh in zip(inputs, new, strict=True) if fresh)

    def scan(self, stats: Stats, log: Stats | None = None) -> float:
        return stats.rows

    def exchange(self, stats: Stats) -> float:
        return 0.0

    def broadcast(self, stats: Stats) -> float:
        return 0.0

    def may_broadcast(self, op: Op, side: Side, stats: Stats) -> bool:
        """Never: moving rows is free here, so there is nothing to choose."""
        return False

    def shipped(self, op: Op, inputs: Sequence[Stats], output: Stats) -> Stats:
        return output

    def save(self, stats: Stats, partitioned: bool) -> float:
        return 0.0

    def load(self, stats: Stats, partitioned: bool) -> float:
        return 0.0

    def job(self) -> float:
        return 0.0


def partial_rows(op: Op, inputs: Sequence[Stats], output: Stats, profile: Profile = DEFAULT) -> float:
    """The rows that an aggregate ships: each core's share of the input has some of the groups."""
    rows = sum(i.rows for i in inputs)
    if isinstance(op, (Aggregate, AggregateState)) and any(c.distinct or c.function in _SINGLE_PHASE for c in op.calls):
        return rows
    by = op.columns if isinstance(op, Affected) else op.by if isinstance(op, (Aggregate, AggregateState)) else ()
    return _grouped_by_task(by, inputs, output.rows, profile)


def _grouped_by_task(by: tuple[str, ...], inputs: Sequence[Stats], groups: float, profile: Profile) -> float:
    """The rows that are left when each task has grouped those that it reads."""
    rows = sum(i.rows for i in inputs)
    sets = inputs[0].sets if by else None
    parts = [(rows, min(groups, rows))]
    if sets is not None and sets.tag in by:
        parts = list(zip((rows * share for share in sets.shares), inputs[0].groups_by_set(sets, by), strict=True))
    # A task makes the copies for all grouping sets of the rows that it reads.
    tasks = max(float(profile.cores), sum(i.bytes for i in inputs) / len(parts) / profile.split_bytes)
    met = sum(min(part, tasks * sample_distinct(of_part, part, part / tasks)) for part, of_part in parts)
    # Rows that come together are read by one task.
    return min(met, sum(i.rows / i.run(by) for i in inputs))


# The work of each operator.


def _arity(stats: Stats) -> int:
    """How many columns there are."""
    return sum(not name.startswith(ROW) for name in stats.columns)


def _planned(p: Profile, output: Stats) -> float:
    """An operator, and the columns that come out of it, however few its rows."""
    return p.operator + p.column * _arity(output)


_FAST_GROUPS = 1 << 16
"""So many groups of a task are in a hash map that Spark generates for the query; rows of all others are looked up in a slower one."""


def _grouping(p: Profile, rows: float, by: Sequence[str], calls: int, groups: Stats) -> CostVector:
    """Looking up the group of each row, adding the row to it, and holding the groups. A task meets no more groups than it has rows."""
    met = min(groups.rows, rows / p.cores)
    slow = 1 - _FAST_GROUPS / max(met, _FAST_GROUPS)
    width = sum(groups.columns[name].width for name in by if name in groups.columns)
    key = len(by) * p.aggregate_key_row + width * p.aggregate_key_byte
    each = p.aggregate_row + key + calls * p.aggregate_call_row + slow * p.group_row
    return CostVector(rows * each + groups.rows * p.output_row, memory=groups.bytes * p.memory_byte)


def _files(p: Profile, stats: Stats, partitioned: bool = False) -> float:
    return max(float(p.buckets) if partitioned else 1.0, stats.bytes / p.split_bytes)


def _scan(p: Profile, stats: Stats) -> CostVector:
    each = p.scan_row + _arity(stats) * p.scan_value
    return CostVector(stats.rows * each, stats.bytes * p.scan_byte, fixed=_files(p, stats) * p.file)


def _load(p: Profile, stats: Stats, partitioned: bool = False) -> CostVector:
    files = _files(p, stats, partitioned)
    return CostVector(stats.rows * p.load_row, stats.bytes * p.load_byte, fixed=files * p.file)


def _work_scan(p: Profile, op: Scan, inputs: Sequence[Stats], output: Stats, shape: Shape) -> CostVector:
    return _scan(p, output)


def _work_read(p: Profile, op: Read, inputs: Sequence[Stats], output: Stats, shape: Shape) -> CostVector:
    return _load(p, output)


def _work_constant(p: Profile, op: Op, inputs: Sequence[Stats], output: Stats, shape: Shape) -> CostVector:
    return CostVector(cpu=output.rows * p.output_row)


def _work_filter(p: Profile, op: Filter, inputs: Sequence[Stats], output: Stats, shape: Shape) -> CostVector:
    return CostVector(cpu=inputs[0].rows * p.filter_row)


def _work_project(p: Profile, op: Project, inputs: Sequence[Stats], output: Stats, shape: Shape) -> CostVector:
    computed = sum(o.expr.name is None for o in op.outputs)
    return CostVector(cpu=inputs[0].rows * (p.project_row + computed * p.expression_row))


def _work_output(p: Profile, op: Op, inputs: Sequence[Stats], output: Stats, shape: Shape) -> CostVector:
    return CostVector(cpu=output.rows * p.output_row)


def _work_union(p: Profile, op: Plus | Minus, inputs: Sequence[Stats], output: Stats, shape: Shape) -> CostVector:
    return CostVector(cpu=output.rows * p.union_row)


def _work_final(p: Profile, op: FinalState, inputs: Sequence[Stats], output: Stats, shape: Shape) -> CostVector:
    return CostVector(cpu=inputs[0].rows * (p.project_row + len(op.calls) * p.expression_row))


def _work_group(
    p: Profile,
    op: Aggregate | AggregateState | MergeState | Affected,
    inputs: Sequence[Stats],
    output: Stats,
    shape: Shape,
) -> CostVector:
    by, calls = (op.columns, 0) if isinstance(op, Affected) else (op.by, len(op.calls))
    return _grouping(p, sum(i.rows for i in inputs), by, calls, output)


def _sorting(p: Profile, rows: float, kept: float) -> float:
    return rows * math.log2(max(kept, 2.0)) * p.sort_row


def _work_window(p: Profile, op: Window, inputs: Sequence[Stats], output: Stats, shape: Shape) -> CostVector:
    (x,) = inputs
    cpu = _sorting(p, x.rows, x.rows) + x.rows * p.window_row * max(1, len(op.calls))
    return CostVector(cpu, memory=x.bytes * p.memory_byte)


def _work_top_k(p: Profile, op: TopK, inputs: Sequence[Stats], output: Stats, shape: Shape) -> CostVector:
    (x,) = inputs
    kept = x.rows if op.limit is None else min(x.rows, float(op.limit + op.offset))
    return CostVector(_sorting(p, x.rows, kept) + output.rows * p.output_row, memory=kept * x.width * p.memory_byte)


def _work_join(p: Profile, op: InnerJoin, inputs: Sequence[Stats], output: Stats, shape: Shape) -> CostVector:
    """A hash join where one side is copied to every executor; else both are sorted by their keys and merged. Without keys every pair is compared."""
    left, right = inputs
    out = output.rows * p.output_row
    keys = join_keys(op.on, left, right)
    if not keys:
        smaller = left if left.bytes < right.bytes else right
        return CostVector(left.rows * right.rows * p.pair + out, memory=smaller.bytes * p.memory_byte)
    if shape.broadcast is None:
        known = {**left.columns, **right.columns}
        compared = len(keys) > 1 or any(known[name].text for name in keys[0])
        cpu = (left.rows + right.rows) * (p.merge_row + compared * p.merge_compared_row)
        return CostVector(cpu + out, memory=(left.bytes + right.bytes) * p.memory_byte)
    build, probe = (left, right) if shape.broadcast == "left" else (right, left)
    cpu = p.executors * build.rows * p.build_row + probe.rows * p.probe_row + out
    return CostVector(cpu, memory=p.executors * build.bytes * p.memory_byte)


Work = Callable[[Profile, Any, Sequence[Stats], Stats, Shape], CostVector]

WORK: dict[type[Op], Work] = {
    Scan: _work_scan,
    Read: _work_read,
    Values: _work_constant,
    Empty: _work_constant,
    Filter: _work_filter,
    Project: _work_project,
    Expand: _work_output,
    Replicate: _work_output,
    Plus: _work_union,
    Minus: _work_union,
    InnerJoin: _work_join,
    LeftOuterJoin: _work_join,
    FullOuterJoin: _work_join,
    SemiJoin: _work_join,
    AntiJoin: _work_join,
    Aggregate: _work_group,
    AggregateState: _work_group,
    MergeState: _work_group,
    Affected: _work_group,
    FinalState: _work_final,
    Window: _work_window,
    TopK: _work_top_k,
}
"""The work of each operator on rows that are where it wants them."""
