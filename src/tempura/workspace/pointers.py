"""Each query's newest result has a name that stays: `results/<query>/latest.json`, and a link `latest` where there are links.

They follow from the newest run file, and can be made again from it at any time. The link is made first: where `latest.json` is right, so is the link.
"""

from __future__ import annotations

import json

from tempura.workspace import layout
from tempura.workspace.runfile import ResultEntry, RunFile
from tempura.workspace.storage import Storage


def published(storage: Storage, run: RunFile) -> bool:
    """Whether the names that stay lead to what this run file names."""
    return all(_leads_there(storage, entry) for entry in run.results.values())


def publish(storage: Storage, run: RunFile) -> None:
    """Let the names that stay lead to what this run file names."""
    for entry in run.results.values():
        if not _leads_there(storage, entry):
            storage.link(layout.link(entry.query), entry.folder.rpartition("/")[2])
            storage.replace(layout.pointer(entry.query), _pointer(entry))


def latest(storage: Storage, query: str) -> str:
    """Where the newest result of a query is found: under a link, or, where there are no links, by what `latest.json` says."""
    link = layout.link(query)
    return storage.uri(link if storage.exists(link) else layout.pointer(query))


def _leads_there(storage: Storage, entry: ResultEntry) -> bool:
    return storage.read(layout.pointer(entry.query)) == _pointer(entry)


def _pointer(entry: ResultEntry) -> bytes:
    said = {"run": entry.run, "point": entry.point, "folder": entry.folder, "delta": entry.delta_folder}
    return json.dumps(said, indent=1, ensure_ascii=False).encode()
