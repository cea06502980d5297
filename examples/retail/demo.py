"""A retailer's day, planned and run: what was worth doing early, what it cost, and what recomputing at midnight would have cost.

    make demo

Everything happens in one process with one local Spark session. The exit code is 1 if the delivered result is not what the batch query gives.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

import tempura
from examples.retail import generate
from tempura.cli.progress import Shown
from tempura.explain import explain, number, size
from tempura.explain.text import table
from tempura.plans import Step
from tempura.spark import Measured, Meter, States, jvm_seconds, session
from tempura.spark.verify import batch, compare

HERE = Path(__file__).resolve().parent
SETTINGS = {
    # A session of a minute is over before Java's second compiler pays.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}
REHEARSAL = "a rehearsal of the whole day, which warms Spark up and is not billed"
SHOWN = 6
"""So many rows of the result are shown."""


@dataclass(frozen=True)
class Bill:
    """What was estimated for a run, and what was measured."""

    name: str
    price: float
    steps: Sequence[Step]
    spent: Sequence[Measured]
    jvm: float
    """CPU seconds of the whole Java process: planning, compiling and garbage collection included."""
    clock: float

    @property
    def work(self) -> float:
        return sum(step.cost for step in self.steps)

    @property
    def cpu(self) -> float:
        return sum(m.cpu_seconds or 0.0 for m in self.spent)

    @property
    def estimated(self) -> Iterator[str]:
        """The leaves of a step's tree are what it reads."""
        lines = [
            (line, after)
            for step in self.steps
            for line, after in zip(step.lines, [*step.lines[1:], None], strict=True)
        ]
        leaves = [line for line, after in lines if after is None or after.depth <= line.depth]
        yield f"{number(self.work)} s"
        yield number(sum(line.rows for line in leaves))
        yield size(sum(step.bytes for step in self.steps))

    @property
    def measured(self) -> Iterator[str]:
        yield f"{number(self.cpu)} s"
        yield f"{number(self.jvm)} s"
        yield number(sum(m.rows_read or 0 for m in self.spent))
        yield size(sum(m.bytes_read or 0 for m in self.spent))
        yield size(sum(m.bytes_written or 0 for m in self.spent))
        yield size(sum(m.shuffle_written or 0 for m in self.spent))
        yield f"{self.clock:.1f} s"


