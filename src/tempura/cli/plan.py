"""The command `tempura plan`."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Annotated, Literal

import typer

from tempura import optimizer
from tempura.cli.app import JobFile, app, fail, on_terminal, plain_errors
from tempura.explain import explain, to_json
from tempura.job import Job, Objective, parse_methods
from tempura.plans import IncrementalPlan

SHOWN = ("json", "sql", "memo", "trace", "why")


@app.command(
    "plan",
    epilog="""\b
Examples:
  tempura plan job.yaml
  tempura plan job.yaml --methods IM1,IM2 --cost-model unit
  tempura plan job.yaml --why 'result[t2]'
  tempura plan job.yaml --objective latest-first
  tempura plan job.yaml --objective last-run-at-most:2.5 --json
  tempura plan job.yaml --sql > steps.sql
  tempura plan job.yaml --trace | less
""",
)
def plan_command(
    job: JobFile,
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
        fail(f"{' and '.join(asked)} cannot be shown at once", "choose one")
    with plain_errors():
        loaded = Job.load(job)
        if methods is not None:
            if loaded.policy == "full":
                fail("the job's policy is `full`, which uses no method", "give --methods for a job with another policy")
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
            show_plan(loaded, cost_model, as_json, sql)


def show_plan(job: Job, cost_model: str = "spark", as_json: bool = False, sql: bool = False) -> None:
    """Plan a job and print the plan."""
    plan = optimizer.plan(job, cost=cost_model)
    if as_json:
        text = json.dumps(to_json(plan), indent=2, ensure_ascii=False)
    elif sql:
        text = sql_text(plan)
    else:
        text = coloured(explain(plan)) if on_terminal() else explain(plan)
    typer.echo(text)


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
