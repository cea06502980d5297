"""All members of every group agree, for every method, with and without retractions; and a wrong rule is caught."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from tempura.algebra import Aggregate, AggregateState, AntiJoin, InnerJoin, LeftOuterJoin, Plus, TopK
from tempura.catalog import Catalog, Table
from tempura.explore import Time, TvrRef
from tempura.optimizer import Settings
from tempura.rules.deltas import L, Q, R, X, by, calls, on, t, u
from tempura.rules.im1 import limit, offset, order
from tempura.rules.lang import Rule, RuleSet, rule, rule_set
from tempura.rules.methods import ALL, METHODS
from tempura.schema import Column
from tempura.testing import Unsound, check_sound
from tests.random_queries import Case, cases

RULE_SETS: dict[str, RuleSet] = {"ALL": ALL, **METHODS}
POINTS = {"t1": 3, "t2": 2, "t3": 2}


def table(name: str, columns: str, key: str = "", retracts: bool = False, points: dict[str, int] = POINTS) -> Table:
    found = tuple(Column(*c.split(" ", 1), c.split()[0] != key) for c in columns.split(", "))
    return Table(name, found, (key,) if key else (), points, dict.fromkeys(list(points)[1:], 0.2) if retracts else {})


def catalog(retracts: bool) -> Catalog:
    """s and r have neither key nor order, k and m are keyed, d is static, e is empty, late comes when the others are there."""
    return Catalog(
        table("s", "o int, c string, p decimal(7,2)", retracts=retracts),
        table("r", "o int, x int", retracts=retracts),
        table("k", "id int, o int, c string", "id", retracts),
        table("m", "id int, v int", "id", retracts),
        table("d", "c string, n int", points={"t1": 3}),
        table("e", "o int, x int", points={}),
        table("late", "o int, y int", retracts=retracts, points={"t2": 2, "t3": 2}),
    )


QUERIES = (
    # Linear operators and inner joins.
    "select o, p + 1 as q from s where c = 'a' or p is null",
    "select s.o, p, x from s join r on s.o = r.o where p > 1",
    "select s.c, n, sum(p * x) g from s join r on s.o = r.o join d on s.c = d.c group by s.c, n",
    "select s.o, p, x, v from s join r on s.o = r.o join m on r.x = m.v and s.o < m.id",
    "select a.o, b.p from s a join s b on a.o = b.o and a.p < b.p",
    "select s.o, n from s cross join d",
    "select s.o, p from s join r using (o) join late using (o)",
    "select d.c, sum(y) g from d join late on d.n = late.o group by d.c union all select c, y from d join late on d.n = late.o",
    "select d.c, count(y) g, sum(y) h from d join late on d.n = late.o group by d.c",
    "select s.o, v.a from s join (values (1, 'a'), (2, null), (2, 'b')) v(o, a) on s.o = v.o",
    # Outer joins.
    "select s.o, p, x from s left join r on s.o = r.o",
    "select s.o, p, x from s left join r on s.o = r.o and p < x",
    "select s.o, p, x from s left join r on p < x",
    "select s.o, p, x from r right join s on s.o <=> r.o",
    "select s.o, x from s full join r on s.o = r.o",
    "select k.id, k.o, v from k full join m on k.id = m.id",
    "select k.id, k.o, v from k full join m on k.o = m.v and k.id < m.id",
    "select k.id, k.o, r.x from k left join r on k.o = r.o",
    "select k.id, v, r.x, s.p from k left join m on k.o = m.id left join r on m.v = r.o left join s on k.o = s.o",
    "select k.id, z.v, z.x from k left join (select m.id, v, x from m left join r on m.v = r.x) z on k.o = z.id",
    "select k.id, z.x from k left join (select o, sum(x) x from r group by o) z on k.o = z.o",
    "select k.id, y from k left join late on k.o = late.o",
    "select s.o, e.x from s left join e on s.o = e.o",
    "select id from k left join r on k.o = r.o where r.x is null",
    "select * from s join r on s.o = r.o left join m on r.x = m.v and s.p = 1",
    "select * from s join r on s.o = r.o full join m on r.x = m.v and s.p = 1",
    "select * from s left join r on s.o = r.o and s.p = 1 left join m on r.x = m.v",
    "select k.*, m.*, r.* from k join m on k.o = m.id left join r on k.o = r.o and m.v > 1",
    # Semi- and anti-joins, sub-queries.
    "select o, p from s where exists (select 1 from r where r.o = s.o)",
    "select o, p from s where not exists (select 1 from r where r.o = s.o)",
    "select o, p from s where exists (select 1 from r where r.o = s.o and r.x > s.p)",
    "select o, p from s where not exists (select 1 from r where r.o = s.o and r.x > s.p)",
    "select o, p from s left semi join r on s.o = r.o",
    "select o, p from s left anti join r on s.p < r.x",
    "select o, p from s where o in (select o from r where x > 0)",
    "select o, p from s where o not in (select o from r)",
    "select o, p from s where o not in (select x from r where r.o = s.o)",
    "select o, p from s where o not in (select o from e)",
    "select c, sum(p) g from s group by c having sum(p) > (select avg(p) from s)",
    "select o, (select max(x) from r where r.o = s.o) m from s",
    "select o, (select count(*) from r where r.o = s.o) n from s",
    "select id, (select v from m where m.id = k.o) v from k",
    "select s.c, k.o from s join k on s.o = k.id where exists (select 1 from r where r.o = s.o and r.x > s.p)",
    "select s.c, v from s join k on s.o = k.id join m on k.o = m.id where s.p in (select x from r) and not exists (select 1 from late where late.o = s.o)",
    "select s.c, count(*) n from s join k on s.o = k.id where s.p not in (select x from r) group by s.c",
    # Aggregates.
    "select a.n, b.g from (select count(*) n from s where p > 1) a, (select sum(p) g from s where c = 'a') b",
    "select (select count(*) from s join r on s.o = r.o where x > 1) a, (select sum(p) from s join r on s.o = r.o where p < 2) b, (select max(x) from r) m",
    "select c, sum(p) g, count(*) n, count(p) np, avg(p) a from s group by c",
    "select c, sum(case when x is null then p else -x end) g from s left join r on s.o = r.o group by c",
    "select c, min(p) a, max(p) b from s group by c",
    "select c, count(distinct p) a from s group by c",
    "select c, count(distinct p) a, sum(p) b from s group by c",
    "select c, sum(p) filter (where o > 1) a, count(*) filter (where p is null) b from s group by c",
    "select c, stddev_samp(o) a, var_pop(o) b from s group by c",
    "select min(p) a, count(*) b, sum(p) c from s",
    "select count(*) n, sum(x) g, max(x) m from e",
    "select count(*) n from s where p > 100",
    "select distinct c from s",
    "select 'x' c from s where p > 1 having true",
    "select distinct s.c, x from s join r on s.o = r.o",
    "select c, o, sum(p) g from s group by rollup(c, o)",
    "select c, o, grouping(c) gc, count(*) n from s group by grouping sets ((c), (o), ())",
    "select c, o, max(p) g from s group by cube(c, o) having count(*) > 1",
    "select g, count(*) n from (select c, sum(p) g from s group by c) group by g",
    "select max(g) top from (select c, sum(p) g from s left join r on s.o = r.o group by c)",
    # Windows and limits.
    "select c, p, row_number() over (partition by c order by p, o) rn from s",
    "select c, p, sum(p) over (partition by c) sp, rank() over (partition by c order by o) rk from s",
    "select c, p, sum(p) over () t from s",
    "select * from (select c, o, row_number() over (partition by c order by o, p) rn from s) where rn = 1",
    "select c, p from s order by p limit 2",
    "select c, p from s order by p desc, c limit 2 offset 1",
    "select c, sum(p) g from s group by c order by g desc limit 1",
    # Set operations.
    "select o from s union all select o from r",
    "select o from s union select o from r",
    "select o, p from s intersect select o, x from r",
    "select o from s except select o from r",
    "select o from s except all select o from r",
    "select o from s intersect all select o from r",
    "select s.o, x from s left join r on s.o = r.o union all select k.id, v from k left join m on k.o = m.id",
    # Blocks that turn out to be the same.
    "select count(*) n, sum(v) g from s join r on s.o = r.o join m on r.x = m.v join d on s.c = d.c join late on d.n = late.o "
    "union all select max(y) n, min(x) g from s join d on s.c = d.c join late on d.n = late.o join r on s.o = r.o join m on r.x = m.v",
    # CTEs used twice.
    "with a as (select o, p, 's' t from s union all select o, x, 'r' t from r), b as (select t, o, sum(p) g from a group by t, o) select x.o, x.g, y.g h from b x join b y on x.o = y.o where x.t = 's' and y.t = 'r' and x.g > 0",
    "with a as (select o, count(*) n from r group by o) select x.o, y.n from a x join a y on x.n = y.o",
    "with a as (select s.o, p, x from s left join r on s.o = r.o) select o, p from a where x is null union all select x, p from a where p > 1",
)


@pytest.mark.parametrize("retracts", [False, True], ids=["grows", "retracts"])
@pytest.mark.parametrize("query", QUERIES)
def test_sound(query: str, retracts: bool):
    for rules in RULE_SETS.values():
        assert check_sound(rules, query, catalog(retracts), examples=4) > 0


def test_a_row_that_is_null_throughout_may_have_partners():
    """It is not to be taken for the padding of others: here {NULL} meets 0, and 3 stands alone."""
    query = "select p.o, r.x from (select distinct o from s) p full join r on coalesce(p.o, 0) = r.x"
    assert check_sound(ALL, query, catalog(True), examples=20) > 0


@pytest.mark.parametrize(
    "without", [Settings(symmetry=False), Settings(pruning=False), Settings(guided=False)], ids=["TS", "PNA", "GE"]
)
@pytest.mark.parametrize("retracts", [False, True], ids=["grows", "retracts"])
def test_sound_without(without: Settings, retracts: bool):
    for query in QUERIES:
        check_sound(ALL, query, catalog(retracts), examples=2, seed=1, settings=without)


@given(cases())
@settings(max_examples=120)
def test_sound_on_random_queries(case: Case):
    for rules in (ALL, case.method):
        check_sound(rules, case.query, case.tables, examples=3, settings=case.settings)


# Wrong rules, each with a query that shows it.


@rule(Q[:] == LeftOuterJoin(L[:], R[:], on), L[t:u], R[t:u])
def left_outer_join_without_flips(Q: TvrRef, L: TvrRef, R: TvrRef, on: Any, t: Time, u: Time):
    """Forgets that a row with a first partner is no longer padded."""
    Q[t:u] = Plus((LeftOuterJoin(L[t:u], R[t], on), InnerJoin(L[u], R[t:u], on)))


@rule(Q[:] == Aggregate(X[:], by, ()), X[t:u])
def distinct_of_the_delta(Q: TvrRef, X: TvrRef, by: Any, t: Time, u: Time):
    """Forgets the rows that were there already."""
    Q[t:u] = Aggregate(X[t:u], by, ())


@rule(Q[:] == AntiJoin(L[:], R[:], on), L[t:u])
def anti_join_of_the_delta(Q: TvrRef, L: TvrRef, R: TvrRef, on: Any, t: Time, u: Time):
    """Forgets that rows of L go when their first partner comes."""
    Q[t:u] = AntiJoin(L[t:u], R[u], on)


@rule(Q[:] == AggregateState(X[:], by, calls), X[t:u])
def state_whatever_it_keeps(Q: TvrRef, X: TvrRef, by: Any, calls: Any, t: Time, u: Time):
    """Forgets the condition: a least value cannot be taken back."""
    Q[t:u] = AggregateState(X[t:u], by, calls)


@rule(Q[:] == InnerJoin(L[:], R[:], on), L[t:u], R[t:u])
def join_of_old_sides(Q: TvrRef, L: TvrRef, R: TvrRef, on: Any, t: Time, u: Time):
    """Forgets the pairs in which both sides are new."""
    Q[t:u] = Plus((InnerJoin(L[t:u], R[t], on), InnerJoin(L[t], R[t:u], on)))


@rule(Q[:] == TopK(X[:], order, limit, offset), X[t:u])
def limit_of_limits(Q: TvrRef, X: TvrRef, order: Any, limit: int, offset: int, t: Time, u: Time):
    """Forgets that rows may be taken back, and that OFFSET was applied once already."""
    Q[u] = TopK(Plus((Q[t], X[t:u])), order, limit, offset)


@rule(Q[:] == LeftOuterJoin(L[:], R[:], on))
def outer_join_is_inner(Q: TvrRef, L: TvrRef, R: TvrRef, on: Any):
    """A wrong definition, not a wrong delta."""
    Q[:] = InnerJoin(L[:], R[:], on)


@pytest.mark.parametrize(
    ("wrong", "query", "retracts"),
    [
        (left_outer_join_without_flips, "select s.o, x from s left join r on s.o = r.o", False),
        (distinct_of_the_delta, "select distinct c from s", False),
        (anti_join_of_the_delta, "select o from s where not exists (select 1 from r where r.o = s.o)", False),
        (state_whatever_it_keeps, "select c, min(p) m from s group by c", True),
        (join_of_old_sides, "select s.o, x from s join r on s.o = r.o", False),
        (limit_of_limits, "select o, p from s order by p limit 1 offset 1", False),
        (outer_join_is_inner, "select s.o, x from s left join r on s.o = r.o", False),
    ],
    ids=lambda v: v.name if isinstance(v, Rule) else "",
)
def test_wrong_rule_is_caught(wrong: Rule, query: str, retracts: bool):
    planted = rule_set("planted", (wrong,))
    with pytest.raises(Unsound, match=f"rule {wrong.name}: "):
        check_sound(planted, query, catalog(retracts))


def test_rule_that_is_wrong_only_with_retractions():
    """The planted state rule is right while rows only come."""
    planted = rule_set("planted", (state_whatever_it_keeps,))
    assert check_sound(planted, "select c, min(p) m from s group by c", catalog(False)) > 0
