"""How well estimates agree with measurements, before calibration and after, on queries that no trial of `tempura calibrate` has.

    python -m bench calibration                             # calibrates first, which takes some minutes
    python -m bench calibration --profile profile.json      # with what `tempura calibrate` wrote on this machine

Every query is refreshed at two points, once with what the plan chooses and once by recomputing. For each run: the CPU of the whole JVM, which is what estimates are of, and the
estimate of that very plan under the profile that ships, under the one measured here and now, and under the coefficients that were guessed before anything was measured. A cost is a
sum of coefficients times amounts, so one run is held against all three. Spark counts a step's tasks apart from others', but not what the JVM does beside them; so steps are held
against what estimates have for rows and bytes, without the fixed costs.
"""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bench import _planned, _record
from bench._record import OUT, QUERIES, ROUNDS, SF, Experiment, Figures
from tempura.estimate import Profile
from tempura.estimate.profile import COEFFICIENTS, DEFAULT
from tempura.job.shapes import Policy

if TYPE_CHECKING:
    from bench._spark import Workbench

_GUESSES: dict[str, Any] = {
    "job": 0.3, "shuffle": 0.07, "broadcast": 0.035, "file": 0.004,
    "scan_byte": 1.25e-8, "scan_row": 3e-7, "load_byte": 1e-8, "load_row": 1e-7, "save_byte": 2e-8, "save_row": 3e-7,
    "exchange_byte": 1.5e-8, "exchange_row": 2e-7, "broadcast_byte": 3e-8, "broadcast_row": 2e-7, "memory_byte": 2e-10,
    "build_row": 4e-7, "probe_row": 2e-7, "merge_row": 3e-7, "output_row": 1e-7, "pair": 5e-8, "aggregate_row": 3e-7, "aggregate_call_row": 2e-8,
    "sort_row": 2e-8, "filter_row": 5e-8, "project_row": 3e-8, "expression_row": 2e-8, "union_row": 1e-8, "window_row": 3e-7,
}  # fmt: skip
GUESSED = Profile(**(dict.fromkeys(COEFFICIENTS, 0.0) | _GUESSES))
"""What was taken for true before anything was measured; what is not named here was not known to cost anything."""
HELD_OUT = "q3,q7,q10,q22,q40,q51,q65,q80,q88,q93"
"""Stars, EXISTS, ROLLUP, windows, outer joins, nested aggregates, unions, and aggregates without groups."""
POLICIES: tuple[Policy, ...] = ("auto", "full")
MACHINE = ("cores", "executors", "buckets", "split_bytes", "broadcast_limit")
"""What a profile says of the machine and of how Spark is set up there."""
FIXED = ("job", "shuffle", "broadcast", "operator", "column", "file")
"""Coefficients for what is done once, much of it beside tasks."""
PROFILE, TRIALS, AGAIN = "profile", "trials", "trials again"
"""The cells with the coefficients that were measured on this machine, with what the trials took for that, and with what they took once more when all else was measured."""
GUESS, SHIPPED, HERE = "guessed", "shipped", "calibrated"
"""The profiles that estimates are made under: by guessing, the one that ships, and the one that was measured on this machine."""
VERBS = {SHIPPED: "ships", HERE: "was measured here"}
COLUMNS = ("query", "policy", "point", "measured s", *(f"{name} s" for name in (GUESS, SHIPPED, HERE)))


def run(
    sf: SF = 1.0,
    queries: QUERIES = HELD_OUT,
    profile: Annotated[
        Path | None, typer.Option(help="A profile that `tempura calibrate` wrote, instead of calibrating.")
    ] = None,
    rounds: ROUNDS = 2,
    out: OUT = None,
) -> None:
    """Estimated against measured CPU of runs, before calibration and after."""
    from bench._spark import WARM, Workbench

    if profile:
        Profile.load(profile)  # It tells what is wrong with it.
    named = f"{profile.name} {hashlib.sha256(profile.read_bytes()).hexdigest()[:8]}" if profile else "measured here"
    found = _record.experiment("calibration", sf, out, rounds=rounds, warm=WARM, profile=named)
    bench = Workbench()
    numbers = _record.query_numbers(queries)
    before = set(found.earlier)
    again = not profile and (TRIALS not in before or AGAIN in before)
    found.total = 2 + len(numbers) * len(POLICIES) + again
    here, _ = found.together([PROFILE, TRIALS], partial(_calibrated, bench, profile))
    profiles = {GUESS: GUESSED, SHIPPED: DEFAULT, HERE: Profile(**here)}
    for query in numbers:
        for policy in POLICIES:
            found.cell(f"q{query} {policy}", partial(_measured, bench, query, policy, sf, rounds, profiles))
    # Trials of two sessions do not tell how one of them aged.
    if again:
        after = len(runs_of(found.cells).keys() - before)
        found.cell(AGAIN, lambda: {"after": after, "trials": _calibrated(bench, None)[1]})
    _judge(found)
    rows = [
        [*name.split(), point, *(f"{taken[part]:.2f}" for part in ("measured", *profiles))]
        for name, cell in runs_of(found.cells).items()
        for point, taken in cell.items()
    ]
    found.finish(_planned.table_of(f"Estimates of runs at scale factor {sf:g}", COLUMNS, rows, words=3))


