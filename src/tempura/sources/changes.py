"""Change logs: files whose rows say whether they insert a row, delete one, or are the image before or after an update.

A row that inserts weighs 1, one that deletes −1; a column of signed counts gives the weight itself. The sum of all that was logged is the
table, so an update needs both images: the old row must be taken back as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, cast

from pydantic import BeforeValidator, ConfigDict, model_validator

from tempura.errors import JobError
from tempura.sources.arrow import pa, pc
from tempura.sources.contents import Contents
from tempura.sources.filebased import FileBased, FileOptions
from tempura.sources.files import ColumnOption, column_option
from tempura.sources.order import ByArrival, ByBatch, Order
from tempura.sources.source import Change, Options, misfit, register
from tempura.sources.sparktypes import quoted, text

_UPDATE = ("u", "update")


def _words(given: Any) -> Any:
    return (given,) if isinstance(given, str) else tuple(cast("list[Any]", given)) if isinstance(given, list) else given


Words = Annotated[tuple[str, ...], BeforeValidator(_words)]


class Operation(Options):
    """The column that says what a row does, and its words, compared without regard to case; or a column of signed counts."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    column: str | None = None
    count: str | None = None
    insert: Words = ("I", "insert", "c", "+I", "r")
    delete: Words = ("D", "delete", "-D")
    update_before: Words = ("update_preimage", "U-", "-U", "UB")
    update_after: Words = ("update_postimage", "U+", "+U", "UA")

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.column is None) == (self.count is None):
            raise misfit("it is either a column of words or one of counts", "give `column: …`, or `count: …`")
        both = set(self.gives) & set(self.takes)
        if both:
            raise misfit(f"{min(both)!r} both gives and takes a row", "give each word one meaning")
        return self

    @property
    def name(self) -> str:
        """The column's name."""
        return self.column or self.count or ""

    @property
    def gives(self) -> tuple[str, ...]:
        """The words, in lower case, of rows that count once."""
        return tuple(word.lower() for word in (*self.insert, *self.update_after))

    @property
    def takes(self) -> tuple[str, ...]:
        """The words, in lower case, of rows that are taken back."""
        return tuple(word.lower() for word in (*self.delete, *self.update_before))


def _operation(given: Any) -> Any:
    return {"column": given} if isinstance(given, str) else given


class ChangesOptions(FileOptions):
    """What a change log can be told."""

    operation: Annotated[Operation, BeforeValidator(_operation)]
    arrival: ColumnOption = None
    by: Literal["files", "folders"] = "files"


@register
@dataclass(frozen=True, kw_only=True)
class ChangesSource(FileBased):
    """A log of changes in Parquet, CSV or JSON files: ordered by an arrival column, or else by whole files or folders."""

    kind = "changes"
    shape = ChangesOptions

    operation: Operation
    arrival: str | Mapping[str, str] | None = None
    by: Literal["files", "folders"] = "files"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.arrival is not None and self.by == "folders":
            raise JobError(
                f"table {self.table!r}: the log is ordered both by an arrival column and by folders",
                hint="keep one: `arrival: …` or `by: folders`",
            )

    @property
    def order(self) -> Order:
        arrival = next(iter(column_option(self.arrival)), None)
        return ByArrival(arrival) if arrival else ByBatch(self.by == "folders")

    @property
    def hidden(self) -> tuple[str, ...]:
        return (*column_option(self.arrival), self.operation.name)

    @property
    def hidden_types(self) -> Mapping[str, str]:
        own = (
            {self.operation.name: "string" if self.operation.count is None else "bigint"}
            if self.format != "parquet"
            else {}
        )
        return own | {n: t for n, t in column_option(self.arrival).items() if t}

    @property
    def shows_hidden(self) -> bool:
        # A row and its deletion are one row only if nothing in them says which is which.
        return False

    @property
    def weight(self) -> str:
        name = quoted(self.operation.name)
        if self.operation.count is not None:
            return f"CAST({name} AS bigint)"
        gives, takes = (
            ", ".join(text(word) for word in words) for words in (self.operation.gives, self.operation.takes)
        )
        return f"CASE WHEN lower({name}) IN ({gives}) THEN 1 WHEN lower({name}) IN ({takes}) THEN -1 END"

    def counted(self, contents: Contents, name: str, taken: Any = None) -> Change:
        values = self._values(contents, name)
        if taken is not None:
            values = values.filter(taken)
        if self.operation.count is not None:
            values = values.cast(pa.int64())
            up, down = (pc.sum(values.filter(compare(values, 0))).as_py() or 0 for compare in (pc.greater, pc.less))
            return Change(up, -down)
        lower = pc.value_counts(pc.utf8_lower(values.cast(pa.string()))).to_pylist()
        words: dict[str, int] = {each["values"]: each["counts"] for each in lower}
        for word in words:
            self._check_word(word, name)
        return Change(
            sum(n for word, n in words.items() if word in self.operation.gives),
            sum(n for word, n in words.items() if word in self.operation.takes),
        )

    def _values(self, contents: Contents, name: str) -> Any:
        column = self.operation.name
        if column not in contents.columns:
            raise self.error(
                f"{name!r} has no operation column {column!r}", f"its columns are {', '.join(contents.columns)}"
            )
        values = contents.values([column]).column(0) if contents.rows else pa.chunked_array([[]], pa.string())
        if values.null_count:
            raise self.error(
                f"{values.null_count:,} rows of {name!r} have no operation in {column!r}", "say what each row does"
            )
        return values

    def _check_word(self, word: str, name: str) -> None:
        if word in self.operation.gives or word in self.operation.takes:
            return
        if word in _UPDATE:
            raise self.error(
                f"{name!r} has rows with the operation {word!r}: an update needs its images before and after",
                "log an update as two rows, such as `update_preimage` and `update_postimage`, or as a delete and an insert",
            )
        raise self.error(
            f"{name!r} has rows with the unknown operation {word!r}",
            f"known: {', '.join((*self.operation.gives, *self.operation.takes))}; name yours under `operation`",
        )
