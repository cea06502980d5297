"""The systems that run in processes of their own, each made from the place where it is installed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bench._peers.process import Peer


def flink(python: Path) -> Peer:
    """Flink as this Python has it: the SQL as a continuous query over files. Its package reads CSV, not Parquet."""
    command = (str(python), "-m", "bench._peers.flink_process")
    return Peer("Flink", command, f"check that `{python}` has apache-flink")


def pathway(python: Path) -> Peer:
    """Pathway as this Python has it, with one worker, as is its default. Nothing here depends on it: its licence is not an open one."""
    command = (str(python), "-m", "bench._peers.pathway_process")
    return Peer("Pathway", command, f"check that `{python}` has pathway[sql]", header=True)


def pg_ivm(folder: Path) -> Peer:
    """PostgreSQL's incremental views as npm has installed them in a folder: in PGlite, PostgreSQL in WebAssembly, with all tables in memory.

    Tables have neither keys nor indices: with a fifth of the rows new, keeping a primary key costs more than it saves
    (pairs at scale factor 1, measured once: 4.9 CPU seconds with one, 3.0 without).
    """
    command = ("node", str(Path(__file__).with_name("pg_ivm.mjs")), str(folder.resolve()))
    needs = f"run `npm install @electric-sql/pglite @electric-sql/pglite-pg_ivm` in `{folder}`; `node` must be there"
    return Peer("pg_ivm", command, needs)


OTHERS: dict[str, Callable[[Path], Peer]] = {"flink": flink, "pathway": pathway, "pg_ivm": pg_ivm}
