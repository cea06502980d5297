"""The relational laws one by one, each an equation between an operator and an equal one.

A law is a function from an operator to an equal one with the same columns in the same order, or None where it does not hold or changes
nothing. It says at which operators it may apply, and which of their inputs it takes apart (`over`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlglot import exp

from tempura.algebra import (
    Aggregate,
    AntiJoin,
    Empty,
    Expand,
    Filter,
    InnerJoin,
    LeftOuterJoin,
    Op,
    Output,
    Plus,
    Project,
    Replicate,
    Scan,
    SemiJoin,
    TopK,
    Window,
)
from tempura.algebra.empties import prune
from tempura.expr import TRUE, Expr, col, conjunction, conjuncts, folded
from tempura.rules.pruning import chosen, narrowed, plain
from tempura.schema import UNKNOWN, Schema, names
from tempura.volatile import volatile


@dataclass(frozen=True, eq=False)
class Law:
    """A law by name. Called with an operator, it gives an equal one or None."""

    name: str
    statement: str
    at: tuple[type[Op], ...]
    over: tuple[type[Op], ...]
    """It takes apart inputs of these classes, and needs one; none: it leaves its inputs as they are."""
    depth: int
    """How many operators deep it takes them apart."""
    function: Callable[[Any], Op | None]

    def __call__(self, op: Op) -> Op | None:
        if not isinstance(op, self.at) or (self.over and not any(isinstance(i, self.over) for i in op.inputs)):
            return None
        return self.function(op)

    def __repr__(self) -> str:
        return self.name


def law(*at: type[Op], over: tuple[type[Op], ...] = (), depth: int = 1) -> Callable[[Callable[[Any], Op | None]], Law]:
    """Declare a law at operators of some classes, over inputs of some classes."""
    return lambda function: Law(function.__name__, function.__doc__ or "", at, over, depth, function)


# Predicates. Expressions are dear to build (their text is printed), so what is taken apart and put together again is remembered.


@cache
def parts(predicate: Expr) -> tuple[Expr, ...]:
    """The conjuncts of a predicate, however nested."""
    found = conjuncts(predicate)
    return found if len(found) < 2 else tuple(p for part in found for p in parts(part))


_conjunctions: dict[frozenset[Expr], Expr] = {}


def all_of(predicates: Iterable[Expr]) -> Expr:
    """The conjunction."""
    given = frozenset(predicates) - {TRUE}
    found = _conjunctions.get(given)
    if found is None:
        found = _conjunctions[given] = conjunction(given)
    return found


def any_of(predicates: Iterable[Expr]) -> Expr:
    """The disjunction, in a canonical order."""
    first, *others = sorted(set(predicates))
    return Expr(exp.or_(first.tree, *(p.tree for p in others), copy=True)) if others else first


@cache
def never_true(predicate: Expr) -> bool:
    tree = predicate.tree
    return isinstance(tree, exp.Null) or (isinstance(tree, exp.Boolean) and not tree.this)


def filtered(op: Any, predicates: Iterable[Expr]) -> Any:
    """The rows of `op` for which all the predicates are true."""
    predicate = all_of(predicates)
    return op if predicate is TRUE else Filter(op, predicate)


def movable(predicates: Iterable[Expr], columns: Iterable[str]) -> tuple[list[Expr], list[Expr]]:
    """The predicates that read only `columns` and are deterministic, and the others."""
    allowed = frozenset(columns)
    go: list[Expr] = []
    stay: list[Expr] = []
    for part in predicates:
        (go if part.columns <= allowed and not volatile(part) else stay).append(part)
    return go, stay


def columns_of(op: Any) -> frozenset[str]:
    return frozenset(names(op.schema))


def all_columns(schema: Schema) -> tuple[Output, ...]:
    return tuple(Output(c, col(c.name)) for c in schema)


def _with_columns_of(op: Op, new: Op) -> Op | None:
    """`new`, if its columns have the names and types of those of `op`."""
    same = [(c.name, c.type) for c in op.schema] == [(c.name, c.type) for c in new.schema]
    return new if same else None


# Filters on their way down.


@law(Filter, over=(Filter,))
def merged_filters(op: Filter) -> Op | None:
    """σp(σq(X)) = σ(p ∧ q)(X).

    Not if p or q is volatile: rand() < 0.5 twice is one conjunct of a conjunction, and keeps a half of the rows rather than a quarter.
    """
    inner = op.inputs[0]
    if volatile(op.predicate) or volatile(inner.predicate):
        return None
    return filtered(inner.input, (*parts(op.predicate), *parts(inner.predicate)))


@law(Filter, over=(Project,))
def filter_below_project(op: Filter) -> Op | None:
    """σp(π(X)) = π(σp'(X)), where p' has the projection's expressions in place of its columns.

    Not if the projection has volatile expressions: of x = rand(), σ(x < 0.5) keeps rows whose x is below 0.5; below the projection
    it would throw the dice anew, and a row could keep an x of 0.9.
    """
    project = op.inputs[0]
    if any(volatile(o.expr) for o in project.outputs):
        return None
    go, stay = movable(parts(op.predicate), columns_of(project))
    if not go:
        return None
    given = {o.name: o.expr for o in project.outputs if o.expr.name != o.name}
    below = filtered(project.input, (q for p in go for q in parts(folded(p.substitute(given)))))
    return filtered(Project(below, project.outputs), stay)


@law(Filter, over=(InnerJoin,))
def filter_into_inner_join(op: Filter) -> Op | None:
    """σp(L ⋈ R) = σ(pL)(L) ⋈ σ(pR)(R) on the rest, for the conjuncts pL and pR that read one side only.

    A volatile conjunct stays above, where it is drawn once for each pair: with L = {1}, R = {1, 1}, σ(rand() < 0.5) may keep one of the two pairs;
    on L it keeps both or none.
    """
    join = op.inputs[0]
    left, right = join.inputs
    to_left, rest = movable(parts(op.predicate), columns_of(left))
    to_right, rest = movable(rest, columns_of(right))
    to_both, stay = movable(rest, columns_of(join))
    if not (to_left or to_right or to_both):
        return None
    on = all_of((*parts(join.on), *to_both)) if to_both else join.on
    return filtered(InnerJoin(filtered(left, to_left), filtered(right, to_right), on), stay)


@law(InnerJoin, SemiJoin, LeftOuterJoin, AntiJoin)
def one_sided_condition(op: Any) -> Op | None:
    """L ⋈ R on p ∧ pL ∧ pR = σ(pL)(L) ⋈ σ(pR)(R) on p; likewise ⋉. For ⟕ and ▷ only the right side's conjuncts move.

    A row of L that fails pL has no partner: ⟕ and ▷ must still give it. L = {1}, R = {1}, on l = r and l > 5: L ⟕ R is (1, NULL), not empty.
    """
    left, right = op.inputs
    to_left: list[Expr] = []
    rest = list(parts(op.on))
    if isinstance(op, (InnerJoin, SemiJoin)):
        to_left, rest = movable(rest, columns_of(left))
    to_right, stay = movable(rest, columns_of(right))
    if not (to_left or to_right):
        return None
    return type(op)(filtered(left, to_left), filtered(right, to_right), all_of(stay))


@law(Filter, over=(LeftOuterJoin, SemiJoin, AntiJoin))
def filter_into_left_side(op: Filter) -> Op | None:
    """σp(L ⟕ R) = σp(L) ⟕ R if p reads only L; likewise ⋉ and ▷.

    Not for p that reads R: L = {1}, R = {1}, σ(r IS NULL)(L ⟕ R) is empty, L ⟕ σ(r IS NULL)(R) is (1, NULL).
    """
    join = op.inputs[0]
    left, right = join.inputs
    go, stay = movable(parts(op.predicate), columns_of(left))
    return filtered(type(join)(filtered(left, go), right, join.on), stay) if go else None


@law(Filter, over=(Aggregate,))
def filter_below_aggregate(op: Filter) -> Op | None:
    """σp(γ(X)) = γ(σp(X)) if p reads only grouping columns: it keeps or drops whole groups.

    Not without grouping columns, where there is a row even for no input: σ(FALSE)(γ count(*)(X)) is empty, γ count(*)(σ(FALSE)(X)) is (0).
    """
    aggregate = op.inputs[0]
    go, stay = movable(parts(op.predicate), aggregate.by) if aggregate.by else ([], [])
    return filtered(aggregate.over([filtered(aggregate.input, go)]), stay) if go else None


@law(Filter, over=(Window,))
def filter_below_window(op: Filter) -> Op | None:
    """σp(W(X)) = W(σp(X)) if p reads only partition columns: it keeps or drops whole partitions.

    Not for other columns: of X = {1, 2} with row_number() in order, σ(x = 2) is (2, number 2); the window of σ(x = 2)(X) gives number 1.
    """
    window = op.inputs[0]
    go, stay = movable(parts(op.predicate), window.partition)
    return filtered(window.over([filtered(window.input, go)]), stay) if go else None


@law(Filter, over=(Plus,))
def filter_below_plus(op: Filter) -> Op | None:
    """σp(X + Y) = σp(X) + σp(Y), of columns that have one type in all of them.

    Not of others: over a date and a timestamp a text is compared with a timestamp, below with a date.
    """
    union = op.inputs[0]
    kinds: dict[str, set[str]] = {}
    for column in (c for i in union.inputs for c in i.schema):
        kinds.setdefault(column.name, set()).add(column.type)
    alike = {name for name, found in kinds.items() if len(found) == 1 and UNKNOWN not in found}
    go, stay = movable(parts(op.predicate), columns_of(union) & alike)
    return filtered(union.over([filtered(i, go) for i in union.inputs]), stay) if go else None


@law(Filter, over=(Expand,))
def filter_below_expand(op: Filter) -> Op | None:
    """σp(Expand(X)) = Expand(σp(X)) if p reads only columns that no grouping set makes NULL.

    Not for others: X = {1} with the sets (x) and (), σ(x IS NULL) keeps the row of (); below, it keeps none.
    """
    expand = op.inputs[0]
    made_null = {c for c in expand.columns if not all(c in s for s in expand.sets)}
    go, stay = movable(parts(op.predicate), columns_of(expand.inputs[0]) - made_null)
    return filtered(expand.over([filtered(expand.input, go)]), stay) if go else None


@law(Filter, over=(Replicate,))
def filter_below_replicate(op: Filter) -> Op | None:
    """σp(Replicate(X)) = Replicate(σp(X)): the copies of a row pass or fail together."""
    replicate = op.inputs[0]
    if volatile(replicate.count):
        return None
    go, stay = movable(parts(op.predicate), columns_of(replicate))
    return filtered(replicate.over([filtered(replicate.input, go)]), stay) if go else None


# What is idle.


@law(Filter)
def trivial_filter(op: Filter) -> Op | None:
    """σ(TRUE)(X) = X; σ(FALSE)(X) and σ(NULL)(X) are empty. TRUE among other conjuncts is left out."""
    found = parts(op.predicate)
    if any(never_true(p) for p in found):
        return Empty(op.schema)
    if not found:
        return op.inputs[0]
    if "TRUE" not in op.predicate.text or all_of(found) is op.predicate:
        return None
    return filtered(op.input, found)


@law(
    Filter, Project, Expand, Replicate, InnerJoin, LeftOuterJoin, SemiJoin, AntiJoin, Aggregate, Window, TopK, Plus
)  # fmt: skip
def empty_inputs(op: Op) -> Op | None:
    """An operator over inputs without rows is empty, or the input that has some; γ without grouping columns still has its row."""
    inputs = op.inputs
    empty = [isinstance(i, Empty) for i in inputs]
    left = prune(type(op), op.payload, empty) if any(empty) else None
    if left is None:
        return None
    if not left:
        return Empty(op.schema)
    return _with_columns_of(op, inputs[left[0]] if len(left) == 1 else op.over([inputs[i] for i in left]))


@law(Project, over=(Project,))
def merged_projects(op: Project) -> Op | None:
    """π(π'(X)) = π''(X), with the inner expressions in place of the columns that the outer ones read.

    Not if an inner expression is volatile, or is computed and then read more than once: it would be computed again (and, of rand(), differ: x - x is
    0, rand() - rand() is not). A plain projection of a base table stays apart from what is computed on it: it says which columns are fetched.
    """
    inner: Any = op.inputs[0]
    if isinstance(inner.inputs[0], Scan) and plain(inner) and not plain(op):
        return None
    given = {o.name: o.expr for o in inner.outputs}
    computed = {n for n, e in given.items() if e.name is None and e.columns}
    read: set[str] = set()
    for output in op.outputs:
        found = [c.name for c in output.expr.tree.find_all(exp.Column)] if output.expr.columns & computed else ()
        for name in found:
            if name in computed and name in read:
                return None
            read.add(name)
    if any(volatile(e) for e in given.values()):
        return None
    changed = {n: e for n, e in given.items() if e.name != n}
    outputs = tuple(
        Output(o.column, given[o.expr.name] if o.expr.name else o.expr.substitute(changed)) for o in op.outputs
    )
    return Project(inner.input, outputs)


@law(Project)
def identity_project(op: Project) -> Op | None:
    """π(X) = X if the outputs are the columns of X, in their order and under their names."""
    below = op.inputs[0]
    same = len(op.outputs) == len(below.schema) and all(o.expr.name == o.name for o in op.outputs)
    return _with_columns_of(op, below) if same else None


@law(Aggregate)
def distinct_of_key(op: Aggregate) -> Op | None:
    """DISTINCT(X) = π(X) if the columns hold a key of X: its rows differ already.

    Not without a key: X = {1, 1}. Not without columns: DISTINCT of no columns has a row even if X has none.
    """
    below = op.inputs[0]
    if op.calls or not op.by or not any(key <= set(op.by) for key in below.keys):
        return None
    return Project(below, tuple(Output(c, col(c.name)) for c in op.schema))


@law(Plus)
def single_plus(op: Plus) -> Op | None:
    """Plus of one input is the input."""
    return op.inputs[0] if len(op.inputs) == 1 else None


@law(Plus, over=(Plus,))
def flattened_plus(op: Plus) -> Op | None:
    """(X + Y) + Z = X + Y + Z."""
    flat = Plus(tuple(j for i in op.inputs for j in (i.inputs if isinstance(i, Plus) else (i,))))
    return _with_columns_of(op, flat)


@law(SemiJoin, AntiJoin, over=(Aggregate, Project), depth=2)
def half_join_without_distinct(op: Any) -> Op | None:
    """L ⋉ DISTINCT(R) = L ⋉ R, also below a projection, and likewise ▷: whether there is a partner does not depend on how many there are.

    Not for a DISTINCT without columns, which has a row even if R has none.
    """
    right = op.inputs[1]
    below = right.inputs[0] if isinstance(right, Project) else right
    if not isinstance(below, Aggregate) or below.calls or not below.by:
        return None
    rows = Project(below.input, tuple(Output(c, col(c.name)) for c in below.schema))
    return type(op)(op.left, right.over([rows]) if isinstance(right, Project) else rows, op.on)


@law(Project)
def pruned_columns(op: Project) -> Op | None:
    """π(op(X)) = π(op'(π'(X))): an operator need not read or compute what the projection does not want.

    Kept are the columns of predicates, join conditions, grouping and partitions; of DISTINCT all, since they say how many rows there are; of TopK
    all, since ties are broken by them: of (1, b), (1, a) in the order of the first column, the first row is (1, a), and without the second column it could not be told.
    """
    below: Op = op.inputs[0]
    wanted = frozenset[str]().union(*(o.expr.columns for o in op.outputs))
    cut = narrowed(below, wanted)
    new = cut.build([chosen(i, r) for i, r in zip(below.inputs, cut.reads, strict=True)])
    return None if new == below else op.over([new])
