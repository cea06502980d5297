"""Scalar expressions: sqlglot trees over unqualified, quoted column names, interned by their Spark SQL text.

An expression is passed through as the user wrote it; Tempura only asks which columns it reads, renames or replaces them,
splits conjunctions and join conditions, and knows what may fail and which predicates reject NULLs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, ClassVar, NamedTuple

from sqlglot import exp
from sqlglot.expressions.core import Expression

from tempura.sqltext import read_expression

DIALECT = "spark"


class Expr:
    """A scalar expression. Two expressions with the same text are the same object."""

    __slots__ = ("columns", "name", "text", "tree")
    _interned: ClassVar[dict[str, Expr]] = {}

    text: str
    tree: Expression
    columns: frozenset[str]
    name: str | None
    """The column this expression is, if it is nothing but a column."""

    def __new__(cls, tree: Any) -> Expr:
        text = tree.sql(dialect=DIALECT, comments=False)
        known = cls._interned.get(text)
        if known is None:
            known = super().__new__(cls)
            known.text = text
            known.tree = tree
            known.name = tree.name if isinstance(tree, exp.Column) else None
            known.columns = frozenset(c.name for c in tree.find_all(exp.Column))
            cls._interned[text] = known
        return known

    def __repr__(self) -> str:
        return self.text.replace("`", "")

    def __lt__(self, other: Expr) -> bool:
        return self.text < other.text

    def rename(self, mapping: Mapping[str, str]) -> Expr:
        """The same expression over renamed columns."""
        if not any(mapping.get(c, c) != c for c in self.columns):
            return self
        return self.substitute({old: col(new) for old, new in mapping.items()})

    def substitute(self, mapping: Mapping[str, Expr]) -> Expr:
        """The expression with columns replaced by expressions, all at once."""
        if not self.columns & mapping.keys():
            return self

        def replace(node: Any) -> Any:
            if isinstance(node, exp.Column) and node.name in mapping:
                return standing_in(mapping[node.name].tree.copy(), node.parent)
            return node

        return Expr(self.tree.copy().transform(replace))


def is_operand(tree: Any) -> bool:
    """Whether a tree can stand beside any operator without parentheses. AND, OR and RLIKE count as functions there, and cannot."""
    if isinstance(tree, exp.Func):
        return not isinstance(tree, exp.Binary)
    return isinstance(tree, (exp.Column, exp.Literal, exp.Null, exp.Paren, exp.Boolean))


_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod)
_ARITHMETIC_NAMED = ("try_add", "try_subtract", "try_multiply", "try_divide", "try_mod", "mod", "pmod", "div")


def standing_in(tree: Any, parent: Any) -> Any:
    """The tree in the place of a column: in parentheses where it needs them. A whole number says its type in arithmetic, since beside a decimal Spark gives a literal the digits that it has."""
    number = tree.this if isinstance(tree, exp.Neg) else tree
    if _is_arithmetic(parent) and isinstance(number, exp.Literal) and number.is_int:
        kinds = {"int": 2**31, "bigint": 2**63}
        kind = next((kind for kind, above in kinds.items() if int(number.name) < above), None)
        if kind is not None:  # Larger ones are decimals with the digits that they have.
            return exp.cast(tree, kind, copy=False)
    return tree if is_operand(tree) else exp.Paren(this=tree)


def _is_arithmetic(parent: Any) -> bool:
    while isinstance(parent, (exp.Paren, exp.Neg)):
        parent = parent.parent
    named = isinstance(parent, exp.Anonymous) and parent.name.lower() in _ARITHMETIC_NAMED
    return named or isinstance(parent, _ARITHMETIC)


def comparand(tree: Any) -> Any:
    """The tree as one side of a comparison: another comparison, or what connects some, in parentheses."""
    return exp.Paren(this=tree) if isinstance(tree, (exp.Predicate, exp.Connector, exp.Not)) else tree


def column_tree(name: str) -> exp.Column:
    return exp.Column(this=exp.Identifier(this=name, quoted=True))


_columns: dict[str, Expr] = {}


def col(name: str) -> Expr:
    """The column `name`."""
    found = _columns.get(name)
    if found is None:
        found = _columns[name] = Expr(column_tree(name))
    return found


@cache
def parse(text: str) -> Expr:
    """The expression written as Spark SQL over bare column names (for tests and rule authors)."""
    tree = read_expression(text)
    for c in list(tree.find_all(exp.Column)):
        c.this.set("quoted", True)
    return Expr(tree)


TRUE = Expr(exp.Boolean(this=True))


@cache
def conjuncts(predicate: Expr) -> tuple[Expr, ...]:
    """The predicates whose conjunction `predicate` is; none for TRUE."""
    if predicate is TRUE:
        return ()
    tree = predicate.tree
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if not isinstance(tree, exp.And):
        return (predicate,)
    return tuple(Expr(part.unnest()) for part in tree.flatten())


def conjunction(parts: Iterable[Expr]) -> Expr:
    """The conjunction of predicates, in a canonical order, so that equal conjunctions are the same expression.

    What may raise an error comes last: Spark asks from left to right, and `y <> 0 AND 10 / y > 2` must not divide by zero.
    """
    return _conjunction(frozenset(p for part in parts for p in conjuncts(part)))


@cache
def _conjunction(parts: frozenset[Expr]) -> Expr:
    unique = sorted(parts, key=lambda part: (may_fail(part), part))
    if not unique:
        return TRUE
    if len(unique) == 1:
        return unique[0]
    return Expr(exp.and_(*(p.tree for p in unique), copy=True))


def _divides_safely(node: Any, numbers: frozenset[str]) -> bool:
    """Whether numbers are divided by one that is not zero."""
    by = node.expression.unnest()
    divided = {c.name for c in node.this.find_all(exp.Column)}
    return isinstance(by, exp.Literal) and not by.is_string and float(by.name) != 0 and divided <= numbers


@cache
def may_fail(expr: Expr, numbers: frozenset[str] = frozenset()) -> bool:
    """Whether evaluating an expression may raise an error; the cast of a literal, or of one of the `numbers`, is taken to be right, and sums and products not to overflow."""
    found = expr.tree.find_all(exp.Div, exp.IntDiv, exp.Mod, exp.Bracket, exp.Anonymous, exp.Cast)
    return not all(
        _divides_safely(node, numbers)
        if isinstance(node, exp.Binary)
        else isinstance(node, exp.Cast) and (isinstance(node.this, exp.Literal) or node.this.name in numbers)
        for node in found
    )


@cache
def folded(predicate: Expr) -> Expr:
    """The predicate with what compares two texts or two whole numbers decided: `'s' = 'w' OR year = 2001` is `year = 2001`."""
    return Expr(_folded(predicate.tree))


def _folded(tree: Any) -> Any:
    if isinstance(tree, exp.Paren):
        inner = _folded(tree.this)
        return inner if isinstance(inner, exp.Boolean) else exp.Paren(this=inner)
    if isinstance(tree, exp.EQ) and (same := _same(tree.this, tree.expression)) is not None:
        return exp.Boolean(this=same)
    if not isinstance(tree, exp.Connector):
        return tree.copy()
    decides = isinstance(tree, exp.Or)
    sides = [_folded(side) for side in (tree.left, tree.right)]
    if any(isinstance(s, exp.Boolean) and s.this is decides for s in sides):
        return exp.Boolean(this=decides)
    left, *others = [s for s in sides if not isinstance(s, exp.Boolean)] or [exp.Boolean(this=not decides)]
    return type(tree)(this=left, expression=others[0]) if others else left


def _same(a: Any, b: Any) -> bool | None:
    """Whether two literals are equal; None where types would have to be reconciled first."""
    if not (isinstance(a, exp.Literal) and isinstance(b, exp.Literal)) or a.is_string != b.is_string:
        return None
    if a.is_string:
        return bool(a.this == b.this)
    return int(a.this) == int(b.this) if a.is_int and b.is_int else None


class EquiKey(NamedTuple):
    """One equality of a join condition: an expression over the left columns and one over the right."""

    left: Expr
    right: Expr
    null_safe: bool


class JoinCondition(NamedTuple):
    """A join condition split into equalities between the sides and the rest."""

    equi: tuple[EquiKey, ...]
    residual: Expr


_conditions: dict[tuple[Expr, frozenset[str], frozenset[str]], JoinCondition] = {}


def split_condition(on: Expr, left: Iterable[str], right: Iterable[str]) -> JoinCondition:
    """The equalities between the two sides in `on`, and the conjunction of all else."""
    lefts, rights = frozenset(left), frozenset(right)
    found = _conditions.get((on, lefts, rights))
    if found is not None:
        return found
    equi: list[EquiKey] = []
    rest: list[Expr] = []
    for part in conjuncts(on):
        key = _equi_key(part, lefts, rights)
        if key is None:
            rest.append(part)
        else:
            equi.append(key)
    found = _conditions[on, lefts, rights] = JoinCondition(tuple(equi), conjunction(rest))
    return found


def _equi_key(part: Expr, lefts: frozenset[str], rights: frozenset[str]) -> EquiKey | None:
    tree = part.tree
    if not isinstance(tree, (exp.EQ, exp.NullSafeEQ)):
        return None
    a, b = Expr(tree.this.unnest()), Expr(tree.expression.unnest())
    safe = isinstance(tree, exp.NullSafeEQ)
    if a.columns and b.columns:
        if a.columns <= lefts and b.columns <= rights:
            return EquiKey(a, b, safe)
        if a.columns <= rights and b.columns <= lefts:
            return EquiKey(b, a, safe)
    return None


@cache
def equality(left: Expr, right: Expr, null_safe: bool = False) -> Expr:
    kind = exp.NullSafeEQ if null_safe else exp.EQ
    return Expr(kind(this=comparand(left.tree.copy()), expression=comparand(right.tree.copy())))


def same_columns(left: Iterable[str], right: Iterable[str]) -> Expr:
    """Null-safe equality of the columns, pairwise: how groups, partitions and whole rows are compared."""
    return conjunction(equality(col(a), col(b), null_safe=True) for a, b in zip(left, right, strict=True))


def passes_nulls(window: Any) -> bool:
    """Whether the first or last value of a window passes over NULLs, so that more rows of its frame count than one."""
    call = window.this
    while isinstance(call, exp.Filter):
        call = call.this
    return isinstance(call, exp.IgnoreNulls) or any(isinstance(e, exp.Boolean) and e.this for e in call.expressions)


_STRICT = (exp.Binary, exp.Neg, exp.Paren, exp.Column, exp.Literal, exp.Cast, exp.Not, exp.Between, exp.Like)
_NOT_STRICT = (exp.And, exp.Or, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Is)


def rejects_nulls(predicate: Expr, columns: Iterable[str]) -> bool:
    """Whether the predicate cannot be true when all of `columns` are NULL (safe to say no)."""
    return _rejects(predicate.tree, frozenset(columns))


def _rejects(tree: Any, columns: frozenset[str]) -> bool:
    match tree:
        case exp.Paren():
            return _rejects(tree.this, columns)
        case exp.And():
            return _rejects(tree.left, columns) or _rejects(tree.right, columns)
        case exp.Or():
            return _rejects(tree.left, columns) and _rejects(tree.right, columns)
        case exp.Not(this=exp.Is(this=subject, expression=exp.Null())):
            return _null_when(subject, columns)
        case exp.In():
            return _null_when(tree.this, columns)
        case exp.Between():
            return any(_null_when(child, columns) for child in tree.iter_expressions())
        case _:
            return _null_when(tree, columns)


def _null_when(tree: Any, columns: frozenset[str]) -> bool:
    """Whether the expression is surely NULL when all of `columns` are."""
    if isinstance(tree, exp.Column):
        return tree.name in columns
    if isinstance(tree, exp.Between):
        # With a NULL bound it may still be false, and its negation true: not (5 between NULL and 3).
        return _null_when(tree.this, columns)
    if isinstance(tree, _NOT_STRICT) or not isinstance(tree, _STRICT):
        return False
    return any(_null_when(child, columns) for child in tree.iter_expressions())
