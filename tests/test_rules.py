"""The rule language and the engine: what a pattern may say, what fires, what the memo then knows, and who said it."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest

from tempura.algebra import (
    Aggregate,
    AntiJoin,
    Filter,
    InnerJoin,
    LeftOuterJoin,
    Minus,
    Op,
    Plus,
    Project,
    Scan,
    SemiJoin,
    TopK,
)
from tempura.catalog import Catalog, Table
from tempura.errors import RuleError
from tempura.explore import Exploration, Explorer, Limits, TvrRef, triggers
from tempura.expr import parse
from tempura.job import Job
from tempura.memo import IntervalSpans, Memo, SignatureSpans
from tempura.memo.memo import QUERY, Source
from tempura.optimizer import Explored, Settings, explore
from tempura.rules.deltas import L, Q, R, X, Xs, delta_inner_join, on, plus_delta, predicate, t, u
from tempura.rules.im1 import IM1, limit, order
from tempura.rules.joins import join_orders
from tempura.rules.lang import LAST, Link, Rule, decline, rule, rule_set, tvrs, where
from tempura.rules.matching import MONOTONE
from tempura.rules.methods import ALL, METHODS
from tempura.rules.views import NOT_COMPARED
from tempura.schema import Column
from tempura.space import intervals
from tempura.timeline import MAIN, Interval, Point, Ticks, Timeline

Z = tvrs("Z")
twin = Link("twin")


def columns(text: str) -> tuple[Column, ...]:
    return tuple(Column(c, "int") for c in text)


A, B, C = Scan("a", columns("ab"), ()), Scan("b", columns("cd"), ()), Scan("c", columns("ef"), ())
JOIN = InnerJoin(A, B, parse("a = c"))


def memo_of(*trees: Op, points: int = 2) -> tuple[Memo, list[int]]:
    """A memo of some trees over the tables a, b and c, which all change at every point."""
    ticks = Ticks.of(points, [["a", "b", "c"]] * points)
    memo = Memo(SignatureSpans(ticks, intervals(ticks, [points - 1], True)), lambda table: table == "b")
    return memo, [memo.insert(tree) for tree in trees]


def fire(memo: Memo, *rules: Rule, **given: Any) -> Exploration:
    """Explore with these rules; facts that were there before count."""
    before = list(memo.tvrs())
    explorer = Explorer(memo, rule_set("test", rules), **given)
    for record in before:
        for kind, value in (
            ("tvr", None),
            *(("definition", m) for m in record.definitions),
            *(("delta", s) for s in record.deltas),
            *(("link", name) for name in record.links),
        ):
            memo.on_fact(_fact(kind, record.id, value))
    return explorer.run()


def _fact(kind: Any, tvr: int, value: Any) -> Any:
    from tempura.memo import Fact

    return Fact(kind, tvr, value)


# Mistakes in patterns are told when the rule is made, by the name of the rule.


def test_unbound_parameter():
    with pytest.raises(RuleError, match="rule wrong: 'R' is not bound by the pattern"):

        @rule(Q[:] == Filter(X[:], predicate), X[t:u])
        def wrong(Q: Any, X: Any, R: Any):
            pass


def test_unbound_name_in_a_condition():
    with pytest.raises(RuleError, match="rule wrong: 'R' is not bound"):

        @rule(Q[:] == Filter(X[:], predicate), where(lambda R: True))
        def wrong(Q: Any):
            pass


def test_disconnected_pattern():
    with pytest.raises(RuleError, match="rule wrong: the pattern falls apart: R is not connected"):

        @rule(Q[:] == Filter(X[:], predicate), R[t:u])
        def wrong(Q: Any):
            pass


def test_right_side_is_not_an_operator():
    with pytest.raises(RuleError, match=r"Q\[:\] == 3: the right side is not an operator"):
        rule(Q[:] == 3)


def test_input_that_is_not_a_term():
    with pytest.raises(RuleError, match=r"rule wrong: .* cannot be the input of an operator"):

        @rule(Q[:] == Filter(X[t:u], predicate))
        def wrong(Q: Any):
            pass


def test_part_that_is_not_a_pattern():
    with pytest.raises(RuleError, match="rule wrong: 'words' is not a pattern"):

        @rule("words")
        def wrong():
            pass


def test_no_pattern():
    with pytest.raises(RuleError, match="rule wrong has no pattern"):

        @rule()
        def wrong():
            pass


def test_two_spans():
    with pytest.raises(RuleError, match="rule wrong: a rule speaks of one span"):

        @rule(Q[:] == InnerJoin(L[:], R[:], on), L[t:u], R[u:t])
        def wrong(Q: Any):
            pass


def test_span_without_an_end():
    with pytest.raises(RuleError, match="rule wrong: a rule speaks of one span"):

        @rule(Q[t])
        def wrong(Q: Any):
            pass


# Mistakes in bodies are told when they fire.


def test_view_where_something_timeless_is_needed():
    @rule(Q[:] == Filter(X[:], predicate), X[t:u])
    def wrong(Q: Any, X: Any, t: Any, u: Any):
        Q[:] = Plus((X[t], X[t:u]))

    with pytest.raises(RuleError, match=r"rule wrong: .* stands where something timeless is needed"):
        fire(memo_of(Filter(A, parse("a = 1")))[0], wrong)


def test_tvr_where_a_view_is_needed():
    @rule(Q[:] == Filter(X[:], predicate), X[t:u])
    def wrong(Q: Any, X: Any, predicate: Any, t: Any, u: Any):
        Q[t:u] = Filter(X[:], predicate)

    with pytest.raises(RuleError, match=r"rule wrong: .* stands where a view is needed"):
        fire(memo_of(Filter(A, parse("a = 1")))[0], wrong)


def test_the_past_cannot_be_assigned():
    @rule(Q[:] == Filter(X[:], predicate), X[t:u])
    def wrong(Q: Any, X: Any, t: Any, u: Any):
        Q[t] = X[t]

    with pytest.raises(RuleError, match="the snapshot at the start"):
        fire(memo_of(Filter(A, parse("a = 1")))[0], wrong)


# Each kind of condition.


def seen_by(*pattern: Any, **options: Any) -> tuple[Rule, list[dict[str, Any]]]:
    """A rule that notes what it was fired on: TVRs as numbers."""
    matches: list[dict[str, Any]] = []

    def note(Q: TvrRef) -> None:
        matches.append({"Q": Q.id})

    return rule(*pattern, **options)(note), matches


def test_operator_operand():
    memo, [join, _] = memo_of(JOIN, Filter(A, parse("a = 1")))
    noted, found = seen_by(Q[:] == InnerJoin(L[:], R[:], on))
    fire(memo, noted)
    assert found == [{"Q": join}]


def test_tvr_operand_matches_every_tvr_once():
    memo, _ = memo_of(JOIN)
    noted, found = seen_by(Q[:])
    fire(memo, noted)
    assert sorted(m["Q"] for m in found) == [0, 1, 2]


def test_equal_names_are_equal_values():
    memo, [own, _] = memo_of(Minus(A, A), Minus(A, Filter(A, parse("a = 1"))))
    noted, found = seen_by(Q[:] == Minus(X[:], X[:]))
    fire(memo, noted)
    assert found == [{"Q": own}]


def test_nested_operators():
    memo, [_, nested] = memo_of(Filter(A, parse("a = 1")), Filter(JOIN, parse("a = 1")))
    noted, found = seen_by(Q[:] == Filter(InnerJoin(L[:], R[:], on), predicate))
    fire(memo, noted)
    assert found == [{"Q": nested}]


def test_constants_in_payload():
    def top(n: int, offset: int) -> Op:
        return TopK(A, (), n, offset)

    memo, [plain, _] = memo_of(top(2, 0), top(2, 1))
    noted, found = seen_by(Q[:] == TopK(X[:], order, limit, 0))
    fire(memo, noted)
    assert found == [{"Q": plain}]


def test_delta_waits_for_its_fact():
    """The filter's delta completes the match of the project above it."""
    memo, [top] = memo_of(Project(Filter(A, parse("a = 1")), ()))
    done = fire(memo, *MONOTONE.rules)
    assert [entry[0] for entry in done.trace] == ["delta_filter", "delta_project"]
    assert list(memo.tvr(top).deltas) == [frozenset({"a"})]