def main(folder: Path = HERE, spark: SparkSession | None = None) -> int:
    """Make the data, plan, run the day, recompute, compare; 0 if the results are the same."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    generate.prepare(folder / "data")
    generate.arrive("14:00", folder / "data")
    job = tempura.Job.load(folder / "job.yaml")
    shutil.rmtree(job.workspace, ignore_errors=True)
    console.print("\n\n".join(explain(tempura.plan(job)).split("\n\n")[:4]) + "\n")
    with Shown(console) as shown:
        shown("started Spark")
        spark = session(spark, **SETTINGS)
        shown("done Spark")
        shown(f"started {REHEARSAL}")
        rehearse(spark, folder)
        shown(f"done {REHEARSAL}")
    bills = [run_point(spark, job, point, folder, console) for point in job.timeline.points]
    delivered = tempura.run(job, at="24:00", spark=spark).result
    assert delivered is not None
    bill, same = recompute(spark, job, delivered, console)
    show(console, bills, bill)
    _result(console, delivered)
    console.print("\nthe result is that of the batch query" if same else "\nTHE RESULT IS NOT THAT OF THE BATCH QUERY")
    console.print(
        "next: `tempura status examples/retail/job.yaml`, also with --runs; `tempura verify examples/retail/job.yaml`"
    )
    return 0 if same else 1


def rehearse(spark: SparkSession, folder: Path) -> None:
    """Run and recompute a day elsewhere, so that of what is compared later neither is the first to be compiled."""
    with tempfile.TemporaryDirectory() as elsewhere:
        there = Path(elsewhere)
        for name in ("job.yaml", "margin.sql"):
            shutil.copy(folder / name, there)
        generate.prepare(there / "data")
        for point in generate.ORDERS:
            generate.arrive(point, there / "data")
        job = tempura.Job.load(there / "job.yaml")
        for point in generate.ORDERS:
            tempura.run(job, at=point, spark=spark)
        _batch(spark, job).collect()


def run_point(spark: SparkSession, job: tempura.Job, point: tempura.Point, folder: Path, console: Console) -> Bill:
    """Let the batch of a point arrive, and run the point."""
    if point is not job.timeline.points[0]:
        generate.arrive(point.name, folder / "data")
    console.print(f"\nat {point.name}")
    before, began = jvm_seconds() or 0.0, time.perf_counter()
    with Shown(console) as shown:
        report = tempura.run(job, at=point.name, spark=spark, told=shown)
    jvm, clock = (jvm_seconds() or 0.0) - before, time.perf_counter() - began
    assert report.file is not None and report.plan is not None
    steps = report.plan.runs[0].steps
    if not steps:
        console.print("  nothing is worth doing yet: it is cheaper to wait")
    for state in report.file.states.values():
        if state.read_at:
            kept = f"{number(state.rows or 0)} rows, {size(state.bytes or 0)}"
            console.print(f"  keeps {state.name} ({kept}) for {', '.join(state.read_at)}")
    checks = report.file.measured.get("checks")
    spent = [*(step.measured for step in report.steps if step.measured), *([checks] if checks else [])]
    return Bill(point.name, point.price, steps, [Measured(**m) for m in spent], jvm, clock)


def recompute(spark: SparkSession, job: tempura.Job, delivered: DataFrame, console: Console) -> tuple[Bill, bool]:
    """Run the batch query over all that has arrived and write its result, as one would at 24:00 without states; and whether that is what was delivered."""
    console.print("\nrecomputing at 24:00, for comparison")
    meter, before, began = Meter(spark), jvm_seconds() or 0.0, time.perf_counter()
    with tempfile.TemporaryDirectory() as place, States(spark) as states:
        with meter.span() as span, Shown(console) as shown:
            shown("started the batch query")
            written = states.write(_batch(spark, job), f"{place}/batch")
            shown("done the batch query")
        jvm, clock = (jvm_seconds() or 0.0) - before, time.perf_counter() - began
        same = not compare(delivered, states.read([f"{place}/batch"], written.columns)).differing
    steps = tempura.plan(replace(job, policy="full")).runs[-1].steps
    return Bill("recomputing", 1.0, steps, [span.measured(written.rows)], jvm, clock), same


def _batch(spark: SparkSession, job: tempura.Job) -> DataFrame:
    """The query over all that has arrived."""
    return batch(spark, job, job.queries["result"], {name: source.pin(None) for name, source in job.sources.items()})


def show(console: Console, bills: Sequence[Bill], recomputed: Bill) -> None:
    """What each run was estimated to cost and what it cost, beside recomputing."""
    above = ("", "", "estimated", "", "", "measured", "", "", "", "", "", "")
    head = (
        "",
        "price",
        "work",
        "rows read",
        "written",
        "CPU",
        "JVM",
        "rows read",
        "bytes",
        "written",
        "shuffled",
        "clock",
    )
    total = replace(
        bills[0],
        name="together",
        steps=[step for bill in bills for step in bill.steps],
        spent=[m for bill in bills for m in bill.spent],
        jvm=sum(bill.jvm for bill in bills),
        clock=sum(bill.clock for bill in bills),
    )
    rows = [above, head, *((b.name, number(b.price), *b.estimated, *b.measured) for b in bills)]
    rows.append((total.name, "", *total.estimated, *total.measured))
    rows.append((recomputed.name, number(recomputed.price), *recomputed.estimated, *recomputed.measured))
    console.print("\n" + "\n".join(line.rstrip() for line in table(rows)))
    console.print(
        "  CPU: of tasks; JVM: of the whole Java process, so with planning and compiling, which do not grow with the rows"
    )
    for what, day, once in zip(("estimated", "CPU", "JVM"), _priced(bills), _priced([recomputed]), strict=True):
        costs = f"the day costs {number(day)} at the prices of its points, recomputing {number(once)}"
        console.print(f"  {what}: {costs}: {_less(day, once)}")
    console.print(
        f"  at 24:00 alone: {number(bills[-1].cpu)} s of CPU instead of {number(recomputed.cpu)} s: {_less(bills[-1].cpu, recomputed.cpu)}"
    )


def _priced(bills: Sequence[Bill]) -> tuple[float, float, float]:
    """Work as estimated, CPU seconds and CPU seconds of the JVM, each times the price."""
    return (
        sum(b.price * b.work for b in bills),
        sum(b.price * b.cpu for b in bills),
        sum(b.price * b.jvm for b in bills),
    )


def _less(day: float, once: float) -> str:
    return f"{abs(1 - day / once):.0%} {'less' if day < once else 'more'}"


def _result(console: Console, delivered: DataFrame) -> None:
    rows = delivered.collect()
    cells = [tuple(delivered.columns), *(tuple(str(v) for v in row) for row in rows[:SHOWN])]
    console.print("\nthe result\n" + "\n".join(table(cells, left=(0, 1))))
    if len(rows) > SHOWN:
        console.print(f"  … and {len(rows) - SHOWN} more rows")


if __name__ == "__main__":
    sys.exit(main())
