"""Schema drift: how a file's columns differ from what they should be."""

from __future__ import annotations

from collections.abc import Mapping

from tempura.sources.sparktypes import same_type

Problem = tuple[str, str]
"""What is wrong, and what to do."""


def unread(column: str, why: str, file: str) -> Problem:
    """A column that Spark cannot read."""
    return f"the column {column!r} of {file!r} cannot be used: {why}", "write it in another type"


def drift(
    expected: Mapping[str, str], found: Mapping[str, str], file: str, *, declared: bool, ignore_new: bool
) -> Problem | None:
    """The first column that was removed, retyped or added; None where all are as expected."""
    by = "declared" if declared else "read before"
    for name, kind in expected.items():
        if name not in found:
            return (
                f"the column {name!r}, {by} as {kind}, was removed: {file!r} has only {', '.join(found)}",
                "correct the file, or change the table's `columns` and start again",
            )
        if not same_type(kind, found[name]):
            return (
                f"the column {name!r} was retyped: {by} as {kind}, it is {found[name]} in {file!r}",
                "correct the file, or change the table's `columns` and start again",
            )
    added = [f"{name!r} ({kind})" for name, kind in found.items() if name not in expected]
    if added and not ignore_new:
        return (
            f"the column {added[0]}, not {by}, was added in {file!r}",
            "add it to the table's `columns` and start again, or set `ignore_new_columns: true` on the source",
        )
    return None
