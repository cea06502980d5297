"""The command `tempura`."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal

import typer

from tempura import optimizer
from tempura.errors import TempuraError
from tempura.explain import explain, to_json
from tempura.job import Job, Objective, parse_methods
from tempura.plans import IncrementalPlan

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)

SHOWN = ("json", "sql", "memo", "trace", "why")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tempura {version('tempura')}")
        raise typer.Exit()


@app.callback()
def tempura(
    _: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Plan incremental data processing: which part of a query to compute when, how, and what to keep."""


@app.command(
    "plan",
    epilog="""\b
Examples:
  tempura plan examples/sales/job.yaml
  tempura plan examples/sales/job.yaml --methods IM1,IM2 --cost-model unit
  tempura plan examples/sales/job.yaml --why 'result[t2]'
  tempura plan job.yaml --objective latest-first
  tempura plan job.yaml --objective last-run-at-most:2.5 --json
  tempura plan job.yaml --sql > steps.sql
  tempura plan job.yaml --trace | less
""",
)
def plan_command(
    job: Annotated[Path, typer.Argument(metavar="JOB", help="The job's YAML file.")],
    methods: Annotated[
        str | None, typer.Option(help="Use these methods only: IM1,IM2,OJV,HOV,PART.", metavar="NAMES")
    ] = None,
    objective: Annotated[
        str | None, typer.Option(help="weighted, latest-first, or last-run-at-most:LIMIT.", metavar="OBJECTIVE")
    ] = None,
    cost_model: Annotated[
        Literal["unit", "spark"], typer.Option(help="Count tuples, or estimate the work of Spark.")
    ] = "spark",
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
    sql: Annotated[bool, typer.Option("--sql", help="Print the SELECT of every step.")] = False,
    memo: Annotated[
        bool, typer.Option("--memo", help="Print the memo: all TVRs and what the rules said of them.")
    ] = False,
    trace: Annotated[bool, typer.Option("--trace", help="Print the firings of the rules, in order.")] = False,
    why: Annotated[
        str | None, typer.Option(help="Print all ways to compute a view, and the one taken.", metavar="VIEW")
    ] = None,
) -> None:
    """Plan a job and explain the plan."""
    asked = [f"--{n}" for n, wanted in zip(SHOWN, (as_json, sql, memo, trace, why is not None), strict=True) if wanted]
    if len(asked) > 1:
        _fail(f"{' and '.join(asked)} cannot be shown at once", "choose one")
    try:
        loaded = Job.load(job)
        if methods is not None:
            loaded = dataclasses.replace(loaded, methods=parse_methods(methods))
        if objective is not None:
            loaded = dataclasses.replace(loaded, objective=Objective.parse(objective))
        if memo:
            typer.echo(optimizer.memo_text(loaded))
        elif trace:
            typer.echo(optimizer.trace_text(loaded))
        elif why is not None:
            typer.echo(optimizer.why_text(loaded, why, cost=cost_model))
        else:
            typer.echo(_shown(optimizer.plan(loaded, cost=cost_model), as_json, sql))
    except TempuraError as error:
        message, _, rest = str(error).partition("\n")
        typer.echo(f"error: {message}" + (f"\n{rest}" if rest else ""), err=True)
        raise typer.Exit(2) from None


def _fail(message: str, hint: str) -> None:
    typer.echo(f"error: {message}\n  hint: {hint}", err=True)
    raise typer.Exit(2)


def _shown(plan: IncrementalPlan, as_json: bool, sql: bool) -> str:
    if as_json:
        return json.dumps(to_json(plan), indent=2, ensure_ascii=False)
    if sql:
        return sql_text(plan)
    return coloured(explain(plan)) if _on_terminal() else explain(plan)


def _on_terminal() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


COLOURS = (
    (re.compile(r"^\S.*$", re.MULTILINE), typer.colors.BRIGHT_WHITE),
    (re.compile(r"[█▏▎▍▌▋▊▉]+"), typer.colors.CYAN),
    (re.compile(r"[●○━]+"), typer.colors.GREEN),
    (re.compile(r"\b(?:IM1|IM2|OJV|HOV|PART)\b(?=[ ,]|$)", re.MULTILINE), typer.colors.YELLOW),
)


def coloured(text: str) -> str:
    """An explanation for a terminal: headings, bars, states and methods stand out."""
    for pattern, colour in COLOURS:
        text = pattern.sub(lambda found, colour=colour: typer.style(found[0], fg=colour), text)
    return text


def sql_text(plan: IncrementalPlan) -> str:
    """The SELECT of every step, each under a comment that names its run and target."""
    parts: list[str] = []
    for run in plan.runs:
        for step in run.steps:
            parts.append(f"-- at {run.point}, {step.kind} {step.name}: {step.view}\n{step.sql};")
    return "\n\n".join(parts)
