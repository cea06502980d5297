"""The dynamic program is exact without sharing, under every objective and in the presence of cycles."""

from __future__ import annotations

import math
from time import process_time

import pytest

from tempura.choose.exact import brute_force
from tempura.choose.graph import Alternative, Graph
from tempura.choose.objectives import LastRunAtMost, LatestFirst, Weighted
from tempura.choose.search import Problem, without_sharing
from tempura.choose.share import choose
from tempura.errors import PlanError
from tests.random_graphs import chain_graph, random_graph


def graph_of(
    alternatives: list[list[Alternative]],
    required: list[tuple[int, int]],
    prices: list[float],
    save: float = 1.0,
    load: float = 1.0,
    **changes: object,
) -> Graph:
    n = len(alternatives)
    graph = Graph(
        alternatives=alternatives,
        available=[0] * n,
        save=[save] * n,
        load=[load] * n,
        required=required,
        deliver=dict.fromkeys((node for node, _ in required), 0.0),
        existing=frozenset(),
        size=[1.0] * n,
        prices=prices,
        groups=[],
    )
    for name, value in changes.items():
        setattr(graph, name, value)
    return graph


def save_load_example(early: float) -> Graph:
    """The paper's join: computing it costs 10, saving 5, loading 4; what reads it at the second point costs nothing."""
    join, reader = [Alternative(10, (), "join")], [Alternative(0, (0,), "reader")]
    return graph_of([join, reader], [(1, 1)], [early, 1.0], save=5, load=4, available=[0, 1])


@pytest.mark.parametrize(("early", "expected"), [(0.6, [0, 10]), (0.2, [15, 4])])
def test_the_save_and_load_example_of_the_paper(early: float, expected: list[float]) -> None:
    assert choose(save_load_example(early), Weighted()).work_by_point == expected


@pytest.mark.parametrize("cyclic", [False, True])
def test_the_dynamic_program_equals_brute_force_when_weighted(cyclic: bool) -> None:
    for seed in range(150):
        graph = random_graph(
            seed, nodes=5 if cyclic else 7, points=2 + (seed % 10 == 0), results=1 + seed % 2, cyclic=cyclic, fan=2
        )
        if not derivable(graph):
            continue
        assert without_sharing(graph, Weighted()) == pytest.approx(brute_force(graph, Weighted()), rel=1e-9), seed


def test_the_dynamic_program_equals_brute_force_latest_first() -> None:
    for seed in range(150):
        graph = random_graph(seed, nodes=5, points=2 + (seed % 10 == 0), results=1 + seed % 2, fan=2)
        if derivable(graph):
            assert vector(graph, without_sharing(graph, LatestFirst())) == brute_force(graph, LatestFirst()), seed


def derivable(graph: Graph) -> bool:
    try:
        without_sharing(graph, Weighted())
    except PlanError:
        return False
    return True


def vector(graph: Graph, number: float) -> tuple[float, ...]:
    """The work, last point first, that the integer of `LatestFirst` stands for (its fields are shifted by a power of two)."""
    pricing = LatestFirst().pricing(graph)
    scale = pricing.amount(1.0)
    fields = [
        (int(number) >> (LatestFirst.FIELD * p)) & ((1 << LatestFirst.FIELD) - 1) for p in range(len(graph.prices))
    ]
    return tuple(f / scale for f in reversed(fields))


def test_most_random_graphs_have_a_plan() -> None:
    assert sum(derivable(random_graph(seed, nodes=5)) for seed in range(100)) > 90


def test_latest_first_prefers_a_cheaper_last_run_whatever_the_earlier_ones_cost() -> None:
    # Computing at the last point costs 10; the other way costs 1000 at the first and 3 + 4 at the last.
    alternatives = [[Alternative(1000, ())], [Alternative(10, ()), Alternative(3, (0,))]]
    graph = graph_of(alternatives, [(1, 1)], [1.0, 1.0], save=5, load=4, available=[0, 1])
    assert choose(graph, LatestFirst()).total == (7, 1005)
    assert choose(graph, Weighted()).total == 10


