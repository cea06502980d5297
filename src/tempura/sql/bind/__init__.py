"""From Spark SQL to relational algebra."""

from tempura.sql.bind.query import Query, bind

__all__ = ["Query", "bind"]
