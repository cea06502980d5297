"""What a source says is to be read, as a frame: files with their schema given, never inferred, and nothing read until the frame is used."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce

from py4j.protocol import Py4JJavaError  # pyright: ignore[reportMissingTypeStubs]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.column import Column

from tempura.errors import SourceError
from tempura.schema import WEIGHT, Schema
from tempura.sources.source import DeltaVersion, Files, Part, Reading, SparkTable
from tempura.spark.names import declared, plain_path, quoted

NEGATIVE = "a row that is not there was taken away"
"""What Spark's error says where a change log deletes more than there is."""

_COPY, _CHUNK = "__copy", "__chunk"
_CHUNK_BITS = 16
"""A row is repeated by arrays of at most two to the power of this."""


def read(spark: SparkSession, reading: Reading) -> DataFrame:
    """The rows of a reading, with the weight last if it is weighted."""
    if not reading.parts:
        return _no_rows(spark, reading.schema, reading.weighted)
    return reduce(DataFrame.unionAll, [_part(spark, p, reading.schema, reading.weighted) for p in reading.parts])


def read_rows(
    spark: SparkSession, reading: Reading, what: str, columns: Collection[str] | None = None, settled: bool = False
) -> DataFrame:
    """The rows of a reading without weights, each as often as its weights sum to; with `columns`, at least these of them.

    If they are to be `settled`, nothing is asked of rows that have been taken back: Spark asks conditions before it adds up, which is less to add up, but those may fail.

    The sums are of the columns that are asked for, of which there are fewer: a row of them is there as often as all rows that have it. `what` names the rows in
    the error of a sum below zero, which Spark raises when such a row is read.
    """
    frame = read(spark, reading)
    if not reading.weighted:
        return frame
    return _netted(frame, [c.name for c in reading.schema if columns is None or c.name in columns], what, settled)


def _part(spark: SparkSession, part: Part, schema: Schema, weighted: bool) -> DataFrame:
    frame = _origin(spark, part.origin)
    if part.where is not None:
        frame = frame.where(part.where)
    columns = [_value(part.columns[c.name], c.type, weighted).alias(c.name) for c in schema]
    if weighted:
        columns.append(F.expr(part.weight or "1").cast("bigint").alias(WEIGHT))
    return frame.select(*columns)


def _value(expression: str, kind: str, weighted: bool) -> Column:
    value = F.expr(expression).cast(kind)
    # Adding up a log makes zero of minus zero, so its changes must not tell them apart.
    return value + F.lit(0).cast(kind) if weighted and kind in ("float", "double") else value


def _origin(spark: SparkSession, origin: Files | SparkTable | DeltaVersion) -> DataFrame:
    match origin:
        case Files():
            return _files(spark, origin)
        case SparkTable():
            return spark.table(origin.name)
        case DeltaVersion():
            return _delta(spark, origin)


def _delta(spark: SparkSession, origin: DeltaVersion) -> DataFrame:
    if origin.since is None:
        options = {"versionAsOf": str(origin.version)}
    else:
        first, last = str(origin.since + 1), str(origin.version)
        options = {"readChangeFeed": "true", "startingVersion": first, "endingVersion": last}
    try:
        return spark.read.format("delta").options(**options).load(origin.path)
    except (PySparkException, Py4JJavaError) as error:
        if "DATA_SOURCE_NOT_FOUND" not in str(error):
            raise
        hint = "start it with Delta Lake's package, or leave `reader: spark` out: then plain Parquet files are read"
        raise SourceError("the Spark session has no reader for Delta tables", hint=hint) from error


def _files(spark: SparkSession, files: Files) -> DataFrame:
    if not files.paths:
        return _no_rows(spark, files.columns, False)
    # A text that is not of its column's type is a mistake to hear of, not a NULL.
    options = {} if files.format == "parquet" else {"mode": "FAILFAST"}
    reader = spark.read.format(files.format).schema(declared(files.columns)).options(**{**options, **files.options})
    return reader.load([plain_path(path) for path in files.paths])


def _no_rows(spark: SparkSession, schema: Schema, weighted: bool) -> DataFrame:
    """No rows, in a way that Spark's optimizer knows it."""
    columns = [f"CAST(NULL AS {c.type}) AS {quoted(c.name)}" for c in schema]
    if weighted:
        columns.append(f"CAST(NULL AS BIGINT) AS {WEIGHT}")
    return spark.sql(f"SELECT {', '.join(columns)} WHERE FALSE")


def _netted(frame: DataFrame, names: Sequence[str], what: str, settled: bool) -> DataFrame:
    columns: list[Column] = [F.col(quoted(name)) for name in names]
    net = frame.groupBy(*columns).agg(F.sum(WEIGHT).alias(WEIGHT)).where(f"{WEIGHT} <> 0")
    if settled:
        columns = [F.when(F.col(WEIGHT) != 0, column).alias(name) for name, column in zip(names, columns, strict=True)]
    negative = F.raise_error(f"{what}: {NEGATIVE}")
    times = F.when(F.col(WEIGHT) < 0, negative).otherwise(F.col(WEIGHT))
    # In two steps: a million rows that are all alike in these columns would be one array of a million numbers.
    chunks = F.explode(F.sequence(F.lit(0).cast("bigint"), F.shiftright(times - 1, _CHUNK_BITS))).alias(_CHUNK)
    left = F.col(WEIGHT) - F.shiftleft(F.col(_CHUNK), _CHUNK_BITS)
    copies = F.explode(F.sequence(F.lit(1).cast("bigint"), F.least(left, F.lit(1 << _CHUNK_BITS)))).alias(_COPY)
    return net.select(*columns, WEIGHT, chunks).select(*(quoted(name) for name in names), copies).drop(_COPY)
