"""The optimizer, end to end: bind, normalize, explore, lay out, price, choose, assemble."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tempura.algebra import Op
from tempura.assemble import Assembler
from tempura.choose.decide import decide
from tempura.choose.objectives import LastRunAtMost, LatestFirst, Objective, Weighted
from tempura.choose.share import Choice
from tempura.definitions import Definitions
from tempura.errors import PlanError, SqlError
from tempura.estimate import DEFAULT, CostModel, Profile, SparkCost, UnitCost
from tempura.estimate.sizes import FinalSizes
from tempura.explain.reasons import reasons, recomputed
from tempura.explain.why import explain_view
from tempura.explore import UNHURRIED, Exploration, Explorer, Limits
from tempura.implement import Implementation
from tempura.job import Job
from tempura.memo import IntervalSpans, Memo, SignatureSpans
from tempura.memo.show import Names, show_memo, show_span
from tempura.plans import Cost, IncrementalPlan, Planning
from tempura.reference.views import Evaluation, History
from tempura.rules.existence import by_existence
from tempura.rules.halfjoins import late_half_joins
from tempura.rules.lang import RuleSet
from tempura.rules.methods import ALL, NONE, rules
from tempura.rules.methods import methods as methods_named
from tempura.rules.relational import normalize
from tempura.space import Space, intervals
from tempura.sql.bind import Query, bind
from tempura.standing import BEGINNING, Standing, found


@dataclass(frozen=True)
class Settings:
    """How to explore: the paper's three speed-ups, each of which can be switched off, and the limits."""

    symmetry: bool = True
    """TS: explore each kind of step once, not every step."""
    pruning: bool = True
    """PNA: take a delta by difference only where no rule gives one."""
    guided: bool = True
    """GE: merge a snapshot only with the delta that follows it."""
    limits: Limits = UNHURRIED


USUAL = Settings()


@dataclass
class Explored:
    """A job's memo and plan space."""

    job: Job
    queries: dict[str, Query]
    roots: dict[str, int]
    memo: Memo
    space: Space
    exploration: Exploration
    results: dict[tuple[int, int], str]
    """The query of each result that is due, by its group and point."""
    seconds: float
    """The time until the rules had nothing more to say."""

    @property
    def required(self) -> list[tuple[int, int]]:
        return list(self.results)

    @property
    def names(self) -> Names:
        return Names(self.memo, {tvr: name for name, tvr in self.roots.items()})


def explore(job: Job, chosen: RuleSet = ALL, settings: Settings = USUAL) -> Explored:
    """Bind the queries, find all that the rules can say of them, and lay it out over the timeline."""
    started = time.perf_counter()
    ticks = job.catalog.ticks(job.timeline)
    delivering = [i for i, p in enumerate(job.timeline.points) if p.deliver]
    over = intervals(ticks, delivering, settings.guided)
    spans = SignatureSpans(ticks, over) if settings.symmetry else IntervalSpans(ticks, over)
    memo = Memo(spans, lambda table: job.catalog[table].can_retract)
    memo.sizes = FinalSizes(job.catalog, job.timeline)
    explorer = Explorer(memo, rules(chosen, pruned=settings.pruning), limits=settings.limits)
    queries = _bound(job)
    trees = {name: normalize(query.root) for name, query in queries.items()}
    roots = {name: memo.insert(tree) for name, tree in trees.items()}
    for one, other in (ways for tree in trees.values() for ways in _ways(tree)):
        memo.unify(memo.insert(one), memo.insert(other))
    exploration = explorer.run()
    seconds = time.perf_counter() - started
    space = Space(memo, ticks, job.timeline, job.catalog, over, settings.guided)
    due = [(q, space.require(roots[q], i), i) for i in delivering for q in job.timeline.points[i].deliver]
    results: dict[tuple[int, int], str] = {}
    for query, group, point in due:
        own = space.find(group)
        results[space.another(own) if (own, point) in results else own, point] = query
    return Explored(job, queries, roots, memo, space, exploration, results, seconds)


