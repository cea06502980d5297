"""SQL's scalar functions on Python values, none of which is NULL."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

Value = Any

EXACT = Context(prec=120, rounding=ROUND_HALF_UP)
"""Decimal arithmetic without rounding for all that fits in Spark's 38 digits, and sums of their squares."""


def alike(a: Value, b: Value) -> tuple[Value, Value]:
    """Two operands in a common type: decimals give way to floats, strings to dates."""
    if isinstance(a, float) and isinstance(b, Decimal):
        return a, float(b)
    if isinstance(a, Decimal) and isinstance(b, float):
        return float(a), b
    if isinstance(a, Decimal) or isinstance(b, Decimal):
        return (
            Decimal(a) if isinstance(a, (int, Decimal)) else a,
            Decimal(b) if isinstance(b, (int, Decimal)) else b,
        )
    if isinstance(a, date) and isinstance(b, str):
        return a, to_date(b)
    if isinstance(a, str) and isinstance(b, date):
        return to_date(a), b
    return a, b


def arithmetic(
    on_decimals: Callable[[Decimal, Decimal], Decimal], otherwise: Callable[[Any, Any], Any]
) -> Callable[[Value, Value], Value]:
    def compute(a: Value, b: Value) -> Value:
        a, b = alike(a, b)
        return on_decimals(a, b) if isinstance(a, Decimal) else otherwise(a, b)

    return compute


def divide(a: Value, b: Value) -> Value:
    a, b = alike(a, b)
    if b == 0:
        return None
    return Context(prec=38, rounding=ROUND_HALF_UP).divide(a, b) if isinstance(a, Decimal) else a / b


def modulo(a: Value, b: Value) -> Value:
    """The remainder with the sign of the dividend, as in Spark."""
    a, b = alike(a, b)
    if b == 0:
        return None
    if isinstance(a, Decimal):
        return EXACT.remainder(a, b)
    remainder = abs(a) % abs(b)
    return -remainder if a < 0 else remainder


def int_divide(a: Value, b: Value) -> Value:
    if b == 0:
        return None
    quotient = abs(a) // abs(b)
    return int(quotient if (a < 0) == (b < 0) else -quotient)


def compare(test: Callable[[Any, Any], bool]) -> Callable[[Value, Value], Value]:
    def compute(a: Value, b: Value) -> Value:
        return test(*alike(a, b))

    return compute


def to_date(value: Value) -> date | None:
    try:
        return value if isinstance(value, date) else date.fromisoformat(str(value).strip()[:10])
    except ValueError:
        return None


def rounded(value: Value, digits: int = 0) -> Value:
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return float(EXACT.quantize(Decimal(repr(value)), Decimal(1).scaleb(-digits)))
    return EXACT.quantize(value, Decimal(1).scaleb(-digits))


def like(text: str, pattern: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace("%", ".*").replace("_", "."), text, re.DOTALL) is not None


def substring(text: str, start: int, length: int | None = None) -> str:
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    end = len(text) if length is None else first + length
    return text[max(first, 0) : max(end, 0)]


def cast_value(value: Value, kind: str, scale: int = 0, precision: int = 38) -> Value:
    """The value in another type, or NULL if it has none there."""
    if value is None:
        return None
    try:
        return CASTS[kind](value, scale, precision)
    except (ValueError, InvalidOperation, OverflowError):
        return None


def _to_decimal(value: Value, scale: int, precision: int) -> Decimal | None:
    source = (
        Decimal(repr(value))
        if isinstance(value, float)
        else Decimal(int(value))
        if isinstance(value, bool)
        else Decimal(value)
    )
    found = EXACT.quantize(source, Decimal(1).scaleb(-scale))
    return found if len(found.as_tuple().digits) <= precision or found == 0 else None


def to_text(value: Value) -> str:
    return (
        str(value).lower()
        if isinstance(value, bool)
        else format(value, "f")
        if isinstance(value, Decimal)
        else str(value)
    )


def _to_bool(value: Value) -> bool | None:
    if isinstance(value, str):
        text = value.strip().lower()
        return (
            True
            if text in ("t", "true", "y", "yes", "1")
            else False
            if text in ("f", "false", "n", "no", "0")
            else None
        )
    return bool(value)


def _to_int(value: Value) -> int:
    return int(Decimal(value.strip())) if isinstance(value, str) else int(value)


CASTS: dict[str, Callable[[Value, int, int], Value]] = {
    **{kind: lambda v, s, p: _to_int(v) for kind in ("TINYINT", "SMALLINT", "INT", "BIGINT")},
    **{kind: lambda v, s, p: float(v) for kind in ("DOUBLE", "FLOAT")},
    **{kind: lambda v, s, p: to_text(v) for kind in ("TEXT", "VARCHAR", "CHAR")},
    "DECIMAL": _to_decimal,
    "BOOLEAN": lambda v, s, p: _to_bool(v),
    "DATE": lambda v, s, p: to_date(v),
}


def negated(value: Value) -> Value:
    return -value


def inverted(value: Value) -> bool:
    return not value


def upper(value: Value) -> str:
    return to_text(value).upper()


def lower(value: Value) -> str:
    return to_text(value).lower()


def length(value: Value) -> int:
    return len(to_text(value))


def joined(*values: Value) -> str:
    return "".join(to_text(v) for v in values)


def sign(value: Value) -> float:
    return float((value > 0) - (value < 0))


def bit_and(left: Value, right: Value) -> int:
    return int(left) & int(right)


def shifted_right(value: Value, bits: Value) -> int:
    return int(value) >> int(bits)


def later(day: Value, days: Value) -> date | None:
    found = to_date(day)
    return None if found is None else found + timedelta(days=int(days))


def earlier(day: Value, days: Value) -> date | None:
    return later(day, -int(days))


def date_part(part: str) -> Callable[[Value], Value]:
    def compute(day: Value) -> Value:
        found = to_date(day)
        return None if found is None else getattr(found, part)

    return compute