def test_unchanged_input_has_an_empty_delta():
    """The join has a delta over each kind of step: both tables, or one alone."""
    memo, [join] = memo_of(JOIN)
    fire(memo, delta_inner_join)
    assert set(memo.tvr(join).deltas) == {frozenset({"a", "b"}), frozenset({"a"}), frozenset({"b"})}


def test_variadic_operator_takes_all_its_inputs():
    memo, [total] = memo_of(Plus((A, Filter(A, parse("a = 1")), Filter(A, parse("b = 1")))))
    counted: list[int] = []

    @rule(Q[:] == Plus(Xs[:]), Xs[t:u])
    def all_of_them(Q: TvrRef, Xs: Any, t: Any, u: Any):
        counted.append(len(Xs))

    fire(memo, all_of_them)
    assert counted == [], "the filters have no delta yet"
    fire(memo, all_of_them, *MONOTONE.rules)
    assert counted == [3]
    assert memo.tvr(total).deltas


def test_links_are_made_once_and_matched():
    memo, [join] = memo_of(JOIN)

    @rule(Q[:] == InnerJoin(L[:], R[:], on), unless=lambda Q: twin(Q).exists)
    def make(Q: TvrRef, L: TvrRef, R: TvrRef, on: Any):
        twin(Q)[:] = LeftOuterJoin(L[:], R[:], on)

    noted, found = seen_by(twin(Q)[:])
    with_operator, operators = seen_by(Q[:] == InnerJoin(L[:], R[:], on), twin(Q)[:])
    done = fire(memo, make, noted, with_operator)
    assert found == operators == [{"Q": join}]
    assert done.fired == {"make": 1}
    to = memo.linked(join, "twin")
    assert to is not None and memo.definitions(to, LeftOuterJoin)
    assert memo.linked_from(to, "twin") == [join]


