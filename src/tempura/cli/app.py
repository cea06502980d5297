"""The application that all commands belong to, and how they fail: a message and a hint, never a stack."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from tempura.errors import TempuraError

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)

JobFile = Annotated[Path, typer.Argument(metavar="JOB", help="The job's YAML file.")]

WRONG = 2
"""The exit code where something is wrong with what was asked; nothing was done."""
FAILED = 1
"""The exit code where something was done and failed, or turned out to be wrong."""


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
    """Plan and run incremental data processing: which part of a query to compute when, how, and what to keep."""


@contextmanager
def plain_errors() -> Generator[None]:
    """What the user can mend is told in a message and a hint."""
    try:
        yield
    except TempuraError as error:
        say(error, WRONG)


def say(error: TempuraError, code: int) -> NoReturn:
    """Tell an error and end."""
    message, _, rest = str(error).partition("\n")
    typer.echo(f"error: {message}" + (f"\n{rest}" if rest else ""), err=True)
    raise typer.Exit(code) from None


def fail(message: str, hint: str) -> NoReturn:
    """Tell what is wrong with the options and end."""
    say(TempuraError(message, hint=hint), WRONG)


def on_terminal() -> bool:
    """Whether what is printed is for a person who sees colours."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