def test_latest_first_breaks_ties_by_the_point_before() -> None:
    alternatives = [[Alternative(7, ())], [Alternative(5, ())], [Alternative(1, (0,)), Alternative(1, (1,))]]
    graph = graph_of(alternatives, [(2, 2)], [1.0] * 3, available=[0, 1, 2])
    # From node 0, written at the first point, nothing is left for the second.
    assert choose(graph, LatestFirst()).total == (2, 0, 8)


def test_a_cycle_derives_nothing() -> None:
    # Q[u] = Q[t] + ΔQ and ΔQ = Q[u] - Q[t]: without another way to one of them there is none.
    snapshot, delta = [Alternative(1, (2, 1))], [Alternative(1, (0, 2))]
    graph = graph_of([snapshot, delta, [Alternative(1, ())]], [(0, 0)], [1.0])
    with pytest.raises(PlanError, match="nothing computes the result"):
        choose(graph, Weighted())
    graph.alternatives[1].append(Alternative(20, ()))
    assert choose(graph, Weighted()).total == 22


def test_nothing_is_computed_before_it_is_available() -> None:
    graph = graph_of([[Alternative(3, ())]], [(0, 0)], [1.0, 1.0], available=[1])
    with pytest.raises(PlanError):
        choose(graph, Weighted())


def test_existing_states_are_loaded_and_results_are_loaded_by_later_points() -> None:
    graph = graph_of([[Alternative(50, ())], [Alternative(1, (0,))]], [(1, 0)], [1.0], load=3, existing=frozenset([0]))
    assert choose(graph, Weighted()).total == 4
    graph = graph_of([[Alternative(50, ())]], [(0, 0), (0, 1)], [1.0, 1.0], load=3, save=math.inf, deliver={0: 2.0})
    assert choose(graph, Weighted()).work_by_point == [52, 5]


def test_an_input_that_occurs_twice_is_paid_twice() -> None:
    graph = graph_of([[Alternative(2, ())], [Alternative(1, (0, 0))]], [(1, 0)], [1.0], save=10)
    assert without_sharing(graph, Weighted()) == 5


def test_a_price_of_zero_does_not_invite_useless_work() -> None:
    alternatives = [[Alternative(10, ()), Alternative(10**6, ())], [Alternative(1, (0,))]]
    choice = choose(graph_of(alternatives, [(1, 1)], [0.0, 1.0], available=[0, 1]), Weighted())
    assert choice.work_by_point == [11, 2]
    assert choice.total == 2


def test_the_last_run_is_bounded_by_raising_its_price() -> None:
    graph = save_load_example(0.6)
    assert choose(graph, LastRunAtMost(10)).work_by_point == [0, 10]
    assert choose(graph, LastRunAtMost(9)).work_by_point == [15, 4]
    assert choose(graph, LastRunAtMost(9)).total == pytest.approx(13)
    with pytest.raises(PlanError, match="the least found is 4"):
        choose(graph, LastRunAtMost(3.9))


def test_the_bound_on_the_last_run_is_kept_on_random_graphs() -> None:
    checked = 0
    for seed in range(60):
        graph = random_graph(seed, nodes=5, results=1, fan=2)
        if not derivable(graph):
            continue
        free = choose(graph, Weighted()).work_by_point[-1]
        least = choose(graph, LatestFirst()).work_by_point[-1]
        limit = (free + least) / 2
        choice = choose(graph, LastRunAtMost(limit))
        assert choice.work_by_point[-1] <= limit * (1 + 1e-9)
        checked += limit < free
    assert checked > 3


def test_a_graph_of_a_large_memo_is_solved_in_little_time() -> None:
    graph = chain_graph(1, tables=14)
    assert len(graph.alternatives) > 1500
    problem = Problem(graph, Weighted().pricing(graph))
    started = process_time()
    problem.solve()
    # Each alternative completes at most once a point; the clock has a wide margin for slow machines.
    assert problem.costings <= len(problem.owner) * problem.points
    assert process_time() - started < 0.5
