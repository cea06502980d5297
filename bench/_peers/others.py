"""The systems that run in processes of their own, each made from the place where it is installed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from bench._peers.process import Peer


def flink(python: Path) -> Peer:
    """Flink as this Python has it: the SQL as a continuous query over files. Its package reads CSV, not Parquet."""
    command = (str(python), "-m", "bench._peers.flink_process")
    return Peer("Flink", command, f"check that `{python}` has apache-flink", _package(python, "apache-flink"))


def pathway(python: Path) -> Peer:
    """Pathway as this Python has it, with one worker, as is its default. Nothing here depends on it: its licence is not an open one."""
    command = (str(python), "-m", "bench._peers.pathway_process")
    return Peer("Pathway", command, f"check that `{python}` has pathway[sql]", _package(python, "pathway"), header=True)


def pg_ivm(folder: Path) -> Peer:
    """PostgreSQL's incremental views as npm has installed them in a folder: in PGlite, PostgreSQL in WebAssembly, with all tables in memory.

    Tables have neither keys nor indices: with a fifth of the rows new, keeping a primary key costs more than it saves
    (pairs at scale factor 1, measured once: 4.9 CPU seconds with one, 3.0 without).
    """
    command = ("node", str(Path(__file__).with_name("pg_ivm.mjs")), str(folder.resolve()))
    needs = f"run `npm install @electric-sql/pglite @electric-sql/pglite-pg_ivm` in `{folder}`; `node` must be there"
    return Peer("pg_ivm", command, needs, f"{_module(folder, 'pglite-pg_ivm')} in PGlite {_module(folder, 'pglite')}")


def _package(python: Path, name: str) -> str:
    """The version of a package that a Python has."""
    asked = f"from importlib.metadata import version; print(version({name!r}))"
    try:
        return subprocess.run([python, "-c", asked], capture_output=True, text=True).stdout.strip() or "unknown"
    except OSError:
        return "unknown"  # That it cannot be started is told when it is asked for a view.


def _module(folder: Path, name: str) -> str:
    """The version of a module that npm has installed in a folder."""
    path = folder / "node_modules" / "@electric-sql" / name / "package.json"
    return json.loads(path.read_text())["version"] if path.exists() else "unknown"


OTHERS: dict[str, Callable[[Path], Peer]] = {"flink": flink, "pathway": pathway, "pg_ivm": pg_ivm}
