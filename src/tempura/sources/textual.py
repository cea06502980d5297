"""CSV and JSON files: read once, when they are new, for their rows, their names, and what does not fit its declared type.

Spark would read a value that does not fit as NULL; the readings that we hand out make it fail instead (`mode: FAILFAST`), and what can be
found here is found before anything runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tempura.sources.arrow import csv, json, pa
from tempura.sources.contents import Contents, Layout
from tempura.sources.jsonlines import read_lines
from tempura.sources.sparktypes import arrow_type
from tempura.sources.summary import SAMPLE

_EMPTY = re.compile(r"Empty (CSV|JSON) file")
_LONG = re.compile(r"straddles two block boundaries")


class TextContents(Contents):
    """A text file that has been read: the kept columns and the first rows are at hand."""

    def __init__(self, columns: Mapping[str, str], kept: Any, first: Any):
        self.columns = columns
        self.rows = kept.num_rows
        self._kept = kept
        self._first = first

    def values(self, columns: Sequence[str]) -> Any:
        for name in columns:
            if name not in self._kept.column_names:
                raise ValueError(f"no row has the column {name!r}")
        return self._kept.select(list(columns))

    def sample(self) -> Any:
        return self._first


_BLOCKS = (1 << 20, 1 << 26, (1 << 31) - 1)
"""How many bytes Arrow takes at once. A row that is longer is read in larger blocks."""


def _in_blocks(read: Callable[[int], Contents]) -> Contents:
    for block in _BLOCKS[:-1]:
        try:
            return read(block)
        except pa.ArrowInvalid as error:
            if not _LONG.search(str(error)):
                raise
    return read(_BLOCKS[-1])


_ESCAPES = {r"\t": "\t", r"\u0000": "", r"\\": "\\", r"\"": '"', r"\'": "'"}
"""How Spark lets signs be written in options."""


def _signs(options: Mapping[str, str]) -> dict[str, str]:
    """The options that are single signs; an empty one is none."""
    return {n: _ESCAPES.get(options[n], options[n]) for n in ("sep", "quote", "escape") if n in options}


def trouble(format: str, options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Options of which Spark understands more than can be checked here, and why."""
    for name, sign in _signs(options).items() if format == "csv" else ():
        if len(sign) > 1 or (not sign and name == "sep"):
            yield name, f"is {sign!r}, which is not a single sign"
    if options.get("lineSep", "\n") not in ("\n", "\r", "\r\n"):
        yield "lineSep", f"is {options['lineSep']!r}, which is not a line break"


@contextmanager
def open_csv(filesystem: Any, path: str, layout: Layout) -> Generator[Contents]:
    """The contents of a CSV file: its names come from its header, or else by position from the layout."""
    yield _in_blocks(lambda block: _csv(filesystem, path, layout, block))


def _csv(filesystem: Any, path: str, layout: Layout, block: int) -> Contents:
    options = layout.options
    header = layout.on("header")
    signs = _signs(options)
    quote = signs.get("quote", '"')
    parse = csv.ParseOptions(
        delimiter=signs.get("sep", ","),
        quote_char=quote or False,
        # Twice is how a quote is written in quotes, for Arrow, unless it is told otherwise.
        escape_char=False if signs.get("escape", quote) == quote else signs["escape"] or False,
        newlines_in_values=layout.on("multiLine"),
    )
    read = csv.ReadOptions(
        column_names=None if header else list(layout.types),
        encoding=options.get("encoding", "utf-8"),
        use_threads=False,
        block_size=block,
    )
    convert = csv.ConvertOptions(
        column_types={name: arrow_type(kind) for name, kind in layout.types.items()},
        # To Spark what is empty is NULL, and so is what is written as NULL, in quotes or not.
        null_values=[options.get("nullValue", ""), ""],
        strings_can_be_null=True,
    )
    with filesystem.open_input_stream(path) as stream:
        try:
            batches: Any = csv.open_csv(stream, read_options=read, parse_options=parse, convert_options=convert)
        except pa.ArrowInvalid as error:
            if not _EMPTY.search(str(error)):
                raise
            return _nothing(layout)
        others = {name: "string" for name in batches.schema.names if name not in layout.types}
        if not others:
            return _from_batches(batches, layout)
    # What Arrow would infer of them from the first rows need not hold for the last.
    return _csv(filesystem, path, replace(layout, types={**layout.types, **others}), block)


def _from_batches(batches: Any, layout: Layout) -> Contents:
    first: Any = None
    kept: list[Any] = []
    names = batches.schema.names
    keep = [name for name in layout.keep if name in names] or names[:1]
    for batch in batches:
        first = batch.slice(0, SAMPLE) if first is None else first
        kept.append(batch.select(keep))
    schema = pa.schema([batches.schema.field(name) for name in keep])
    sample = pa.Table.from_batches([] if first is None else [first], batches.schema)
    columns = {name: layout.types.get(name, "string") for name in names}
    return TextContents(columns, pa.Table.from_batches(kept, schema), sample)


@contextmanager
def open_json(filesystem: Any, path: str, layout: Layout) -> Generator[Contents]:
    """The contents of a file with one JSON object a line; a key that no line has is a column of NULLs."""
    yield _in_blocks(lambda block: _json(filesystem, path, layout, block))


def _json(filesystem: Any, path: str, layout: Layout, block: int) -> Contents:
    fields = [(name, arrow_type(kind)) for name, kind in layout.types.items() if _plain(kind)]
    parse = json.ParseOptions(explicit_schema=pa.schema(fields), unexpected_field_behavior="infer")
    with filesystem.open_input_stream(path) as stream:
        try:
            table = json.read_json(stream, json.ReadOptions(use_threads=False, block_size=block), parse)
        except pa.ArrowInvalid as error:
            if _EMPTY.search(str(error)):
                return _nothing(layout)
            if _LONG.search(str(error)):
                raise
            return _by_line(filesystem, path, layout)
    keep = [name for name in layout.keep if name in table.column_names]
    kept = table.select(keep or table.column_names[:1])
    return TextContents(_named(table.column_names, layout), kept, table.slice(0, SAMPLE))


def _by_line(filesystem: Any, path: str, layout: Layout) -> Contents:
    """What Arrow cannot read; Spark may."""
    with filesystem.open_input_stream(path) as stream:
        found, kept, first = read_lines(stream, layout)
    return TextContents(_named(found, layout), kept, first)


def _named(found: Sequence[str], layout: Layout) -> dict[str, str]:
    return {**layout.types, **{name: "string" for name in found if name not in layout.types}}


def _plain(kind: str) -> bool:
    """Whether JSON writes the type in one way only; of others, Arrow infers what is there."""
    return not re.match(r"decimal|array|map|struct|binary|variant", kind)


def _nothing(layout: Layout) -> Contents:
    empty = pa.table({name: pa.array([], arrow_type(kind)) for name, kind in layout.types.items()})
    return TextContents(layout.types, empty, empty)


def rough_rows(filesystem: Any, path: str) -> float:
    """Lines per byte at the beginning of a file."""
    with filesystem.open_input_stream(path) as stream:
        start = stream.read(65_536)
    return max(1, start.count(b"\n")) / max(1, len(start))
