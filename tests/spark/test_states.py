"""States on disk: what is written is read again, in a new session too, and what is bucketed is joined and grouped without an exchange."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tempura.algebra import SortKey
from tempura.schema import WEIGHT
from tempura.spark.states import StateError, States, Written, buckets

BUCKETS = 4
KEYED = "SELECT IF(id % 10 = 0, NULL, id % 100) AS k, id AS v FROM range({})"


def physical_plan(frame: DataFrame) -> str:
    """The plan as Spark explains it; without broadcasts, so that joins show what lies where."""
    return frame.sparkSession._jvm.PythonSQLUtils.explainString(frame._jdf.queryExecution(), "simple")  # type: ignore[union-attr,operator]


def exchanges(frame: DataFrame) -> int:
    return len(re.findall(r"\bExchange\b", physical_plan(frame)))


def sorts(frame: DataFrame) -> int:
    return len(re.findall(r"\bSort \[", physical_plan(frame)))


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(r) for r in frame.collect()), key=repr)


def files(folder: Path) -> list[Path]:
    return [f for f in folder.iterdir() if f.suffix == ".parquet"]


def tables(spark: SparkSession) -> list[str]:
    return [t.name for t in spark.catalog.listTables() if not t.isTemporary]


@pytest.fixture
def no_broadcast(spark: SparkSession):
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    yield
    spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")


class Pair:
    """Two bucketed states and a delta of the first, read back."""

    def __init__(self, spark: SparkSession, states: States, folder: Path):
        self.written: dict[str, Written] = {}
        self.folder = folder
        self.states = states
        for name, text in (
            ("base", KEYED.format(1000)),
            ("delta", KEYED.format(100)),
            ("other", KEYED.format(500)),
        ):
            self.written[name] = states.write(
                spark.sql(text), str(folder / name), partition=["k"], buckets=BUCKETS, ordered=True
            )

    def read(self, *names: str) -> DataFrame:
        folders = [str(self.folder / n) for n in names]
        return self.states.read(folders, self.written[names[0]].columns, partition=["k"], buckets=BUCKETS, ordered=True)


@pytest.fixture
def pair(spark: SparkSession, states: States, tmp_path: Path, no_broadcast: None) -> Pair:
    return Pair(spark, states, tmp_path)


def test_buckets_have_one_file_each(pair: Pair, tmp_path: Path):
    assert pair.written["base"].rows == 1000
    assert [(c.name, c.type) for c in pair.written["base"].columns] == [("k", "bigint"), ("v", "bigint")]
    assert len(files(tmp_path / "base")) == BUCKETS
    assert (tmp_path / "base" / "_SUCCESS").exists()


def test_bucketed_states_are_joined_without_exchange_or_sort(pair: Pair):
    base, other = pair.read("base"), pair.read("other")
    for how in ("inner", "left", "full", "left_semi", "left_anti"):
        joined = base.join(other, "k", how)
        assert (exchanges(joined), sorts(joined)) == (0, 0), how
    assert base.join(other, "k").count() == 90 * 10 * 5


def test_bucketed_states_are_grouped_without_exchange(pair: Pair):
    grouped = pair.read("base").groupBy("k").sum("v")
    assert exchanges(grouped) == 0
    assert grouped.count() == 91, "NULL is a group too"


def test_base_and_delta_are_joined_and_grouped_without_exchange(pair: Pair):
    both = pair.read("base", "delta")
    assert both.count() == 1100
    assert exchanges(both.groupBy("k").sum("v")) == 0
    other = pair.read("other")
    for how in ("inner", "left", "full", "left_semi", "left_anti"):
        assert exchanges(both.join(other, "k", how)) == 0, how
        assert exchanges(other.join(both, "k", how)) == 0, how
    again = pair.read("base", "delta").withColumnRenamed("v", "w")
    assert exchanges(both.join(again, "k")) == 0
    assert rows(both.groupBy("k").count()) == rows(pair.read("base").unionAll(pair.read("delta")).groupBy("k").count())


def test_merging_bucketed_states_is_written_without_exchange(pair: Pair, states: States, tmp_path: Path):
    """What the run that merges a delta into a state writes lies already as it is wanted."""
    merged = pair.read("base").unionAll(pair.read("delta")).groupBy("k").sum("v")
    assert exchanges(merged.repartition(BUCKETS, "k")) == 0
    assert states.write(merged, str(tmp_path / "merged"), partition=["k"], buckets=BUCKETS).rows == 91
    assert len(files(tmp_path / "merged")) == BUCKETS


def test_joining_by_another_key_does_exchange(pair: Pair):
    """The counter-check: the plan would show an exchange."""
    assert (
        exchanges(pair.read("base").join(pair.read("other").withColumnRenamed("v", "w"), "k").groupBy("v").count()) == 1
    )


def test_a_state_that_is_not_sorted_is_grouped_all_the_same_and_sorted_to_be_joined(spark: SparkSession, states: States, tmp_path: Path, no_broadcast: None):  # fmt: skip
    read: dict[bool, DataFrame] = {}
    for ordered in (False, True):
        path = str(tmp_path / str(ordered))
        written = states.write(spark.sql(KEYED.format(1000)), path, partition=["k"], buckets=BUCKETS, ordered=ordered)
        assert len(files(Path(path))) == BUCKETS
        read[ordered] = states.read([path], written.columns, partition=["k"], buckets=BUCKETS, ordered=ordered)
    mixed, plain = read[False].join(read[True], "k"), read[True].join(read[True].withColumnRenamed("v", "w"), "k")
    assert (exchanges(mixed), sorts(mixed), sorts(plain)) == (0, 1, 0)
    assert rows(mixed.groupBy("k").count()) == rows(plain.groupBy("k").count())
    assert exchanges(read[False].groupBy("k").sum("v")) == 0
    assert rows(read[False]) == rows(read[True])
    unsaid = states.read([str(tmp_path / "False")], written.columns, partition=["k"], buckets=BUCKETS)
    assert sorts(unsaid.join(read[True], "k")) == 1, "nothing is taken to be sorted that was not said to be"


def test_states_of_two_keys_are_joined_without_exchange_or_sort_in_any_order_of_keys(spark: SparkSession, states: States, tmp_path: Path, no_broadcast: None):  # fmt: skip
    path = str(tmp_path / "both")
    pairs = spark.sql("SELECT id % 7 AS a, id AS b, id * 2 AS v FROM range(100)")
    written = states.write(pairs, path, partition=["a", "b"], buckets=BUCKETS, ordered=True)
    one, other = (
        states.read([path], written.columns, partition=["a", "b"], buckets=BUCKETS, ordered=True).alias(n)
        for n in ("x", "y")
    )
    for on in ("x.a = y.a AND x.b = y.b", "x.b = y.b AND x.a = y.a"):
        joined = one.join(other, F.expr(on))
        assert (exchanges(joined), sorts(joined), joined.count()) == (0, 0, 100), on


TYPES = """
SELECT IF(id % 3 = 0, NULL, CAST(id AS DECIMAL(20,3))) AS d, DATE '2026-01-01' + CAST(id AS INT) AS day,
  TIMESTAMP '2026-03-29 01:30:00.123456' AS at, TIMESTAMP_NTZ '2026-03-29 02:30:00' AS wall, IF(id % 2 = 0, 'é', NULL) AS t,
  CAST(id AS DOUBLE) / 3 AS x, id > 2 AS b, CAST('a' AS BINARY) AS raw, ARRAY(1, NULL) AS l, MAP('k', id) AS m,
  NAMED_STRUCT('p', id, 'q', ARRAY(NAMED_STRUCT('z', id))) AS s, NULL AS nothing, CAST(id AS TINYINT) AS `odd name; x`
