"""Which expressions may fail for a row, by what they ask of columns of which types: rows that are not there must not make a run fail."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from tempura.expr import Expr, may_fail
from tempura.schema import Schema, numeric
from tempura.volatile import OF_ONE_TYPE, of_texts


def fails(expr: Expr, schema: Schema) -> bool:
    """Whether evaluating an expression may raise an error. Numbers and dates can be cast to whatever Spark lets them, but for an overflow; of texts, Spark makes what they stand beside."""
    texts = texts_of(schema)
    castable = frozenset(c.name for c in schema if numeric(c.type) or c.type in ("date", "timestamp", "timestamp_ntz"))
    if may_fail(expr, castable - texts):
        return True
    return any(c.name in texts and not _stays(c, texts) for c in expr.tree.find_all(exp.Column))


def texts_of(schema: Schema) -> frozenset[str]:
    """The columns that are texts."""
    return frozenset(c.name for c in schema if c.type == "string")


_AS_IT_IS = (exp.Is, exp.Cast, exp.Length, exp.Count, exp.Max, exp.Min, exp.Alias, exp.Select, exp.Group, exp.Ordered)
"""What takes values of any type, or is judged by itself."""


_GIVING_TEXTS = (
    exp.Concat, exp.ConcatWs, exp.DPipe, exp.Lower, exp.Upper, exp.Trim, exp.Substring, exp.Replace, exp.RegexpReplace,
)  # fmt: skip
"""Functions of texts that give one, which in turn may stand beside a number."""


def fails_when_added(argument: Expr, schema: Schema) -> bool:
    """Whether an argument may fail a sum or a mean, for which Spark makes a number of a text."""
    return _is_text(argument.tree.unnest(), texts_of(schema))


def _stays(text: Any, texts: frozenset[str]) -> bool:
    """Whether a text is taken as it is by what it stands in."""
    above = text.parent
    if above is None or isinstance(above, _AS_IT_IS):
        return True
    if isinstance(above, (exp.Paren, *_GIVING_TEXTS)):
        return _stays(above, texts)
    if of_texts(above):
        return True
    if not isinstance(above, OF_ONE_TYPE):
        return False
    beside = [part for part in _parts(above) if part is not text]
    return all(_is_text(part, texts) for part in beside) and (isinstance(above, exp.Predicate) or _stays(above, texts))


def _is_text(tree: Any, texts: frozenset[str]) -> bool:
    if isinstance(tree, exp.Cast):
        return bool(tree.is_type(*exp.DataType.TEXT_TYPES))
    if isinstance(tree, (exp.Paren, *OF_ONE_TYPE)):
        return all(_is_text(part, texts) for part in _parts(tree))
    return (
        tree.is_string
        or isinstance(tree, exp.Null)
        or of_texts(tree)
        or (isinstance(tree, exp.Column) and tree.name in texts)
    )


def _parts(tree: Any) -> list[Any]:
    """What is to be of one type, without conditions."""
    return [part for part in tree.iter_expressions() if not isinstance(part, (exp.Predicate, exp.Connector, exp.Not))]
