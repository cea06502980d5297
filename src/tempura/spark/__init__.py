"""Running plans on Spark: sessions, sources and states as frames, steps, and what they took. The only part that imports pyspark."""

from tempura.spark.execute import run_steps
from tempura.spark.java import JavaError
from tempura.spark.measure import Measured, Meter, jvm_seconds
from tempura.spark.reading import read, read_rows
from tempura.spark.session import parallelism, session
from tempura.spark.states import StateError, States, Written, buckets
from tempura.spark.steps import StepError, explained, frame, order_left

__all__ = [
    "JavaError",
    "Measured",
    "Meter",
    "StateError",
    "States",
    "StepError",
    "Written",
    "buckets",
    "explained",
    "frame",
    "jvm_seconds",
    "order_left",
    "parallelism",
    "read",
    "read_rows",
    "run_steps",
    "session",
]
