"""The Spark type of a scalar expression, inferred from the types of its columns.

Types decide how states are stored and how wide rows are, never what a query means: where a type is not known it is `UNKNOWN`, and
the engine that runs the step finds out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlglot import exp
from sqlglot.errors import ParseError

from tempura.schema import UNKNOWN, Column, normal, part_name
from tempura.sqltext import Tree

NULL = "void"
"""The type of a bare NULL, which widens to any other."""


def clauses(tree: Tree, name: str) -> list[Tree]:
    """The parts of a tree under a name; none if it has no such clause."""
    return tree.args.get(name) or []


def kind_of(tree: Tree) -> type[Any]:
    return tree.__class__


class Typed(NamedTuple):
    """A type, and whether a value of it may be NULL."""

    type: str
    nullable: bool = True


_INTEGERS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_DOUBLED = (*_INTEGERS, "float", "double", "string")
"""What sums or means in double are of."""
_DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)")


def digits(name: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal or of an integer read as one."""
    found = _DECIMAL.fullmatch(name)
    if found:
        return int(found[1]), int(found[2])
    return (_INTEGERS[name], 0) if name in _INTEGERS else None


def decimal(precision: int, scale: int) -> str:
    """Spark's adjusted decimal: at most 38 digits, giving up scale beyond six before integral digits."""
    if precision <= 38:
        return f"decimal({precision},{scale})"
    kept = max(38 - (precision - scale), min(scale, 6))
    return f"decimal(38,{kept})"


def bounded(precision: int, scale: int) -> str:
    """Spark's bounded decimal: at most 38 digits, giving up integral digits, as sums, averages and roundings do."""
    return f"decimal({min(precision, 38)},{min(scale, 38)})"


def common_decimal(a: tuple[int, int], b: tuple[int, int]) -> str:
    """The decimal that CASE, COALESCE and set operations give to two: past 38 digits it gives up scale, and integral digits never.

    Spark 4's `widerDecimalType`; arithmetic differs, which keeps six digits of scale.
    """
    scale = max(a[1], b[1])
    whole = max(a[0] - a[1], b[0] - b[1])
    return f"decimal({min(whole + scale, 38)},{min(scale, 38 - whole)})"


def widened(types: Iterable[str]) -> str:
    """The type that CASE, COALESCE and set operations give to values of several types; UNKNOWN where Spark's rules are not ours to guess."""
    result = NULL
    for other in types:
        result = _wider(result, other)
    return result


def _wider(a: str, b: str) -> str:
    if a == b or b == NULL:
        return a
    if a == NULL:
        return b
    if UNKNOWN in (a, b):
        return UNKNOWN
    if a in _INTEGERS and b in _INTEGERS:
        return max(a, b, key=lambda t: _INTEGERS[t])
    da, db = digits(a), digits(b)
    if da and db:
        return common_decimal(da, db)
    if {a, b} & {"float", "double"} and all(t in ("float", "double") or digits(t) for t in (a, b)):
        return "double"
    if {a, b} <= {"date", "timestamp", "timestamp_ntz"}:
        return "timestamp" if "timestamp" in (a, b) else "timestamp_ntz"
    return UNKNOWN


def infer(tree: Tree, columns: Mapping[str, Column]) -> Typed:
    """The type of an expression over `columns`."""
    rule = _RULES.get(kind_of(tree))
    if rule is not None:
        return rule(tree, columns)
    if isinstance(
        tree, (exp.Predicate, exp.Connector, exp.Not, exp.RegexpLike, exp.StartsWith, exp.EndsWith, exp.Contains)
    ):
        return Typed("boolean", _any_nullable(tree, columns))
    if isinstance(tree, _STRINGS):
        parts = [infer(part, columns) for part in tree.iter_expressions()]
        known = not isinstance(tree, _OF_LISTS) or all(_textual(part.type) for part in parts)
        return Typed("string" if known else UNKNOWN, any(part.nullable for part in parts))
    if isinstance(tree, _INTS):
        return Typed("bigint" if isinstance(tree, exp.DateDiff) and tree.args.get("unit") else "int")
    if isinstance(tree, _DOUBLES):
        return Typed("double")
    if isinstance(tree, _DATES):
        return Typed("date")
    if isinstance(tree, exp.Anonymous):
        return Typed(_called(tree, columns))
    if isinstance(tree, (exp.Dot, exp.Bracket)):
        return Typed(_inside(infer(tree.this, columns).type, tree))
    if isinstance(tree, exp.Binary):
        return _arithmetic(tree, columns)
    return Typed(UNKNOWN)


