"""Spark SQL text, read into trees that print as they were written.

The parser knows hundreds of functions of all dialects and prints some of them as others: `log10(x)` as `LOG(10, x)`, which is not the same number, `c * mod(a, b)` as
`c * a % b`. Only those that Tempura has to understand are left to it. The others are hidden from it while it reads, and stand in the tree under the name that the user gave them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import TokenType

Tree = Any
"""A tree of sqlglot, whose classes share no exported type that its own functions keep to."""
_WORDS = (
    "ABS ADD_MONTHS ANY_VALUE APPROX_COUNT_DISTINCT ARRAY ARRAY_AGG AVG BOOL_AND BOOL_OR CEIL CEILING CHARACTER_LENGTH CHAR_LENGTH COALESCE COLLECT_LIST "
    "COLLECT_SET CONCAT CONCAT_WS CONTAINS COUNT COUNT_IF CUME_DIST CURDATE DATEADD DATEDIFF DATE_ADD DATE_DIFF DAY DAYOFMONTH DAYOFWEEK DAYOFYEAR "
    "DENSE_RANK ENDSWITH EXP EXPLODE EXPLODE_OUTER FIRST FIRST_VALUE FLOOR GREATEST GROUPING GROUPING_ID HOUR IF IFNULL INITCAP INLINE LAG LAST LAST_DAY "
    "LAST_VALUE LCASE LEAD LEAST LEFT LEN LENGTH LN LOG LOWER LPAD MAX MEDIAN MIN MINUTE MONTH NTH_VALUE NTILE NULLIF NVL PERCENT_RANK POSEXPLODE "
    "POSEXPLODE_OUTER POW POWER QUARTER RAND RANDN RANDOM RANK REGEXP_REPLACE REPEAT REPLACE RIGHT ROUND ROW_NUMBER RPAD SECOND SHIFTLEFT SHIFTRIGHT SIGN "
    "SIGNUM SQRT STACK STARTSWITH STDDEV STDDEV_POP STDDEV_SAMP STRUCT SUBSTR SUBSTRING SUM TO_DATE TRIM UCASE UNNEST UPPER UUID VARIANCE VAR_POP VAR_SAMP "
    "YEAR"
)
UNDERSTOOD = frozenset(_WORDS.split())
"""Functions whose trees Tempura looks into, or that have a syntax of their own; each prints as it was written, or as another name of the same."""
_SYNTAX = ("CAST", "TRY_CAST", "EXTRACT", "OVERLAY", "POSITION")
"""What looks like a function and is none: `EXTRACT(YEAR FROM d)`."""
_PARSER: Any = Spark.Parser
_HIDDEN = {*_PARSER.FUNCTIONS, *_PARSER.FUNCTION_PARSERS, "WINDOW"} - {*UNDERSTOOD, *_SYNTAX}
_NAMES = (TokenType.VAR, TokenType.SEQUENCE, TokenType.WINDOW)
"""What names of functions are read as."""
_QUERIES = (TokenType.SELECT, TokenType.WITH, TokenType.VALUES, TokenType.FROM, TokenType.TABLE, TokenType.L_PAREN)
"""What a sub-query begins with."""
_WIDE = {ord(c): ord(c) + 0xFEE0 for c in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"}
"""Wide letters, which name no function: the text keeps its length, so that mistakes are found where they are."""
_NARROW = {wide: narrow for narrow, wide in _WIDE.items()}


def as_written(text: str) -> str:
    """What the parser says, in the letters that the user wrote."""
    return text.translate(_NARROW)


def piped(text: str) -> Tree | None:
    """The first `|>` of a text. The parser knows such steps, but folds them into one SELECT, in which they mean something else."""
    return next((token for token in Spark().tokenize(text) if token.token_type == TokenType.PIPE_GT), None)


def read_statements(text: str) -> list[Tree]:
    """The statements of a text; what cannot be read raises the parser's own errors."""
    found = sqlglot.parse(_hidden(text), dialect=Spark)
    # A comment after the last semicolon is none.
    return [_shown(s) for s in found if s is not None and not isinstance(s, exp.Semicolon)]


def read_expression(text: str) -> Tree:
    """The one statement or expression that a text is."""
    found = read_statements(text)
    if len(found) != 1:
        raise ParseError(f"the text holds {len(found)} statements")
    return found[0]


def _escaped(text: str) -> str:
    """The text with quotes in texts escaped by a backslash, which is how the parser knows them, where they were written twice; it takes those for two texts."""
    for one, other in pairwise(Spark().tokenize(text)):
        touching = one.token_type == other.token_type == TokenType.STRING and one.end + 1 == other.start
        if touching and text[one.end] == text[other.start]:
            text = f"{text[: one.end]}\\{text[other.start :]}"
    return text


def _hidden(text: str) -> str:
    """The text with wide letters in names of functions that the parser must not know, and texts as it reads them; it stays as long as it is."""
    text = _escaped(text)
    tokens = Spark().tokenize(text)
    for token, following, inside in reversed(list(zip(tokens, tokens[1:], [*tokens[2:], None], strict=False))):
        called = following.token_type == TokenType.L_PAREN and (
            (token.token_type in _NAMES and token.text.upper() in _HIDDEN)
            # Of a list, and not of a sub-query.
            or (token.token_type == TokenType.EXISTS and inside is not None and inside.token_type not in _QUERIES)
            or (token.text.upper() == "TO_DATE" and _arguments(tokens, following) > 1)
        )
        if called:
            text = text[: token.start] + token.text.translate(_WIDE) + text[token.end + 1 :]
    return text


def _arguments(tokens: list[Tree], opened: Tree) -> int:
    """How many arguments follow an opening parenthesis."""
    depth, found = 0, 1
    for token in tokens[tokens.index(opened) :]:
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        found += depth == 1 and token.token_type == TokenType.COMMA
        if not depth:
            break
    return found


def _shown(tree: Tree) -> Tree:
    """The tree with the names of functions as they were; sums of intervals in parentheses, since `t - INTERVAL 1 DAY 2 HOURS` takes both away; and `any(p)` as the aggregate that it is."""
    for node in tree.find_all(exp.Anonymous, exp.Identifier):
        # A table may be called like a function, and what is in quotes was never hidden.
        if isinstance(node, exp.Anonymous) or (
            not node.args.get("quoted") and as_written(node.name).upper() in _HIDDEN
        ):
            node.set("this", as_written(node.name))
    for node in tree.find_all(exp.Anonymous):
        if node.name.lower() in ("timestampadd", "timestampdiff") and isinstance(
            next(iter(node.expressions), None), exp.Column
        ):
            node.expressions[0].replace(exp.Var(this=node.expressions[0].name))
    for node in list(tree.find_all(exp.Add, exp.Any)):
        if isinstance(node, exp.Add) and isinstance(node.this, exp.Interval) and isinstance(node.parent, exp.Binary):
            node.replace(exp.Paren(this=node.copy()))
        elif (
            isinstance(node, exp.Any)
            and not isinstance(node.this.unnest(), exp.Query)
            and not isinstance(node.parent, (exp.Like, exp.ILike))
        ):
            node.replace(exp.LogicalOr(this=node.this.unnest()))
    return tree
