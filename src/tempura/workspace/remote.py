"""Files on any file system that pyarrow reaches: object stores, HDFS."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable
from typing import Any, cast

from tempura.errors import WorkspaceError
from tempura.workspace.faults import fault
from tempura.workspace.storage import Storage, join, temporary_name, told


class RemoteStorage(Storage):
    """Files on a file system that pyarrow reaches; `storage` says what is weaker here."""

    def __init__(self, filesystem: Any, root: str, uri: str):
        """`filesystem` is a `pyarrow.fs.FileSystem`, `root` a path in it, and `uri` the same place as Spark names it."""
        self._files = filesystem
        self._root = root.rstrip("/")
        self._uri = uri.rstrip("/")

    @classmethod
    def at_uri(cls, uri: str) -> RemoteStorage:
        """The storage at a URI; what is `s3a` to Spark is `s3` to pyarrow."""
        try:
            filesystem, root = _arrow().FileSystem.from_uri(re.sub(r"^s3a:", "s3:", uri))
        except (OSError, ValueError, ImportError) as error:
            raise WorkspaceError(
                f"cannot open the workspace {uri}: {str(error).splitlines()[0]}",
                hint="give a local folder, or a URI that pyarrow opens, such as s3://bucket/folder",
            ) from error
        return cls(filesystem, root, re.sub(r"^s3:", "s3a:", uri.partition("?")[0]))

    def uri(self, path: str = "") -> str:
        return join(self._uri, path)

    def read(self, path: str) -> bytes | None:
        with told("read", self.uri(path)):
            if not self.exists(path):
                return None
            with self._files.open_input_stream(self._at(path)) as stream:
                return cast("bytes", stream.read())

    def write_new(self, path: str, content: bytes) -> None:
        self._refuse(path)
        self._place(path, content, over=False)

    def replace(self, path: str, content: bytes) -> None:
        self._place(path, content, over=True)

    def _place(self, path: str, content: bytes, *, over: bool) -> None:
        """Write a file under a temporary name beside its own, then move it there; some file systems do not move over another file."""
        folder = path.rpartition("/")[0]
        temporary = self._at(join(folder, temporary_name()))
        fault(f"write {path}")
        with told("write", self.uri(path)):
            if self._at(folder):
                self._files.create_dir(self._at(folder), recursive=True)
            with self._files.open_output_stream(temporary) as stream:
                stream.write(content)
            fault(f"name {path}")
            try:
                self._files.move(temporary, self._at(path))
            except OSError:
                if not over:
                    self._files.delete_file(temporary)
                    self._refuse(path)
                if not over or not self.exists(path):
                    raise
                self._files.delete_file(self._at(path))
                self._files.move(temporary, self._at(path))
        fault(f"wrote {path}")

    def _refuse(self, path: str) -> None:
        if self.exists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.uri(path))

    def delete(self, path: str) -> None:
        if not self.exists(path):
            return
        fault(f"delete {path}")
        with told("delete", self.uri(path)):
            folder = self._files.get_file_info(self._at(path)).type == _arrow().FileType.Directory
            (self._files.delete_dir if folder else self._files.delete_file)(self._at(path))
        fault(f"deleted {path}")

    def sync(self, folders: Iterable[str]) -> None:
        """Remote file systems keep what was closed."""

    def link(self, path: str, target: str) -> None:
        """There are no links; `latest.json` says the same."""

    def exists(self, path: str) -> bool:
        with told("read", self.uri(path)):
            return self._files.get_file_info(self._at(path)).type != _arrow().FileType.NotFound

    def sizes(self, path: str) -> dict[str, int]:
        at, kinds = self._at(path), _arrow().FileType
        with told("read", self.uri(path)):
            if self._files.get_file_info(at).type == kinds.File:
                return {"": self._files.get_file_info(at).size}
            selector = _arrow().FileSelector(at, allow_not_found=True, recursive=True)
            found = [entry for entry in self._files.get_file_info(selector) if entry.type == kinds.File]
        return {str(entry.path).removeprefix(at).lstrip("/"): int(entry.size) for entry in found}

    def _names(self, folder: str) -> list[str]:
        with told("list", self.uri(folder)):
            selector = _arrow().FileSelector(self._at(folder), allow_not_found=True)
            return [str(entry.base_name) for entry in self._files.get_file_info(selector)]

    def _at(self, path: str) -> str:
        return join(self._root, path)


def _arrow() -> Any:
    """`pyarrow.fs`, loaded where a remote file system is used; it has no types."""
    import pyarrow.fs  # pyright: ignore[reportMissingTypeStubs]

    return cast("Any", pyarrow.fs)