FROM range(7)
"""


@pytest.mark.parametrize("by", [(), ("d", "day"), ("odd name; x",)])
def test_every_type_survives(spark: SparkSession, states: States, tmp_path: Path, by: tuple[str, ...]):
    given = spark.sql(TYPES)
    path = str(tmp_path / "all kinds of types")
    written = states.write(given, path, partition=by, buckets=BUCKETS)
    found = states.read([path], written.columns, partition=by, buckets=BUCKETS)
    assert written.rows == 7
    assert rows(found) == rows(given)
    kinds = {c.name: c.type for c in written.columns}
    assert (kinds["d"], kinds["wall"], kinds["s"]) == (
        "decimal(20,3)", "timestamp_ntz", "struct<p:bigint,q:array<struct<z:bigint>>>",
    )  # fmt: skip
    assert kinds["nothing"] == "string", "Parquet has no column without a type"
    assert [f.dataType.simpleString() for f in found.schema.fields if f.name != "nothing"] == [
        f.dataType.simpleString() for f in given.schema.fields if f.name != "nothing"
    ]


@pytest.mark.parametrize("by", [(), ("k",)])
@pytest.mark.parametrize(
    "text", [KEYED.format(0), KEYED.format(10) + " WHERE false", KEYED.format(10) + " WHERE id > 99"]
)
def test_no_rows_are_a_state_too(spark: SparkSession, states: States, tmp_path: Path, by: tuple[str, ...], text: str):
    written = states.write(spark.sql(text), str(tmp_path / "none"), partition=by, buckets=BUCKETS)
    assert written.rows == 0
    found = states.read([str(tmp_path / "none")], written.columns, partition=by, buckets=BUCKETS)
    assert (found.columns, found.collect()) == (["k", "v"], [])


def test_a_base_without_weights_and_a_delta_with(spark: SparkSession, states: States, tmp_path: Path):
    for by in ((), ("k",)):
        place = tmp_path / f"by{len(by)}"
        states.write(spark.sql("SELECT 1 AS k UNION ALL SELECT 2"), str(place / "base"), partition=by, buckets=2)
        later = states.write(
            spark.sql(f"SELECT 2 AS k, -1L AS {WEIGHT}"), str(place / "delta"), partition=by, buckets=2
        )
        both = states.read([str(place / "base"), str(place / "delta")], later.columns, partition=by, buckets=2)
        assert rows(both) == [(1, 1), (2, -1), (2, 1)]


def test_what_a_failed_attempt_left_is_replaced(spark: SparkSession, states: States, tmp_path: Path):
    for by in ((), ("k",)):
        path = tmp_path / f"by{len(by)}"
        path.mkdir()
        (path / "part-00000-half.parquet").write_bytes(b"PAR1")
        written = states.write(spark.sql(KEYED.format(3)), str(path), partition=by, buckets=2)
        assert states.read([str(path)], written.columns, partition=by, buckets=2).count() == 3


def test_results_are_sorted(spark: SparkSession, states: States, tmp_path: Path):
    given = spark.sql("SELECT IF(id = 3, NULL, (id * 7) % 10) AS a, id AS b FROM range(10)")
    order = [SortKey("a", descending=True, nulls_first=False), SortKey("b")]
    states.write(given, str(tmp_path / "one"), order=order)
    (one,) = files(tmp_path / "one")
    assert pyarrow.parquet.read_table(one)["a"].to_pylist() == [9, 8, 7, 6, 5, 4, 3, 2, 0, None]
    states.write(given, str(tmp_path / "many"), order=order, bytes=300 << 20)
    parts = [pyarrow.parquet.read_table(f)["a"].to_pylist() for f in sorted(files(tmp_path / "many"))]
    assert [a for part in parts for a in part] == [9, 8, 7, 6, 5, 4, 3, 2, 0, None]


def test_few_files_for_little(spark: SparkSession, states: States, tmp_path: Path):
    states.write(spark.range(1000).repartition(20), str(tmp_path / "few"))
    assert len(files(tmp_path / "few")) == 2, "as many as there are cores"
    states.write(spark.range(1000).repartition(20), str(tmp_path / "more"), bytes=5 * 128 << 20)
    assert len(files(tmp_path / "more")) == 5


def test_tables_are_forgotten_and_files_stay(spark: SparkSession, tmp_path: Path):
    with States(spark) as states:
        written = states.write(spark.sql(KEYED.format(5)), str(tmp_path / "s"), partition=["k"], buckets=2)
        states.read([str(tmp_path / "s")], written.columns, partition=["k"], buckets=2).collect()
        assert len(tables(spark)) == 1
    assert tables(spark) == []
    assert files(tmp_path / "s")


def test_a_failing_query_leaves_no_table(spark: SparkSession, states: States, tmp_path: Path):
    failing = spark.sql("SELECT k, raise_error('no') AS v FROM (" + KEYED.format(5) + ")")
    for by in ((), ("k",)):
        with pytest.raises(PySparkException, match="no"):
            states.write(failing, str(tmp_path / "s"), partition=by, buckets=2)
        assert not (tmp_path / "s" / "_SUCCESS").exists()
    assert tables(spark) == []


def test_number_of_buckets(spark: SparkSession):
    assert buckets(spark, 0) == 2
    assert buckets(spark, 300e6) == 4
    assert buckets(spark, 10e9) == 128
    assert buckets(spark, 1e18) == 4096


def test_a_folder_that_spark_takes_for_a_pattern(spark: SparkSession, states: States, tmp_path: Path):
    with pytest.raises(StateError, match=r"Spark takes \[ \] in .* for a pattern") as found:
        states.write(spark.range(1), str(tmp_path / "run [1]"))
    assert "choose a folder" in found.value.hint
