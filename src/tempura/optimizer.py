"""The optimizer, end to end, in one screen: bind, normalize, explore, lay out, price, choose, assemble."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from tempura.assemble import Assembler
from tempura.errors import PlanError
from tempura.estimate import CostModel, SparkCost, UnitCost
from tempura.explore import Exploration, Explorer, Limits
from tempura.implement import Implementation
from tempura.job import Job
from tempura.memo import IntervalSpans, Memo, SignatureSpans
from tempura.memo.show import Names
from tempura.methods import ALL, NONE, methods as methods_named, rules
from tempura.plan import Cost, IncrementalPlan, Planning
from tempura.rules.lang import RuleSet
from tempura.rules.relational import normalize
from tempura.search import Graph, LastRunAtMost, LatestFirst, Objective, Weighted
from tempura.share import Choice, choose
from tempura.sizes import FinalSizes
from tempura.space import Space, intervals
from tempura.sql.bind import Query, bind


@dataclass(frozen=True)
class Settings:
    """How to explore: the paper's three speed-ups, each of which can be switched off, and the limits."""

    symmetry: bool = True
    """TS: explore each kind of step once, not every step."""
    pruning: bool = True
    """PNA: take a delta by difference only where no rule gives one."""
    guided: bool = True
    """GE: merge a snapshot only with the delta that follows it."""
    limits: Limits = Limits()


@dataclass
class Explored:
    """A job's memo and plan space."""

    job: Job
    queries: dict[str, Query]
    roots: dict[str, int]
    memo: Memo
    space: Space
    exploration: Exploration
    required: list[tuple[int, int]]

    @property
    def names(self) -> Names:
        return Names(self.memo, {tvr: name for name, tvr in self.roots.items()})


def explore(job: Job, chosen: RuleSet = ALL, settings: Settings = Settings()) -> Explored:
    """Bind the queries and find all that the rules can say of them."""
    ticks = job.catalog.ticks(job.timeline)
    delivering = [i for i, p in enumerate(job.timeline.points) if p.deliver]
    over = intervals(ticks, delivering, settings.guided)
    spans = SignatureSpans(ticks, over) if settings.symmetry else IntervalSpans(ticks, over)
    memo = Memo(spans, lambda table: job.catalog[table].can_retract)
    memo.sizes = FinalSizes(job.catalog, job.timeline)
    explorer = Explorer(memo, rules(chosen, pruned=settings.pruning), limits=settings.limits)
    queries = {name: bind(text, job.catalog, name) for name, text in job.queries.items()}
    roots = {name: memo.insert(normalize(query.root)) for name, query in queries.items()}
    exploration = explorer.run()
    space = Space(memo, ticks, job.timeline, job.catalog, over, settings.guided)
    required = [(space.require(roots[q], i), i) for i in delivering for q in job.timeline.points[i].deliver]
    return Explored(job, queries, roots, memo, space, exploration, required)


def objective_of(job: Job) -> Objective:
    match job.objective.kind:
        case "weighted":
            return Weighted()
        case "latest-first":
            return LatestFirst()
        case _:
            return LastRunAtMost(job.objective.limit or 0.0)


def cost_model(name: str | CostModel) -> CostModel:
    """A cost model by name."""
    if not isinstance(name, str):
        return name
    if name not in ("spark", "unit"):
        raise PlanError(f"there is no cost model {name!r}", hint="choose spark or unit")
    return SparkCost() if name == "spark" else UnitCost()


def plan(
    job: Job,
    methods: RuleSet | Sequence[str] | None = None,
    *,
    cost: str | CostModel = "spark",
    settings: Settings = Settings(),
) -> IncrementalPlan:
    """The cheapest incremental plan for a job, with all methods or with those given."""
    chosen = _chosen(job, methods)
    model = cost_model(cost)
    started = time.perf_counter()
    explored = explore(job, chosen, settings)
    implementation = Implementation(explored.space, model)
    graph = implementation.graph(explored.required, [p.price for p in job.timeline.points])
    laid_out = time.perf_counter()
    choice = choose(graph, objective_of(job), job.state_budget)
    done = time.perf_counter()
    return _assemble(explored, implementation, graph, model, choice, laid_out - started, done - laid_out)


def _chosen(job: Job, methods: RuleSet | Sequence[str] | None) -> RuleSet:
    if job.policy == "full":
        return NONE
    if methods is None:
        return methods_named(job.methods) if job.methods else ALL
    return methods if isinstance(methods, RuleSet) else methods_named(methods)


def _assemble(explored: Explored, implementation: Implementation, graph: Graph, model: CostModel, choice: Choice, explore_seconds: float, share_seconds: float) -> IncrementalPlan:
    job, space = explored.job, explored.space
    by_root = {explored.memo.find(tvr): name for name, tvr in explored.roots.items()}
    orders = {name: tuple(str(k) for k in query.order) for name, query in explored.queries.items()}
    assembler = Assembler(space, implementation, graph, model, by_root, orders, explored.names)
    runs = assembler.runs(choice.derivations)
    points = [p.name for p in job.timeline.points]
    total = choice.total if isinstance(choice.total, float) else choice.total[0]
    return IncrementalPlan(
        name=job.name,
        objective=str(job.objective),
        runs=runs,
        states=assembler.states(choice.derivations, runs),
        cost=Cost(total, dict(zip(points, choice.by_point, strict=True)), dict(zip(points, choice.work_by_point, strict=True))),
        notes=choice.notes,
        planning=Planning(
            explore_seconds=explore_seconds,
            share_seconds=share_seconds,
            groups=len(space.all_groups()),
            tvrs=sum(1 for _ in explored.memo.tvrs()),
            facts=explored.memo.facts,
            firings=explored.exploration.firings,
            costings=choice.counters.costings,
            stop_reason=explored.exploration.stop_reason,
        ),
    )