def test_link_with_a_delta():
    memo, [join] = memo_of(JOIN)

    @rule(Q[:] == InnerJoin(L[:], R[:], on))
    def make(Q: TvrRef, L: TvrRef):
        twin(Q)[:] = Filter(L[:], parse("a = 1"))

    before, early = seen_by(twin(Q)[t:u])
    fire(memo, make, before)
    assert early == [{"Q": join}], "over the span in which only b changes, what is made of a has an empty delta"
    after, found = seen_by(twin(Q)[t:u])
    fire(memo, after, *MONOTONE.rules)
    assert found == [{"Q": join}] * 3


def test_link_used_before_it_is_made():
    memo, _ = memo_of(JOIN)

    @rule(Q[:] == InnerJoin(L[:], R[:], on))
    def early(Q: TvrRef):
        Q[:] = Filter(twin(Q)[:], parse("a = 1"))

    with pytest.raises(RuleError, match=r"twin of .* is used before it is assigned"):
        fire(memo, early)


def test_where_keeps_its_reason():
    memo, [join] = memo_of(JOIN)

    @rule(Q[:] == InnerJoin(L[:], R[:], on), R[t:u], where(lambda R, t: R.insert_only(t), "retractions on the right"))
    def picky(Q: TvrRef, L: TvrRef, t: Any, u: Any):
        Q[t:u] = L[t:u]

    done = fire(memo, picky)
    assert [(d.tvr, d.rule, d.reason) for d in done.declines] == [(join, "picky", "retractions on the right")]
    assert set(memo.tvr(join).deltas) == {frozenset({"a"})}, "fired only where b does not change"


def test_body_that_declines_says_why_and_assigns_nothing():
    memo, [join] = memo_of(JOIN)

    @rule(Q[:] == InnerJoin(L[:], R[:], on))
    def unwilling(Q: TvrRef, L: TvrRef, R: TvrRef):
        Q[:] = InnerJoin(R[:], L[:], parse("a = c"))
        decline("not today")

    done = fire(memo, unwilling)
    assert [(d.tvr, d.reason) for d in done.declines] == [(join, "not today")]
    assert done.firings == 0 and len(memo.tvr(join).definitions) == 1


def test_declines_of_methods_have_names():
    job = job_of("SELECT a.x, b.y FROM a LEFT JOIN b ON a.x = b.x ORDER BY 1 LIMIT 2", retracts=True)
    reasons = {(d.method, d.reason) for d in explore(job).exploration.declines}
    assert ("OJV", "the preserved side has no key") in reasons
    assert ("IM1", "rows below LIMIT may be taken back, and what follows them was not kept") in reasons
    volatile = explore(job_of("SELECT x, rand() AS r FROM a")).exploration.declines
    assert {d.reason for d in volatile} == {"non-deterministic expression RAND()"}
    volatile = explore(job_of("SELECT x FROM a WHERE to_date(string(y)) = 'today'")).exploration.declines
    assert {d.reason for d in volatile} == {"non-deterministic expression TO_DATE(CAST(`y` AS STRING)) = 'today'"}
    by_map = explore(job_of("SELECT m, median(y) AS y FROM (SELECT map('x', x) AS m, y FROM a) GROUP BY m"))
    reasons = {(d.method, d.reason) for d in by_map.exploration.declines}
    assert {("IM1", NOT_COMPARED), ("PART", NOT_COMPARED)} <= reasons


