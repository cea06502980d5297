"""In which order files arrive, hence which of them, or which of their rows, are new: three orders, one class each."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tempura.sources.arrival import Arrival, Stored
from tempura.sources.log import Entry, Log, Slice

Key = tuple[tuple[int, int, str], ...]


class Order(ABC):
    """Decides what belongs to a version. Raises Disorder for what comes too late."""

    arrival: str | None = None
    """The column that says when a row arrives, where there is one."""

    @abstractmethod
    def admit(self, fresh: Sequence[str], before: Log | None, upto: str | None) -> list[str]:
        """Of the files not seen before, those to open."""

    def bound(
        self,
        files: Mapping[str, Entry],
        fresh: Sequence[str],
        before: Log | None,
        upto: str | None,
        arrival: Arrival | None,
    ) -> tuple[Mapping[str, Entry], Stored | None]:
        """Of all files, those that belong to the version, and its last arrival."""
        return files, None

    def slices(self, since: Log | None, version: Log, arrival: Arrival | None) -> list[Slice]:
        """What is in one version and not in an earlier one."""
        return [Slice(name) for name in version.files if since is None or name not in since.files]


class Disorder(Exception):
    """A file breaks the order of arrival; says how, and what to do."""

    def __init__(self, message: str, hint: str):
        self.message = message
        self.hint = hint
        super().__init__(message)


class Still(Order):
    """Nothing arrives: the table is static."""

    def admit(self, fresh: Sequence[str], before: Log | None, upto: str | None) -> list[str]:
        if before is not None and fresh:
            raise Disorder(
                f"a static table changed: the file {fresh[0]!r} is new",
                "give the source an arrival column (`arrival: column`), or use `kind: folders`, if rows keep arriving",
            )
        return list(fresh)


@dataclass(frozen=True)
class ByBatch(Order):
    """Whole batches arrive: folders in the natural order of their names, or files in any order."""

    folders: bool = True

    def admit(self, fresh: Sequence[str], before: Log | None, upto: str | None) -> list[str]:
        seen = {self.batch(name) for name in before.files} if before else set[str]()
        last = max(seen, key=_order, default=None)
        taken: list[str] = []
        for name in fresh:
            batch = self.batch(name)
            if batch in seen:
                raise Disorder(f"the batch {batch!r}, which was read before, has a new file {name!r}", _COMPLETE)
            if self.folders and last is not None and _order(batch) < _order(last):
                raise Disorder(
                    f"the batch {batch!r} comes before {last!r}, which was read before: its rows arrive too late",
                    "name new batches so that they come last; to take it in, forget the states and start again",
                )
            if upto is None or self._reaches(upto, batch):
                taken.append(name)
        return taken

    def _reaches(self, upto: str, batch: str) -> bool:
        """Whether a batch arrives by then. A file's name may go on where `upto` ends: `2026-11-15.json` is there by 2026-11-15."""
        value = _value(batch)
        key, limit = natural(value), natural(upto)
        if self.folders:
            return key <= limit
        return key[: len(limit)] <= limit or (not upto[-1:].isdecimal() and value.startswith(upto))

    def batch(self, name: str) -> str:
        if not self.folders:
            return name
        folder, _, rest = name.partition("/")
        if not rest:
            raise Disorder(f"the file {name!r} is in no batch folder", "put each batch into a folder of its own")
        return folder


_COMPLETE = (
    "write a batch under another name (`_name`) and rename it when it is complete; put new rows into a new batch"
)


@dataclass(frozen=True)
class ByArrival(Order):
    """Rows arrive: a column says when."""

    arrival: str  # pyright: ignore[reportIncompatibleVariableOverride]

    def admit(self, fresh: Sequence[str], before: Log | None, upto: str | None) -> list[str]:
        return list(fresh)

    def bound(
        self,
        files: Mapping[str, Entry],
        fresh: Sequence[str],
        before: Log | None,
        upto: str | None,
        arrival: Arrival | None,
    ) -> tuple[Mapping[str, Entry], Stored | None]:
        if arrival is None:
            return files, None
        old = before.bound if before else None
        for name in fresh:
            least = files[name].least
            if old is not None and least is not None and arrival.key(least) <= arrival.key(old):
                raise Disorder(
                    f"the new file {name!r} has rows that arrive at {least}, but all until {old} were read before",
                    "give late rows a later arrival; to take them in as they are, forget the states and start again",
                )
        ends = [e.greatest for e in files.values() if e.greatest is not None]
        bound = max(ends, key=arrival.key, default=None)
        if bound is not None and upto is not None:
            bound = min(bound, _limit(upto, arrival), key=arrival.key)
        if old is not None and (bound is None or arrival.key(bound) < arrival.key(old)):
            bound = old
        there = {n: e for n, e in files.items() if self._begins(e, bound, arrival)}
        return there, bound if any(e.least is not None for e in there.values()) else old

    @staticmethod
    def _begins(entry: Entry, bound: Stored | None, arrival: Arrival) -> bool:
        return entry.least is None or bound is None or arrival.key(entry.least) <= arrival.key(bound)

    def slices(self, since: Log | None, version: Log, arrival: Arrival | None) -> list[Slice]:
        if arrival is None or version.bound is None:
            return []
        low, high = since.bound if since else None, version.bound
        found: list[Slice] = []
        for name, entry in version.files.items():
            if entry.least is None or entry.greatest is None:
                continue
            if low is not None and arrival.key(entry.greatest) <= arrival.key(low):
                continue
            after = low if low is not None and arrival.key(entry.least) <= arrival.key(low) else None
            found.append(Slice(name, after, high if arrival.key(entry.greatest) > arrival.key(high) else None))
        return found


def _limit(upto: str, arrival: Arrival) -> Stored:
    try:
        return arrival.parsed(upto)
    except ValueError as error:
        raise Disorder(f"`upto` cannot be used: {error}", "correct `upto` in the timeline") from None


def natural(name: str) -> Key:
    """What orders names as people do: `2` comes before `10`."""
    pieces = re.findall(r"\d+|\D+", name)
    return tuple((0, int(p), "") if p.isdecimal() else (1, 0, p) for p in pieces)


def _value(batch: str) -> str:
    """What a folder's name says: the value of `name=value`, or the name itself."""
    return batch.partition("=")[2] or batch


def _order(batch: str) -> tuple[Key, str]:
    return natural(_value(batch)), batch
