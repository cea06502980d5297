"""One select block, resolved, and its tree.

The tree of a block, from below: the joins of FROM under WHERE, the aggregation, HAVING, the sub-queries of the select list, windows,
QUALIFY, the projection, DISTINCT, TopK.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from tempura.algebra import Aggregate, Filter, Op, Output, SortKey
from tempura.expr import Expr
from tempura.schema import Column, fresh, names
from tempura.sql.bind.grouping import Grouped, Groups, aggregates, has_grouping
from tempura.sql.bind.ordering import Key, Slice, top, top_of_each
from tempura.sql.bind.predicates import detached, predicate
from tempura.sql.bind.projection import by_name, computed, extended, narrowed, passed, projected, slug, unique_spellings
from tempura.sql.bind.scope import Scope, Shown, Tree, refuse
from tempura.sql.bind.sources import Bound
from tempura.sql.bind.subqueries import Sub, attach, has_subquery, restrict
from tempura.sql.bind.tables import JoinTree, Region
from tempura.sql.bind.windows import Windowed, find_windows
from tempura.volatile import volatile


@dataclass
class Item:
    """One column of the select list: its expression, the name it shows, and whether the user gave it that name."""

    tree: Tree
    spelling: str
    aliased: bool

    @property
    def hint(self) -> str:
        return self.spelling.lower() if self.aliased else ""


@dataclass
class Select:
    """A select block over internal names; building its tree uses it up."""

    scope: Scope
    region: Region
    where: list[Tree]
    items: list[Item]
    groups: Groups | None
    having: list[Tree]
    qualify: list[Tree]
    order: list[Key]
    slice: Slice
    distinct: bool
    subs: dict[str, Sub]
    window: Output | None
    """The window of time, which is computed above WHERE and below all else."""

    def expressions(self) -> list[Tree]:
        """All that is computed above FROM and WHERE, except what is grouped by."""
        return [
            *(i.tree for i in self.items),
            *self.having,
            *self.qualify,
            *(k.tree for k in self.order if k.tree is not None),
        ]

    @property
    def aggregated(self) -> bool:
        return self.groups is not None or any(next(aggregates(t), None) is not None for t in self.expressions())

    def trees(self) -> Iterable[Tree]:
        """Every expression of the block."""
        yield from self.where
        yield from self.region.trees()
        yield from self.expressions()
        if self.groups is not None:
            yield from self.groups.keys

    def joins(self) -> Op:
        """The tree of FROM and WHERE, and the window of time."""
        tree = JoinTree(self.region, has_subquery, lambda op, conjunct: restrict(op, conjunct.copy(), self.subs))
        return extended(tree.build(self.region, self.where), [self.window] if self.window is not None else [])

    def mapped(self, above: Callable[[Tree], Tree]) -> None:
        """Put what `above` makes of them in the place of all expressions above WHERE."""
        for item in self.items:
            item.tree = above(item.tree)
        self.having = [above(t) for t in self.having]
        self.qualify = [above(t) for t in self.qualify]
        self.order = [k.over(above(k.tree)) if k.tree is not None else k for k in self.order]

    def _hints(self) -> list[tuple[Tree, str]]:
        return [(i.tree, i.hint) for i in self.items]

    def aggregate(self, op: Op, carried: Sequence[str]) -> Grouped:
        """The aggregation over `op`, for each value of the carried columns; the block's expressions stand above it then."""
        for tree in self.expressions():
            for call in aggregates(tree):
                if has_subquery(call):
                    op, _ = attach(op, call, self.subs)
        grouped = Grouped(op, self.groups or Groups(), self._hints(), carried, self.expressions())
        self.mapped(grouped.above)
        return grouped

    def _kept(self, op: Op, conjuncts: Sequence[Tree]) -> Op:
        plain = [t for t in conjuncts if not has_subquery(t)]
        op = Filter(op, predicate(plain)) if plain else op
        for tree in conjuncts:
            if has_subquery(tree):
                op = restrict(op, tree, self.subs)
        return op

    def _attached(self, op: Op) -> Op:
        """`op` joined with the sub-queries of the select list and ORDER BY."""
        for holder in (*self.items, *(k for k in self.order if k.tree is not None)):
            tree = holder.tree
            if tree is not None and has_subquery(tree):
                op, holder.tree = attach(op, detached(tree), self.subs)
        return op

    def body(self, op: Op, carried: Sequence[str] = ()) -> Op:
        """All between WHERE and the projection."""
        if self.aggregated:
            op = self.aggregate(op, carried).op
            op = self._kept(op, self.having)
        elif any(has_grouping(t) for t in self.expressions()):
            refuse("grouping() and grouping_id() need GROUP BY", self.expressions()[0])
        op = self._attached(op)
        trees = [*(i.tree for i in self.items), *self.qualify, *(k.tree for k in self.order if k.tree is not None)]
        if any(find_windows(t) for t in trees):
            windowed = Windowed(op, trees, self._hints(), carried)
            self.mapped(windowed.above)
            op = windowed.op
        elif self.qualify:
            refuse("QUALIFY needs a window function", self.qualify[0], "use WHERE or HAVING")
        return self._kept(op, self.qualify)

    def bound(self, joined: Op | None = None, carried: Sequence[str] = ()) -> Bound:
        """The block as a sub-query: its columns under internal names, and those carried for correlation."""
        op = self.body(self.joins() if joined is None else joined, carried)
        outputs = self._internal_outputs(op, carried)
        return self._finished(op, outputs, carried, last=False)[0]

    def final(self) -> tuple[Bound, tuple[SortKey, ...]]:
        """The block as the whole query: its columns under the user's names."""
        op = self.body(self.joins())
        columns = by_name(op)
        spellings = unique_spellings(i.spelling for i in self.items)
        outputs = [computed(n, i.tree, columns) for n, i in zip(spellings, self.items, strict=True)]
        return self._finished(op, outputs, (), last=True)

    def _internal_outputs(self, op: Op, carried: Sequence[str]) -> list[Output]:
        columns = by_name(op)
        taken = {i.tree.name for i in self.items if isinstance(i.tree, exp.Column)} | set(carried)
        made: dict[Expr, Output] = {}
        outputs: list[Output] = []
        for item in self.items:
            if isinstance(item.tree, exp.Column):
                column = columns[item.tree.name]
                # A column under two names is two columns: CUBE may keep the one and drop the other.
                again = any(o.expr.name == column.name for o in outputs)
                name = fresh(column.name, taken | columns.keys()) if again else column.name
                taken.add(name)
                outputs.append(passed(column, name))
                continue
            tree = detached(item.tree)
            expr = Expr(tree)
            if expr not in made or volatile(expr):
                made[expr] = computed(fresh(item.hint or slug(tree), taken), tree, columns)
                taken.add(made[expr].name)
            outputs.append(made[expr])
        return outputs

    def _finished(
        self, op: Op, outputs: list[Output], carried: Sequence[str], *, last: bool
    ) -> tuple[Bound, tuple[SortKey, ...]]:
        """The projection, DISTINCT and TopK. Without LIMIT, ORDER BY counts in the `last` block only, where the tree has to sort by what it does not show."""
        shown = tuple(Shown(i.spelling, o.name) for i, o in zip(self.items, outputs, strict=True))
        columns = by_name(op)
        unique = list({o.name: o for o in (*outputs, *(passed(columns[c]) for c in carried))}.values())
        keys, hidden = self._sort_keys(columns, unique, outputs)
        cut = not self.slice.whole or (last and bool(hidden))
        op = projected(op, [*unique, *hidden] if cut and not self.distinct else unique)
        if self.distinct:
            op = Aggregate(op, names(op.schema), ())
            op = extended(op, hidden) if cut else op
        if cut:
            op = top_of_each(op, keys, self.slice, carried) if carried else top(op, keys, self.slice)
        return Bound(narrowed(op, [o.name for o in unique]), shown), tuple(keys)

    def _sort_keys(
        self, columns: dict[str, Column], unique: list[Output], outputs: list[Output]
    ) -> tuple[list[SortKey], list[Output]]:
        """The keys of ORDER BY as columns, and the columns that have to be added for them: with DISTINCT, above it and from what it shows."""
        shown = {o.expr.name: o.name for o in reversed(unique) if o.expr.name}
        by_expr = {o.expr: o.name for o in reversed(unique)}
        taken = {o.name.lower() for o in unique}
        hidden: dict[Expr, Output] = {}
        keys: list[SortKey] = []
        for key in self.order:
            if key.item is not None:
                name = outputs[key.item].name
            else:
                assert key.tree is not None
                expr = Expr(detached(key.tree))
                name = by_expr.get(expr)
                if name is None and self.distinct:
                    if not expr.columns <= shown.keys():
                        refuse(
                            "ORDER BY of SELECT DISTINCT must use columns of the select list",
                            key.tree,
                            "add the expression to the select list",
                        )
                    expr = expr.rename(shown)
                    columns = {o.name: o.column for o in unique}
                if name is None and expr in hidden:
                    name = hidden[expr].name
                if name is None:
                    name = fresh((expr.name or slug(expr.tree)).lower(), taken)
                    hidden[expr] = computed(name, expr.tree, columns)
                    taken.add(name)
            keys.append(SortKey(name, key.descending, key.nulls_first))
        return keys, list(hidden.values())