# Order, and what does not depend on it.


def test_priorities_order_the_queue():
    memo, _ = memo_of(JOIN)
    fired: list[str] = []

    def make(name: str, **options: Any) -> Rule:
        def body(Q: TvrRef) -> None:
            fired.append(name)

        return rule(Q[:] == InnerJoin(L[:], R[:], on), **options)(body)

    fire(memo, make("last", priority=LAST), make("low", priority=-1), make("high", priority=5), make("usual"))
    assert fired == ["high", "usual", "low", "last"]


def test_last_waits_for_all_that_follows_from_the_others():
    """PNA: the difference of snapshots is not taken where a delta rule comes to give one."""
    explored = explore(job_of("SELECT x + 1 AS z FROM a WHERE y > 1"), IM1)
    assert "minus_snapshots" not in explored.exploration.fired
    unpruned = explore(job_of("SELECT x + 1 AS z FROM a WHERE y > 1"), IM1, Settings(pruning=False))
    assert unpruned.exploration.fired["minus_snapshots_always"] == 3


def test_scoring_changes_the_order_but_not_the_memo():
    tree = Filter(LeftOuterJoin(A, B, parse("a = c")), parse("b = 1"))
    rules = (*MONOTONE.rules, *IM1.rules, plus_delta)
    memo, _ = memo_of(tree)
    usual = fire(memo, *rules)
    other, _ = memo_of(tree)
    backwards = fire(other, *rules, score=lambda r: -rules.index(r))
    assert [e[0] for e in usual.trace] != [e[0] for e in backwards.trace]
    assert sorted(e[0] for e in usual.trace) == sorted(e[0] for e in backwards.trace)
    assert known(memo) == known(other)


def known(memo: Memo) -> list[Any]:
    """What a memo knows, without the numbers of its TVRs."""
    return sorted(
        (
            sorted((m.op.__name__, str(m.payload), s) for m, s in record.definitions.items()),
            sorted((sorted(span), len(terms)) for span, terms in record.deltas.items()),  # type: ignore[arg-type]
            sorted((sorted(span), len(terms)) for span, terms in record.news.items()),  # type: ignore[arg-type]
            sorted(record.links),
        )
        for record in memo.tvrs()
    )


def test_match_fires_once():
    memo, _ = memo_of(JOIN)
    noted, found = seen_by(Q[:] == InnerJoin(L[:], R[:], on), L[t:u], R[t:u])
    explorer = Explorer(memo, rule_set("test", (noted,)))
    for _ in range(2):
        for record in memo.tvrs():
            for member in record.definitions:
                memo.on_fact(_fact("definition", record.id, member))
            for span in record.deltas:
                memo.on_fact(_fact("delta", record.id, span))
        explorer.run()
    assert len(found) == 3, "one for each kind of step, however often and from whatever side it is found"


@pytest.mark.parametrize(("limits", "reason"), [(Limits(facts=20), "limit of 20 facts"), (Limits(seconds=-1), "limit of -1 seconds")])  # fmt: skip
def test_limits_give_a_stop_reason(limits: Limits, reason: str):
    job = job_of("SELECT a.x, sum(b.y) AS s FROM a LEFT JOIN b ON a.x = b.x GROUP BY a.x")
    explored = explore(job, ALL, Settings(limits=limits))
    assert explored.exploration.stop_reason == reason
    assert explored.exploration.firings < explore(job).exploration.firings
    assert explore(job).exploration.stop_reason == "complete"


# Unification.


def test_equal_trees_are_one_tvr():
    _, [first, second] = memo_of(JOIN, InnerJoin(A, B, parse("a = c")))
    assert first == second


