"""The steps of a run in an order in which each finds what it reads; those that do not wait for each other run side by side.

Small jobs leave cores idle, and a second one fills them. When a step fails, no other begins; those that run are let run to their end, so that what they have
done need not be done again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Literal, TypeVar

from tempura.plans import Step
from tempura.spark.steps import StepError

T = TypeVar("T")
Progress = Callable[[Step, Literal["started", "done"]], None]
"""Told in the thread that called `run_steps`, never in two at once."""


def run_steps(
    steps: Sequence[Step],
    work: Callable[[Step], T],
    *,
    parallel: int = 2,
    progress: Progress | None = None,
) -> dict[str, T]:
    """What `work` gives for each step, by the step's name; it is called once for each, in one of `parallel` threads, when all that the step reads is done."""
    tell = progress or _silent
    names = {s.name for s in steps}
    waiting = list(steps)
    running: dict[Future[T], Step] = {}
    done: dict[str, T] = {}
    with ThreadPoolExecutor(parallel, thread_name_prefix="tempura") as pool:
        while waiting or running:
            ready = [s for s in waiting if all(r in done for r in s.reads if r in names)]
            for step in ready[: parallel - len(running)]:
                waiting.remove(step)
                tell(step, "started")
                running[pool.submit(work, step)] = step
            if not running:
                raise StepError(
                    f"{waiting[0].name} reads what only a step that waits for it writes",
                    hint="the steps of a run depend on each other in a circle; plan again",
                )
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                step = running.pop(future)
                done[step.name] = future.result()
                tell(step, "done")
    return done


def _silent(step: Step, what: Literal["started", "done"]) -> None:
    """Nobody listens."""
