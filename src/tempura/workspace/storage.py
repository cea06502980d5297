"""Files below one folder, on a local disk or on any file system that pyarrow reaches, with the few operations a commit needs.

The operation that everything stands on is `write_new`: after it, the file is there with all of its bytes, or it is not there; and of two who create
the same file, one fails. On a local disk that holds under any kill (a hard link to a finished file) and any crash of the machine (fsync). Elsewhere
the file is looked for first, written under another name and moved, so that of two who create it at the same instant both may believe
they did; there the lock keeps two runs apart, which looks whose claim it is before a commit. `replace` does not wait for the disk: it is for what can be made again.
"""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from tempura.errors import WorkspaceError

_TEMPORARY = ".tmp-"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True)
class Size:
    """How much a file or folder holds."""

    bytes: int
    files: int


class Storage(ABC):
    """Files named by paths relative to one folder; `""` is the folder itself."""

    @staticmethod
    def at(place: str | Path) -> Storage:
        """The storage below a local folder or a URI."""
        from tempura.workspace.local import LocalStorage
        from tempura.workspace.remote import RemoteStorage

        place = str(place)
        if place.startswith("file://"):
            return LocalStorage(place.removeprefix("file://"))
        return RemoteStorage.at_uri(place) if "://" in place else LocalStorage(place)

    @abstractmethod
    def uri(self, path: str = "") -> str:
        """The name under which Spark opens a path."""

    @abstractmethod
    def read(self, path: str) -> bytes | None:
        """The bytes of a file, or None where there is none."""

    @abstractmethod
    def write_new(self, path: str, content: bytes) -> None:
        """Create a file with all of its bytes at once; FileExistsError where there is one already."""

    @abstractmethod
    def replace(self, path: str, content: bytes) -> None:
        """Put a file in the place of another one, so that a reader finds the old bytes or the new."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Remove a file, or a folder with all that is in it; nothing happens where there is none."""

    @abstractmethod
    def sync(self, folders: Iterable[str]) -> None:
        """All rows in these folders are on the disk when this returns."""

    @abstractmethod
    def link(self, path: str, target: str) -> None:
        """Make `path` another name of its neighbour `target`, atomically, where links exist; elsewhere nothing happens."""

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""

    @abstractmethod
    def sizes(self, path: str) -> dict[str, int]:
        """The bytes of every file below a folder, by path relative to it; a file is its own only entry, under the name `""`."""

    @abstractmethod
    def _names(self, folder: str) -> list[str]:
        """The names in a folder, temporary ones too, in any order."""

    def list(self, folder: str = "") -> tuple[str, ...]:
        """The names in a folder, sorted; none where there is no such folder."""
        return tuple(sorted(name for name in self._names(folder) if not name.startswith(_TEMPORARY)))

    def leftovers(self, folder: str = "") -> tuple[str, ...]:
        """The paths of what writes into a folder left behind when they were killed."""
        return tuple(sorted(join(folder, name) for name in self._names(folder) if name.startswith(_TEMPORARY)))

    def size_of(self, path: str) -> Size:
        """The bytes and files at or below a path."""
        sizes = self.sizes(path)
        return Size(sum(sizes.values()), len(sizes))


def join(*parts: str) -> str:
    """A path made of parts, of which some may be empty."""
    return "/".join(part for part in parts if part)


def passed_over(name: str) -> bool:
    """Whether Spark takes a file for something else than rows, as _SUCCESS and .crc."""
    return name.startswith(("_", "."))


def temporary_name() -> str:
    """A name that no reader takes for a file of its own."""
    return _TEMPORARY + uuid4().hex


@contextmanager
def told(verb: str, path: object) -> Generator[None]:
    """What goes wrong inside is told as an error of the workspace; that a file exists already is for the caller to judge."""
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        raise failure(verb, str(path), error) from error


def failure(verb: str, path: str, error: OSError) -> WorkspaceError:
    """What the system said, as an error of the workspace."""
    if error.errno in _FULL:
        return WorkspaceError(
            f"the disk is full: cannot {verb} {path}",
            hint="free some space, then run again: what was committed is safe, and finished steps are not repeated (once there is a little, `tempura gc` removes what no run needs)",
        )
    said = error.strerror or str(error)
    return WorkspaceError(
        f"cannot {verb} {path}: {said}", hint="check that the place exists and that you may write there"
    )