def test_equal_definitions_unify_tvrs_and_their_uses():
    one, other = Filter(A, parse("a = 1")), Filter(A, parse("1 = a"))
    memo, [above_one, above_other] = memo_of(Filter(one, parse("b = 2")), Filter(other, parse("b = 2")))
    assert above_one != above_other
    first, second = memo.insert(one), memo.insert(other)

    @rule(Q[:] == Filter(X[:], parse("1 = a")))
    def turned(Q: TvrRef, X: TvrRef):
        Q[:] = Filter(X[:], parse("a = 1"))

    fire(memo, turned)
    assert memo.find(first) == memo.find(second)
    assert memo.find(above_one) == memo.find(above_other), "congruence: what uses them is the same, too"
    assert {str(m.payload[0]) for m in memo.tvr(first).definitions} == {"a = 1", "1 = a"}


def test_unifying_joins_views_and_links():
    memo, [first, second] = memo_of(Filter(A, parse("a = 1")), Filter(A, parse("1 = a")))
    span = frozenset({"a"})

    @rule(Q[:] == Filter(X[:], parse("a = 1")), X[t:u])
    def delta_of_one(Q: TvrRef, X: TvrRef, t: Any, u: Any):
        Q[t:u] = Filter(X[t:u], parse("a = 1"))

    @rule(Q[:] == Filter(X[:], parse("1 = a")), X[t:u])
    def new_of_other(Q: TvrRef, X: TvrRef, t: Any, u: Any):
        Q[u] = Filter(X[u], parse("1 = a"))
        Q[t:u] = Filter(X[t:u], parse("1 = a"))

    fire(memo, delta_of_one, new_of_other)
    joined = memo.insert(JOIN)
    memo.link(first, "twin", joined)
    memo.link(second, "twin", memo.insert(SemiJoin(A, B, parse("a = c"))))
    assert len(memo.tvr(first).deltas[span]) == len(memo.tvr(second).deltas[span]) == 1
    memo.unify(first, second)
    record = memo.tvr(first)
    assert record is memo.tvr(second)
    assert {s.rule for s in record.deltas[span].values()} == {"delta_of_one", "new_of_other"}
    assert {s.rule for s in record.news[span].values()} == {"new_of_other"}
    assert {m.op for m in memo.tvr(joined).definitions} == {InnerJoin, SemiJoin}, "linked TVRs are the same, too"


def test_a_new_definition_of_an_old_tvr_matches():
    """Laws compose: what a rule defines is matched by the others."""
    memo, [join] = memo_of(JOIN)

    @rule(Q[:] == InnerJoin(L[:], R[:], on))
    def swapped(Q: TvrRef, L: TvrRef, R: TvrRef, on: Any):
        Q[:] = InnerJoin(R[:], L[:], on)

    done = fire(memo, swapped, delta_inner_join)
    assert done.fired == {"swapped": 2, "delta_inner_join": 6}
    assert len(memo.tvr(join).definitions) == 2, "and back again is nothing new"


# Who said so.


@pytest.mark.parametrize("method", METHODS)
def test_every_fact_has_a_source(method: str):
    job = job_of(
        "SELECT a.x, sum(b.y) AS s, max(a.y) AS m FROM a LEFT JOIN b ON a.x = b.x JOIN c ON c.x = a.y GROUP BY a.x"
    )
    explored = explore(job, METHODS[method])
    names = {r.name for r in (*METHODS[method].rules, *MONOTONE.rules, plus_delta, join_orders)}
    methods = {"monotone", "intra", "joins", "query", method}
    sources = list(sources_of(explored))
    assert {s.method for s in sources} <= methods
    assert {s.rule for s in sources} <= names | {"query", "minus_snapshots"}
    assert QUERY in sources and any(s.rule == "delta_inner_join" for s in sources)
    fired = explored.exploration.fired
    assert {s.rule for s in sources} - {"query"} <= set(fired)


def sources_of(explored: Explored) -> Any:
    for record in explored.memo.tvrs():
        yield from record.definitions.values()
        for said in (record.deltas, record.news):
            for terms in said.values():
                yield from terms.values()


def test_source_of_a_delta():
    memo, [join] = memo_of(JOIN)
    fire(memo, delta_inner_join)
    assert {s for said in memo.tvr(join).deltas.values() for s in said.values()} == {
        Source("delta_inner_join", "monotone")
    }


# Compiled matchers.


