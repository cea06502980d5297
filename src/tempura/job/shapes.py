"""What a job file may contain: its shapes as pydantic models, and the sentences and hints for what does not fit them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Annotated, Any, Literal, cast

import sqlglot
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError
from sqlglot import exp
from sqlglot.errors import SqlglotError

from tempura.job.marks import Path, Real, Whole
from tempura.schema import Column, as_declared, part_name

METHODS = ("IM1", "IM2", "OJV", "HOV", "PART")
POLICIES = ("auto", "incremental", "strict", "full")
Policy = Literal["auto", "incremental", "strict", "full"]


def wrong(message: str, hint: str) -> PydanticCustomError:
    """A mistake with its hint, in the form in which pydantic carries it."""
    return PydanticCustomError("tempura", "{said}", {"said": message, "hint": hint})


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint that proposes the known word nearest to `word`, or lists them all."""
    known = list(known)
    close = difflib.get_close_matches(word.lower(), [k.lower() for k in known], n=1, cutoff=0.6)
    if close:
        return f"did you mean `{next(k for k in known if k.lower() == close[0])}`?"
    return f"known: {', '.join(known)}" if known else "there are none"


def _name(value: Any) -> Any:
    """A name may look like a number (`at: 1`)."""
    if isinstance(value, Whole | Real):
        return value.text
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _names(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _bound(value: Any) -> Any:
    """Dates are counted in days since 1970-01-01, as in Spark."""
    if isinstance(value, date):
        return float((value - date(1970, 1, 1)).days)
    if isinstance(value, str):
        try:
            return float((date.fromisoformat(value) - date(1970, 1, 1)).days)
        except ValueError:
            raise wrong(
                f"{value!r} is neither a number nor a date",
                "give a number, or a date such as 2026-11-01; leave it out for texts",
            ) from None
    return value


def _arrivals(value: Any) -> Any:
    """One number stands for a table that does not change; its key is replaced by the name of the first point."""
    return {STATIC: value} if isinstance(value, int | float) and not isinstance(value, bool) else value


_SIZE = re.compile(r"\s*([0-9][0-9_]*(?:\.[0-9]+)?)\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)


def _size(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    match = _SIZE.fullmatch(value)
    if match is None:
        raise wrong(f"{value!r} is not a size", "give bytes, or a number with a unit: 500 MB, 2 GiB")
    number, unit, binary = match.groups()
    return float(number.replace("_", "")) * (1024 if binary else 1000) ** (
        "kmgt".index(unit.lower()) + 1 if unit else 0
    )


STATIC = ""
"""In `arrives`, stands for the first point until the timeline is known."""

Name = Annotated[str, BeforeValidator(_name), Field(min_length=1)]
Names = Annotated[list[str], BeforeValidator(_names)]
Rows = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class StatisticsShape(Shape):
    distinct: Rows | None = None
    nulls: Share = 0.0
    min: Annotated[float | None, BeforeValidator(_bound)] = None
    max: Annotated[float | None, BeforeValidator(_bound)] = None
    width: Rows | None = None


class ForeignKeyShape(Shape):
    columns: Names
    table: str
    to: Names


class TableShape(Shape):
    columns: Annotated[dict[str, str], Field(min_length=1)] | None = None
    key: Names = []
    arrives: Annotated[dict[str, Rows] | None, BeforeValidator(_arrivals)] = None
    static: Rows | None = None
    retracts: dict[str, Share] = {}
    statistics: dict[str, StatisticsShape] = {}
    foreign_keys: list[ForeignKeyShape] = []
    source: dict[str, Any] | None = None


class PointShape(Shape):
    at: Name
    price: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    deliver: Annotated[bool | list[str], BeforeValidator(_names)] = False
    upto: Name | None = None


class JobShape(Shape):
    """The top of a job file. Tables and points are checked one by one, so that a mistake in one does not hide those in others."""

    name: Name | None = None
    query: str | None = None
    queries: dict[str, str] | None = None
    tables: dict[str, Any] = Field(min_length=1)
    timeline: list[Any] = Field(min_length=1)
    objective: str | dict[str, Any] = "weighted"
    methods: Names = list(METHODS)
    policy: Policy = "auto"
    state_budget: Annotated[Rows | None, BeforeValidator(_size)] = None
    workspace: Annotated[str | None, Field(min_length=1)] = None
    checks: bool = True
    cluster: Annotated[str | None, Field(min_length=1)] = None


def column(name: str, text: str, in_key: bool) -> Column:
    """The column that `name: type [not null]` declares; a key column is never NULL."""
    kind, not_null = re.subn(r"\s+not\s+null\s*$", "", text.strip(), flags=re.IGNORECASE)
    return Column(name, spark_type(kind), not (not_null or in_key))


def spark_type(text: str) -> str:
    """A type as Spark SQL names it, in lower case but for the names of parts; raises ValueError for what is none."""
    try:
        tree = cast("Any", sqlglot.parse_one(text, dialect="spark", into=exp.DataType))
    except SqlglotError:
        raise ValueError(f"{text!r} is not a Spark SQL type") from None
    # In JSON, case tells names of parts apart.
    parts = {f"__part{n}": part for n, part in enumerate(tree.find_all(exp.ColumnDef))}
    named = {place: part.name for place, part in parts.items()}
    for place, part in parts.items():
        part.set("this", exp.to_identifier(place))
    found = as_declared(cast("str", tree.sql(dialect="spark")).lower().replace(", ", ","))
    return re.sub(r"(__part\d+): ", lambda m: f"{part_name(named[m[1]])}: ", found)


def explain_misfit(error: ValidationError, shape: type[BaseModel], path: Path) -> list[tuple[str, str, Path]]:
    """A sentence, a hint and a place for each value that does not fit its shape."""
    found: dict[Path, tuple[str, str, Path]] = {}
    for detail in error.errors(include_url=False):
        # A union reports each alternative under a name of its own, which is no place in the file.
        where = (*path, *(part for part in detail["loc"] if not (isinstance(part, str) and part in _ALTERNATIVES)))
        found.setdefault(where, (*_sentence(detail, shape, where), where))
    return list(found.values())


_ALTERNATIVES = frozenset({"bool", "str", "float", "list[str]", "dict[str,any]", "nullable"})
_EXPECTED = {
    "float_type": "a number", "string_type": "a text", "dict_type": "a mapping, `{key: value}`", "list_type": "a list, `[a, b]`",
    "bool_type": "true or false", "model_type": "a mapping, `{key: value}`",
    "greater_than_equal": "zero or more", "less_than_equal": "at most 1", "finite_number": "a finite number",
    "too_short": "at least one entry", "string_too_short": "a text that is not empty",
}  # fmt: skip


def _sentence(detail: ErrorDetails, shape: type[BaseModel], where: Path) -> tuple[str, str]:
    last = str(where[-1]) if where else "the job"
    kind = detail["type"]
    if kind == "tempura":
        ctx = detail.get("ctx", {})
        return f"`{last}`: {ctx['said']}", ctx["hint"]
    if kind == "extra_forbidden":
        return f"unknown key `{last}`", nearest(last, _keys(shape, detail["loc"][:-1]))
    if kind == "missing":
        return f"`{last}` is missing", f"add `{last}: …`"
    expected = _EXPECTED.get(kind, detail["msg"])
    if kind == "literal_error":
        known = re.findall(r"'([^']*)'", str(detail.get("ctx", {}).get("expected", "")))
        if isinstance(detail["input"], str):
            return f"unknown {last} {detail['input']!r}", nearest(detail["input"], known)
        expected = f"one of {', '.join(known)}"
    if kind == "bool_type" and last == "deliver":
        expected += ", or the names of queries"
    if kind == "less_than_equal":
        expected = "a share between 0 and 1"
    if last == "price" and kind == "greater_than_equal":
        return f"the price is {detail['input']}, below zero", "prices are zero or more"
    return f"`{last}` is {_shown(detail['input'])}; expected {expected}", f"give {expected}"


def _keys(shape: type[BaseModel], loc: Sequence[str | int]) -> list[str]:
    """The keys that the shape at `loc` knows."""
    if "statistics" in loc:
        shape = StatisticsShape
    elif "foreign_keys" in loc:
        shape = ForeignKeyShape
    for part in loc:
        inner = shape.model_fields[part].annotation if part in shape.model_fields else None
        shape = inner if isinstance(inner, type) and issubclass(inner, BaseModel) else shape
    return list(shape.model_fields)


def _shown(value: Any) -> str:
    if value is None:
        return "empty"
    text = repr(dict(cast("Mapping[str, Any]", value))) if isinstance(value, Mapping) else repr(value)
    return text if len(text) <= 40 else text[:37] + "…"
