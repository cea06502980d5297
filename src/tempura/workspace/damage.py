"""What a run file names can be checked against what is there: by the names and sizes of files, which is quick, or by reading them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from tempura.sources.arrow import pa, pq
from tempura.workspace.runfile import ResultEntry, StateEntry
from tempura.workspace.storage import Storage, join, passed_over

Entry = TypeVar("Entry", bound=StateEntry | ResultEntry)


def checked(storage: Storage, entry: Entry) -> Entry:
    """The entry with the sizes of all its files; folders that it has sizes for already are taken at their word."""
    new = [folder for folder in entry.folders if folder not in entry.checksum]
    checksum = {**entry.checksum, **{folder: _files(storage, folder) for folder in new}}
    size = sum(sum(checksum[folder].values()) for folder in entry.folders)
    return replace(entry, checksum=checksum, bytes=size if entry.bytes is None else entry.bytes)


def damage(storage: Storage, entry: StateEntry | ResultEntry) -> tuple[str, ...]:
    """What is missing, of another size, or foreign in the folders of an entry; empty if all is well."""
    return tuple(said for folder in entry.folders for said in _differences(storage, folder, entry))


def unreadable(storage: Storage, states: Iterable[StateEntry]) -> dict[str, str]:
    """The states of which a file has other bytes than were written, by name, and what is wrong with each."""
    found: dict[str, str] = {}
    for entry in states:
        for folder in entry.folders:
            for name in entry.checksum.get(folder, {}):
                path = join(folder, name)
                try:
                    content = pa.BufferReader(storage.read(path) or b"")
                    pq.ParquetFile(content, page_checksum_verification=True).read()
                except (OSError, ValueError, pa.ArrowException) as error:
                    found.setdefault(entry.name, f"{path} cannot be read: {str(error).splitlines()[0]}")
    return found


def _differences(storage: Storage, folder: str, entry: StateEntry | ResultEntry) -> list[str]:
    if not storage.exists(folder):
        return [f"{folder} is missing"]
    expected, found = entry.checksum.get(folder), _files(storage, folder)
    if expected is None:
        return [f"{folder} has no recorded sizes"]
    said = [f"{join(folder, name)} is missing" for name in sorted(expected.keys() - found.keys())]
    said += [f"{join(folder, name)} does not belong there" for name in sorted(found.keys() - expected.keys())]
    said += [
        f"{join(folder, name)} has {found[name]} bytes instead of {expected[name]}"
        for name in sorted(expected.keys() & found.keys())
        if expected[name] != found[name]
    ]
    return said


def _files(storage: Storage, folder: str) -> dict[str, int]:
    """The files with rows."""
    return {
        name: size for name, size in sorted(storage.sizes(folder).items()) if not any(map(passed_over, name.split("/")))
    }
