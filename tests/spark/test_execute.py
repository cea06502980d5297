"""The order of steps: each after what it reads, independent ones side by side, and what is left to run stops when one fails."""

from __future__ import annotations

import threading
import time

import pytest

from tempura.algebra import Plus, Read
from tempura.plans import Step
from tempura.schema import NO_KEYS, Column
from tempura.spark.execute import run_steps
from tempura.spark.steps import StepError

COLUMNS = (Column("x", "bigint"),)


def step(name: str, *reads: str) -> Step:
    tree = Plus(tuple(Read(r, COLUMNS, False, NO_KEYS) for r in reads))
    return Step(name, "state", name, tree, False, tree)


def test_each_after_what_it_reads():
    steps = [step("a", "s@t1"), step("b", "s@t1"), step("c", "a", "b"), step("d", "c", "a")]
    order: list[str] = []
    told: list[tuple[str, str]] = []

    def work(of: Step) -> int:
        order.append(of.name)
        return len(order)

    done = run_steps(steps, work, progress=lambda s, what: told.append((s.name, what)))
    assert sorted(done) == ["a", "b", "c", "d"]
    assert order[2:] == ["c", "d"]
    assert sorted(told[:2]) == [("a", "started"), ("b", "started")] and told[-1] == ("d", "done")


@pytest.mark.parametrize(("parallel", "at_once"), [(1, 1), (2, 2), (3, 3)])
def test_as_many_at_once_as_asked_for(parallel: int, at_once: int):
    running: list[int] = []
    lock = threading.Lock()
    most = 0

    def work(of: Step) -> None:
        nonlocal most
        with lock:
            running.append(1)
            most = max(most, len(running))
        time.sleep(0.1)
        with lock:
            running.pop()

    run_steps([step(n, "s@t1") for n in "abcd"], work, parallel=parallel)
    assert most == at_once


def test_after_a_failure_what_runs_ends_and_what_waits_does_not_begin():
    begun: list[str] = []
    ended: list[str] = []

    def work(of: Step) -> None:
        begun.append(of.name)
        if of.name == "bad":
            raise ValueError("bad step")
        time.sleep(0.3)
        ended.append(of.name)

    with pytest.raises(ValueError, match="bad step"):
        run_steps([step("slow", "s@t1"), step("bad", "s@t1"), step("later", "s@t1")], work)
    assert (sorted(begun), ended) == (["bad", "slow"], ["slow"])


def test_a_circle_is_an_error():
    with pytest.raises(StepError, match="a reads what only a step that waits for it writes"):
        run_steps([step("a", "b"), step("b", "a")], lambda of: None)