def _ways(tree: Op) -> Iterator[tuple[Op, Op]]:
    """What a query can be asked in two ways, neither of which is always better."""
    late = list(late_half_joins(tree))
    yield from late
    for op in (tree, *(other for _, other in late)):
        yield from by_existence(op)


def _bound(job: Job) -> dict[str, Query]:
    """The queries of a job; where there are several, an error says in which one."""
    found: dict[str, Query] = {}
    for name, text in job.queries.items():
        try:
            found[name] = bind(text, job.catalog, name)
        except SqlError as error:
            if len(job.queries) > 1:
                error.message = f"query {name!r}: {error.message}"
            raise
    return found


def objective_of(job: Job) -> Objective:
    match job.objective.kind:
        case "weighted":
            return Weighted()
        case "latest-first":
            return LatestFirst()
        case _:
            return LastRunAtMost(job.objective.limit or 0.0)


def cost_model(name: str | CostModel, cluster: Profile = DEFAULT) -> CostModel:
    """A cost model by name; Spark's by the profile of a cluster."""
    if not isinstance(name, str):
        return name
    if name not in ("spark", "unit"):
        raise PlanError(f"there is no cost model {name!r}", hint="choose spark or unit")
    return SparkCost(cluster) if name == "spark" else UnitCost()


def plan(
    job: Job,
    methods: RuleSet | Sequence[str] | None = None,
    *,
    cost: str | CostModel = "spark",
    settings: Settings = USUAL,
    baselines: bool = True,
    data: History | None = None,
    standing: Standing = BEGINNING,
) -> IncrementalPlan:
    """The cheapest incremental plan for a job, with all methods or with those given.

    With `data`, the rows of each table at each point, sizes are counted instead of estimated (for small examples).
    `baselines` says whether the plan can be asked what recomputing and each method alone would cost; that is worked out when it is asked.
    With a `standing` the plan is for the points that are left, and may read the states that are there.
    """
    chosen = _chosen(job, methods)
    model = cost_model(cost, job.cluster)
    with _no_collection():
        return _planned(job, chosen, model, settings, baselines, data, standing)


