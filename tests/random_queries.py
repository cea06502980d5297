"""Random queries in SQL over everything that can be bound, and random tables: with and without keys, growing, retracting, late, static, empty."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from hypothesis import strategies as st

from tempura.catalog import Catalog, Table
from tempura.optimizer import USUAL, Settings
from tempura.rules.lang import RuleSet
from tempura.rules.methods import METHODS
from tempura.schema import Column

T = TypeVar("T")
INT, TEXT, DECIMAL = "int", "string", "decimal(7,2)"
COLUMNS = {
    "a": (("x", INT), ("y", INT), ("z", TEXT)),
    "b": (("x", INT), ("w", DECIMAL)),
    "k": (("id", INT), ("x", INT), ("z", TEXT)),
    "m": (("id", INT), ("v", INT)),
}
KEYED = ("k", "m")
ARRIVALS: tuple[dict[str, float], ...] = (
    {"t1": 3, "t2": 2, "t3": 2},
    {"t1": 3, "t3": 2},
    {"t2": 2, "t3": 2},
    {"t1": 3},
    {},
)
PREDICATES = (
    "{0} = {1}", "{0} > {1}", "{0} IS NULL", "{0} IS NOT NULL AND {1} <> {0}", "{0} <> {1} OR {1} IS NULL", "COALESCE({0}, {1}) IS NULL", "NOT ({0} > {1})",
)  # fmt: skip
NUMBERS = ("{0} + {1}", "COALESCE({0}, {1})", "CASE WHEN {0} > {1} THEN {0} END", "-{0}", "{0}")
AGGREGATES = (
    "sum({0})", "count({0})", "count(*)", "min({0})", "max({0})", "avg({0})", "count(DISTINCT {0})", "sum(DISTINCT {0})",
    "sum({0}) FILTER (WHERE {0} > 1)", "var_pop({0})",
)  # fmt: skip
WINDOWS = (
    "row_number() OVER (PARTITION BY {1} ORDER BY {0})", "rank() OVER (PARTITION BY {1} ORDER BY {0} DESC)",
    "sum({0}) OVER (PARTITION BY {1})", "sum({0}) OVER (PARTITION BY {1} ORDER BY {0})", "max({0}) OVER ()", "lag({0}) OVER (PARTITION BY {1} ORDER BY {0})",
)  # fmt: skip


class Relation(NamedTuple):
    """What stands in FROM: its text, and its columns with their types."""

    text: str
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Case:
    """A query, its tables, and how to explore it."""

    query: str
    tables: Catalog
    method: RuleSet
    settings: Settings

    def __repr__(self) -> str:
        tables = [(t.name, dict(t.arrives), dict(t.retracts)) for t in self.tables.values()]
        return f"{self.query!r} over {tables} by {self.method.name} with {self.settings}"


@st.composite
def cases(draw: Any, depth: int = 3) -> Case:
    maker = _Maker(draw)
    body, _ = maker.query(depth)
    ctes = ", ".join(f"{name} AS ({text})" for name, (text, _) in maker.ctes.items())
    settings = draw(
        st.sampled_from([USUAL, USUAL, Settings(symmetry=False), Settings(pruning=False), Settings(guided=False)])
    )
    method = METHODS[draw(st.sampled_from(list(METHODS)))]
    return Case(f"WITH {ctes} {body}" if ctes else body, draw(tables()), method, settings)


@st.composite
def tables(draw: Any) -> Catalog:
    found: list[Table] = []
    for name, columns in COLUMNS.items():
        arrives = draw(st.sampled_from((ARRIVALS[0], *ARRIVALS)))
        retracts = {p: 0.2 for p in ("t2", "t3") if arrives and draw(st.integers(0, 2)) == 0}
        key = ("id",) if name in KEYED else ()
        found.append(Table(name, tuple(Column(c, kind, c not in key) for c, kind in columns), key, arrives, retracts))
    return Catalog(*found)


class _Maker:
    """Makes one query; sub-queries become derived tables or CTEs, and CTEs are used again."""

    def __init__(self, draw: Callable[[Any], Any]):
        self._draw = draw
        self.ctes: dict[str, tuple[str, tuple[str, ...]]] = {}
        self._aliases = 0

    def pick(self, options: Sequence[T]) -> T:
        return self._draw(st.sampled_from(options))

    def chance(self, of: int) -> bool:
        return self._draw(st.integers(0, of)) == of

    def query(self, depth: int) -> tuple[str, tuple[str, ...]]:
        """A SELECT with columns c0, c1, …, and their types."""
        kinds: list[Callable[[int], tuple[str, tuple[str, ...]]]] = [self.plain]
        if depth > 0:
            kinds += [self.plain, self.joined, self.joined, self.filtered, self.filtered, self.grouped, self.grouped]
            kinds += [self.grouping_sets, self.distinct, self.window, self.limited, self.set_operation, self.scalar]
        return self.pick(kinds)(depth)

    def source(self, depth: int, as_: str | None = None) -> Relation:
        """Something to read, under a new name; its columns are qualified by it."""
        self._aliases += 1
        alias = as_ or f"q{self._aliases}"
        if self.ctes and self.chance(3):
            name = self.pick(list(self.ctes))
            return _as(name, alias, [(f"c{i}", kind) for i, kind in enumerate(self.ctes[name][1])])
        if depth <= 0 or self.chance(1):
            name = self.pick(list(COLUMNS))
            return _as(name, alias, COLUMNS[name])
        text, kinds = self.query(depth - 1)
        columns = [(f"c{i}", kind) for i, kind in enumerate(kinds)]
        if self.chance(2):
            name = f"w{len(self.ctes)}"
            self.ctes[name] = (text, kinds)
            return _as(name, alias, columns)
        return _as(f"({text})", alias, columns)

    # Expressions.

    def column(self, columns: Sequence[tuple[str, str]]) -> str:
        return self.pick(columns)[0]

    def number(self, columns: Sequence[tuple[str, str]]) -> str:
        numbers = [c for c, kind in columns if kind != TEXT]
        return self.pick(numbers) if numbers else "1"

    def predicate(self, columns: Sequence[tuple[str, str]]) -> str:
        texts = [c for c, kind in columns if kind == TEXT]
        if texts and self.chance(2):
            return self.pick(PREDICATES).format(self.pick(texts), self.pick([*texts, "'a'"]))
        return self.pick(PREDICATES).format(self.number(columns), self.pick([self.number(columns), "1"]))

    def condition(self, left: Relation, right: Relation) -> str:
        """A join condition: usually an equality, sometimes with more, of both sides or of one, sometimes null-safe, sometimes none."""
        a, kind = self.pick(left.columns)
        alike = [c for c, other in right.columns if (other == TEXT) == (kind == TEXT)]
        if not alike or self.chance(7):
            return f"{self.number(left.columns)} < {self.number(right.columns)}"
        found = f"{a} {'<=>' if self.chance(5) else '='} {self.pick(alike)}"
        if self.chance(3):
            found += f" AND {self.number(left.columns)} < {self.number(right.columns)}"
        if self.chance(4):
            found += f" AND ({self.predicate(self.pick([left, right]).columns)})"
        return found

    def where(self, columns: Sequence[tuple[str, str]]) -> str:
        return f" WHERE {self.predicate(columns)}" if self.chance(2) else ""

    def select(self, columns: Sequence[tuple[str, str]]) -> tuple[str, tuple[str, ...]]:
        """Two or three columns of what is there, one of them computed now and then."""
        chosen = [self.pick(columns) for _ in range(self.pick([1, 2, 2, 3]))]
        if self.chance(3):
            chosen[0] = (self.pick(NUMBERS).format(self.number(columns), self.number(columns)), DECIMAL)
        return ", ".join(f"{text} AS c{i}" for i, (text, _) in enumerate(chosen)), tuple(kind for _, kind in chosen)

    def everything(self, columns: Sequence[tuple[str, str]]) -> tuple[str, tuple[str, ...]]:
        return ", ".join(f"{text} AS c{i}" for i, (text, _) in enumerate(columns)), tuple(kind for _, kind in columns)

    # Queries.

    def plain(self, depth: int) -> tuple[str, tuple[str, ...]]:
        source = self.source(depth - 1)
        selected, kinds = self.select(source.columns)
        return f"SELECT {selected} FROM {source.text}{self.where(source.columns)}", kinds

    def joined(self, depth: int) -> tuple[str, tuple[str, ...]]:
        found = self.source(depth - 1)
        for _ in range(self.pick([1, 1, 2])):
            other = self.source(depth - 2)
            kind = self.pick(["JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN"])
            on = "" if kind == "CROSS JOIN" else f" ON {self.condition(found, other)}"
            found = Relation(f"{found.text} {kind} {other.text}{on}", (*found.columns, *other.columns))
        selected, kinds = self.everything(found.columns) if self.chance(3) else self.select(found.columns)
        return f"SELECT {selected} FROM {found.text}{self.where(found.columns)}", kinds

    def filtered(self, depth: int) -> tuple[str, tuple[str, ...]]:
        source, other = self.source(depth - 1), self.source(depth - 2)
        selected, kinds = self.select(source.columns)
        condition = self.condition(source, other)
        no = self.pick(["", "NOT "])
        test = self.pick(
            [
                f"{no}EXISTS (SELECT 1 FROM {other.text} WHERE {condition})",
                f"{self.number(source.columns)} {no}IN (SELECT {self.number(other.columns)} FROM {other.text})",
                f"{self.number(source.columns)} {no}IN (SELECT {self.number(other.columns)} FROM {other.text} WHERE {condition})",
            ]
        )
        return f"SELECT {selected} FROM {source.text} WHERE {test}", kinds

    def grouped(self, depth: int) -> tuple[str, tuple[str, ...]]:
        source = self.source(depth - 1)
        by = [self.pick(source.columns)] if not self.chance(3) else []
        if by and self.chance(3):
            by = [(self.pick(NUMBERS[:3]).format(self.number(source.columns), self.number(source.columns)), DECIMAL)]
        calls = [self.pick(AGGREGATES).format(self.number(source.columns)) for _ in range(self.pick([1, 1, 2]))]
        columns = [*by, *((c, DECIMAL) for c in calls)]
        selected = ", ".join(f"{text} AS c{i}" for i, (text, _) in enumerate(columns))
        group = f" GROUP BY {by[0][0]}" if by else ""
        having = f" HAVING {self.pick(calls)} > 1" if self.chance(4) else ""
        return (
            f"SELECT {selected} FROM {source.text}{self.where(source.columns)}{group}{having}",
            tuple(kind for _, kind in columns),
        )

    def grouping_sets(self, depth: int) -> tuple[str, tuple[str, ...]]:
        source = self.source(depth - 1)
        (a, first), (b, second) = self.pick(source.columns), self.pick(source.columns)
        if a == b:
            return self.grouped(depth)
        group = self.pick([f"ROLLUP({a}, {b})", f"CUBE({a}, {b})", f"GROUPING SETS (({a}), ({b}), ())"])
        call = self.pick(AGGREGATES).format(self.number(source.columns))
        return f"SELECT {a} AS c0, {b} AS c1, {call} AS c2 FROM {source.text} GROUP BY {group}", (
            first,
            second,
            DECIMAL,
        )

    def distinct(self, depth: int) -> tuple[str, tuple[str, ...]]:
        source = self.source(depth - 1)
        selected, kinds = self.select(source.columns)
        return f"SELECT DISTINCT {selected} FROM {source.text}{self.where(source.columns)}", kinds

    def window(self, depth: int) -> tuple[str, tuple[str, ...]]:
        source = self.source(depth - 1)
        column, kind = self.pick(source.columns)
        call = self.pick(WINDOWS).format(self.number(source.columns), self.column(source.columns))
        return f"SELECT {column} AS c0, {call} AS c1 FROM {source.text}", (kind, INT)

    def limited(self, depth: int) -> tuple[str, tuple[str, ...]]:
        source = self.source(depth - 1)
        selected, kinds = self.select(source.columns)
        offset = " OFFSET 1" if self.chance(2) else ""
        return (
            f"SELECT {selected} FROM {source.text} ORDER BY c0{self.pick(['', ' DESC'])} LIMIT {self.pick([1, 2])}{offset}",
            kinds,
        )

    def set_operation(self, depth: int) -> tuple[str, tuple[str, ...]]:
        left, right = self.source(depth - 1), self.source(depth - 1)
        kind = self.pick(["UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"])
        a, b = self.number(left.columns), self.number(right.columns)
        return f"SELECT {a} AS c0 FROM {left.text} {kind} SELECT {b} AS c0 FROM {right.text}", (INT,)

    def scalar(self, depth: int) -> tuple[str, tuple[str, ...]]:
        source, other = self.source(depth - 1), self.source(0)
        column, kind = self.pick(source.columns)
        matching = f" WHERE {self.number(source.columns)} = {self.number(other.columns)}" if self.chance(1) else ""
        call = self.pick(["max({0})", "count(*)", "sum({0})"]).format(self.number(other.columns))
        return f"SELECT {column} AS c0, (SELECT {call} FROM {other.text}{matching}) AS c1 FROM {source.text}", (
            kind,
            DECIMAL,
        )


def _as(text: str, alias: str, columns: Sequence[tuple[str, str]]) -> Relation:
    return Relation(f"{text} AS {alias}", tuple((f"{alias}.{c}", kind) for c, kind in columns))
