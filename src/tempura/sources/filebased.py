"""What all sources of files have in common: list, compare with what was seen, open what is new, remember, describe.

A kind adds the order in which its files arrive, which columns the query does not see, and how much a row weighs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any
from urllib.parse import unquote

from pydantic import BeforeValidator, Field

from tempura.errors import JobError, SourceError
from tempura.schema import Column, Schema, names
from tempura.sources.arrival import Arrival
from tempura.sources.arrow import pa, pc
from tempura.sources.contents import Contents, Layout
from tempura.sources.drift import drift, unread
from tempura.sources.listing import Place, Stamp, vanished
from tempura.sources.log import Entry, Log, Slice
from tempura.sources.options import LOSSY, as_text, spelled
from tempura.sources.order import Disorder, Order, Still
from tempura.sources.parquet import open_parquet
from tempura.sources.source import (
    Change,
    Files,
    Format,
    Options,
    Part,
    Reading,
    Source,
    TableStatistics,
    Version,
    misfit,
)
from tempura.sources.sparktypes import constant, quoted, same_type
from tempura.sources.summary import Known, Summary, sampled
from tempura.sources.textual import open_csv, open_json, rough_rows, trouble

_OPEN = {"parquet": open_parquet, "csv": open_csv, "json": open_json}
_TEXT_OPTIONS = {"mode": "FAILFAST", "timeZone": "UTC"}
"""Unless the job says otherwise, what does not fit its type is an error, and times that name no zone are in UTC."""

_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"


def _option(value: Any) -> str:
    if value is None or isinstance(value, Mapping | list | tuple):
        what = "empty, or NULL without quotes" if value is None else "more than one value"
        raise misfit(
            f"the option is {what}",
            'give a text, in quotes where it would be taken for something else: `nullValue: "NULL"`',
        )
    return as_text(value)


class FileOptions(Options):
    """What every source of files can be told."""

    path: str = Field(min_length=1)
    format: Format
    options: Annotated[dict[str, Annotated[str, BeforeValidator(_option)]], Field(default_factory=dict)]
    ignore_new_columns: bool = False


@dataclass(frozen=True, kw_only=True)
class FileBased(Source):
    """Files below a path."""

    path: str
    format: Format
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    ignore_new_columns: bool = False

    def __post_init__(self) -> None:
        for name in self.hidden_types.keys() & {self.order.arrival}:
            try:
                Arrival(name, self.hidden_types[name])
            except ValueError as error:
                hint = "choose date, timestamp, timestamp_ntz, bigint, double, decimal(p,s) or string"
                raise JobError(f"table {self.table!r}: `arrival`: {error}", hint=hint) from None
        try:
            told = spelled(self.options)
        except ValueError as error:
            hint = "keep one of them: Spark takes the names of options in any case"
            raise JobError(f"table {self.table!r}: {error}", hint=hint) from None
        for name in told:
            if name.lower() in {lossy.lower() for lossy in LOSSY}:
                raise JobError(
                    f"table {self.table!r}: with the option `{name}` rows could be left out without a word",
                    hint="leave the option out, and mend or remove the files that cannot be read",
                )
        if self.format != "parquet":
            self._check_text(told)

    def _check_text(self, told: Mapping[str, str]) -> None:
        if self.columns is None:
            raise JobError(
                f"table {self.table!r}: {self.format.upper()} files do not say what types their columns have",
                hint="give the table's `columns`",
            )
        if self.format == "json" and told.get("multiLine", "").lower() == "true":
            raise JobError(
                f"table {self.table!r}: JSON over several lines is not supported", hint="write one object a line"
            )
        if "timeZone" in told:
            raise JobError(
                f"table {self.table!r}: times that name no zone are in UTC, whatever `timeZone` says",
                hint="drop the option, and declare local times as timestamp_ntz",
            )
        for name, why in trouble(self.format, told):
            raise JobError(f"table {self.table!r}: the option `{name}` {why}", hint="write the files with one that is")
        for name in self.hidden:
            if name not in names(self.columns) and name not in self.hidden_types:
                raise JobError(
                    f"table {self.table!r}: the type of the column {name!r} is not known",
                    hint=f"write `{{{name}: timestamp}}` (or the type that it has) in place of `{name}`, or add it to `columns`",
                )

    # What a kind says.

    @property
    @abstractmethod
    def order(self) -> Order:
        """The order in which files arrive."""

    @property
    def hidden(self) -> tuple[str, ...]:
        """The columns that the source itself needs."""
        return ()

    @property
    def hidden_types(self) -> Mapping[str, str]:
        """Their types, where the job says so."""
        return {}

    @property
    def shows_hidden(self) -> bool:
        """Whether the query sees them where the job declares no columns."""
        return True

    @property
    def weight(self) -> str | None:
        """What a row weighs, as Spark SQL."""
        return None

    def counted(self, contents: Contents, name: str, taken: Any = None) -> Change:
        """The rows that a file brings and takes back; `taken` marks those that count, if not all do."""
        rows = contents.rows if taken is None else pc.sum(taken).as_py() or 0
        return Change(rows, 0)

    # The source.

    @property
    def retracts(self) -> bool:
        return self.logged

    @property
    def logged(self) -> bool:
        return self.weight is not None

    @property
    def static(self) -> bool:
        return isinstance(self.order, Still)

    def schema(self) -> Schema:
        if self.columns is not None:
            return self._visible({})
        listed = self.place.files()
        if not listed:
            raise self._no_files()
        return self._visible(self._found_columns(next(iter(listed))))

    def pin(self, since: Version | None, upto: str | None = None) -> Version:
        before = None if since is None else Log.of_json(since)
        listed = self.place.files()
        if not listed and self.columns is None:
            raise self._no_files()
        self._check_unchanged(before, listed)
        seen: Mapping[str, Entry] = before.files if before else {}
        with self._orderly():
            fresh = self.order.admit([name for name in listed if name not in seen], before, upto)
            expected = self._expected(before, fresh) if fresh else self._foreseen(before, [*listed][:1])
            arrival = self._arrival(expected)
            opened = self._digests(fresh, listed, expected, sample=not (before and before.summary.sampled))
            files = {**seen, **{name: entry for name, (entry, _) in opened.items()}}
            there, bound = self.order.bound(files, fresh, before, upto, arrival)
        summary = before.summary if before else Summary()
        for name, (_, found) in opened.items():
            summary = summary.merged(found) if name in there else summary
        return Log(there, expected, summary, bound).to_json()

    def check(self, version: Version) -> None:
        gone = vanished({n: e.stamp for n, e in Log.of_json(version).files.items()}, self.place.files())
        if gone is not None:
            raise self.error(
                f"the file {gone[0]!r} {gone[1]} since the run began to read it",
                "write files elsewhere and move them into place when they are whole; then run the point again",
            )

    def snapshot(self, version: Version) -> Reading:
        log = Log.of_json(version)
        return self._reading(self._slices(None, log), log)

    def delta(self, since: Version, version: Version) -> Reading:
        log = Log.of_json(version)
        return self._reading(self._slices(Log.of_json(since), log), log)

    def statistics(self, version: Version) -> TableStatistics:
        log = Log.of_json(version)
        size = sum(log.files[s.name].size for s in self._slices(None, log))
        there = self.change(None, version)
        rows = max(0.0, there.inserted - there.deleted)
        columns = log.summary.statistics(rows)
        return TableStatistics(rows, size, {c: s for c, s in columns.items() if c in names(self._visible(log.columns))})

    def visible(self, version: Version) -> Schema:
        return self._visible(version["columns"])

    def never_null(self, version: Version) -> frozenset[str]:
        return frozenset(c for c, known in Log.of_json(version).summary.known.items() if not known.nulls)

    def change(self, since: Version | None, version: Version) -> Change:
        log = Log.of_json(version)
        parts: list[Change] = []
        for part in self._slices(None if since is None else Log.of_json(since), log):
            entry = log.files[part.name]
            parts.append(Change(entry.rows, entry.deleted) if part.whole else self._recounted(part, log))
        return Change(sum(p.inserted for p in parts), sum(p.deleted for p in parts))

    def sketch(self) -> TableStatistics:
        listed = self.place.files()
        size = sum(stamp.size for stamp in listed.values())
        first = next((name for name, stamp in listed.items() if stamp.size), None)
        if first is None:
            return TableStatistics(0, 0)
        share = size / listed[first].size
        if self.format != "parquet":
            with self._legible(first):
                return TableStatistics(rough_rows(self.place.filesystem, self.place.located(first)) * size, size)
        with self._opened(first, Layout()) as contents:
            rows = contents.rows * share
            known = Summary(contents.rows, contents.known(), sampled(contents.sample()))
            return TableStatistics(rows, size, known.statistics(rows))

    @cached_property
    def place(self) -> Place:
        return Place(self.table, self.path, self.folder)

    # Looking.

    def _check_unchanged(self, before: Log | None, listed: Mapping[str, Stamp]) -> None:
        gone = vanished({n: e.stamp for n, e in before.files.items()}, listed) if before else None
        if gone is None:
            return
        if self.static:
            raise self.error(
                f"a static table changed: the file {gone[0]!r} {gone[1]}",
                "give the source an arrival column (`arrival: column`) if rows keep arriving; else forget the states and start again",
            )
        raise self.error(
            f"the file {gone[0]!r}, which was read before, {gone[1]}",
            "put it back, or forget the states and start again; new rows belong into new files",
        )

    def _expected(self, before: Log | None, fresh: Sequence[str]) -> Mapping[str, str]:
        """The columns that files must have: as declared, else as in those that were read, else as in the first file."""
        seen: Mapping[str, str] = before.columns if before and before.files else {}
        found = seen
        if not found and fresh and self.format == "parquet":
            found = self._found_columns(fresh[0])
        if self.columns is None or (self.format == "parquet" and not found):
            return found
        told = {n for file in ([*before.files][:1] if before and before.files else fresh) for n in _folder_values(file)}
        declared = {c.name: c.type for c in self.columns if c.name in found or c.name not in told}
        types = {**found, **self.hidden_types}
        expected = declared | {n: types[n] for n in self.hidden if n not in declared and n in types}
        if seen:
            self._check_declared(expected, seen)
        return seen or expected

    def _foreseen(self, before: Log | None, later: Sequence[str]) -> Mapping[str, str]:
        """The columns where nothing has come: as in what is left for later, which may not be finished yet."""
        try:
            return self._expected(before, later)
        except SourceError:
            if self.columns is None:
                raise
            return self._expected(before, [])

    def _check_declared(self, expected: Mapping[str, str], seen: Mapping[str, str]) -> None:
        """What was read before was read by other columns, if the job has changed since."""
        for name in expected.keys() ^ seen.keys() | {
            n for n in expected.keys() & seen.keys() if not same_type(expected[n], seen[n])
        }:
            raise self.error(
                f"the column {name!r} was {seen.get(name, 'not declared')} when the table was read before, "
                f"and is {expected.get(name, 'not declared')} now",
                "change it back, or forget the states and start again",
            )

    def _found_columns(self, name: str) -> Mapping[str, str]:
        with self._opened(name, Layout()) as contents:
            for column, why in contents.unreadable.items():
                if not self.ignore_new_columns:
                    raise self.error(*unread(column, why, name))
            return {n: t for n, t in contents.columns.items() if n not in contents.unreadable}

    def _arrival(self, columns: Mapping[str, str]) -> Arrival | None:
        name = self.order.arrival
        if name is None or not columns:
            return None
        if name not in columns:
            raise self.error(f"the files have no arrival column {name!r}", f"their columns are {', '.join(columns)}")
        try:
            return Arrival(name, columns[name])
        except ValueError as error:
            raise self.error(
                f"the arrival column {name!r} cannot be used: {error}", "choose a time, date, number or text"
            ) from None

    def _digests(
        self, fresh: Sequence[str], listed: Mapping[str, Stamp], expected: Mapping[str, str], sample: bool
    ) -> dict[str, tuple[Entry, Summary]]:
        first = next((name for name in fresh if listed[name].size), None) if sample else None
        if not fresh:
            return {}

        def digest(name: str) -> tuple[Entry, Summary]:
            return self._digest(name, listed[name], expected, name == first)

        with ThreadPoolExecutor(min(8, len(fresh))) as pool:
            return dict(zip(fresh, pool.map(digest, fresh), strict=True))

    def _digest(self, name: str, stamp: Stamp, expected: Mapping[str, str], sample: bool) -> tuple[Entry, Summary]:
        arrival = self._arrival(expected)
        layout = Layout(expected, self.hidden, self._options())
        with self._opened(name, layout) as contents:
            self._check_columns(expected, contents, name)
            least, greatest = (contents.bounds(arrival) if arrival else None) or (None, None)
            count = self.counted(contents, name)
            order = (
                tuple(contents.columns) if self.format == "csv" and list(contents.columns) != list(expected) else None
            )
            known = {c: k for c, k in contents.known().items() if c in expected}
            self._check_nulls(known, name)
            summary = Summary(contents.rows, known, sampled(contents.sample()) if sample else {})
            entry = Entry(stamp.size, stamp.mtime_ns, int(count.inserted), int(count.deleted), least, greatest, order)
            return entry, summary

    def _check_columns(self, expected: Mapping[str, str], contents: Contents, name: str) -> None:
        strange = next((unread(c, why, name) for c, why in contents.unreadable.items() if c in expected), None)
        declared, ignore = self.columns is not None, self.ignore_new_columns
        strange = strange or drift(expected, contents.columns, name, declared=declared, ignore_new=ignore)
        if strange is not None:
            raise self.error(*strange)
        for column in self.columns or ():
            if column.name not in expected and column.name not in _folder_values(name):
                raise self.error(
                    f"the column {column.name!r} is told by folders, and {name!r} is in none that tells it",
                    f"move the file into a folder such as `{column.name}=value`",
                )

    def _check_nulls(self, known: Mapping[str, Known], name: str) -> None:
        # What a log takes back may have been anything.
        for column in () if self.logged else self.columns or ():
            if not column.nullable and column.name in known and known[column.name].nulls:
                raise self.error(
                    f"the column {column.name!r} is declared not null, but {name!r} has {known[column.name].nulls:,} NULLs in it",
                    "correct the file, or declare the column without `not null` and outside the key",
                )

    @contextmanager
    def _opened(self, name: str, layout: Layout) -> Generator[Contents]:
        with (
            self._legible(name),
            _OPEN[self.format](self.place.filesystem, self.place.located(name), layout) as contents,
        ):
            yield contents

    @contextmanager
    def _legible(self, name: str) -> Generator[None]:
        try:
            yield
        except (OSError, ValueError, OverflowError, pa.ArrowException) as error:
            raise self.error(
                f"the file {name!r} cannot be read as {self.format}: {str(error).splitlines()[0]}",
                "correct or remove it; a pattern as `path`, such as `data/*.parquet`, leaves other files out",
            ) from None

    @contextmanager
    def _orderly(self) -> Generator[None]:
        try:
            yield
        except Disorder as error:
            raise self.error(error.message, error.hint) from None

    def _recounted(self, part: Slice, log: Log) -> Change:
        arrival = self._arrival(log.columns)
        assert arrival is not None
        with self._opened(part.name, Layout(log.columns, self.hidden, self._options())) as contents:
            values = arrival.normal(contents.values([arrival.column]).column(0))
            return self.counted(contents, part.name, arrival.mask(values, part.after, part.upto))

    def _no_files(self) -> Exception:
        return self.error(
            f"there are no files at {self.path!r}, so its columns are not known",
            "give the table's `columns`, or correct the path",
        )

    # Describing.

    def _options(self) -> dict[str, str]:
        # In `read_as` they stay as they were written, so that a workspace of before knows its source again.
        told = spelled(self.options)
        return told if self.format == "parquet" else {**_TEXT_OPTIONS, **told}

    def _slices(self, since: Log | None, log: Log) -> list[Slice]:
        return self.order.slices(since, log, self._arrival(log.columns))

    def _visible(self, columns: Mapping[str, str]) -> Schema:
        there = tuple(Column(n, t) for n, t in columns.items()) if self.columns is None else self.columns
        return tuple(c for c in there if self.shows_hidden or c.name not in self.hidden)

    def _reading(self, slices: Sequence[Slice], log: Log) -> Reading:
        """Files that are read alike make one part."""
        schema = self._visible(log.columns)
        missing = [c for c in schema if c.name not in log.columns]
        alike: dict[tuple[Any, ...], list[str]] = {}
        for part in slices:
            folders = _folder_values(part.name) if missing else {}
            constants = tuple((c.name, constant(folders.get(c.name), c.type)) for c in missing)
            key = (part.after, part.upto, log.files[part.name].order, constants)
            alike.setdefault(key, []).append(self.place.uri(part.name))
        arrival = self._arrival(log.columns)
        parts: list[Part] = []
        for (after, upto, order, constants), paths in alike.items():
            files = Files(self.format, tuple(paths), self._in_files(log, order), self._options())
            columns = {c.name: quoted(c.name) for c in schema} | dict(constants)
            where = arrival.between(after, upto) if arrival and not Slice("", after, upto).whole else None
            parts.append(Part(files, columns, where, self.weight))
        return Reading(schema, tuple(parts), self.logged)

    def _in_files(self, log: Log, order: tuple[str, ...] | None) -> Schema:
        declared = {c.name: c.nullable for c in self.columns or ()}
        return tuple(Column(n, log.columns.get(n, "string"), declared.get(n, True)) for n in order or log.columns)


def _folder_values(name: str) -> dict[str, str | None]:
    """What the folders of a file say of its rows: `day=2026-11-15/part.parquet` has a `day`."""
    pairs = (part.partition("=") for part in name.split("/")[:-1] if "=" in part)
    return {key: None if value == _NULL_FOLDER else unquote(value) for key, _, value in pairs}
