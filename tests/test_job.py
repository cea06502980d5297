"""The job file: what it may say, and how every mistake is reported with its line and a hint."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tempura.catalog import Catalog, Table
from tempura.errors import JobError, JobProblems
from tempura.estimate.profile import DEFAULT, Profile
from tempura.job import Job, Objective, parse_methods
from tempura.job.shapes import METHODS, spark_type
from tempura.optimizer import plan
from tempura.schema import Column
from tempura.timeline import MAIN, Point, Timeline

GOOD = """\
name: gross-revenue
query: SELECT category, sum(price) AS gross FROM sales GROUP BY category
tables:
  sales:
    columns: {o_id: string, category: String, price: 'decimal(7, 2) not null'}
    key: [o_id]
    arrives: {t1: 4, t2: 3}
    retracts: {t2: 0.1}
    statistics:
      o_id: {distinct: 7, width: 8}
      price: {min: 1, max: 1e3, nulls: 0.5}
  category:
    columns: {category: string, since: date}
    key: category
    static: 2
    statistics: {since: {min: 1970-01-11, max: 2026-11-01}}
timeline:
  - {at: t1, price: 0.2}
  - {at: t2, price: 1.0, deliver: true}
"""


def problems(text: str, folder: Path | str = ".") -> list[JobError]:
    with pytest.raises(JobError) as caught:
        Job.parse(text, folder)
    error = caught.value
    return list(error.problems) if isinstance(error, JobProblems) else [error]


def only_problem(text: str, folder: Path | str = ".") -> JobError:
    found = problems(text, folder)
    assert len(found) == 1, [str(p) for p in found]
    return found[0]


def line_of(text: str, part: str) -> int:
    return next(i for i, line in enumerate(text.splitlines(), 1) if part in line)


def test_whole_job():
    job = Job.parse(GOOD)
    assert job.name == "gross-revenue"
    assert list(job.queries) == [MAIN]
    sales = job.catalog["sales"]
    assert sales.columns == (
        Column("o_id", "string", False),
        Column("category", "string"),
        Column("price", "decimal(7,2)", False),
    )
    assert (sales.key, sales.arrives, sales.retracts) == (("o_id",), {"t1": 4, "t2": 3}, {"t2": 0.1})
    assert sales.statistics["price"].greatest == 1000.0
    assert sales.statistics["price"].null_share == 0.5
    dimension = job.catalog["category"]
    assert dimension.arrives == {"t1": 2}
    assert dimension.statistics["since"].least == 10.0
    assert job.timeline == Timeline((Point("t1", 0.2), Point("t2", 1.0, (MAIN,))))
    assert (job.objective, job.methods, job.policy, job.state_budget) == (Objective("weighted"), METHODS, "auto", None)


def test_load_reads_query_beside_the_job():
    job = Job.load(Path(__file__).parent.parent / "examples/sales/job.yaml")
    assert "LEFT OUTER JOIN" in job.queries[MAIN]
    assert job.timeline.points[0].price == 0.2


def test_a_query_file_may_begin_with_a_byte_order_mark(tmp_path: Path):
    (tmp_path / "q.sql").write_text("select o_id from sales", encoding="utf-8-sig")
    job = Job.parse(JOB_WITHOUT_NAME.replace("select o_id from sales", "q.sql"), tmp_path)
    assert job.queries[MAIN] == "select o_id from sales"


JOB_WITHOUT_NAME = """\
query: select o_id from sales
tables: {sales: {columns: {o_id: string}, arrives: {t1: 4}}}
timeline: [{at: t1, deliver: true}]
"""


def test_jobs_without_a_name_have_that_of_their_file(tmp_path: Path):
    for name in ("a.yaml", "b.yml"):
        (tmp_path / name).write_text(JOB_WITHOUT_NAME)
    a, b = (Job.load(tmp_path / name) for name in ("a.yaml", "b.yml"))
    assert (a.name, b.name) == ("a", "b") and a.workspace != b.workspace


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("query: select o_id from sales", "queries: {Sales: select o_id from sales}", "is the name of a table, too"),
        ("query: select o_id from sales", "queries: {'a@b': select o_id from sales}", "contains `@`"),
        (
            "{columns",
            "{columns: {o_id: string}, static: 1}, SALES: {columns",
            "table 'SALES' is there already, as 'sales'",
        ),
        ("{o_id: string", "{o_id: string, O_ID: string", "column 'O_ID' is there already, as 'o_id'"),
        ("query: select", "queries: {a: select 1 as x, A: select 2 as x} #", "query 'A' is there already, as 'a'"),
        ("t1", "reset", "a point cannot be named 'reset'"),
        ("t1", "'mon@9'", "a point cannot be named 'mon@9'"),
        (
            "{at: t1,",
            "{at: t1}, {at: t2}, {at: 't1:t2',",
            "'t1:t2' could not be told from the change from 't1' to 't2'",
        ),
        (
            "{at: t1,",
            "{at: t1}, {at: 't1:t2'}, {at: 't2:t3'}, {at: t3,",
            "the change from 't1:t2' to 't3' could not be told from that from 't1' to 't2:t3'",
        ),
    ],
)
def test_names_that_would_be_taken_for_others(old: str, new: str, message: str):
    with pytest.raises(JobError, match=message):
        Job.parse(JOB_WITHOUT_NAME.replace(old, new))


def test_several_queries(tmp_path: Path):
    (tmp_path / "a.sql").write_text("select 1 as x")
    text = GOOD.replace(
        "query: SELECT category, sum(price) AS gross FROM sales GROUP BY category",
        "queries: {a: a.sql, b: select 2 as y, c: select 3 as z}",
    ).replace("price: 0.2}", "price: 0.2, deliver: [a, c]}")
    job = Job.parse(text, tmp_path)
    assert job.queries["a"] == "select 1 as x"
    assert [p.deliver for p in job.timeline.points] == [("a", "c"), ("a", "b", "c")]
    one = Job.parse(text.replace("[a, c]", "b"), tmp_path)
    assert one.timeline.points[0].deliver == ("b",)


def test_python_takes_the_same_shapes():
    tables = {"sales": {"columns": {"o_id": "string"}, "key": ["o_id"], "arrives": {"t1": 4}}}
    shaped = Job(query="select * from sales", tables=tables, timeline=[{"at": "t1", "deliver": True}])
    catalog = Catalog(Table("sales", (Column("o_id", "string", False),), ("o_id",), {"t1": 4}))
    built = Job(query="select * from sales", tables=catalog, timeline=Timeline((Point("t1", 1.0, (MAIN,)),)))
    assert shaped.catalog["sales"] == built.catalog["sales"]
    assert (shaped.timeline, shaped.queries) == (built.timeline, built.queries)
    cheaper = dataclasses.replace(built, objective=Objective("latest-first"), methods=("IM1",))
    assert (cheaper.objective.kind, cheaper.methods, cheaper.catalog) == ("latest-first", ("IM1",), built.catalog)


def test_python_objects_are_checked_too():
    catalog = Catalog(Table("sales", (Column("o_id", "string"),), (), {"t9": 4}))
    with pytest.raises(JobError, match="no point of the timeline"):
        Job(query="select * from sales", tables=catalog, timeline=Timeline.refresh())
    with pytest.raises(JobError, match="no query of the job"):
        Job(queries={"a": "select 1 as x"}, tables=Catalog(), timeline=Timeline((Point("t1", 1.0, ("a", "b")),)))


@pytest.mark.parametrize(
    ("given", "objective"),
    [
        ("weighted", Objective("weighted")),
        ("latest-first", Objective("latest-first")),
        ("{last-run-at-most: 2.5}", Objective("last-run-at-most", 2.5)),
    ],
)
def test_objectives(given: str, objective: Objective):
    assert Job.parse(GOOD + f"objective: {given}\n").objective == objective


def test_objective_on_the_command_line():
    assert Objective.parse("last-run-at-most:2.5") == Objective("last-run-at-most", 2.5)
    assert str(Objective.parse("last-run-at-most=2.5")) == "last-run-at-most: 2.5"


def test_methods_by_other_spellings():
    assert parse_methods("IM-2, im1") == ("IM1", "IM2")
    assert parse_methods(["all"]) == METHODS
    assert parse_methods(["IM1,OJV", "im2"]) == ("IM1", "IM2", "OJV"), "as on the command line"


@pytest.mark.parametrize(("text", "size"), [("1000", 1000), ("500 MB", 5e8), ("2GiB", 2 * 1024**3), ("1.5 kB", 1500)])
def test_state_budget(text: str, size: float):
    assert Job.parse(GOOD + f"state_budget: {text}\n").state_budget == size


def test_changes_between_times_of_day_can_be_told_apart():
    names = ["13:00", "14:00", "14:00:30", "19:00", "24:00"]
    points = ", ".join(f"{{at: {name}}}" for name in names[:-1])
    text = JOB_WITHOUT_NAME.replace("{at: t1", f"{points}, {{at: {names[-1]}").replace("t1", names[0])
    assert [p.name for p in Job.parse(text).timeline.points] == names


def test_times_of_day_stay_texts():
    text = (
        GOOD.replace("t1: 4, t2: 3", "09:30: 4, 14:00: 3")
        .replace("{t2: 0.1}", "{14:00: 0.1}")
        .replace("at: t1", "at: 09:30")
        .replace("at: t2", "at: 14:00")
    )
    job = Job.parse(text)
    assert [p.name for p in job.timeline.points] == ["09:30", "14:00"]
    assert job.catalog["sales"].arrives == {"09:30": 4, "14:00": 3}


def test_numbers_are_names_as_they_stand():
    given = ("2026_09", "2026.10", "2026.1", "1e3", "007", "+5", "12")
    points = ", ".join(f"{{at: {name}, upto: {name}, price: 1_000.50}}" for name in given)
    job = Job.parse(
        JOB_WITHOUT_NAME.replace("{at: t1, d", f"{points}, {{at: end, d").replace("{t1: 4}", "{2026_09: 4_000}")
    )
    assert [p.name for p in job.timeline.points[:-1]] == list(given)
    assert [p.upto for p in job.timeline.points[:-1]] == list(given)
    assert job.timeline.points[0].price == 1000.5 and job.catalog["sales"].arrives == {"2026_09": 4000}


# One mistake each: what is replaced by what, a part of the message, a part of the hint, and a part of the line it is reported at.
MISTAKES = {
    "unknown key": ("policy", "polcy: auto\n", "unknown key `polcy`", "did you mean `policy`?", "polcy"),
    "unknown key of a table": ("    key: [o_id]", "    keys: [o_id]", "table 'sales': unknown key `keys`", "did you mean `key`?", "keys:"),
    "unknown key of a point": ("price: 0.2", "prize: 0.2", "unknown key `prize`", "did you mean `price`?", "prize"),
    "unknown key of statistics": ("width: 8", "wdth: 8", "unknown key `wdth`", "did you mean `width`?", "wdth"),
    "wrong type": ("price: 0.2", "price: cheap", "`price` is 'cheap'", "give a number", "cheap"),
    "true is no number": ("price: 0.2", "price: true", "`price` is True", "give a number", "price: true"),
    "table that is no mapping": ("  category:\n", "  extra: 5\n  category:\n", "table 'extra'", "mapping", "extra"),
    "unknown column type": ("category: String", "category: strng", "'strng' is not a Spark SQL type", "CREATE TABLE", "strng"),
    "key that is no column": ("key: [o_id]", "key: [oid]", "no column 'oid'", "did you mean `o_id`?", "key: [oid]"),
    "statistics of no column": ("      price: {", "      prize: {", "no column 'prize'", "did you mean `price`?", "prize"),
    "statistics against the key": ("distinct: 7", "distinct: 5", "5 distinct values for 7 rows", "correct the statistics", "distinct: 5"),
    "nulls in the key": ("width: 8", "nulls: 0.5", "said to hold NULLs", "never NULL", "nulls: 0.5"),
    "share above one": ("{t2: 0.1}", "{t2: 10}", "`t2` is 10", "between 0 and 1", "{t2: 10}"),
    "negative rows": ("t2: 3}", "t2: -3}", "`t2` is -3", "zero or more", "t2: -3"),
    "unknown point": ("t2: 3}", "t3: 3}", "arrives at 't3', which is no point of the timeline", "known: t1, t2", "t3: 3"),
    "unknown point of retractions": ("{t2: 0.1}", "{t3: 0.1}", "retracts at 't3'", "known: t1, t2", "t3: 0.1"),
    "retraction before arrival": ("{t2: 0.1}", "{t1: 0.1}", "retracts at the first point", "later point", "t1: 0.1"),
    "time twice": ("at: t2", "at: t1", "'t1' appears twice", "its own name", "price: 1.0"),
    "nothing delivered": (", deliver: true", "", "no point of the timeline delivers", "deliver: true", "timeline:"),
    "unknown query delivered": ("deliver: true", "deliver: [result, reslt]", "delivers 'reslt'", "did you mean `result`?", "reslt"),
    "negative price": ("price: 0.2", "price: -0.2", "the price is -0.2, below zero", "zero or more", "price: -0.2"),
    "unknown method": ("methods", "methods: [IM1, IM3]\n", "unknown method 'IM3'", "did you mean `IM", "IM3"),
    "no method": ("methods", "methods: []\n", "no method is named", "policy: full", "methods"),
    "unknown policy": ("policy", "policy: strickt\n", "unknown policy 'strickt'", "did you mean `strict`?", "strickt"),
    "unknown objective": ("objective", "objective: weigthed\n", "unknown objective 'weigthed'", "did you mean `weighted`?", "weigthed"),
    "objective without its limit": ("objective", "objective: {last-run-at-most: soon}\n", "'soon'", "zero or more", "soon"),
    "objective that is none": ("objective", "objective:\n", "the objective None", "weighted", "objective"),
    "objective that is a number": ("objective", "objective: 2.5\n", "the objective 2.5", "last-run-at-most: 2.5", "objective"),
    "objective that is a list": ("objective", "objective: [weighted]\n", "the objective ['weighted']", "weighted", "objective"),
    "tag that does not fit": ("price: 0.2", "price: !!int cheap", "'cheap' is marked as a number", "leave the tag out", "cheap"),
    "column with a name of ours": ("category: String", "__n: string", "the column '__n' has a name", "rename it", "__n: string"),
    "unreadable size": ("budget", "state_budget: lots\n", "'lots' is not a size", "500 MB", "lots"),
    "missing query file": ("query: SELECT category, sum(price) AS gross FROM sales GROUP BY category", "query: missing.sql", "'missing.sql' is missing", "beside the job", "missing.sql"),
    "no query": ("query: SELECT category, sum(price) AS gross FROM sales GROUP BY category\n", "", "no query", "query: file.sql", "name:"),
    "no rows": ("    static: 2\n", "", "either `arrives` or `static`", "static: rows", "  category:"),
    "foreign key to nothing": ("    static: 2\n", "    static: 2\n    foreign_keys: [{columns: category, table: kinds, to: [id]}]\n", "'kinds'", "known: ", "kinds"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake_is_reported_with_line_and_hint(name: str):
    old, new, message, hint, where = MISTAKES[name]
    text = GOOD.replace(old, new, 1) if old in GOOD else GOOD + new
    assert text != GOOD
    problem = only_problem(text)
    assert message in problem.message
    assert hint in problem.hint
    assert problem.line == line_of(text, where), str(problem)


@pytest.mark.parametrize(
    ("first", "second", "good"),
    [
        ("14:00", "09:30", False),
        ("9:30", "14:00", True),
        ("19:00", "24:00", True),
        ("24:00", "14:00", False),
        ("14:00:30", "14:01", True),
        ("25:00", "14:00", True),
        ("2026-11-02", "2026-11-01", False),
        ("2026-11-01T22:00", "2026-11-02T02:00", True),
        ("evening", "afternoon", True),
        ("t2", "t1", True),
    ],
)
def test_times_must_increase(first: str, second: str, good: bool):
    text = "\n".join(
        [
            "query: select 1 as x",
            "tables: {s: {columns: {x: int}, static: 4}}",
            "timeline:",
            f"  - {{at: {first}}}",
            f"  - {{at: {second}, deliver: true}}",
        ]
    )
    if good:
        assert [p.name for p in Job.parse(text).timeline.points] == [first, second]
    else:
        problem = only_problem(text)
        assert "out of order" in problem.message
        assert problem.line == 5


def test_all_mistakes_are_reported_together():
    text = GOOD.replace("price: 0.2", "price: -1").replace("t2: 3}", "t7: 3}").replace("name:", "nam:")
    text = text.replace("category: String", "category: strng") + "methods: [IM9]\n"
    found = problems(text)
    assert [p.line for p in found] == sorted(p.line or 0 for p in found)
    said = " ".join(p.message for p in found)
    for part in ("`nam`", "'strng'", "below zero", "'IM9'"):
        assert part in said
    with pytest.raises(JobError, match=rf"has {len(found)} problems"):
        Job.parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1", "not YAML"),
        ("- 1\n- 2", "not a mapping"),
        ("", "not a mapping"),
        ("name: a\nname: b", "appears twice"),
        ("a: &x [*x]", "refers to itself"),
    ],
)
def test_what_is_no_job_at_all(text: str, message: str):
    with pytest.raises(JobError, match=message) as caught:
        Job.parse(text)
    assert caught.value.hint


def test_missing_file():
    with pytest.raises(JobError, match="cannot read the job file"):
        Job.load("nowhere/job.yaml")


# Paths.


def test_paths_may_start_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "profile.json").write_text('{"job": 2.5}')
    (tmp_path / "query.sql").write_text("SELECT category FROM category")
    query = next(line for line in GOOD.splitlines() if line.startswith("query:"))
    job = Job.parse(GOOD.replace(query, "query: ~/query.sql") + "cluster: ~/profile.json\nworkspace: ~/work\n", "/")
    assert (job.cluster, job.workspace) == (Profile(job=2.5), str(tmp_path / "work"))
    assert job.queries == {MAIN: "SELECT category FROM category"}


# The profile of the cluster.


def test_a_job_names_the_profile_of_its_cluster(tmp_path: Path):
    (tmp_path / "profile.json").write_text('{"measured": {"date": "2026-11-15"}, "job": 2.5}')
    job = Job.parse(GOOD + "cluster: profile.json\n", tmp_path)
    assert job.cluster == Profile(job=2.5)
    assert Job.parse(GOOD).cluster == DEFAULT
    assert dataclasses.replace(job, policy="full").cluster == job.cluster


def test_the_profile_in_python(tmp_path: Path):
    (tmp_path / "profile.json").write_text('{"job": 2.5}')
    given = {"query": "SELECT a FROM t", "tables": {"t": {"columns": {"a": "int"}, "static": 5}}}
    for cluster in (Profile(job=2.5), "profile.json", Path("profile.json"), tmp_path / "profile.json"):
        job = Job(**given, timeline=[{"at": "t1", "deliver": True}], cluster=cluster, folder=tmp_path)  # type: ignore[arg-type]
        assert job.cluster == Profile(job=2.5)


def test_the_profile_decides_what_work_costs():
    job = Job.parse(GOOD)
    dear = dataclasses.replace(job, cluster=Profile(job=100.0))
    assert plan(dear).cost.total > 100 > plan(job).cost.total
    assert plan(dear, cost="unit").cost.total == plan(job, cost="unit").cost.total


@pytest.mark.parametrize(
    ("content", "message", "hint"),
    [
        (None, "the cost profile 'profile.json' is missing", "tempura calibrate --out profile.json"),
        ('{"job":\n x}', "in 'profile.json': the cost profile is not JSON: Expecting value (its line 2)", ""),
        ('{"jobs": 1}', "in 'profile.json': the cost profile has no coefficient 'jobs'", "coefficients are"),
        ('{"job": -1}', "in 'profile.json': the cost profile's 'job' is -1", "zero or more"),
        (b"\xff", "the cost profile 'profile.json' cannot be read as text", "tempura calibrate"),
    ],
)
def test_a_wrong_profile_is_reported_where_it_is_named(
    content: str | bytes | None, message: str, hint: str, tmp_path: Path
):
    if content is not None:
        (tmp_path / "profile.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    text = GOOD + "cluster: profile.json\n"
    found = only_problem(text, tmp_path)
    assert (found.message, found.line) == (message, line_of(text, "cluster:"))
    assert hint in found.hint


def test_a_profile_is_named_by_a_text():
    text = GOOD + "cluster: {job: 1}\n"
    found = only_problem(text)
    assert found.message == "`cluster` is {'job': 1}; expected a text"
    assert found.line == line_of(text, "cluster:")


def test_names_of_parts_keep_their_case():
    """Spark's JSON reader tells them apart by it."""
    given = "STRUCT<userId: STRING, Tags ARRAY<STRUCT<`first name` INT>>>"
    assert spark_type(given) == "struct<userId: string,Tags: array<struct<`first name`: int>>>"
