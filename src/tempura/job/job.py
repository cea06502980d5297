"""A job: the queries, the tables and how they arrive, the timeline, and what the plan should be best at.

    name: gross-revenue
    query: summary.sql                       # a file beside the job, or the text itself
    tables:
      sales:   {columns: {o_id: string not null, price: double}, key: [o_id], arrives: {t1: 4, t2: 3}}
      returns: {columns: {o_id: string, cost: double}, arrives: {t1: 1, t2: 2}}
    timeline:
      - {at: t1, price: 0.2}
      - {at: t2, price: 1.0, deliver: true}

`Job(query=…, tables=…, timeline=…)` takes the same shapes in Python, or a `Catalog` and a `Timeline`. All mistakes are reported together,
each with its line where there is a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Literal, cast

from tempura.catalog import Catalog
from tempura.errors import JobError
from tempura.estimate.profile import DEFAULT, Profile
from tempura.job.checks import contradictions, disorder
from tempura.job.marks import Document, Path
from tempura.job.problems import Problems
from tempura.job.shapes import METHODS, JobShape, PointShape, Policy, nearest
from tempura.job.tables import TableReader
from tempura.paths import local
from tempura.timeline import MAIN, Point, Timeline

if TYPE_CHECKING:
    from tempura.sources import Source


@dataclass(frozen=True)
class Objective:
    """What makes one plan better than another.

    `weighted`: the sum of work times price (the paper's c̃w). `latest-first`: the last run's work, then the one before, … (c̃v).
    `last-run-at-most`: the least weighted sum among the plans whose last run costs at most `limit`.
    """

    kind: Literal["weighted", "latest-first", "last-run-at-most"] = "weighted"
    limit: float | None = None

    @staticmethod
    def parse(value: Any) -> Objective:
        """From `weighted`, `latest-first`, `{last-run-at-most: 2.5}` or, as on the command line, `last-run-at-most:2.5`."""
        if isinstance(value, Objective):
            return value
        if isinstance(value, str):
            kind, _, limit = (part.strip() for part in value.replace("=", ":").partition(":"))
            value = {kind: limit or None}
        given = cast("Mapping[str, Any]", value if isinstance(value, Mapping) else {})
        if len(given) == 1:
            kind, limit = next(iter(given.items()))
            if kind in ("weighted", "latest-first") and limit is None:
                return Objective(kind)
            if kind == "last-run-at-most":
                return Objective(kind, _limit(limit))
            if kind not in ("weighted", "latest-first"):
                raise JobError(
                    f"unknown objective {kind!r}", hint=nearest(kind, ("weighted", "latest-first", "last-run-at-most"))
                )
        raise JobError(
            f"the objective {value!r} cannot be read",
            hint="choose `weighted`, `latest-first` or `{last-run-at-most: 2.5}`",
        )

    def __str__(self) -> str:
        return self.kind if self.limit is None else f"{self.kind}: {self.limit:g}"


def _limit(value: Any) -> float:
    try:
        limit = float(value)
    except (TypeError, ValueError):
        limit = -1.0
    if not limit >= 0:
        raise JobError(
            f"`last-run-at-most` is {value!r}", hint="give the most the last run may cost, a number of zero or more"
        )
    return limit


def parse_methods(value: str | Iterable[str]) -> tuple[str, ...]:
    """Names of methods in their usual order, from a list or from text with commas; `all` stands for every one."""
    given = [name for part in ([value] if isinstance(value, str) else value) for name in part.split(",")]
    found: set[str] = set()
    for name in given:
        plain = re.sub(r"[-_\s]", "", name).upper()
        if plain == "ALL":
            found.update(METHODS)
        elif plain in METHODS:
            found.add(plain)
        else:
            raise JobError(f"unknown method {name.strip()!r}", hint=nearest(plain, METHODS))
    if not found:
        raise JobError(
            "no method is named",
            hint=f"name some of {', '.join(METHODS)}; for a plan that only recomputes use `policy: full`",
        )
    return tuple(m for m in METHODS if m in found)


def _texts(value: Any) -> list[str]:
    """What is left of a list that may have been reported as none; all methods, so that nothing is reported twice."""
    entries = cast(
        "list[Any]", [value] if isinstance(value, str) else value if isinstance(value, list | tuple) else METHODS
    )
    return [e for e in entries if isinstance(e, str)] if all(isinstance(e, str) for e in entries) else list(METHODS)


@dataclass(frozen=True, init=False)
class Job:
    """What to plan. Queries are Spark SQL by name; a job's only query, if it has no name, is called `result`."""

    name: str
    queries: Mapping[str, str]
    catalog: Catalog
    timeline: Timeline
    objective: Objective
    methods: tuple[str, ...]
    policy: Policy
    state_budget: float | None
    """The most bytes that states may take at any time."""
    sources: Mapping[str, Source]
    """Where the rows of tables come from, by the table's name in lower case; planning needs none."""
    folder: FilePath
    """The folder of the job file; relative names are relative to it."""
    workspace: str
    """Where runs keep states and results: a path or a URI."""
    checks: bool
    """Whether runs check that keys are keys, and that only rows that are there are taken away."""
    cluster: Profile
    """What work costs where the job is run."""

    def __init__(
        self,
        *,
        timeline: Timeline | Sequence[Point | Mapping[str, Any]],
        query: str | None = None,
        queries: Mapping[str, str] | None = None,
        tables: Catalog | Mapping[str, Any] | None = None,
        catalog: Catalog | None = None,
        name: str = "job",
        objective: Objective | str | Mapping[str, Any] = "weighted",
        methods: str | Iterable[str] = METHODS,
        policy: Policy = "auto",
        state_budget: float | str | None = None,
        sources: Mapping[str, Source] | None = None,
        folder: str | FilePath = ".",
        workspace: str | None = None,
        checks: bool = True,
        cluster: Profile | str | FilePath | None = None,
    ):
        given = {
            "timeline": timeline if isinstance(timeline, Timeline) else list(timeline), "query": query, "queries": None if queries is None else dict(queries), "tables": tables if catalog is None else catalog,
            "name": name, "objective": objective, "methods": methods if isinstance(methods, str) else list(methods), "policy": policy,
            "state_budget": state_budget, "sources": sources, "workspace": workspace, "checks": checks,
            "cluster": str(cluster) if isinstance(cluster, FilePath) else cluster,
        }  # fmt: skip
        self._fill(_Reader(None, FilePath(folder), "the job").read({k: v for k, v in given.items() if v is not None}))

    @staticmethod
    def load(path: str | FilePath) -> Job:
        """The job in a YAML file; names of query files are relative to it."""
        path = FilePath(path)
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise JobError(
                f"cannot read the job file {str(path)!r}: {error.strerror}", hint="give the path of a job's YAML file"
            ) from None
        except UnicodeDecodeError:
            raise JobError(f"the job file {str(path)!r} is not text", hint="save it as UTF-8") from None
        return Job.parse(text, path.parent, path.name)

    @staticmethod
    def parse(text: str, folder: str | FilePath = ".", source: str = "the job file") -> Job:
        """The job in a YAML text; names of query files are relative to `folder`."""
        document = Document(text)
        job = object.__new__(Job)
        job._fill(_Reader(document, FilePath(folder), source).read(document.value))
        return job

    def _fill(self, values: Mapping[str, Any]) -> None:
        for field, value in values.items():
            object.__setattr__(self, field, value)


class _Reader(Problems):
    """Turns the shapes of a job into its parts, and collects what is wrong on the way."""

    def __init__(self, document: Document | None, folder: FilePath, source: str):
        super().__init__(document, source)
        self.folder = folder

    def read(self, given: Any) -> dict[str, Any]:
        if not isinstance(given, Mapping):
            raise JobError(
                f"{self.source} is not a mapping",
                hint="start with `name: …`, `query: …`, `tables: …`, `timeline: …`",
                line=1,
            )
        given = dict(cast("Mapping[str, Any]", given))
        # Finished parts need no reading; in their place stand values that fit the shape.
        catalog, timeline = given.get("tables"), given.get("timeline")
        objective = given.pop("objective", "weighted")
        cluster = given.pop("cluster") if isinstance(given.get("cluster"), Profile) else None
        # In a file, sources stand beside the columns of their tables.
        sources = cast("Mapping[str, Source]", given.pop("sources", {}) if self.document is None else {})
        if isinstance(catalog, Catalog):
            given["tables"] = {"_": None}
        if isinstance(timeline, Timeline):
            given["timeline"] = [None]
        shape = cast("JobShape | None", self.fit(JobShape, given, ()))
        raw = given if shape is None else shape.model_dump()

        queries = self._queries(raw)
        found = self.attempt(("objective",), lambda: Objective.parse(objective))
        cluster = cluster or self._cluster(raw.get("cluster"))
        methods = self.attempt(("methods",), lambda: parse_methods(_texts(raw.get("methods", METHODS))))
        if not isinstance(timeline, Timeline):
            timeline = self._timeline(timeline, queries)
        tables = TableReader(self, self.folder, timeline, sources)
        catalog = tables.catalog(catalog)
        if timeline is not None:
            self.report(contradictions(catalog, timeline, queries))
        self.finish()
        # Jobs in one folder that have no names must not share a workspace.
        name = raw.get("name") or (FilePath(self.source).stem if self.source.endswith((".yaml", ".yml")) else "job")
        return {
            "name": name, "queries": queries, "catalog": catalog, "timeline": timeline, "objective": found,
            "methods": methods, "policy": raw["policy"], "state_budget": raw["state_budget"],
            "sources": tables.sources, "folder": self.folder, "workspace": self._workspace(raw["workspace"], name),
            "checks": raw["checks"], "cluster": cluster,
        }  # fmt: skip

    def _workspace(self, given: str | None, name: str) -> str:
        path = given or f".tempura/{re.sub(r'[^A-Za-z0-9._-]+', '-', name)}"
        return path if "://" in path else str(local(self.folder, path))

    def _cluster(self, path: Any) -> Profile | None:
        if not isinstance(path, str):
            return DEFAULT  # None is given, or what is no name has been reported.
        return self.attempt(("cluster",), lambda: Profile.load(local(self.folder, path)))

    # Queries.

    def _queries(self, raw: Mapping[str, Any]) -> dict[str, str]:
        query, queries = raw.get("query"), raw.get("queries")
        if query is not None and queries is not None:
            self.problem(
                "both `query` and `queries` are given",
                "keep one: `query` for one query, `queries` for several by name",
                ("queries",),
            )
        if query is None and not queries:
            self.problem("the job has no query", "add `query: file.sql`, or the text itself", ())
            return {}
        # What does not fit its shape has been reported; here it only must not add to the noise.
        texts = cast("dict[str, Any]", queries if isinstance(queries, Mapping) else {MAIN: query})
        path: Path = ("queries",) if isinstance(queries, Mapping) else ()
        return {
            n: self._query(t, (*path, n) if path else ("query",)) if isinstance(t, str) else ""
            for n, t in texts.items()
        }

    def _query(self, text: str, path: Path) -> str:
        """The text of a query given as itself or as the name of a file: a name has no spaces, or ends in `.sql`."""
        if not text.strip():
            self.problem("the query is empty", "give the name of an SQL file, or the text itself", path)
            return ""
        is_file = text.strip().lower().endswith(".sql") and "\n" not in text.strip()
        if not is_file and re.search(r"\s", text.strip()):
            return text
        try:
            return local(self.folder, text.strip()).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            why = "is missing" if isinstance(error, FileNotFoundError) else "cannot be read as text"
            self.problem(
                f"the query file {text.strip()!r} {why}",
                f"it is looked for beside the job, in {str(self.folder)!r}",
                path,
            )
            return ""

    # The timeline.

    def _timeline(self, given: Any, queries: Mapping[str, str]) -> Timeline | None:
        points: list[Point] = []
        seen: dict[str, int] = {}
        entries = cast("list[Any]", given) if isinstance(given, list | tuple) else []
        for i, entry in enumerate(entries):
            shape = (
                None
                if isinstance(entry, Point)
                else cast("PointShape | None", self.fit(PointShape, entry, ("timeline", i)))
            )
            if shape is not None:
                entry = Point(shape.at, shape.price, self._due(shape.deliver, queries), shape.upto)
            if not isinstance(entry, Point):
                continue
            if entry.name in seen:
                self.problem(
                    f"time {entry.name!r} appears twice in the timeline",
                    "give each point its own name",
                    ("timeline", i, "at"),
                )
                continue
            seen[entry.name] = i
            points.append(entry)
        if len(seen) < len(entries) or not points:
            return None  # The rest is judged when every point can be read.
        self.report(disorder([p.name for p in points]))
        if not any(p.deliver for p in points):
            hint = "add `deliver: true` to the points where the result is due"
            self.problem("no point of the timeline delivers a result", hint, ("timeline",))
            return None
        return self.attempt(("timeline",), lambda: Timeline(tuple(points)))

    @staticmethod
    def _due(deliver: bool | list[str], queries: Mapping[str, str]) -> tuple[str, ...]:
        if isinstance(deliver, bool):
            # Without a query there is nothing to deliver, but that is reported once, where it is missing.
            return (tuple(queries) or (MAIN,)) if deliver else ()
        return tuple(dict.fromkeys(deliver))