def runs_of(cells: Mapping[str, Figures]) -> dict[str, Figures]:
    """The cells of queries."""
    return {name: cell for name, cell in cells.items() if name not in (PROFILE, TRIALS, AGAIN)}


def _calibrated(bench: Workbench, given: Path | None) -> tuple[Figures, Figures]:
    """The profile of this machine, the one given or measured now, and the seconds that each trial took for it."""
    from tempura.spark.calibrate import calibrate

    def told(what: str, part: int, parts: int) -> None:
        _record.say(f"{part} of {parts}: {what}")

    if given:
        return asdict(Profile.load(given)), {}
    measured = calibrate(bench.spark, told=told)
    return asdict(measured.profile), {trial.name: trial.seconds for trial in measured.observed}


def _measured(
    bench: Workbench, query: int, policy: Policy, sf: float, rounds: int, profiles: Mapping[str, Profile]
) -> Figures:
    """By point: what the run took, and the estimates of the plan that was run. Points without work are left out."""
    from bench import _arrivals
    from bench._spark import WARM, folder, median, run_point
    from tempura.spark.calibrate.charge import amounts, itemized, priced
    from tempura.timeline import Timeline

    def estimates(charged: Mapping[str, float]) -> Figures:
        return {name: priced(charged, profile) for name, profile in profiles.items()}

    # Coefficients are what is compared; how many cores there are is no estimate.
    shipped = replace(profiles[SHIPPED], **{name: getattr(profiles[HERE], name) for name in MACHINE})
    taken: dict[str, list[Figures]] = {}
    for n in range(WARM + rounds):
        _record.say(f"q{query} {policy}, round {n + 1} of {WARM + rounds}")
        with folder() as place:
            job = _arrivals.job(query, sf, "delta-small", Timeline.refresh(), place / "workspace", policy=policy)
            job = replace(job, cluster=itemized(shipped))
            for point in job.timeline.points:
                spent, report = bench.gauge.spent(partial(run_point, job, point.name, spark=bench.spark))
                assert report.plan is not None
                steps = report.plan.runs[0].steps
                if n >= WARM and not all(ran.reused for ran in report.steps):
                    whole = {"measured": spent.jvm_cpu} | estimates(amounts(sum(step.cost for step in steps)))
                    by_step = {
                        step.name: {"measured": (ran.measured or {}).get("cpu_seconds")} | estimates(variable)
                        for step, ran in zip(steps, report.steps, strict=True)
                        if (variable := {k: v for k, v in amounts(step.cost).items() if k not in FIXED})
                    }
                    taken.setdefault(point.name, []).append(whole | {"steps": by_step})
    return {point: median(each) for point, each in taken.items()}


def _judge(found: Experiment) -> None:
    """The median of the errors, each as a share of what was measured; and how the session aged meanwhile, which estimates cannot know."""
    first, again = found.cells.get(TRIALS), found.cells.get(AGAIN)
    if first and again:
        aged = statistics.median(again["trials"][name] / first[name] for name in first)
        text = f"JVM CPU: the trials of calibration, run again in the same session after {again['after']} jobs"
        found.expect(text, f"take {aged:.2f} times what they took at first, in the median", None)
    runs = [taken for cell in runs_of(found.cells).values() for taken in cell.values()]
    steps = [step for taken in runs for step in taken["steps"].values() if step["measured"]]
    for what, kind, ones in (("runs", "JVM CPU", runs), ("steps", "task CPU, without fixed costs", steps)):
        if not ones:
            found.expect(f"{kind}: estimates", f"there are no {what} with work", None)
            continue
        error = {p: statistics.median(abs(o[p] / o["measured"] - 1) for o in ones) for p in (GUESS, SHIPPED, HERE)}
        said = ", ".join(f"{name} by {by:.0%}" for name, by in error.items())
        text = f"{kind}: estimates err less when calibrated than when guessed, in the median of {len(ones)} {what}"
        found.expect(text, said, error[HERE] < error[GUESS])
        found.expect(f"{kind}: and no more than as shipped", f"{error[HERE]:.0%}", error[HERE] <= error[SHIPPED])
        for name in (SHIPPED, HERE):
            ratios = [o[name] / o["measured"] for o in ones]
            common = statistics.median(ratios)
            beside = statistics.median(abs(ratio / common - 1) for ratio in ratios)
            told = f"{common:.2f} times what was measured in the median, but for that factor they err by {beside:.0%}"
            within = sum(0.5 <= ratio <= 2 for ratio in ratios)
            told += f"; {within} of {len(ones)} {what} within a factor of two"
            found.expect(f"{kind}: estimates of the profile that {VERBS[name]}", told, None)
