"""`python -m bench NAME` runs a benchmark: the function `run` of the module `bench.NAME`, written with `_` for `-`."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import typer

from tempura.errors import TempuraError

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.callback()
def bench() -> None:
    """Measure planning and plans; bench/README.md says what each benchmark shows."""


@app.command()
def data(sf: float = 0.1) -> None:
    """Make the TPC-DS tables of a scale factor, if they are not there yet."""
    from bench import tpcds

    typer.echo(f"{tpcds.generate(sf)}")


def register(wanted: str) -> None:
    """Make commands of the modules beside this one that have a function `run`: of the one wanted, or of all if there is none such."""
    names = [p.stem for p in sorted(Path(__file__).parent.glob("*.py")) if not p.stem.startswith("_")]
    names.remove("tpcds")
    for name in [n for n in names if n == wanted.replace("-", "_")] or names:
        app.command(name.replace("_", "-"))(import_module(f"bench.{name}").run)


if __name__ == "__main__":
    register(sys.argv[1] if len(sys.argv) > 1 else "")
    try:
        app()
    except TempuraError as error:
        sys.exit(str(error))