@contextmanager
def _no_collection() -> Generator[None]:
    """Planning makes many small objects that live until it ends: looking for cycles among them in between finds nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _planned(
    job: Job,
    chosen: RuleSet,
    model: CostModel,
    settings: Settings,
    baselines: bool,
    data: History | None,
    standing: Standing,
) -> IncrementalPlan:
    started = time.perf_counter()
    explored = explore(job, chosen, settings)
    if job.policy == "strict" and chosen.rules:
        _refuse_recomputing(explored)
    exact = None if data is None else Evaluation(explored.space, data).size
    implementation = Implementation(explored.space, model, exact)
    graph = implementation.graph(explored.required, [p.price for p in job.timeline.points], standing.done)
    definitions = Definitions(explored.space)
    # Who recomputes wants to keep nothing, and to believe nothing that was kept.
    full = job.policy == "full"
    existing = {} if full else found(implementation, definitions, standing.states)
    held = frozenset(node for node, state in existing.items() if not state.result)
    graph = replace(graph, existing=frozenset(existing), held=held)
    forced = job.policy in ("incremental", "strict")
    choice = decide(graph, objective_of(job), 0.0 if full else job.state_budget, chosen, forced=forced)
    done = time.perf_counter()
    planning = Planning(
        explore_seconds=explored.seconds,
        share_seconds=done - started - explored.seconds,
        groups=len(explored.space.all_groups()),
        tvrs=sum(1 for _ in explored.memo.tvrs()),
        facts=explored.memo.facts,
        firings=explored.exploration.firings,
        costings=choice.counters.costings,
        stop_reason=explored.exploration.stop_reason,
    )
    compared: Mapping[str, float] = Baselines(job, chosen, model, settings, data, standing) if baselines else {}
    assembler = Assembler(
        explored.space,
        implementation,
        graph,
        explored.results,
        explored.queries,
        explored.names,
        definitions,
        standing,
        existing,
    )
    return _assemble(explored, assembler, choice, planning, chosen, compared)


def _chosen(job: Job, methods: RuleSet | Sequence[str] | None) -> RuleSet:
    if job.policy == "full":
        return NONE
    if methods is None:
        return methods_named(job.methods) if job.methods else ALL
    return methods if isinstance(methods, RuleSet) else methods_named(methods)


def _refuse_recomputing(explored: Explored) -> None:
    """The policy `strict` wants every operator maintained."""
    only = recomputed(explored.memo)
    if only:
        names = explored.names
        told = "; ".join(f"{names.tvr(tvr)}: {why}" for tvr, why in only.items())
        raise PlanError(
            f"the policy is strict, but these can only be recomputed: {told}",
            hint="use the policy auto or incremental, or rewrite them",
        )


class Baselines(Mapping[str, float]):
    """What recomputing (`full`) and each method alone would cost under the same objective; worked out when first asked for."""

    def __init__(
        self,
        job: Job,
        chosen: RuleSet,
        model: CostModel,
        settings: Settings,
        data: History | None,
        standing: Standing,
    ):
        self._names = ("full", *(part.name for part in chosen.parts if part.rules))
        self._job, self._model, self._settings, self._data, self._standing = job, model, settings, data, standing
        self._parts = {"full": NONE, **{part.name: part for part in chosen.parts}}
        self._known: dict[str, float] = {}

    def __getitem__(self, name: str) -> float:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._known:
            try:
                alone = plan(
                    self._job,
                    self._parts[name],
                    cost=self._model,
                    settings=self._settings,
                    baselines=False,
                    data=self._data,
                    standing=self._standing,
                )
                self._known[name] = alone.cost.total
            except PlanError:
                # Without the other methods nothing does what was asked.
                self._known[name] = math.inf
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _assemble(
    explored: Explored,
    assembler: Assembler,
    choice: Choice,
    planning: Planning,
    chosen: RuleSet,
    baselines: Mapping[str, float],
) -> IncrementalPlan:
    job, space, memo, names = explored.job, explored.space, explored.memo, explored.names
    runs = assembler.runs(choice.derivations)
    points = [p.name for p in assembler.points]
    total = choice.total[0] if isinstance(choice.total, tuple) else choice.total
    only = recomputed(memo) if chosen.rules else {}
    notes = (*choice.notes, *(f"{names.tvr(tvr)} is recomputed: {why}" for tvr, why in only.items()))
    return IncrementalPlan(
        name=job.name,
        objective=str(job.objective),
        runs=runs,
        states=assembler.states(choice.derivations, runs),
        cost=Cost(
            total, dict(zip(points, choice.by_point, strict=True)), dict(zip(points, choice.work_by_point, strict=True))
        ),
        baselines=baselines,
        reasons=reasons(
            memo, space, explored.exploration, names, [p.name for p in chosen.parts if p.rules], assembler.used
        ),
        notes=notes,
        planning=planning,
    )


def memo_text(job: Job, methods: RuleSet | Sequence[str] | None = None) -> str:
    """The memo after exploration, as text."""
    explored = explore(job, _chosen(job, methods))
    return show_memo(explored.memo, explored.names)


def trace_text(job: Job, methods: RuleSet | Sequence[str] | None = None) -> str:
    """The rules in the order in which they fired, each with what it fired on."""
    explored = explore(job, _chosen(job, methods))
    names = explored.names
    lines: list[str] = []
    for n, (rule, method, tvr, span) in enumerate(explored.exploration.trace, 1):
        over = "" if span is None else f" over {show_span(span)}"
        lines.append(f"{n:5} {rule} ({method}) on {names.tvr(tvr)}{over}")
    return "\n".join([*lines, f"stopped: {explored.exploration.stop_reason}"])


def why_text(
    job: Job, view: str, methods: RuleSet | Sequence[str] | None = None, *, cost: str | CostModel = "spark"
) -> str:
    """All ways to compute a view, the rule behind each, and which one the plan took."""
    found = plan(job, methods, cost=cost, baselines=False)
    explored = explore(job, _chosen(job, methods))
    return explain_view(explored, found, view)