def _called(tree: exp.Anonymous, columns: Mapping[str, Column]) -> str:
    """What a function that goes by its name gives."""
    name, arguments = tree.name.lower(), tree.expressions
    if name in ("map_concat", "map_filter") and arguments:
        kind = infer(arguments[0], columns).type
        return kind if kind.startswith("map<") else UNKNOWN
    if name in ("from_json", "from_csv") and len(arguments) > 1 and arguments[1].is_string:
        return _described(arguments[1].name)
    return _NAMED.get(name, UNKNOWN)


def _described(schema: str) -> str:
    """The type that a schema written as text describes: a type, or columns with theirs."""
    if re.search(r"(?i)\b(not\s+null|comment|(var)?char)\b", schema):
        return UNKNOWN  # Read as what it says, it would be another type.
    whole = schema if re.match(r"(?i)\s*(array|map|struct)\s*<", schema) else f"STRUCT<{schema}>"
    try:
        found: Tree = exp.DataType.build(whole, dialect="spark")
    except ParseError:
        return UNKNOWN
    kind = _spelled(found)
    return UNKNOWN if UNKNOWN in kind else kind


def _spelled(tree: Tree) -> str:
    """A type as we write it, with the names of its parts as they are."""
    parts = tree.expressions
    if tree.is_type("struct") and parts and all(isinstance(part, exp.ColumnDef) for part in parts):
        fields = (f"{part_name(part.name)}:{_spelled(part.args['kind'])}" for part in parts)
        return f"struct<{','.join(fields)}>"
    if tree.is_type("array", "map") and parts:
        return f"{'map' if len(parts) > 1 else 'array'}<{','.join(map(_spelled, parts))}>"
    return UNKNOWN if tree.is_type("struct", "array", "map") else normal(tree.sql(dialect="spark"))


def _textual(kind: str) -> bool:
    """Whether values of a type are certainly neither lists nor bytes."""
    return kind not in (UNKNOWN, "binary") and not kind.startswith(("array", "map", "struct"))


def _inside(kind: str, tree: Tree) -> str:
    """The type of a field of a struct, an element of an array, or a value of a map."""
    if kind == UNKNOWN:
        return UNKNOWN
    whole: Tree = exp.DataType.build(kind, dialect="spark")
    if isinstance(tree, exp.Bracket):
        return normal(whole.expressions[-1].sql(dialect="spark")) if whole.is_type("array", "map") else UNKNOWN
    fields = {f.name.lower(): f.args.get("kind") for f in whole.expressions if isinstance(f, exp.ColumnDef)}
    found = fields.get(tree.expression.name.lower())
    return UNKNOWN if found is None else normal(found.sql(dialect="spark"))


def aggregate_type(function: str, argument: Typed | None, grouped: bool) -> Typed:
    """The type of a known aggregate; it is NULL for a group whose arguments all are, which a global one may be."""
    kind = argument.type if argument else UNKNOWN
    nullable = argument is None or argument.nullable or not grouped
    if function == "count":
        return Typed("bigint", False)
    found = digits(kind)
    if function == "sum":
        if kind in _INTEGERS:
            return Typed("bigint", nullable)
        if found:
            return Typed(bounded(found[0] + 10, found[1]), nullable)
        return Typed("double" if kind in _DOUBLED else UNKNOWN, nullable)
    if function == "avg":
        if found and kind not in _INTEGERS:
            return Typed(bounded(found[0] + 4, found[1] + 4), nullable)
        return Typed("double" if kind in _DOUBLED else UNKNOWN, nullable)
    if function.startswith(("var", "stddev")):
        return Typed("double")
    if function.startswith("bool"):
        return Typed("boolean", nullable)
    return Typed(kind, nullable)


def _of(kind: str, parts: Sequence[Sequence[Tree]], columns: Mapping[str, Column]) -> str:
    """The type of an array or map of some expressions, if theirs are known."""
    inner = [widened(infer(each, columns).type for each in part) if part else UNKNOWN for part in parts]
    known = not any(each in (UNKNOWN, NULL) or each.startswith("interval") for each in inner)
    return f"{kind}<{','.join(inner)}>" if known else UNKNOWN


_Rule = Callable[[Tree, Mapping[str, Column]], Typed]

