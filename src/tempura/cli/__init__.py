"""The command `tempura`."""

from tempura.cli import calibrate, look, plan, run, upkeep
from tempura.cli.app import app
from tempura.cli.plan import coloured, sql_text

__all__ = ["app", "calibrate", "coloured", "look", "plan", "run", "sql_text", "upkeep"]
