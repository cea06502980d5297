"""Garbage is what neither the newest run file nor an unfinished run names: states of earlier runs, rows of killed attempts, journals of finished runs, temporary files.

Delivered results stay, unless only the newest few are asked for. Which of the folders under `results` were delivered is in the run files; `collected.json` says up to
which run they have been compared, so that collecting after each run reads one run file, not all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from tempura.errors import WorkspaceError
from tempura.workspace import layout, lock, runfile
from tempura.workspace.attempt import finished_steps, pending
from tempura.workspace.runfile import RunFile
from tempura.workspace.storage import Storage, join


def garbage(storage: Storage, latest: RunFile | None, claim: int, keep_results: int | None = None) -> tuple[str, ...]:
    """The files and folders that can be deleted by the holder of the lock, whose claim has this number."""
    newest = latest.number if latest else 0
    kept = _named(storage, latest)
    found = list(_temporary(storage))
    unfinished = str(newest + 1) if pending(storage, newest + 1) else None
    found += [f"pending/{number}" for number in storage.list("pending") if number != unfinished]
    in_use = f"{newest + 1}-{claim}"
    for kind in layout.ROWS:
        for name in storage.list(kind):
            here = join(kind, name)
            folders = [f"{here}/{run}" for run in storage.list(here) if layout.run_of(run) is not None]
            keep = {folder for folder in folders if folder in kept or folder.endswith(f"/{in_use}")}
            if kind != "states":
                keep |= set(_delivered(storage, folders, newest, keep_results))
            found += [here] if not keep else sorted(set(folders) - keep)
    return tuple(found)


def collected(storage: Storage, latest: RunFile | None) -> None:
    """Note that all garbage up to the newest run has been deleted."""
    if latest is not None and _collected(storage) != latest.number:
        storage.replace(layout.COLLECTED, json.dumps({"run": latest.number}).encode())


def _named(storage: Storage, latest: RunFile | None) -> set[str]:
    """The folders that the newest run file and the unfinished run name."""
    kept: set[str] = set()
    if latest is not None:
        entries = (*latest.states.values(), *latest.results.values())
        kept |= {folder for entry in entries for folder in entry.folders}
    begun = pending(storage, latest.number + 1 if latest else 1)
    if begun is not None:
        kept |= {folder for done in finished_steps(storage, begun) for folder in done.output.folders}
    return kept


def _delivered(storage: Storage, folders: Iterable[str], newest: int, keep_results: int | None) -> list[str]:
    """Of one query's folders those with a delivered result, or the newest few of them."""
    upto = _collected(storage)
    delivered = [
        (number, folder)
        for folder in folders
        if (number := layout.run_of(folder)) is not None
        and number <= newest
        and (number <= upto or _names(storage, number, folder))
    ]
    ordered = [folder for _, folder in sorted(delivered)]
    return ordered if keep_results is None else ordered[len(ordered) - min(keep_results, len(ordered)) :]


def _names(storage: Storage, number: int, folder: str) -> bool:
    """Whether a run names a folder; one whose run file cannot be read may do so."""
    path = layout.run_file(number)
    content = storage.read(path)
    if content is None:
        return True
    try:
        run = runfile.read(content, path)
    except WorkspaceError:
        return True
    return any(folder in entry.folders for entry in run.results.values())


def _collected(storage: Storage) -> int:
    try:
        return int(json.loads(storage.read(layout.COLLECTED) or b"")["run"])
    except (ValueError, TypeError, KeyError):
        # Missing, or unreadable: then all run files are read once more.
        return 0


def _temporary(storage: Storage) -> Iterator[str]:
    folders = ["", "runs", lock.FOLDER, *(f"results/{name}" for name in storage.list("results"))]
    folders += [f"pending/{n}{part}" for n in storage.list("pending") for part in ("", "/steps")]
    for folder in folders:
        yield from storage.leftovers(folder)