_STRINGS = (
    exp.Upper, exp.Lower, exp.Substring, exp.Concat, exp.ConcatWs, exp.Trim, exp.DPipe, exp.Left, exp.Right, exp.Initcap,
    exp.Pad, exp.Repeat, exp.Replace, exp.RegexpReplace,
)  # fmt: skip
_OF_LISTS = (exp.Concat, exp.DPipe, exp.Substring, exp.Left, exp.Right, exp.Pad, exp.Repeat)
"""Those that are of bytes, or of lists, too."""
# A date that cannot be read gives NULL, so what is taken from dates may be NULL whatever the columns say.
_INTS = (
    exp.Length, exp.Year, exp.Month, exp.Day, exp.Quarter, exp.Week, exp.DayOfWeek, exp.DayOfMonth, exp.DayOfYear, exp.Hour,
    exp.Minute, exp.Second, exp.DateDiff, exp.Rank, exp.DenseRank, exp.RowNumber, exp.Ntile, exp.StrPosition,
)  # fmt: skip
_DOUBLES = (exp.Sqrt, exp.Pow, exp.Exp, exp.Ln, exp.Log, exp.PercentRank, exp.CumeDist, exp.Rand, exp.Randn)
_GIVES = {
    "string": "regexp_extract regexp_substr split_part get_json_object date_format from_unixtime md5 sha sha1 sha2 hex translate format_string printf substring_index ltrim rtrim btrim "
    "space char chr base64 bin conv elt soundex to_char to_varchar url_decode url_encode parse_url monthname dayname format_number",
    "int": "instr locate ascii weekday weekofyear levenshtein bit_length octet_length hash size cardinality find_in_set unix_date",
    "bigint": "unix_timestamp to_unix_timestamp xxhash64 crc32 factorial unix_seconds unix_millis unix_micros",
    "double": "log10 log2 log1p expm1 cbrt sin cos tan asin acos atan atan2 sinh cosh tanh radians degrees months_between hypot e pi",
    "map<string,string>": "str_to_map",
    "variant": "parse_json try_parse_json",
    "date": "to_date date_sub next_day trunc make_date date_from_unix_date",
    "timestamp": "date_trunc to_timestamp from_utc_timestamp to_utc_timestamp make_timestamp timestamp_seconds timestamp_millis timestamp_micros",
}
_NAMED = {name: kind for kind, names in _GIVES.items() for name in names.split()}
"""Types of functions that go by their names."""
_DATES = (exp.CurrentDate, exp.TsOrDsAdd, exp.DateAdd, exp.DateSub, exp.TsOrDsToDate, exp.LastDay, exp.AddMonths)


def _any_nullable(tree: Tree, columns: Mapping[str, Column]) -> bool:
    return any(
        infer(child, columns).nullable for child in tree.iter_expressions() if not isinstance(child, exp.DataType)
    )


def _column(tree: Tree, columns: Mapping[str, Column]) -> Typed:
    found = columns.get(tree.name)
    return Typed(found.type, found.nullable) if found else Typed(UNKNOWN)


def _literal(tree: Tree, _: Mapping[str, Column]) -> Typed:
    if tree.args.get("is_string"):
        return Typed("string", False)
    text = tree.name
    if text.isdigit():
        return Typed(
            "int" if int(text) < 2**31 else "bigint" if int(text) < 2**63 else f"decimal({len(text)},0)", False
        )
    if "e" in text.lower():
        return Typed("double", False)
    whole, _, fraction = text.partition(".")
    whole = whole.lstrip("0")
    return Typed(f"decimal({max(len(whole) + len(fraction), 1)},{len(fraction)})", False)


def _operand(tree: Tree, columns: Mapping[str, Column]) -> tuple[int, int] | None:
    """Digits of an operand of decimal arithmetic: a literal integer counts the digits it has."""
    tree = tree.unnest()
    literal = tree.this if isinstance(tree, exp.Neg) else tree  # To Spark, the sign is part of it.
    if isinstance(literal, exp.Literal) and literal.name.isdigit():
        return len(literal.name), 0
    return digits(infer(tree, columns).type)


