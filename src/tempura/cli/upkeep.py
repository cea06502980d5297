"""The commands that look after what runs have left: `tempura verify`, `tempura gc`, `tempura reset`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from tempura.cli.app import FAILED, JobFile, app, plain_errors, say
from tempura.explain import number, size
from tempura.job import Job
from tempura.status.text import place
from tempura.workspace import Storage, Workspace, layout
from tempura.workspace.pointers import latest

if TYPE_CHECKING:
    from tempura.spark.verify import Verified


@app.command(
    "verify",
    epilog="""\b
Examples:
  tempura verify job.yaml
  tempura verify job.yaml && ./mail-report.sh   exit code 1 if something differs
""",
)
def verify_command(
    job: JobFile, as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False
) -> None:
    """Compute the published results anew, in batch on the same versions of the tables, and compare."""
    with plain_errors():
        loaded = Job.load(job)
        from tempura.spark.steps import StepError
        from tempura.spark.verify import verify

        try:
            report = verify(loaded)
        except StepError as error:
            say(error, FAILED)
    if as_json:
        typer.echo(json.dumps(asdict(report) | {"same": report.same}, indent=2, ensure_ascii=False, default=str))
    else:
        typer.echo("\n".join([*(line for result in report.results for line in _compared(result)), *report.notes]))
    if not report.same:
        raise typer.Exit(FAILED)


def _compared(result: Verified) -> Iterator[str]:
    what = f"{result.query} of {result.point}"
    rows = f"{result.rows:,} rows published"
    if result.expected is not None:
        rows += f", {result.expected:,} by the batch query"
    if result.same:
        yield f"{what}: the same; {rows}"
        return
    yield f"{what}: DIFFERENT; {rows}" + (f", {result.differing:,} differ" if result.expected is not None else "")
    yield from (f"  {said}" for said in result.types)
    if result.differences:
        yield f"  {'':>12}  {', '.join(result.columns)}"
    for difference in result.differences:
        side = "too many" if difference.weight > 0 else "missing"
        yield f"  {abs(difference.weight):>3} {side:8}  {', '.join('NULL' if v is None else str(v) for v in difference.row)}"


@app.command(
    "gc",
    epilog="""\b
Examples:
  tempura gc job.yaml
  tempura gc job.yaml --keep-results 7          the newest seven of each query; default: all
""",
)
def gc_command(
    job: JobFile,
    keep_results: Annotated[
        int | None, typer.Option(help="Keep only so many results of each query, the newest.", metavar="N")
    ] = None,
) -> None:
    """Delete what no run needs: rows of killed attempts, states nobody reads, and old results if so asked."""
    with plain_errors():
        workspace = _workspace(Job.load(job))
        if workspace is None:
            typer.echo("nothing to free: the job has never been run")
            return
        with workspace.lock("tempura gc"):
            found = workspace.garbage(keep_results)
            for path in found:
                typer.echo(f"  {size(workspace.storage.size_of(path).bytes):>8}  {path}")
            freed = workspace.collect(keep_results)
        typer.echo(f"freed {size(freed)}" if found else "nothing to free")


@app.command(
    "reset",
    epilog="""\b
Examples:
  tempura reset job.yaml
  tempura reset job.yaml --yes                  without being asked
""",
)
def reset_command(
    job: JobFile, yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False
) -> None:
    """Forget all states and which versions were read, and keep the results: the next run starts from the first point."""
    with plain_errors():
        loaded = Job.load(job)
        workspace = _workspace(loaded)
        if workspace is None:
            typer.echo("nothing to forget: the job has never been run")
            return
        if not yes and sys.stdin.isatty():
            typer.confirm(f"Forget all states of {loaded.name} and begin with its first point again?", abort=True)
        with workspace.lock("tempura reset"):
            reset = workspace.reset()
            freed = workspace.collect()
        if reset is None:
            typer.echo("nothing to forget: no run was ever finished")
            return
        typer.echo(
            f"forgot all states and versions, freed {size(freed)}; the next point is {loaded.timeline.points[0].name}"
        )
        for result in reset.results.values():
            where = place(latest(workspace.storage, result.query))
            typer.echo(f"  {result.query} of {result.point} ({number(result.rows or 0)} rows) stays: {where}")


def _workspace(job: Job) -> Workspace | None:
    """The job's workspace, if there is one."""
    storage = Storage.at(job.workspace)
    return Workspace.open(storage, job.name) if storage.exists(layout.WORKSPACE) else None
