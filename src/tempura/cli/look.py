"""The commands that look at what runs have left, without Spark: `tempura status`, `tempura explain`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from tempura.cli.app import JobFile, app, plain_errors
from tempura.cli.plan import show_plan
from tempura.job import Job
from tempura.status import runs_text, status_of, status_text

Runs = Annotated[bool, typer.Option("--runs", help="Every run with its steps, estimated beside measured.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]


@app.command(
    "status",
    epilog="""\b
Examples:
  tempura status job.yaml
  tempura status job.yaml --runs                what each step was estimated to cost, and what it cost
  tempura status job.yaml --json | jq .next
""",
)
def status_command(job: JobFile, as_json: AsJson = False, runs: Runs = False) -> None:
    """Show where a job stands: points done and due, states, results, costs, who is at work. Needs no Spark."""
    with plain_errors():
        found = status_of(Job.load(job))
    if as_json:
        said = asdict(found)
        if not runs:
            del said["runs"]
        typer.echo(json.dumps(said, indent=2, ensure_ascii=False))
    else:
        typer.echo(runs_text(found.runs) if runs else status_text(found))


@app.command(
    "explain",
    epilog="""\b
Examples:
  tempura explain job.yaml                      as `tempura plan`
  tempura explain job.yaml --runs               as `tempura status --runs`
""",
)
def explain_command(job: JobFile, runs: Runs = False) -> None:
    """Explain a job's plan, or with --runs what its runs did and what that cost."""
    if runs:
        status_command(job, runs=True)
    else:
        with plain_errors():
            show_plan(Job.load(job))
