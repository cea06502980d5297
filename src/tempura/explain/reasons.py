"""Why not: for every operator of the query and every method that did not compute it, a named reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tempura.algebra import Aggregate, FullOuterJoin, InnerJoin, LeftOuterJoin, Scan, TopK, Window
from tempura.explore import Exploration
from tempura.memo.memo import Memo, Tvr
from tempura.memo.show import Names
from tempura.memo.spans import Span
from tempura.plans import Reason
from tempura.rules.deltas import state
from tempura.rules.joins import CHANGING, block, is_root
from tempura.space import Space

SHARED = "its delta rule is one that all methods share"
DEARER = "it applies, but was dearer than what was chosen"


def recomputed(memo: Memo) -> dict[int, str]:
    """The operators of the query whose changes are only known by recomputing them, with the reason."""
    found: dict[int, str] = {}
    for record in memo.tvrs():
        if _written(record) and any(not _maintained(record, span) for span in memo.spans_of(record.id)):
            found[record.id] = volatile(record) or "no method has a delta rule for it"
    return found


def volatile(record: Tvr) -> str:
    return f"non-deterministic expression {record.volatile}" if record.volatile else ""


def _maintained(record: Tvr, span: Span) -> bool:
    """Whether some rule does better over a span than to compute the operator again and compare."""
    said = (*record.deltas.get(span, {}).values(), *record.news.get(span, {}).values())
    return any(not s.rule.startswith("minus_snapshots") and s.rule != "plus_delta" for s in said)


def _written(record: Tvr) -> bool:
    """Whether the operator stands in the query as bound."""
    return any(source.rule == "query" and m.op is not Scan for m, source in record.definitions.items())


def reasons(
    memo: Memo,
    space: Space,
    exploration: Exploration,
    names: Names,
    methods: Sequence[str],
    used: Iterable[tuple[int, str]],
) -> tuple[Reason, ...]:
    """For each changing operator of the query and each method, why the plan does not use it."""
    used = {(memo.find(t), m) for t, m in used}
    offered = {
        (memo.find(g.tvr), source.method)
        for g in space.all_groups()
        if g.tvr is not None
        for _, source in space.members(g.id)
    }
    declined: dict[tuple[int, str], dict[str, None]] = {}
    for d in exploration.declines:
        declined.setdefault((memo.find(d.tvr), d.method), {})[d.reason] = None
    found: list[Reason] = []
    for record in memo.tvrs():
        if not _written(record) or not memo.spans_of(record.id):
            continue
        for method in methods:
            keys = [(tvr, method) for tvr in _parts(memo, record)]
            if any(key in used for key in keys):
                continue
            told = dict.fromkeys(why for key in keys for why in declined.get(key, ()))
            if any(key in offered for key in keys):
                why = DEARER
            elif told:
                why = "; ".join(told)
            else:
                why = _inapplicable(memo, record, method)
            found.append(Reason(_operator(record, names), method, why))
    return tuple(found)


def _parts(memo: Memo, record: Tvr) -> list[int]:
    """The operator and, where it is an aggregate, the state from which it may be made."""
    kept = record.links.get(state.name)
    return [record.id] if kept is None else [record.id, memo.find(kept)]


def _operator(record: Tvr, names: Names) -> str:
    """Its kind and its name: a projection has the name of what it projects."""
    written = next(m for m, source in record.definitions.items() if source.rule == "query" and m.op is not Scan)
    kind, name = written.op.__name__, names.tvr(record.id)
    return name if name.startswith(kind) else f"{kind} {name}"


_NO_JOIN = "it is not a join of three or more relations"


def _without_views(memo: Memo, record: Tvr) -> str:
    """Why a join has no higher-order views."""
    leaves = block(memo, record.id).leaves
    if not is_root(memo, record.id, next(m for m in record.definitions if m.op is InnerJoin)):
        return "it is part of a larger join, which is looked at as a whole"
    if len(leaves) < 3:
        return _NO_JOIN
    if len(set(leaves)) < len(leaves):
        return "a relation occurs in it twice"
    if sum(1 for leaf in leaves if memo.spans_of(leaf)) > CHANGING:
        return f"too many of its relations change (more than {CHANGING})"
    return "no part of the join is connected without the updated table"


def _inapplicable(memo: Memo, record: Tvr, method: str) -> str:
    """What a method lacks here, where no rule of its came far enough to say."""
    op = next(iter(record.definitions)).op
    if record.volatile:
        return volatile(record)
    match method:
        case "IM1":
            return SHARED
        case "IM2":
            if memo.monotone(record.id):
                return "it never takes rows back, so there is nothing to hold back"
            retracting = sorted(t for t in record.tables if memo.can_retract(t))
            if retracting:
                return f"retractions in {', '.join(retracting)}"
            if all(map(memo.monotone, next(iter(record.definitions)).inputs)):
                return "its inputs never take rows back, so there is nothing to hold back"
            return "its inputs have no part that only grows"
        case "OJV":
            return (
                "no delta of its directly affected part"
                if op in (LeftOuterJoin, FullOuterJoin)
                else "it is not an outer join"
            )
        case "HOV":
            return _without_views(memo, record) if op is InnerJoin else _NO_JOIN
        case "PART":
            if op in (Aggregate, Window):
                return "no delta of its input"
            return "rows below LIMIT are not a partition" if op is TopK else "it has neither groups nor partitions"
        case _:
            return "no rule of this method matches it"
