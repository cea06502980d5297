"""Which expressions may give another answer when they are evaluated again: functions of chance and of the clock, and texts that Spark takes for the day at hand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from sqlglot import exp
from sqlglot.expressions.core import Expression

from tempura.expr import DIALECT, Expr

_VOLATILE_WORDS = (
    "rand randn random randstr uniform uuid shuffle monotonically_increasing_id spark_partition_id input_file_name input_file_block_start "
    "input_file_block_length now current_timestamp current_date current_time localtimestamp localtime curdate reflect java_method try_reflect"
)
_VOLATILE_NAMES = frozenset(_VOLATILE_WORDS.split())
_MOMENT = re.compile(r"now|(?:today|yesterday|tomorrow)(?![a-z])\s*\S*", re.IGNORECASE)
"""Texts that are other dates and times every day where Spark casts them to one: DATE 'today', and `day = 'today UTC'`. 'epoch' always is the same."""
_TIMES = re.compile(r"\b(?:date|timestamp|unknown)")
"""Types that may be, or hold, dates and times."""
OF_ONE_TYPE = (exp.Predicate, exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least, exp.Array, exp.Bracket)  # fmt: skip
"""What casts a text to a date only beside one."""
_OF_TEXTS = (
    exp.Like, exp.ILike, exp.RegexpLike, exp.StartsWith, exp.EndsWith, exp.Contains, exp.StrPosition, exp.Concat, exp.ConcatWs, exp.DPipe,
    exp.Lower, exp.Upper, exp.Trim, exp.Substring, exp.Replace, exp.RegexpReplace, exp.PropertyEQ,
)  # fmt: skip
"""What takes texts as they are, and gives no dates."""
_OF_TEXTS_WORDS = (
    "instr locate split split_part translate find_in_set substring_index regexp_extract get_json_object named_struct"
)
_OF_TEXTS_NAMES = frozenset(_OF_TEXTS_WORDS.split())
"""The same by name."""
_VOLATILE_TYPES = (
    exp.Rand,
    exp.Randn,
    exp.CurrentTimestamp,
    exp.CurrentDate,
    exp.CurrentTime,
    exp.CurrentDatetime,
    exp.Localtime,
    exp.Localtimestamp,
    exp.Uuid,
)


def volatile_function(tree: Expression, types: Mapping[str, str] = MappingProxyType({})) -> str | None:
    """The first function in `tree` that may give another answer when evaluated again, if there is one; `types` are those of columns, where they are known."""
    for node in tree.walk():
        if isinstance(node, _VOLATILE_TYPES):
            return node.sql(dialect=DIALECT)
        if isinstance(node, exp.Anonymous):
            name = node.name.lower()
            if name in _VOLATILE_NAMES or (name == "unix_timestamp" and not node.expressions):
                return name + "()"
        if node.is_string and _MOMENT.fullmatch(node.name.strip()):
            reader = _reader(node)
            if reader is not None and not _timeless(reader, types):
                return reader.sql(dialect=DIALECT)
    return None


def _reader(text: Any) -> Any:
    """What a text stands in, if it may be taken for something else there."""
    found = text.parent
    while isinstance(found, exp.Paren) or (isinstance(found, exp.If) and isinstance(found.parent, exp.Case)):
        found = found.parent
    return None if of_texts(found) else found


def of_texts(tree: Any) -> bool:
    """Whether it takes texts as they are."""
    return isinstance(tree, _OF_TEXTS) or (isinstance(tree, exp.Anonymous) and tree.name.lower() in _OF_TEXTS_NAMES)


def _timeless(tree: Any, types: Mapping[str, str]) -> bool:
    """Whether the parts of a tree are to be of one type, and none of them is a date or time."""

    def sure(part: Any) -> bool:
        if isinstance(part, (exp.Paren, exp.Dot)):
            return sure(part.this)
        if isinstance(part, exp.Column):
            return not _TIMES.search(types.get(part.name, "unknown"))
        if isinstance(part, exp.Cast):
            return not _TIMES.search(part.to.sql(dialect=DIALECT).lower())
        if isinstance(part, (exp.Literal, exp.Null, exp.Boolean, exp.Predicate, exp.Connector, exp.Not)):
            return True
        return of_texts(part) or _timeless(part, types)

    return isinstance(tree, OF_ONE_TYPE) and all(map(sure, tree.iter_expressions()))


_DRAWN = frozenset(["rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id"])


def drawn_function(tree: Expression) -> str | None:
    """The first function in `tree` that gives another answer wherever it stands, if there is one."""
    for node in tree.walk():
        if isinstance(node, (exp.Rand, exp.Randn, exp.Uuid)) or (
            isinstance(node, exp.Anonymous) and node.name.lower() in _DRAWN
        ):
            return node.sql(dialect=DIALECT)
    return None


@cache
def volatile(expr: Expr) -> bool:
    """Whether the expression may give another answer when evaluated again, or on other rows."""
    return volatile_function(expr.tree) is not None
