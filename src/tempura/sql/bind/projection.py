"""Building projections, names for computed columns, and right inputs whose names do not clash with the left's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from sqlglot import exp

from tempura.algebra import Op, Output, Project, Scan
from tempura.expr import Expr, col
from tempura.schema import Column, fresh, names
from tempura.sql.bind.scope import Tree
from tempura.sql.bind.types import infer
from tempura.volatile import volatile


def by_name(op: Op) -> dict[str, Column]:
    return {c.name: c for c in op.schema}


def slug(tree: Tree) -> str:
    """A name that says what an expression is: `sum_price` for sum(price)."""
    text = re.sub(r"[^a-z0-9]+", "_", tree.sql(dialect="spark").lower()).strip("_")[:40].rstrip("_")
    return text if text and not text[0].isdigit() else f"c_{text}".rstrip("_")


def passed(column: Column, name: str | None = None) -> Output:
    """A column as it is, or under another name."""
    return Output(column if name is None else column._replace(name=name), col(column.name))


def computed(name: str, tree: Tree, columns: Mapping[str, Column]) -> Output:
    kind = infer(tree, columns)
    return Output(Column(name, kind.type, kind.nullable), Expr(tree))


def narrowed(op: Op, wanted: Iterable[str]) -> Op:
    """The wanted columns of `op`, in its order."""
    keep = set(wanted)
    kept = [c for c in op.schema if c.name in keep]
    return op if len(kept) == len(op.schema) or not kept else project(op, [passed(c) for c in kept])


def project(op: Op, outputs: Sequence[Output]) -> Op:
    """The projection; over another one that is not a table's own, both in one, unless that would compute something twice, or draw it twice."""
    if not isinstance(op, Project) or isinstance(op.input, Scan):
        return Project(op, tuple(outputs))
    inner = {o.name: o.expr for o in op.outputs}
    used = [c for o in outputs for c in o.expr.columns]
    if any((used.count(c) > 1 and not inner[c].name) or volatile(inner[c]) for c in set(used)):
        return Project(op, tuple(outputs))
    return Project(op.input, tuple(Output(o.column, o.expr.substitute(inner)) for o in outputs))


def extended(op: Op, outputs: Sequence[Output]) -> Op:
    """All columns of `op` and some computed ones."""
    return project(op, [*(passed(c) for c in op.schema), *outputs]) if outputs else op


def named_columns(op: Op, trees: Sequence[tuple[Tree, str]], also: Iterable[str] = ()) -> tuple[Op, list[str]]:
    """`op` with a column for each expression, named as hinted and unlike those that are `also` there; expressions that are columns already stay as they are."""
    taken, columns = {*names(op.schema), *also}, by_name(op)
    made: dict[Expr, str] = {}
    outputs: list[Output] = []
    found: list[str] = []
    for tree, hint in trees:
        if isinstance(tree, exp.Column):
            found.append(tree.name)
            continue
        output = computed(fresh(hint or slug(tree), taken), tree, columns)
        if output.expr not in made:
            made[output.expr] = output.name
            taken.add(output.name)
            outputs.append(output)
        found.append(made[output.expr])
    return extended(op, outputs), found


def apart(right: Op, left: Op, also: Iterable[str] = ()) -> tuple[Op, dict[str, str]]:
    """`right` with the names that `left` has too made fresh, and what each of its columns is called then."""
    taken = {*names(left.schema), *also}
    called: dict[str, str] = {}
    for column in right.schema:
        called[column.name] = fresh(
            column.name, taken | (set(names(right.schema)) - {column.name} if column.name in taken else set())
        )
        taken.add(called[column.name])
    if all(old == new for old, new in called.items()):
        return right, called
    return project(right, [passed(c, called[c.name]) for c in right.schema]), called


def projected(op: Op, outputs: Sequence[Output]) -> Op:
    """The outputs as a projection, unless `op` has just these columns already."""
    same = [o.expr.name for o in outputs] == [o.name for o in outputs] == list(names(op.schema))
    return op if same else project(op, outputs)


def unique_spellings(spellings: Iterable[str]) -> list[str]:
    """The users' names for columns, made different where they are equal but for case, as a table would require."""
    taken: set[str] = set()
    found: list[str] = []
    for spelling in spellings:
        name = spelling + fresh(spelling.lower(), taken)[len(spelling.lower()) :]
        taken.add(name.lower())
        found.append(name)
    return found
