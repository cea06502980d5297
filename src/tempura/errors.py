"""The errors a user can meet; each says what is wrong, where, and what to do. Those of running on Spark are with what raises them."""

from __future__ import annotations

from collections.abc import Sequence


class TempuraError(Exception):
    """Something the user can mend; `hint` says how."""

    of = ""
    """What lines are counted in, if it is not the file that was given."""

    def __init__(self, message: str, *, hint: str = "", line: int | None = None, column: int | None = None):
        self.message = message
        self.hint = hint
        self.line = line
        self.column = column
        super().__init__(message)

    def __str__(self) -> str:
        column = f", column {self.column}" if self.column else ""
        where = "" if self.line is None else f" (line {self.line}{column}{self.of})"
        hint = f"\n  hint: {self.hint}" if self.hint else ""
        return f"{self.message}{where}{hint}"


class JobError(TempuraError):
    """The job file is wrong."""


class JobProblems(JobError):
    """The job file is wrong in several places; `problems` has one error for each, in the order of their lines."""

    def __init__(self, message: str, problems: Sequence[JobError]):
        super().__init__(message)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return "\n".join([self.message, *("  " + str(p).replace("\n", "\n  ") for p in self.problems)])


class SqlError(TempuraError):
    """The query cannot be read or bound to the tables."""

    of = " of the query"


class PlanError(TempuraError):
    """No plan satisfies what was asked."""


class WorkspaceError(TempuraError):
    """The folder of a job's states, results and run files cannot be read or written, or is not what it should be."""


class LockedError(WorkspaceError):
    """Another process holds the workspace."""


class SourceError(TempuraError):
    """A table's rows cannot be read as they were promised: nothing of them is used."""


class RuleError(TempuraError):
    """A rule is malformed; raised when it is declared."""
