"""What is wrong with a job, collected while it is read, so that all mistakes are reported together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from tempura.errors import JobError, JobProblems, SourceError
from tempura.job.marks import Document, Path
from tempura.job.shapes import explain_misfit


class Problems:
    """The problems found so far; `document` knows the lines, `source` is what the job is called in messages."""

    def __init__(self, document: Document | None, source: str):
        self.document = document
        self.source = source
        self.problems: list[JobError] = []

    def problem(self, message: str, hint: str, path: Path) -> None:
        line = self.document.line(path) if self.document else None
        where = f"table {path[1]!r}: " if len(path) > 1 and path[0] == "tables" and repr(path[1]) not in message else ""
        self.problems.append(JobError(where + message, hint=hint, line=line))

    def report(self, found: Iterable[tuple[str, str, Path]]) -> None:
        for message, hint, path in found:
            self.problem(message, hint, path)

    def finish(self) -> None:
        """Raises what was found, if anything was."""
        problems = sorted(self.problems, key=lambda p: p.line or 0)
        if len(problems) == 1:
            raise problems[0]
        if problems:
            raise JobProblems(f"{self.source} has {len(problems)} problems", problems)

    def attempt(self, path: Path, make: Any) -> Any:
        """What `make` gives; None, and a problem at `path`, if it refuses."""
        try:
            return make()
        except (JobError, SourceError) as error:
            self.problem(error.message, error.hint, path)
            return None

    def fit(self, shape: Any, value: Any, path: Path) -> Any:
        """The value in its shape; None, and a problem for each misfit, if it has another."""
        try:
            return shape.model_validate(value)
        except ValidationError as error:
            self.report(explain_misfit(error, shape, path))
            return None
