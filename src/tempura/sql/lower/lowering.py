"""The lowering of one tree: its CTEs, its shared sub-trees, and the table of how each operator is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sqlglot import exp

from tempura.algebra import Op, Read, Scan
from tempura.errors import PlanError
from tempura.plans import Side, Spread
from tempura.schema import fresh
from tempura.sql.lower.block import Block, Closed, Relation, reading, render, with_needed_quotes

Writer = Callable[["Lowering", Any], Relation]
"""A function that writes one operator as SQL."""

Broadcasts = tuple[tuple[int, Side], ...]
"""Joins by their place in a tree's walk, and which side of each is copied to every core."""

LOWERINGS: dict[type[Op], Writer] = {}
"""How each operator is written as SQL, by its class; users may add their own."""


class Lowered(NamedTuple):
    """A whole query: its columns, and after them `__w` if it is weighted."""

    select: exp.Query
    weighted: bool
    columns: tuple[str, ...]


class Lowering:
    """The lowering of one tree: its CTEs so far, and which sub-trees occur more than once."""

    def __init__(
        self, tree: Op, dialect: str = "spark", broadcasts: Broadcasts = (), spreads: Sequence[Spread] = ()
    ) -> None:
        """`broadcasts` and `spreads` are as in a step; only Spark takes such hints."""
        self.dialect = dialect
        self._broadcasts: dict[int, Side] = {}
        if broadcasts and dialect == "spark":
            sides = dict(broadcasts)
            self._broadcasts = {id(op): sides[i] for i, op in enumerate(tree.walk()) if i in sides}
        self._spreads: dict[int, Spread] = {}
        if spreads and dialect == "spark":
            wanted = {spread.place: spread for spread in spreads}
            self._spreads = {id(op): wanted[i] for i, op in enumerate(tree.walk()) if i in wanted}
        self.ctes: dict[str, exp.Query] = {}
        self._numbers: dict[int, int] = {}
        self._by_key: dict[Any, int] = {}
        self._uses: list[int] = []
        self._shared: dict[int, tuple[str, tuple[str, ...], bool]] = {}
        self._taken: set[str] = set()
        self._uses[self._number(tree)] += 1

    def _number(self, op: Op) -> int:
        """A number that equal sub-trees have in common; each distinct operator counts once as a user of its inputs."""
        found = self._numbers.get(id(op))
        if found is None:
            inputs = tuple(self._number(i) for i in op.inputs)
            key = (type(op), op.payload, inputs)
            found = self._by_key.get(key)
            if found is None:
                found = self._by_key[key] = len(self._uses)
                self._uses.append(0)
                for i in inputs:
                    self._uses[i] += 1
                if isinstance(op, (Scan, Read)):
                    self._taken.add((op.table if isinstance(op, Scan) else op.name).lower())
            self._numbers[id(op)] = found
        return found

    def shared(self, op: Op) -> bool:
        """Whether the sub-tree occurs more than once (leaves do not count: a table is read by its name)."""
        return bool(op.inputs) and self._uses[self._number(op)] > 1

    def relation(self, op: Op) -> Relation:
        """The operator as SQL; a shared one is a CTE from its first use on."""
        if not self.shared(op):
            return self._lower(op)
        number = self._number(op)
        if number not in self._shared:
            closed = self.closed(self._lower(op))
            name = self.add_cte(closed.query, _cte_name(op))
            self._shared[number] = (name, closed.columns, closed.weighted)
        return reading(*self._shared[number])

    def broadcast(self, join: Op) -> Side | None:
        """The side of a join that is copied to every core."""
        return self._broadcasts.get(id(join))

    def spread(self, op: Op) -> Spread | None:
        """How the rows of a summand are to be brought together."""
        return self._spreads.get(id(op))

    def _lower(self, op: Op) -> Relation:
        function = LOWERINGS.get(type(op))
        if function is None:
            raise PlanError(
                f"there is no SQL for the operator {type(op).__name__}",
                hint="register a function for it in tempura.sql.lower.LOWERINGS",
            )
        relation = function(self, op)
        return replace(relation, name=_cte_name(op)) if isinstance(relation, Closed) else relation

    def block(self, op: Op) -> Block:
        """The operator as an open block."""
        return self.opened(self.relation(op))

    def opened(self, relation: Relation, name: str = "") -> Block:
        """A block that reads the relation: itself if it is open, else its CTE."""
        if isinstance(relation, Block):
            return relation
        return reading(
            self.add_cte(relation.query, name or relation.name or "part"), relation.columns, relation.weighted
        )

    def closed(self, relation: Relation) -> Closed:
        if isinstance(relation, Closed):
            return relation
        return Closed(render(relation), tuple(relation.columns), relation.weighted)

    def reopened(self, relation: Relation, name: str = "") -> Block:
        """A block whose columns are nothing but columns of one CTE or table."""
        if (
            isinstance(relation, Block)
            and relation.plain
            and len(relation.sources) == 1
            and not relation.where
            and not relation.laterals
        ):
            return relation
        return self.opened(self.closed(relation), name)

    def groupable(self, relation: Relation, columns: tuple[str, ...] | None = None) -> Block:
        """A block by whose columns one can group: constants would be taken for positions."""
        block = self.opened(relation)
        wanted = [block.columns[c] for c in (block.columns if columns is None else columns)]
        return block if all(w.find(exp.Column) for w in wanted) else self.reopened(block)

    def add_cte(self, query: exp.Query, name: str) -> str:
        """Names the query; never with the name of a table that the tree reads, which it would hide."""
        chosen = fresh(name, self._taken)
        self._taken.add(chosen)
        self.ctes[chosen] = query
        return chosen

    def finish(self, relation: Relation) -> Lowered:
        """The relation as a whole query with the CTEs that it needs."""
        closed = self.closed(relation)
        query = closed.query.copy()
        if self.ctes:
            query.set("with_", exp.With(expressions=[cte(n, q) for n, q in self.ctes.items()]))
        return Lowered(with_needed_quotes(query), closed.weighted, closed.columns)


def cte(name: str, query: exp.Query) -> exp.CTE:
    return exp.CTE(this=query.copy(), alias=exp.TableAlias(this=exp.Identifier(this=name)))


def _cte_name(op: Op) -> str:
    name = {"Minus": "difference", "Plus": "united", "TopK": "top", "Window": "windowed"}.get(
        type(op).__name__, type(op).__name__
    )
    return "".join("_" + c.lower() if c.isupper() and i else c.lower() for i, c in enumerate(name))
