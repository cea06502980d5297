"""Parquet files: what their footers say, so that most questions are answered without reading a row."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from tempura.sources.arrival import Arrival, Stored
from tempura.sources.arrow import pa, pq
from tempura.sources.contents import Contents, Layout
from tempura.sources.sparktypes import spark_name
from tempura.sources.summary import PLACES, SAMPLE, Known, as_number


@contextmanager
def open_parquet(filesystem: Any, path: str, layout: Layout) -> Generator[Contents]:
    """The contents of a Parquet file; it describes itself."""
    with filesystem.open_input_file(path) as stream:
        yield ParquetContents(stream)


_AT_ONCE = 1 << 20
"""A sample is read in pieces of so many bytes: row groups may be large, and only their beginnings are wanted."""


class ParquetContents(Contents):
    """A Parquet file whose footer has been read."""

    def __init__(self, stream: Any):
        self._stream = stream
        self._file = file = pq.ParquetFile(stream)
        self.rows = file.metadata.num_rows
        int96 = any(file.schema.column(i).physical_type == "INT96" for i in range(len(file.schema)))
        columns: dict[str, str] = {}
        unreadable: dict[str, str] = {}
        for column in file.schema_arrow:
            try:
                columns[column.name] = spark_name(column.type, int96)
            except ValueError as error:
                columns[column.name], unreadable[column.name] = str(column.type), str(error)
        self.columns, self.unreadable = columns, unreadable

    def values(self, columns: Sequence[str]) -> Any:
        return plain(self._file.read(columns=list(columns), use_threads=False))

    def sample(self) -> Any:
        groups = self._file.metadata.num_row_groups
        places = [place * groups // PLACES for place in range(PLACES)] if groups > PLACES else range(groups)
        file = pq.ParquetFile(self._stream, metadata=self._file.metadata, pre_buffer=False, buffer_size=_AT_ONCE)

        def batches(place: int) -> Iterator[Any]:
            return file.iter_batches(batch_size=SAMPLE // len(places), row_groups=[place], use_threads=False)

        first = [next(batches(place), None) for place in places]
        return plain(pa.Table.from_batches([b for b in first if b is not None], self._file.schema_arrow))

    @cached_property
    def _statistics(self) -> Mapping[str, list[Any]]:
        """For each plain column, the statistics of its row groups; None where one has none."""
        metadata = self._file.metadata
        found: dict[str, list[Any]] = {}
        for i in range(metadata.num_columns):
            name = metadata.schema.column(i).path
            if name in self.columns:
                groups = range(metadata.num_row_groups)
                found[name] = [metadata.row_group(g).column(i).statistics for g in groups]
        return found

    def known(self) -> Mapping[str, Known]:
        found: dict[str, Known] = {}
        for name, groups in self._statistics.items():
            if any(s is None or not s.has_null_count for s in groups):
                continue
            least, greatest = _ends(groups)
            found[name] = Known(sum(s.null_count for s in groups), as_number(least), as_number(greatest))
        return found

    def bounds(self, arrival: Arrival) -> tuple[Stored, Stored] | None:
        # Statistics of texts may be cut short, and those of floating numbers leave NaN out.
        if self.rows and arrival.type not in ("string", "float", "double"):
            groups = self._statistics.get(arrival.column, [None])
            if all(s is not None and s.has_min_max and s.has_null_count and not s.null_count for s in groups):
                least, greatest = _ends(groups)
                if least is not None:
                    kind = self._file.schema_arrow.field(arrival.column).type
                    ends = arrival.normal(pa.array([least, greatest], kind))
                    return arrival.stored(ends[0].as_py()), arrival.stored(ends[1].as_py())
        return super().bounds(arrival)


def plain(table: Any) -> Any:
    """A table in types that Arrow can compute with: no views of texts, no dictionaries."""
    for i, column in enumerate(table.schema):
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        kind = pa.string() if pa.types.is_string_view(kind) else pa.binary() if pa.types.is_binary_view(kind) else kind
        if kind != column.type:
            table = table.set_column(i, column.name, table.column(i).cast(kind))
    return table


def _ends(groups: Sequence[Any]) -> tuple[Any, Any]:
    """The least and greatest value of row groups, None where one of them does not tell; groups of NULLs only have none to tell."""
    telling = [s for s in groups if s.has_min_max]
    if not telling or any(s.num_values and not s.has_min_max for s in groups):
        return None, None
    try:
        return min(s.min for s in telling), max(s.max for s in telling)
    except (OverflowError, ValueError):
        # A date before the year 1 or after 9999: Spark has such, Python has not.
        return None, None
