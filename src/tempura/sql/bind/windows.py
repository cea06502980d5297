"""Window functions: one `Window` per PARTITION BY, over columns, with orders completed where ties would decide the answer.

row_number, ntile, lag, lead, the value functions and aggregates over ROWS frames depend on the order of rows that ORDER BY leaves equal.
Any order is a right answer, but a plan must give the same one whenever it computes it, so all other columns are added as
tie-breakers. rank, dense_rank, percent_rank, cume_dist and RANGE frames treat equal rows alike and stay as they are; so do last_value and
nth_value over a RANGE frame that ends at the current row, because completing the order would shrink their frame.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from tempura.algebra import Op, Window, WindowCall
from tempura.expr import Expr, column_tree, passes_nulls
from tempura.schema import Column, Keys, fresh, names, orderable
from tempura.sql.bind.grouping import core
from tempura.sql.bind.predicates import columns_of, detached, replaced
from tempura.sql.bind.projection import by_name, named_columns, narrowed, slug
from tempura.sql.bind.scope import Tree
from tempura.sql.bind.types import clauses, infer

_ORDERED = frozenset(["rownumber", "ntile", "lag", "lead"])
_FIRST = frozenset(["firstvalue", "first"])
_VALUES = frozenset(["lastvalue", "last", "nthvalue"])
_RANKS = frozenset(["rank", "denserank", "percentrank", "cumedist"])


def find_windows(tree: Tree) -> list[Tree]:
    return list(tree.find_all(exp.Window))


class Windowed:
    """The windows of a block's expressions over `op`, as columns."""

    def __init__(self, op: Op, trees: Sequence[Tree], hints: Sequence[tuple[Tree, str]], carried: Sequence[str]):
        windows: dict[str, Tree] = {}
        for tree in trees:
            for window in find_windows(tree):
                windows.setdefault(window.sql(dialect="spark"), window)
        op = narrowed(op, {*carried, *(c for tree in trees for c in columns_of(tree))})
        self._texts: dict[str, str] = {}
        op, calls = _columned(op, [(text, w.copy()) for text, w in windows.items()])
        input_columns, keys = list(op.schema), op.keys
        taken = set(names(op.schema))
        grouped: dict[tuple[str, ...], list[WindowCall]] = {}
        columns = by_name(op)
        for text, call in calls:
            alias = next((a for item, a in hints if a and item == windows[text]), "")
            name = self._texts[text] = fresh(alias or slug(core(call.this)), taken)
            taken.add(name)
            partition = list(dict.fromkeys([*carried, *(p.name for p in clauses(call, "partition_by"))]))
            call.set("partition_by", [column_tree(p) for p in partition])
            complete(call, input_columns, keys)
            kind = infer(call, columns)
            found = next((p for p in grouped if set(p) == set(partition)), tuple(partition))
            grouped.setdefault(found, []).append(WindowCall(Column(name, kind.type, kind.nullable), Expr(call)))
        for partition, members in grouped.items():
            op = Window(op, partition, tuple(members))
        self.op: Op = op

    def above(self, tree: Tree) -> Tree:
        """An expression over the columns that the windows give."""

        def column(part: Tree) -> Tree:
            return column_tree(self._texts[part.sql(dialect="spark")]) if isinstance(part, exp.Window) else None

        return replaced(detached(tree), column)


def _columned(op: Op, windows: Sequence[tuple[str, Tree]]) -> tuple[Op, list[tuple[str, Tree]]]:
    """`op` with columns for all that windows partition and order by, and the windows over these columns."""
    found: list[tuple[str, Tree]] = []
    for text, window in windows:
        for slot in [*(clauses(window, "partition_by")), *(o.this for o in orders(window))]:
            if not isinstance(slot, exp.Column):
                op, (name,) = named_columns(op, [(detached(slot), "")])
                slot.replace(column_tree(name))
        found.append((text, window))
    return op, found


def orders(window: Tree) -> list[Tree]:
    """The terms of a window's ORDER BY."""
    return window.args["order"].expressions if window.args.get("order") else []


def complete(window: Tree, columns: Sequence[Column], keys: Keys) -> None:
    """Add tie-breakers where the answer depends on the order of equal rows; where a key is given, no rows are equal."""
    function = type(core(window.this)).__name__.lower()
    spec = window.args.get("spec")
    given = orders(window)
    if function in _RANKS:
        return
    rows = spec is not None and str(spec.args.get("kind") or "").upper() == "ROWS"
    whole = (spec is None and not given) or (spec is not None and _whole(spec))
    if spec is not None and not rows and not all(_BOUND.fullmatch(str(spec.args.get(end))) for end in ("start", "end")):
        return  # Bounds by value allow for one term in ORDER BY only.
    starts = spec is None or str(spec.args.get("start")).upper() == "UNBOUNDED"
    passes = function in _VALUES | _FIRST and passes_nulls(window)
    if passes and not rows and not whole:
        return  # The frame has all that are equal in order to its last row, and may need them.
    if (function in _VALUES or passes) and whole and spec is None:
        window.set(
            "spec",
            exp.WindowSpec(
                kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end="UNBOUNDED", end_side="FOLLOWING"
            ),
        )
        rows = True
    depends = function in _ORDERED or (rows and not (whole and function not in _VALUES | _FIRST))
    if not (depends or (function in _FIRST and starts) or (function in _VALUES and whole)):
        return
    known = {o.this.name for o in given} | {p.name for p in clauses(window, "partition_by")}
    if any(key <= known for key in keys):
        return
    more = [
        exp.Ordered(this=column_tree(c.name), desc=False, nulls_first=True)
        for c in columns
        if c.name not in known and orderable(c.type)
    ]
    if more:
        window.set("order", exp.Order(expressions=[*given, *more]))


_BOUND = re.compile("unbounded|current row|none", re.IGNORECASE)


def _whole(spec: Tree) -> bool:
    return str(spec.args.get("start")).upper() == "UNBOUNDED" and str(spec.args.get("end")).upper() == "UNBOUNDED"
