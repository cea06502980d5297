"""`python -m bench NAME` runs a benchmark: the function `run` of the module `bench.NAME`."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import typer

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.callback()
def bench() -> None:
    """Measure planning and plans."""


@app.command()
def data(sf: float = 0.1) -> None:
    """Make the TPC-DS tables of a scale factor, if they are not there yet."""
    from bench import tpcds

    typer.echo(f"{tpcds.generate(sf)}")


# A benchmark is a module beside this one with a function `run`, whose parameters become options.
for path in sorted(Path(__file__).parent.glob("*.py")):
    if not path.stem.startswith("_") and path.stem != "tpcds":
        app.command(path.stem)(import_module(f"bench.{path.stem}").run)


if __name__ == "__main__":
    app()
