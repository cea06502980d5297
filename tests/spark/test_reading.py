"""Readings as frames: files of each format with their schema, parts, weights, and change logs netted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tempura.schema import WEIGHT, Column, Schema
from tempura.sources import FilesSource
from tempura.sources.source import Files, Part, Reading, SparkTable
from tempura.spark.reading import read, read_rows
from tempura.spark.steps import StepError, explained

SCHEMA: Schema = (Column("o", "int"), Column("c", "string"), Column("p", "decimal(7,2)"))
SAME = {"o": "o", "c": "c", "p": "p"}
LOG: Schema = (*SCHEMA, Column("op", "string"))


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(None if v is None else str(v) for v in r) for r in frame.collect()), key=repr)


def types(frame: DataFrame) -> list[tuple[str, str]]:
    return [(f.name, f.dataType.simpleString()) for f in frame.schema.fields]


def log(folder: Path, *entries: tuple[int, str | None, str]) -> Files:
    """A change log as JSON lines."""
    path = folder / "log.json"
    path.write_text("".join(json.dumps({"o": o, "c": c, "p": 1.5, "op": op}) + "\n" for o, c, op in entries))
    return Files("json", (str(path),), LOG)


def logged(files: Files) -> Reading:
    weight = "CASE op WHEN 'I' THEN 1 WHEN 'D' THEN -1 END"
    return Reading(SCHEMA, (Part(files, SAME, weight=weight),), weighted=True)


def test_parquet_in_folders_named_like_partitions(spark: SparkSession, tmp_path: Path):
    paths: list[str] = []
    for i, folder in enumerate(("batch=2", "batch [10]", "b{1,2}*?")):
        (tmp_path / folder).mkdir()
        paths.append(str(tmp_path / folder / "part 0.parquet"))
        table = pa.table({"o": pa.array([i], pa.int32()), "c": [None], "p": pa.array([1], pa.decimal128(7, 2))})
        pyarrow.parquet.write_table(table.cast(table.schema.set(1, pa.field("c", pa.string()))), paths[-1])
    found = read(spark, Reading(SCHEMA, (Part(Files("parquet", tuple(paths), SCHEMA), SAME),)))
    assert rows(found) == [("0", None, "1.00"), ("1", None, "1.00"), ("2", None, "1.00")]
    assert types(found) == [("o", "int"), ("c", "string"), ("p", "decimal(7,2)")]


def test_csv_and_json(spark: SparkSession, tmp_path: Path):
    (tmp_path / "s.csv").write_text("o;c;p\n1;a;2.50\n2;;\n")
    csv = Files("csv", (str(tmp_path / "s.csv"),), SCHEMA, {"header": "true", "sep": ";"})
    (tmp_path / "s.json").write_text('{"o": 3, "c": "b", "p": 1}\n{"o": 4}\n')
    both = Reading(SCHEMA, (Part(csv, SAME), Part(Files("json", (str(tmp_path / "s.json"),), SCHEMA), SAME)))
    found = read(spark, both)
    assert rows(found) == [("1", "a", "2.50"), ("2", None, None), ("3", "b", "1.00"), ("4", None, None)]


def test_options_in_any_case_are_one_to_spark_and_to_the_source(spark: SparkSession, tmp_path: Path):
    """Files with their columns in another order are read by their headers, whatever case `header` is written in."""
    (tmp_path / "a.csv").write_text("c;o;p\né;1;2.50\n", "latin-1")
    (tmp_path / "b.csv").write_text("o;p;c\n2;;\n", "latin-1")
    options = {"HEADER": "true", "Delimiter": ";", "charset": "ISO-8859-1"}
    source = FilesSource(table="s", path=str(tmp_path), format="csv", columns=SCHEMA, options=options)
    found = read(spark, source.snapshot(source.pin(None)))
    assert rows(found) == [("1", "é", "2.50"), ("2", None, None)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("json", '{"o": 1, "c": "x", "p": 1}\n{"o": 2, "c": 12, "p": "3.10"}\n{"o": 3, "c": {"a": [1]}}\n\n{"o": 4}\n'),
        ("json", '{"o": 1, "o": 2, "c": 1.10}\n{"c": true, "p": 1e1}\n'),
        ("csv", '"1","","1"\n"2","x",""\n"","",""\n3,,\n'),
        ("csv", '"NA","","1"\n,NA,"NA"\n'),
    ],
)
def test_what_spark_reads_is_not_refused(spark: SparkSession, tmp_path: Path, name: Any, text: str):
    (tmp_path / f"a.{name}").write_text(text)
    options = {"nullValue": "NA"} if "NA" in text else {}
    source = FilesSource(table="s", path=str(tmp_path), format=name, columns=SCHEMA, options=options)
    version = source.pin(None)
    found = rows(read(spark, source.snapshot(version)))
    assert source.change(None, version).inserted == len(found)
    shares = {c: s.null_share for c, s in source.statistics(version).columns.items()}
    nulls = {c.name: sum(row[i] is None for row in found) for i, c in enumerate(SCHEMA)}
    if not options:
        assert shares == {c: n / len(found) for c, n in nulls.items()}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [("csv", "1,a,much\n", "Character m is neither a decimal digit"), ("json", '{"o": "one"}\n', "field name 'o'")],
)
def test_a_text_of_another_type_is_an_error(spark: SparkSession, tmp_path: Path, name: Any, text: str, said: str):
    path = tmp_path / f"s.{name}"
    path.write_text(text)
    found = read(spark, Reading(SCHEMA, (Part(Files(name, (str(path),), SCHEMA), SAME),)))
    with pytest.raises(StepError, match=rf"Spark cannot run the step: .*{path.name}.*{said}"), explained("the step"):
        found.collect()


def test_conditions_expressions_and_weights(spark: SparkSession, tmp_path: Path):
    files = log(tmp_path, (1, "a", "I"), (2, "b", "D"), (3, "c", "X"))
    columns = {"o": "o + 10", "c": "upper(c)", "p": "p"}
    part = Part(files, columns, where="op <> 'X'", weight="IF(op = 'I', 1, -1)")
    spark.range(7, 8).createOrReplaceTempView("seven")
    more = Part(SparkTable("seven"), {"o": "id", "c": "'x'", "p": "NULL"})
    found = read(spark, Reading(SCHEMA, (part, more), weighted=True))
    assert rows(found) == [("11", "A", "1.50", "1"), ("12", "B", "1.50", "-1"), ("7", "x", None, "1")]
    assert types(found)[-1] == (WEIGHT, "bigint")
    assert rows(read(spark, Reading(SCHEMA, (more,)))) == [("7", "x", None)]


@pytest.mark.parametrize("weighted", [False, True])
def test_no_parts_and_no_files_are_no_rows(spark: SparkSession, weighted: bool):
    for parts in ((), (Part(Files("parquet", (), SCHEMA), SAME),)):
        found = read(spark, Reading(SCHEMA, parts, weighted=weighted))
        assert found.collect() == []
        assert types(found) == [("o", "int"), ("c", "string"), ("p", "decimal(7,2)")] + [(WEIGHT, "bigint")] * weighted


def test_a_change_log_is_netted(spark: SparkSession, tmp_path: Path):
    files = log(tmp_path, *[(1, "a", "I")] * 3, (1, "a", "D"), (2, None, "I"), (2, None, "D"), (3, None, "I"))
    found = read_rows(spark, logged(files), "sales")
    assert rows(found) == [("1", "a", "1.50"), ("1", "a", "1.50"), ("3", None, "1.50")]
    assert types(found) == [("o", "int"), ("c", "string"), ("p", "decimal(7,2)")]


def test_of_a_change_log_only_the_columns_asked_for_are_netted(spark: SparkSession, tmp_path: Path):
    files = log(tmp_path, (1, "a", "I"), (2, "a", "I"), (1, "a", "D"), (3, None, "I"), (4, None, "I"), (4, None, "D"))
    found = read_rows(spark, logged(files), "sales", {"c"})
    assert rows(found) == [("a",), (None,)] and types(found) == [("c", "string")]
    assert read_rows(spark, logged(files), "sales", set()).count() == 2
    many = log(tmp_path, *((i, "a", "I") for i in range(131_073)))
    assert read_rows(spark, logged(many), "sales", {"c"}).count() == 131_073, "more than one array has"
    nothing = log(tmp_path, (1, "a", "I"), (1, "a", "D"))
    assert read_rows(spark, logged(nothing), "sales", set()).count() == 0


def test_taking_away_what_is_not_there_is_noticed_where_it_is_read(spark: SparkSession, tmp_path: Path):
    found = read_rows(spark, logged(log(tmp_path, (1, "a", "I"), (2, "b", "D"))), "sales@t2")
    message = "Spark cannot run the step: .*sales@t2: a row that is not there was taken away"
    with pytest.raises(StepError, match=message) as error, explained("the step"):
        found.collect()
    assert "\n" not in error.value.message, "no stack"
    assert rows(found.where("o = 1")) == [("1", "a", "1.50")]


def test_a_missing_file_is_an_error(spark: SparkSession, tmp_path: Path):
    with pytest.raises(PySparkException, match="PATH_NOT_FOUND"):
        read(spark, Reading(SCHEMA, (Part(Files("parquet", (str(tmp_path / "gone.parquet"),), SCHEMA), SAME),)))
