"""The command `tempura calibrate`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tempura.cli.app import FAILED, app, fail, on_terminal, plain_errors, say
from tempura.errors import TempuraError
from tempura.estimate.profile import COEFFICIENTS

if TYPE_CHECKING:
    from tempura.spark.calibrate import Calibration

QUICK_SALES, QUICK_ROUNDS = 400_000, 1
"""What is measured in a hurry."""


@app.command(
    "calibrate",
    epilog="""\b
Examples:
  tempura calibrate                             some minutes; writes profile.json
  tempura calibrate --quick --out rough.json    a minute or two, and rougher
  tempura calibrate --trials                    how each trial came out, too

A job uses it with `cluster: profile.json`. Spark is started here, as `tempura run` does it; for a
session of your own, on a cluster too, there is `tempura.spark.calibrate.calibrate(spark)` in Python.
""",
)
def calibrate_command(
    out: Annotated[Path, typer.Option(help="The file to write the profile to.", metavar="FILE")] = Path("profile.json"),
    quick: Annotated[bool, typer.Option("--quick", help="Smaller tables, one round.")] = False,
    trials: Annotated[bool, typer.Option("--trials", help="Print what each trial took and was estimated at.")] = False,
) -> None:
    """Measure what work costs on Spark here, for planning."""
    if not out.parent.is_dir():
        fail(f"there is no folder {str(out.parent)!r}", "make it, or choose another --out")
    if out.is_dir() or not os.access(out if out.exists() else out.parent, os.W_OK):
        fail(f"{str(out)!r} cannot be written", "give the name of a file, in a folder of yours: --out profile.json")
    console = Console(no_color=None if on_terminal() else True)
    with plain_errors():
        found = _measured(console, quick)
    if trials:
        console.print(_trials(found))
    console.print(_coefficients(found))
    before, after = found.errors
    typer.echo(
        f"{len(found.observed)} trials: the model errs by {before:.0%} in the median as shipped, and by {after:.0%} with what was just fitted to them"
    )
    try:
        out.write_text(found.to_json() + "\n", encoding="utf-8")
    except OSError as error:
        hint = "the table above has what was measured; a profile is JSON with these names and numbers"
        say(TempuraError(f"{str(out)!r} cannot be written: {error.strerror}", hint=hint), FAILED)
    typer.echo(f"wrote {out}; a job uses it with `cluster: {out.absolute()}`, or with its path from the job's folder")


def _measured(console: Console, quick: bool) -> Calibration:
    from tempura.spark.calibrate import ROUNDS, SALES, calibrate
    from tempura.spark.steps import StepError, explained

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as shown:
        task = shown.add_task("starting Spark", total=None)

        def told(what: str, part: int, parts: int) -> None:
            shown.update(task, description=what, completed=part, total=parts)
            if not console.is_terminal:
                console.print(f"  {part}/{parts} {what}", highlight=False, markup=False, soft_wrap=True)

        try:
            with explained("the trials"):
                sales, rounds = (QUICK_SALES, QUICK_ROUNDS) if quick else (SALES, ROUNDS)
                return calibrate(sales=sales, rounds=rounds, told=told)
        except StepError as error:
            say(error, FAILED)


def _coefficients(found: Calibration) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("coefficient", "as shipped", "measured", "times"):
        table.add_column(title, justify="left" if title == "coefficient" else "right")
    for name in COEFFICIENTS:
        was, now = getattr(found.before, name), getattr(found.profile, name)
        table.add_row(name, f"{was:.2e}", f"{now:.2e}", f"{now / was:.2f}")
    return table


def _trials(found: Calibration) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("trial", "CPU s", "as shipped", "as measured"):
        table.add_column(title, justify="left" if title == "trial" else "right")
    for o in found.observed:
        table.add_row(o.name, f"{o.seconds:.2f}", f"{o.error(found.before):+.0%}", f"{o.error(found.profile):+.0%}")
    return table
