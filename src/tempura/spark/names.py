"""Names, texts and columns as Spark's SQL writes them."""

from __future__ import annotations

import re

from tempura.schema import Schema


def quoted(name: str) -> str:
    """A name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def text(value: str) -> str:
    """A text in quotes."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def plain_path(path: str) -> str:
    """A path of which no character is taken for a pattern."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path)


def declared(columns: Schema) -> str:
    """Columns with their types, as CREATE TABLE and readers take them."""
    return ", ".join(f"{quoted(c.name)} {c.type}" for c in columns)
