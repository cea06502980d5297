"""Files on a local disk: a file gets its name when it is finished, and what a commit names is on the disk before it is named."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tempura.workspace.faults import fault
from tempura.workspace.storage import Storage, failure, passed_over, temporary_name, told

_Put = Callable[[Path, Path], None]
_Wait = Callable[[Path], None]
_UNSUPPORTED = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


class LocalStorage(Storage):
    """Files on a disk of this machine, or on one that looks like it."""

    def __init__(self, root: str | Path):
        self.root = Path(root).absolute()

    def uri(self, path: str = "") -> str:
        # Not quoted: Spark takes the text after the scheme as it is.
        return f"file://{self._at(path)}"

    def read(self, path: str) -> bytes | None:
        with told("read", self._at(path)):
            try:
                return self._at(path).read_bytes()
            except FileNotFoundError:
                return None

    def write_new(self, path: str, content: bytes) -> None:
        self._place(path, content, _hard_link, _fsync)

    def replace(self, path: str, content: bytes) -> None:
        self._place(path, content, os.replace, _no_wait)

    def delete(self, path: str) -> None:
        target = self._at(path)
        if not self.exists(path) and not target.is_symlink():
            return
        fault(f"delete {path}")
        with told("delete", target):
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target)
            else:
                target.unlink(missing_ok=True)
        fault(f"deleted {path}")

    def sync(self, folders: Iterable[str]) -> None:
        paths = {self.root}
        for folder in map(self._at, folders):
            paths |= {parent for parent in folder.parents if parent.is_relative_to(self.root)}
            for here, _, names in os.walk(folder):
                paths |= {Path(here), *(Path(here, name) for name in names if not passed_over(name))}
        # At once, because the disk then needs to be waited for only a few times.
        with told("write", self.root), ThreadPoolExecutor(8) as pool:
            list(pool.map(_fsync, paths))

    def link(self, path: str, target: str) -> None:
        link = self._at(path)
        temporary = link.with_name(temporary_name())
        fault(f"link {path}")
        with told("write", link):
            try:
                os.symlink(target, temporary)
            except OSError as error:
                if error.errno in _UNSUPPORTED:
                    return
                raise
            fault(f"name {path}")
            if link.is_dir() and not link.is_symlink():
                shutil.rmtree(link)  # A backup that follows links has a copy of the folder where the link was.
            os.replace(temporary, link)
        fault(f"linked {path}")

    def exists(self, path: str) -> bool:
        with told("read", self._at(path)):
            try:
                self._at(path).stat()
            except FileNotFoundError:
                return False
            return True

    def sizes(self, path: str) -> dict[str, int]:
        target = self._at(path)
        with told("read", target):
            if not target.is_dir():
                return {"": target.lstat().st_size} if target.is_symlink() or target.exists() else {}
            found = (Path(here, name) for here, _, names in os.walk(target) for name in names)
            return {file.relative_to(target).as_posix(): file.lstat().st_size for file in found}

    def _names(self, folder: str) -> list[str]:
        with told("list", self._at(folder)):
            try:
                return os.listdir(self._at(folder))
            except FileNotFoundError:
                return []

    def _at(self, path: str) -> Path:
        return self.root / path

    def _place(self, path: str, content: bytes, put: _Put, wait: _Wait) -> None:
        """Write a file under a temporary name beside its own, then `put` it there."""
        target = self._at(path)
        placed = False
        while not placed:
            self._ensure(target.parent, wait)
            with told("write", target):
                placed = _placed(target, content, put, wait, path)
        with told("write", target):
            wait(target.parent)

    def _ensure(self, folder: Path, wait: _Wait) -> None:
        """The folder is there, and so are those around it."""
        if folder.is_dir():
            return
        self._ensure(folder.parent, wait)
        try:
            folder.mkdir(exist_ok=True)
            wait(folder.parent)
        except OSError as error:
            raise failure("create", str(folder), error) from error


def _placed(target: Path, content: bytes, put: _Put, wait: _Wait, path: str) -> bool:
    """Write a file beside its place and `put` it there; False if somebody collected it as garbage in between."""
    temporary = target.with_name(temporary_name())
    fault(f"write {path}")
    try:
        temporary.write_bytes(content)
        wait(temporary)
        fault(f"name {path}")
        put(temporary, target)
        fault(f"wrote {path}")
    except FileNotFoundError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True


def _hard_link(temporary: Path, target: Path) -> None:
    try:
        os.link(temporary, target)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        # A disk without hard links: as weak as a remote file system.
        if target.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        os.replace(temporary, target)


def _no_wait(path: Path) -> None:
    """What is replaced can be made again if the machine stops now."""


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
