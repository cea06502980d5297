"""The command `tempura run`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from tempura.cli.app import FAILED, JobFile, app, fail, on_terminal, plain_errors, say
from tempura.cli.plan import coloured
from tempura.cli.progress import Shown
from tempura.course import next_point
from tempura.explain import explain, number, size, to_json
from tempura.job import Job
from tempura.job.shapes import Policy
from tempura.status import run_text
from tempura.status.text import moment, place
from tempura.workspace import RunFile, StateEntry, Workspace
from tempura.workspace.pointers import latest

if TYPE_CHECKING:
    from tempura.spark.report import RunReport


@app.command(
    "run",
    epilog="""\b
Examples:
  tempura run job.yaml                          the next point
  tempura run job.yaml --at 14:00
  tempura run job.yaml --until 24:00            all points from the next on
  tempura run job.yaml --dry-run                what would be done, and why
  tempura run job.yaml --policy full            recompute, whatever is there
  tempura run job.yaml --at 14:00 --json | jq .runs[0].measured

It is safe to repeat, and safe to kill: run again, and it goes on where it was.
""",
)
def run_command(
    job: JobFile,
    at: Annotated[str | None, typer.Option(help="Run this point; default: the next one.", metavar="POINT")] = None,
    until: Annotated[
        str | None, typer.Option(help="Run all points from the next to this one.", metavar="POINT")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")] = False,
    policy: Annotated[Policy | None, typer.Option(help="In place of the job's policy.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was done as JSON; progress on stderr.")] = False,
) -> None:
    """Run one point of a job on Spark, or several."""
    if at is not None and until is not None:
        fail("--at and --until cannot be given at once", "--at runs one point, --until all that are left up to one")
    with plain_errors():
        loaded = Job.load(job)
        if policy is not None:
            loaded = dataclasses.replace(loaded, policy=policy)
        if dry_run:
            _show_dry(loaded, _due(loaded, until)[0] if at is None else at, as_json)
            return
        reports: list[RunReport] = []
        try:
            for report in _carried_out(loaded, _due(loaded, until) if at is None else [at], as_json):
                reports.append(report)
        finally:
            # What was committed before a point failed is told all the same.
            if as_json and reports:
                found = {"job": loaded.name, "runs": [_report_json(report) for report in reports]}
                typer.echo(json.dumps(found, indent=2, ensure_ascii=False))


def _due(job: Job, until: str | None) -> list[str | None]:
    """The points from the next one to the given one, or that one itself if it has been run; without one, the next, or None after the last."""
    first = next_point(job, Workspace.open(job.workspace, job.name, create=False).past(), None)
    if first is None:
        return [until]
    last = first if until is None else job.timeline.index(until)
    return [p.name for p in job.timeline.points[first : last + 1]] or [until]


def _carried_out(job: Job, points: list[str | None], as_json: bool) -> Iterator[RunReport]:
    from tempura.spark.run import run
    from tempura.spark.steps import StepError, explained

    console = Console(stderr=as_json, no_color=None if on_terminal() else True)
    spark = None
    for point in points:
        console.print(f"{job.name} at {point}" if point else job.name, highlight=False, markup=False)
        try:
            with Shown(console) as shown, explained(f"the run at {point}" if point else "the run"):
                report = run(job, point, spark=spark, told=shown)
        except StepError as error:
            say(error, FAILED)
        spark = report.spark
        if not as_json:
            typer.echo("\n".join(_lines(report)))
            if point is None:
                typer.echo("  all points are done; to go on, add others to the timeline")
        yield report


def _lines(report: RunReport) -> Iterator[str]:
    """What a run did, and what it left."""
    file = report.file
    if file is None:
        return
    if report.status == "repeated":
        yield f"  {file.point} was run at {moment(file.finished)}; nothing to do"
        return
    yield run_text(file)
    for state in _kept(file):
        yield f"  keeps {state.name} ({number(state.rows or 0)} rows, {size(state.bytes or 0)}) for {', '.join(state.read_at)}"
    assert report.workspace is not None
    for result in file.delivered:
        yield f"  delivers {result.query} ({number(result.rows or 0)} rows): {place(latest(report.workspace.storage, result.query))}"
    yield f"  {report.seconds['planning'] + report.seconds['rest']:.2f} s besides the steps, {report.seconds['planning']:.2f} s of it planning"


def _kept(file: RunFile) -> list[StateEntry]:
    """The states that later points read."""
    return [state for state in file.states.values() if state.read_at]


def _show_dry(job: Job, at: str | None, as_json: bool) -> None:
    from tempura.spark.run import run

    report = run(job, at, dry_run=True)
    if report.plan is None:
        typer.echo(json.dumps(_report_json(report), indent=2) if as_json else "\n".join(_lines(report)))
    elif as_json:
        typer.echo(json.dumps({"point": report.point, "status": "dry", "plan": to_json(report.plan)}, indent=2))
    else:
        text = explain(report.plan)
        typer.echo(f"what would be done at {report.point}; nothing was done\n")
        typer.echo(coloured(text) if on_terminal() else text)


def _report_json(report: RunReport) -> dict[str, Any]:
    file = report.file
    said: dict[str, Any] = {"point": report.point, "status": report.status, "notes": list(report.notes)}
    if file is None:
        return said
    return said | {
        "run": file.number,
        "started": file.started,
        "finished": file.finished,
        "seconds": dict(report.seconds),
        "measured": dict(file.measured),
        "steps": [dataclasses.asdict(step) for step in file.steps],
        "states": [dataclasses.asdict(state) for state in _kept(file)],
        "results": [dataclasses.asdict(r) for r in file.delivered],
    }
