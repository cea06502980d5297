"""Delta Lake tables by version.

The `deltalake` package reads the log, without a JVM; Spark reads the Parquet files that the log names, so that it needs no Delta reader.
What plain files cannot say (deletion vectors, column mapping) is refused, unless the session has a Delta reader and the source is told to use it (`reader: spark`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Literal
from urllib.parse import unquote

from pydantic import Field

from tempura.errors import SourceError
from tempura.paths import local
from tempura.schema import Column, Schema, names
from tempura.sources.arrow import fs, pa
from tempura.sources.contents import Contents, Layout
from tempura.sources.deltalog import DataFile, Unsupported, net_change, partition_of, spark_columns
from tempura.sources.drift import drift
from tempura.sources.listing import Place
from tempura.sources.parquet import open_parquet
from tempura.sources.source import (
    Change,
    DeltaVersion,
    Files,
    Options,
    Part,
    Reading,
    Source,
    TableStatistics,
    Version,
    register,
)
from tempura.sources.sparktypes import constant, quoted
from tempura.sources.summary import Known, Summary, as_number, sampled

_READABLE = frozenset({"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "deletionVectors"})
"""What a table may ask of its readers. Deletion vectors are refused where there are some, not where there may be."""

_AGAIN = "forget the states and start again from the version that is there (`tempura reset`)"


class DeltaOptions(Options):
    """What a Delta table can be told."""

    path: str = Field(min_length=1)
    ignore_new_columns: bool = False
    reader: Literal["files", "spark"] = "files"


@register
@dataclass(frozen=True, kw_only=True)
class DeltaSource(Source):
    """A Delta Lake table: its versions are ours, and deletes, updates and merges are retractions."""

    kind = "delta"
    counts_exactly = True
    shape = DeltaOptions

    path: str
    ignore_new_columns: bool = False
    reader: Literal["files", "spark"] = "files"
    """Who reads the rows: Spark's Parquet reader, or the session's own Delta reader."""

    @property
    def retracts(self) -> bool:
        # A table that is not there yet may turn out to be any.
        try:
            table = self._opened()
        except SourceError:
            return True
        # Without a change feed, Spark's Delta reader tells a change by taking back all that was there before.
        return not _is_set(table, "appendOnly") or (
            self.reader == "spark" and not _is_set(table, "enableChangeDataFeed")
        )

    def schema(self) -> Schema:
        return self.columns or tuple(Column(n, t) for n, t in self._columns(self._opened()).items())

    def pin(self, since: Version | None, upto: str | None = None) -> Version:
        table = self._opened()
        latest = table.version()
        if since is not None:
            self._check_same(table, latest, since)
        version = latest if upto is None else self._until(table, latest, since, upto)
        if since is not None and version <= since["version"]:
            return since
        table = table if version == latest else self._opened(version)
        columns = self._columns(table)
        self._check_columns(columns, since)
        expected = names(self.columns) if self.columns is not None else (since or {}).get("columns", columns)
        seen = since["sampled"] if since and since["sampled"]["sampled"] else self._sampled(table).to_json()
        return {
            "version": version,
            "table_id": str(table.metadata().id),
            "commit": self._commit_digest(version),
            "columns": {n: t for n, t in columns.items() if n in expected},
            "sampled": seen,
        }

    def snapshot(self, version: Version) -> Reading:
        if self.reader == "spark":
            return Reading(self.visible(version), (self._by_spark(version, version["version"]),))
        files = self._files(version["version"])
        latest = {f.path for f in self._files(None)}
        self._check_there([f.path for f in files if f.path not in latest], version["version"])
        return Reading(self.visible(version), self._parts(dict.fromkeys(files, 1), version, weighted=False))

    def delta(self, since: Version, version: Version) -> Reading:
        if self.reader == "spark":
            return self._change_by_spark(since, version)
        weights, retracts = self._net(since, version), self.retracts
        there = {f.path for f in self._files(version["version"])} if weights else set[str]()
        self._check_there([f.path for f in weights if f.path not in there], version["version"])
        if not retracts and any(weight < 0 for weight in weights.values()):
            raise self.error(
                f"rows were taken back after version {since['version']} of a table that is append-only now", _AGAIN
            )
        return Reading(self.visible(version), self._parts(weights, version, weighted=retracts), retracts)

    def statistics(self, version: Version) -> TableStatistics:
        actions = self._actions(self._opened(version["version"]))
        rows = self._held(version)
        known = {c: _known(actions, c) for c in version["columns"]}
        found = Summary(rows, {c: k for c, k in known.items() if k}, Summary.of_json(version["sampled"]).sampled)
        return TableStatistics(rows, sum(a["size_bytes"] for a in actions), found.statistics(rows))

    def never_null(self, version: Version) -> frozenset[str]:
        actions = self._actions(self._opened(version["version"]))
        return frozenset(c for c in version["columns"] if (known := _known(actions, c)) and not known.nulls)

    def change(self, since: Version | None, version: Version) -> Change:
        if since is None:
            return Change(self._held(version), 0)
        if since["version"] == version["version"]:
            return Change(0, 0)
        if self.reader == "spark":
            return self._change_counted(since, version)
        inserted = deleted = 0
        weights = self._net(since, version)
        # Of a file that goes, the log need not tell how many rows it had; it may be vacuumed.
        gone = any(f.rows is None and weight < 0 for f, weight in weights.items())
        before = {f.path: f for f in self._files(since["version"])} if gone else {}
        for file, weight in weights.items():
            rows = weight * self._rows(before.get(file.path, file) if file.rows is None else file)
            inserted, deleted = inserted + max(0, rows), deleted + max(0, -rows)
        return Change(inserted, deleted)

    def _change_counted(self, since: Version, version: Version) -> Change:
        """About what Spark's Delta reader will tell of a change; less what goes, what comes is always what there is more of."""
        before, now = self._held(since), self._held(version)
        if not self.retracts:
            return Change(max(1, now - before), 0)
        if not self._feed(since, version):
            return Change(now, before)
        # How many rows a commit wrote again is not known here; some, in case that is all it did.
        return Change(max(0, now - before) + 1, max(0, before - now) + 1)

    def _held(self, version: Version) -> int:
        """The rows of a version; with deletion vectors, about."""
        if self.reader == "spark":
            # A file that does not say how many has some: a table without rows would not be read.
            told = (a.get("num_records") for a in self._actions(self._opened(version["version"])))
            return sum(1 if rows is None else rows for rows in told)
        return sum(self._rows(f) for f in self._files(version["version"]))

    def sketch(self) -> TableStatistics:
        return self.statistics(self.pin(None))

    # The table and its log.

    @cached_property
    def _place(self) -> Place:
        return Place(self.table, self.path, self.folder)

    def _opened(self, version: int | None = None) -> Any:
        try:
            from deltalake import DeltaTable
            from deltalake.exceptions import DeltaError, TableNotFoundError
        except ImportError:
            raise self.error("reading Delta tables needs another package", "pip install tempura[delta]") from None
        where = self.path if "://" in self.path else str(local(self.folder, self.path))
        try:
            table = DeltaTable(where, version=version)
        except TableNotFoundError:
            raise self.error(f"there is no Delta table at {self.path!r}", "correct the path, or create it") from None
        except (DeltaError, OSError) as error:
            what = "the table" if version is None else f"version {version}"
            raise self.error(f"{what} at {self.path!r} cannot be read: {str(error).splitlines()[0]}", _AGAIN) from None
        self._check_readable(table)
        return table

    def _check_readable(self, table: Any) -> None:
        if self.reader == "spark":
            return
        protocol, metadata = table.protocol(), table.metadata()
        if metadata.configuration.get("delta.columnMapping.mode", "none") != "none":
            raise self._unsupported("column mapping")
        for feature in protocol.reader_features or ():
            if feature not in _READABLE:
                raise self._unsupported(f"the feature {feature}")
        if "deletionVectors" in (protocol.reader_features or ()) and _has_vectors(table):
            raise self._unsupported("deletion vectors")

    def _unsupported(self, what: str) -> SourceError:
        hint = "add `reader: spark` to the source if your Spark session reads Delta tables, or turn it off and rewrite the table's files (for deletion vectors, REORG TABLE … APPLY (PURGE))"
        return self.error(
            f"the Delta table at {self.path!r} uses {what}, which plain Parquet readers cannot follow", hint
        )

    def _check_same(self, table: Any, latest: int, since: Version) -> None:
        if str(table.metadata().id) != since["table_id"]:
            raise self.error(f"{self.path!r} is another Delta table than the one that was read before", _AGAIN)
        if latest < since["version"]:
            raise self.error(
                f"its version went backwards: {since['version']} was read before, it is {latest} now", _AGAIN
            )
        # Versions that were pinned before this was noted have none.
        noted, found = since.get("commit"), self._commit_digest(since["version"])
        if noted and found and noted != found:
            said = f"version {since['version']} is another than the one that was read before: the table was put back, and then changed otherwise"
            raise self.error(said, _AGAIN)

    def _until(self, table: Any, latest: int, since: Version | None, upto: str) -> int:
        if upto.strip().isdecimal():
            return min(latest, int(upto))
        try:
            moment = datetime.fromisoformat(upto)
        except ValueError:
            hint = "give a number, or a time such as 2026-11-15 14:00:00"
            raise self.error(f"`upto` is {upto!r}, neither a version nor a time", hint) from None
        limit = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000
        found = [int(c["version"]) for c in table.history() if c.get("timestamp", 0) <= limit]
        if not found and since is None:
            raise self.error(f"it had no version at {upto}", "move the point to a later time, or leave `upto` out")
        return max(found, default=-1)

    def _check_columns(self, found: Mapping[str, str], since: Version | None) -> None:
        declared = self.columns is not None
        expected = (
            {c.name: c.type for c in self.columns} if self.columns is not None else (since or {}).get("columns", found)
        )
        strange = drift(expected, found, self.path, declared=declared, ignore_new=self.ignore_new_columns)
        if strange is not None:
            raise self.error(*strange)

    def _columns(self, table: Any) -> dict[str, str]:
        return spark_columns(table.schema().to_json())

    def _actions(self, table: Any) -> list[dict[str, Any]]:
        found = pa.table(table.get_add_actions(flatten=True))
        columns = {name: _listed(found.column(name)) for name in found.column_names}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def _files(self, version: int | None) -> list[DataFile]:
        table = self._opened(version)
        partitions: Sequence[str] = table.metadata().partition_columns
        return [
            DataFile(
                unquote(a["path"]), partition_of({c: a[f"partition.{c}"] for c in partitions}), a.get("num_records")
            )
            for a in self._actions(table)
        ]

    def _net(self, since: Version, version: Version) -> dict[DataFile, int]:
        try:
            weights = net_change(self._commit(n) for n in range(since["version"] + 1, version["version"] + 1))
        except Unsupported as error:
            # What the table is like now has been looked at: it is in the past that this was used.
            raise self.error(
                f"commits after version {since['version']} used {error}, which plain Parquet readers cannot follow",
                _AGAIN,
            ) from None
        untold = [f for f, weight in weights.items() if weight < 0 and not f.partition]
        if untold and self._opened(version["version"]).metadata().partition_columns:
            # Of a file that goes, the log need not tell the partition.
            before = {f.path: f for f in self._files(since["version"])}
            weights = {before.get(f.path, f) if f in untold else f: weight for f, weight in weights.items()}
        return weights

    def _commit(self, version: int) -> str:
        try:
            with self._place.filesystem.open_input_stream(
                self._place.located(f"_delta_log/{version:020}.json")
            ) as stream:
                return stream.read().decode()
        except FileNotFoundError:
            raise self.error(f"the log of version {version} is no longer there", _AGAIN) from None

    def _commit_digest(self, version: int) -> str | None:
        """Tells a version from another of the same number; None where its log is not there, or is read by other ways than ours."""
        try:
            return hashlib.sha256(self._commit(version).encode()).hexdigest()
        except (SourceError, OSError):
            return None

    def _check_there(self, paths: Sequence[str], version: int) -> None:
        """Files that a version names can have been vacuumed, once a later one has dropped them."""
        found = self._place.filesystem.get_file_info([self._place.located(p) for p in paths])
        for path, each in zip(paths, found, strict=True):
            if each.type != fs.FileType.File:
                raise self.error(f"version {version} was vacuumed: its file {path!r} is no longer there", _AGAIN)

    @contextmanager
    def _read(self, path: str) -> Generator[Contents]:
        try:
            with open_parquet(self._place.filesystem, self._place.located(path), Layout()) as contents:
                yield contents
        except FileNotFoundError:
            raise self.error(f"its file {path!r} is no longer there", _AGAIN) from None
        except (OSError, pa.ArrowException) as error:
            hint = "restore it, and check the rights to read it"
            raise self.error(f"its file {path!r} cannot be read: {str(error).splitlines()[0]}", hint) from None

    def _rows(self, file: DataFile) -> int:
        if file.rows is not None:
            return file.rows
        with self._read(file.path) as contents:
            return contents.rows

    def _sampled(self, table: Any) -> Summary:
        first = next(iter(self._actions(table)), None)
        if first is None:
            return Summary()
        with self._read(unquote(first["path"])) as contents:
            return Summary(sampled=sampled(contents.sample()))

    # Describing.

    def visible(self, version: Version) -> Schema:
        return self.columns or tuple(Column(n, t) for n, t in version["columns"].items())

    def _by_spark(self, version: Version, at: int, since: int | None = None, weight: str | None = None) -> Part:
        columns = {c.name: quoted(c.name) for c in self.visible(version)}
        return Part(DeltaVersion(self._place.uri("").rstrip("/"), at, since), columns, None, weight)

    def _change_by_spark(self, since: Version, version: Version) -> Reading:
        """By the change feed where the table had one all the time, else as all that is there less all that was."""
        start, end, retracts = since["version"], version["version"], self.retracts
        if start == end:
            return Reading(self.visible(version), (), retracts)
        if not retracts and not _is_set(self._opened(start), "appendOnly"):
            raise self.error(
                f"rows may have been taken back after version {start} of a table that is append-only now", _AGAIN
            )
        feed = self._feed(since, version)
        if not retracts and not feed:
            raise self.error(f"its change feed was switched on after version {start}, and tells nothing before", _AGAIN)
        if feed:
            weight = "IF(_change_type IN ('insert', 'update_postimage'), 1, -1)" if retracts else None
            return Reading(self.visible(version), (self._by_spark(version, end, start, weight),), retracts)
        parts = self._by_spark(version, end), self._by_spark(version, start, weight="-1")
        return Reading(self.visible(version), parts, retracts)

    def _feed(self, since: Version, version: Version) -> bool:
        """Whether the table had a change feed at both versions."""
        return all(_is_set(self._opened(v["version"]), "enableChangeDataFeed") for v in (since, version))

    def _parts(self, weights: Mapping[DataFile, int], version: Version, weighted: bool) -> tuple[Part, ...]:
        """Files of one partition and weight make one part; what the partition says of its rows is in no file."""
        alike: dict[tuple[Any, ...], list[str]] = {}
        for file, weight in weights.items():
            alike.setdefault((file.partition, weight), []).append(self._place.uri(file.path))
        kinds: Mapping[str, str] = version["columns"]
        parts: list[Part] = []
        for (partition, weight), paths in alike.items():
            values = {n: constant(v, kinds[n]) for n, v in partition if n in kinds}
            inside = tuple(Column(n, t) for n, t in kinds.items() if n not in values)
            origin = Files("parquet", tuple(paths), inside)
            columns = {c.name: values.get(c.name, quoted(c.name)) for c in self.visible(version)}
            parts.append(Part(origin, columns, None, str(weight) if weighted and weight != 1 else None))
        return tuple(parts)


def _listed(column: Any) -> list[Any]:
    """The values of a column; as texts, if Python has no such dates."""
    try:
        return column.to_pylist()
    except (OverflowError, ValueError):
        return column.cast(pa.string()).to_pylist()


def _is_set(table: Any, name: str) -> bool:
    """Whether a property of the table is switched on."""
    return table.metadata().configuration.get(f"delta.{name}", "false").lower() == "true"


def _has_vectors(table: Any) -> bool:
    """Whether files of the table have rows that are deleted but still there; one that cannot be read is one too."""
    from deltalake.exceptions import DeltaError

    try:
        return pa.table(table.deletion_vectors()).num_rows > 0
    except DeltaError:
        return True


def _known(actions: Sequence[Mapping[str, Any]], column: str) -> Known | None:
    """The figures of a column, where the log has them for every file."""
    found: Known | None = None
    for action in actions:
        nulls = action.get(f"null_count.{column}")
        if not isinstance(nulls, int):
            return None
        ends = (as_number(action.get(f"{end}.{column}")) for end in ("min", "max"))
        each = Known(nulls, *ends)
        found = each if found is None else found.merged(each)
    return found