def test_matchers_of_delta_inner_join():
    """One for each condition, each starting from a fact of its kind and looking the others up."""
    found = triggers(delta_inner_join)
    assert [trigger.key for trigger in found] == [("definition", InnerJoin), ("delta", None), ("delta", None)]
    assert found[0].source == dedent("""\
        def match(memo, tvr, value, emit):
            Q = tvr
            L = value.inputs[0]
            R = value.inputs[1]
            on = value.payload[0]
            for s in memo.spans_of(Q):
                if not (memo.has_delta(L, s)): continue
                if not (memo.has_delta(R, s)): continue
                emit((L, Q, R, on,), s)
        """)
    assert found[1].source == dedent("""\
        def match(memo, tvr, value, emit):
            L = tvr
            for out1, m1 in memo.uses(L, c0):
                Q = out1
                if not (L == m1.inputs[0]): continue
                R = m1.inputs[1]
                on = m1.payload[0]
                for s in memo.spans_of(Q):
                    if not (memo.has_delta(R, s)): continue
                    if not (memo.restrict(L, s) == value): continue
                    emit((L, Q, R, on,), s)
        """)


def test_rules_of_other_operators_are_not_tried():
    """Triggering is indexed: a filter's definition starts no matcher of a join."""
    memo, _ = memo_of(Filter(A, parse("a = 1")))
    done = fire(
        memo, *(r for r in ALL.rules if any(a.op in (InnerJoin, SemiJoin, AntiJoin, Aggregate) for a in r.atoms))
    )
    assert done.matches == 0


# The three speed-ups.


def table(name: str, points: int, retracts: bool) -> Table:
    arrives = {f"t{i + 1}": 10.0 for i in range(points)}
    return Table(
        name,
        tuple(Column(c, "int") for c in "xy"),
        (),
        arrives,
        dict.fromkeys(list(arrives)[1:], 0.1) if retracts else {},
    )


def job_of(query: str, points: int = 3, retracts: bool = False) -> Job:
    catalog = Catalog(*(table(name, points, retracts) for name in "abc"))
    timeline = Timeline(tuple(Point(f"t{i + 1}", 1.0, (MAIN,)) for i in range(points)))
    return Job(query=query, catalog=catalog, timeline=timeline)


THREE = "SELECT a.x, sum(b.y) AS s FROM a LEFT JOIN b ON a.x = b.x JOIN c ON c.x = a.y GROUP BY a.x"


def test_symmetry_makes_exploration_independent_of_the_number_of_points():
    few, many = explore(job_of(THREE, 3)), explore(job_of(THREE, 9))
    assert (many.memo.facts, many.exploration.firings) == (few.memo.facts, few.exploration.firings)
    assert isinstance(few.memo.spans, SignatureSpans)
    without = [explore(job_of(THREE, n), ALL, Settings(symmetry=False)) for n in (3, 9)]
    assert isinstance(without[0].memo.spans, IntervalSpans)
    assert few.exploration.firings < without[0].exploration.firings
    assert without[1].exploration.firings > 2 * without[0].exploration.firings
    assert without[1].memo.facts > 2 * without[0].memo.facts


def test_symmetry_finds_the_same_plan_space():
    def shape(explored: Explored) -> list[Any]:
        return sorted(
            (g.schema, g.interval or (), sorted(m.op.__name__ for m, _ in explored.space.members(g.id)))
            for g in explored.space.all_groups()
        )

    job = job_of(THREE)
    assert shape(explore(job)) == shape(explore(job, ALL, Settings(symmetry=False)))


def test_pruning_leaves_members_out():
    job = job_of(THREE)
    members = {p: explore(job, IM1, Settings(pruning=p)).memo.members() for p in (True, False)}
    assert members[True] < members[False]


def test_guided_exploration_has_fewer_intervals():
    ticks = Ticks.of(5, [["a"]] * 5)
    steps = [Interval(i, i + 1) for i in range(4)]
    assert set(intervals(ticks, [], True)) == set(steps)
    assert len(intervals(ticks, [4], False)) == 4 * 5 // 2, "every pair of points"
    one_due = Timeline(tuple(Point(f"t{i + 1}", 1.0, (MAIN,) if i == 4 else ()) for i in range(5)))
    job = Job(query=THREE, catalog=job_of(THREE, 5).catalog, timeline=one_due)
    guided, free = explore(job), explore(job, ALL, Settings(guided=False))
    assert len(guided.space.over) < len(free.space.over)
    assert len(guided.space.all_groups()) < len(free.space.all_groups())
