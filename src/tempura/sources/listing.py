"""Which files are there: a path, folder or pattern, on this machine or on any file system that pyarrow opens.

Files are named relative to the folder that the path names (or that its pattern starts from), with `/` between names. Files and folders
whose names begin with `_` or `.` are not part of the data, as everywhere around Spark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

from tempura.errors import SourceError
from tempura.paths import local
from tempura.sources.arrow import fs

_WILD = re.compile(r"[*?\[]")
_UNSAFE = re.compile(r"[{}\[\]*?\\]")
"""Spark reads these characters in a path as a pattern."""


@dataclass(frozen=True)
class Stamp:
    """What tells one content of a file from another, without opening it."""

    size: int
    mtime_ns: int


@dataclass(frozen=True)
class Place:
    """A file, a folder or a pattern, as the job names it; relative to `folder` unless it is absolute or a URI."""

    table: str
    path: str
    folder: Path = Path()

    @cached_property
    def filesystem(self) -> Any:
        return self._opened[0]

    def files(self) -> dict[str, Stamp]:
        """The files that are there, in the order of their names."""
        filesystem, base, _ = self._opened
        try:
            at = filesystem.get_file_info(base)
            if at.type == fs.FileType.File:
                found = [at]
            elif at.type == fs.FileType.Directory:
                found = filesystem.get_file_info(fs.FileSelector(base, recursive=True))
            else:
                raise self._error("does not exist", "correct the path, or wait until the data is there")
        except OSError as error:
            raise self._error(f"cannot be listed: {error.strerror or error}", "check the rights to read it") from None
        stamps: dict[str, Stamp] = {}
        for each in found:
            name = str(each.path)[len(base) :].strip("/") or str(each.base_name)
            if each.type == fs.FileType.File and self._belongs(name):
                stamps[name] = Stamp(int(each.size or 0), int(each.mtime_ns or 0))
        return dict(sorted(stamps.items()))

    def located(self, name: str) -> str:
        """Where pyarrow finds a file."""
        _, base, _ = self._opened
        return base if self._is_file else f"{base.rstrip('/')}/{name}"

    def uri(self, name: str) -> str:
        """Where Spark finds a file."""
        root = self._opened[2]
        path = root if self._is_file else f"{root.rstrip('/')}/{name}"
        if _UNSAFE.search(path):
            raise SourceError(
                f"table {self.table!r}: Spark would take the name of the file {path!r} for a pattern",
                hint="rename it: no brackets, braces, stars, question marks or backslashes",
            )
        # What pyarrow calls s3, Spark's file systems call s3a.
        return re.sub(r"^s3://", "s3a://", path)

    @cached_property
    def _split(self) -> tuple[str, str]:
        """The folder that the path starts from, and the pattern below it."""
        path = self.path.rstrip("/") or "/"
        wild = re.compile(r"[*\[]") if "://" in path else _WILD
        parts = path.split("/")
        first = next((i for i, part in enumerate(parts) if wild.search(part)), len(parts))
        return "/".join(parts[:first]) or ("/" if path.startswith("/") else "."), "/".join(parts[first:])

    @cached_property
    def _opened(self) -> tuple[Any, str, str]:
        """The file system, the folder's path there, and the folder as Spark knows it."""
        if "\0" in self.path:
            raise self._error("is no path: it has a NUL in it", "correct the path")
        start, _ = self._split
        if "://" not in start:
            path = str(local(self.folder, start))
            return fs.LocalFileSystem(), path, path
        try:
            filesystem, base = cast("tuple[Any, str]", fs.FileSystem.from_uri(re.sub(r"^s3a:", "s3:", start)))
        except (OSError, ValueError) as error:
            raise self._error(f"cannot be opened: {error}", "give a path or a URI that pyarrow can open") from None
        # Spark takes the characters of a URI as they are: %20 would not be a space.
        return filesystem, base, unquote(start.partition("?")[0])

    @cached_property
    def _is_file(self) -> bool:
        filesystem, base, _ = self._opened
        return filesystem.get_file_info(base).type == fs.FileType.File

    @cached_property
    def _pattern(self) -> re.Pattern[str] | None:
        _, pattern = self._split
        try:
            return re.compile(_translated(pattern)) if pattern else None
        except re.error as error:
            raise self._error(f"is no pattern: {error.msg}", "write a set of characters as [ab] or [a-z]") from None

    def _belongs(self, name: str) -> bool:
        if any(part.startswith(("_", ".")) for part in name.split("/")):
            return False
        # What a pattern matches may be a folder: then the files below it belong.
        return self._pattern is None or self._pattern.match(name + "/") is not None

    def _error(self, message: str, hint: str) -> SourceError:
        return SourceError(f"table {self.table!r}: {self.path!r} {message}", hint=hint)


def _translated(pattern: str) -> str:
    """A glob as a regular expression for a path and what is below it; `**` stands for any number of folders."""
    parts = {"**/": "(?:[^/]+/)*", "*": "[^/]*", "?": "[^/]"}
    pieces = re.split(r"(\*\*/|\*|\?|\[!?\]?[^\]]*\]?)", pattern)
    return "".join(parts.get(p) or (p.replace("[!", "[^") if p.startswith("[") else re.escape(p)) for p in pieces) + "/"


def vanished(seen: Mapping[str, Stamp], now: Mapping[str, Stamp]) -> tuple[str, str] | None:
    """The first file that is no longer what it was, and what became of it."""
    for name, stamp in seen.items():
        if name not in now:
            return name, "has vanished"
        if now[name] != stamp:
            return name, "has changed"
    return None