def _arithmetic(tree: Tree, columns: Mapping[str, Column]) -> Typed:
    left, right = infer(tree.this, columns), infer(tree.expression, columns)
    nullable = left.nullable or right.nullable or isinstance(tree, (exp.Div, exp.IntDiv, exp.Mod))
    a, b = left.type, right.type
    if isinstance(tree, (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor)):
        return Typed(widened((a, b)), nullable)
    if isinstance(tree, (exp.BitwiseRightShift, exp.BitwiseLeftShift)):
        return Typed(widened((a, "int")), nullable)
    if isinstance(tree, exp.IntDiv):
        return Typed("bigint", nullable)
    if "date" in (a, b) or "timestamp" in (a, b):
        # Two times give an interval, and a column that is one may be of any kind.
        declared = any(kind.startswith("interval ") for kind in (a, b))
        if {a, b} & {UNKNOWN, "string", "timestamp_ntz"} or declared:
            return Typed(UNKNOWN, nullable)
        both = {a, b} <= {"date", "timestamp"} and isinstance(tree, exp.Sub)
        # A date and an interval of hours are a timestamp.
        hours = "timestamp" not in (a, b) and "interval" in (a, b) and not _whole_days(tree)
        return Typed(UNKNOWN if both or hours else a if a in ("date", "timestamp") else b, nullable)
    if UNKNOWN in (a, b):
        return Typed(UNKNOWN, nullable)
    if "string" in (a, b) and a != b and not {a, b} & {"double", "float"} and not any(map(_DECIMAL.fullmatch, (a, b))):
        return Typed(UNKNOWN, nullable)  # With a whole number, that depends on the session: of ANSI it is one.
    if {a, b} & {"double", "float", "string"}:
        return Typed("float" if a == b == "float" and not isinstance(tree, exp.Div) else "double", nullable)
    if {a, b} <= {*_INTEGERS, NULL}:
        return Typed("double" if isinstance(tree, exp.Div) else widened((a, b)), nullable)
    da, db = _operand(tree.this, columns), _operand(tree.expression, columns)
    if da is None or db is None:
        return Typed(UNKNOWN, nullable)
    return Typed(_decimal_arithmetic(kind_of(tree), da, db), nullable)


def _whole_days(tree: Tree) -> bool:
    """Whether the intervals in an expression are all of days, weeks, months or years."""
    units = [str(interval.args.get("unit") or "").upper().rstrip("S") for interval in tree.find_all(exp.Interval)]
    return all(unit in ("DAY", "WEEK", "MONTH", "QUARTER", "YEAR") for unit in units)


def _decimal_arithmetic(kind: type[Any], a: tuple[int, int], b: tuple[int, int]) -> str:
    (p1, s1), (p2, s2) = a, b
    scale = max(s1, s2)
    if kind is exp.Mul:
        return decimal(p1 + p2 + 1, s1 + s2)
    if kind is exp.Div:
        quotient = max(6, s1 + p2 + 1)
        return decimal(p1 - s1 + s2 + quotient, quotient)
    if kind is exp.Mod:
        return decimal(min(p1 - s1, p2 - s2) + scale, scale)
    return decimal(max(p1 - s1, p2 - s2) + scale + 1, scale)


def _cast(tree: Tree, columns: Mapping[str, Column]) -> Typed:
    source = infer(tree.this, columns)
    to = normal(tree.args["to"].sql(dialect="spark"))
    # A text that is no number casts to NULL, and so does a number that is too large, where that is no error.
    tried = bool(tree.args.get("safe")) or (to.startswith("decimal") and not _fits(source.type, to))
    # A text may be no number, and a value of a variant is NULL where its JSON is.
    lost = source.type == "variant" or (source.type in ("string", UNKNOWN) and to != "string")
    return Typed(to, source.nullable or tried or lost)


def _fits(source: str, to: str) -> bool:
    """Whether all numbers of a type have room in another one."""
    a, b = digits(source), digits(to)
    return a is not None and b is not None and a[0] - a[1] <= b[0] - b[1]


def _case(tree: Tree, columns: Mapping[str, Column]) -> Typed:
    branches = [infer(branch.args["true"], columns) for branch in tree.args.get("ifs") or [tree]]
    default = tree.args.get("default") or tree.args.get("false")
    branches.append(infer(default, columns) if default else Typed(NULL))
    return Typed(widened(b.type for b in branches), any(b.nullable for b in branches))


def _coalesce(tree: Tree, columns: Mapping[str, Column]) -> Typed:
    parts = [infer(p, columns) for p in (tree.this, *tree.expressions)]
    return Typed(widened(p.type for p in parts), all(p.nullable for p in parts))


def _same(tree: Tree, columns: Mapping[str, Column]) -> Typed:
    return infer(tree.this, columns)


def _number(tree: Tree, columns: Mapping[str, Column]) -> Typed:
    """The type of the operand, which is a number: a text is read as one, and may be none."""
    found = infer(tree.this, columns)
    return Typed("double") if found.type == "string" else found


