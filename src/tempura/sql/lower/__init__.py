"""From operators to SQL: one SELECT per step, for Spark and for DuckDB."""

from tempura.sql.lower.lowering import LOWERINGS, Lowered
from tempura.sql.lower.printing import expanded, lower, lower_rows, step_sql, to_sql

__all__ = ["LOWERINGS", "Lowered", "expanded", "lower", "lower_rows", "step_sql", "to_sql"]