def _round(tree: Tree, columns: Mapping[str, Column]) -> Typed:
    source = _number(tree, columns)
    found = _DECIMAL.fullmatch(source.type)
    if not found:
        return source
    p, s = int(found[1]), int(found[2])
    places = _places(tree.args.get("decimals"))
    if places is None:
        return Typed(UNKNOWN, source.nullable)
    if places < 0:
        return Typed(bounded(max(p - s, -places) + 1, 0), source.nullable)
    kept = min(s, places)
    return Typed(bounded(p - s + 1 + kept, kept), source.nullable)


def _places(tree: Tree) -> int | None:
    """How many decimal places a rounding keeps, if that is a number."""
    sign = -1 if isinstance(tree, exp.Neg) else 1
    tree = tree.this if isinstance(tree, exp.Neg) else tree
    if tree is None:
        return 0
    return sign * int(tree.name) if isinstance(tree, exp.Literal) and tree.name.isdigit() else None


def _floor(tree: Tree, columns: Mapping[str, Column]) -> Typed:
    source = infer(tree.this, columns)
    if tree.args.get("decimals"):
        return Typed(UNKNOWN, source.nullable)
    found = _DECIMAL.fullmatch(source.type)
    if not found:
        return Typed("bigint", source.nullable)
    p, s = int(found[1]), int(found[2])
    return Typed(f"decimal({p - s + 1 if s else p},0)", source.nullable)


def _aggregate(function: str) -> _Rule:
    def rule(tree: Tree, columns: Mapping[str, Column]) -> Typed:
        argument = tree.this
        if isinstance(argument, exp.Distinct):
            argument = argument.expressions[0]
        given = None if argument is None or isinstance(argument, exp.Star) else infer(argument, columns)
        return aggregate_type(function, given, grouped=False)

    return rule


_RULES: dict[type[Any], _Rule] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Boolean: lambda tree, columns: Typed("boolean", False),
    exp.Null: lambda tree, columns: Typed(NULL),
    exp.Is: lambda tree, columns: Typed("boolean", False),
    exp.NullSafeEQ: lambda tree, columns: Typed("boolean", False),
    exp.Escape: lambda tree, columns: Typed("boolean", _any_nullable(tree, columns)),
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Case: _case,
    exp.If: _case,
    exp.Coalesce: _coalesce,
    exp.Greatest: _coalesce,
    exp.Least: _coalesce,
    exp.Paren: _same,
    exp.Neg: _number,
    exp.Abs: _number,
    exp.Alias: _same,
    exp.IgnoreNulls: _same,
    exp.RespectNulls: _same,
    exp.Filter: _same,
    exp.Window: lambda tree, columns: Typed(infer(tree.this, columns).type),
    exp.FirstValue: lambda tree, columns: Typed(infer(tree.this, columns).type),
    exp.LastValue: lambda tree, columns: Typed(infer(tree.this, columns).type),
    exp.First: lambda tree, columns: Typed(infer(tree.this, columns).type),
    exp.Last: lambda tree, columns: Typed(infer(tree.this, columns).type),
    exp.Lag: lambda tree, columns: Typed(infer(tree.this, columns).type),
    exp.Lead: lambda tree, columns: Typed(infer(tree.this, columns).type),
    exp.NthValue: lambda tree, columns: Typed(infer(tree.this, columns).type),
    exp.Nullif: lambda tree, columns: Typed(infer(tree.this, columns).type),
    exp.Round: _round,
    exp.Floor: _floor,
    exp.Ceil: _floor,
    exp.Interval: lambda tree, columns: Typed("interval", False),
    exp.Array: lambda tree, columns: Typed(_of("array", [tree.expressions], columns), False),
    exp.VarMap: lambda tree, columns: Typed(
        _of("map", [tree.args[part].expressions for part in ("keys", "values")], columns), False
    ),
    exp.Grouping: lambda tree, columns: Typed("tinyint", False),
    exp.Sum: _aggregate("sum"),
    exp.Avg: _aggregate("avg"),
    exp.Min: _aggregate("min"),
    exp.Max: _aggregate("max"),
    exp.Count: _aggregate("count"),
    exp.Stddev: _aggregate("stddev_samp"),
    exp.StddevSamp: _aggregate("stddev_samp"),
    exp.StddevPop: _aggregate("stddev_pop"),
    exp.Variance: _aggregate("var_samp"),
    exp.VariancePop: _aggregate("var_pop"),
    exp.AnyValue: _aggregate("any_value"),
    exp.ApproxDistinct: lambda tree, columns: Typed("bigint", False),
}
