"""An attempt at a run: its journal lets the next attempt go on where this one was killed, and its commit makes the run visible, whole, at once.

`begin.json` says what is attempted: which point, on which versions, by which plan. Each finished step leaves a file in the journal after its rows are completely written.
An attempt at the same thing finds these steps done; anything else starts afresh. Nothing that is written counts until the run file is there, which comes last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tempura.errors import LockedError, WorkspaceError
from tempura.workspace import layout, runfile
from tempura.workspace.damage import checked, damage
from tempura.workspace.lock import Lock
from tempura.workspace.pointers import publish
from tempura.workspace.runfile import FORMAT, STRICT, ResultEntry, RunFile, StateEntry, StepEntry, Version
from tempura.workspace.storage import Storage


@dataclass(frozen=True)
class Begin:
    """What is attempted."""

    __pydantic_config__ = STRICT

    number: int
    point: str
    pins: Mapping[str, Version]
    plan_digest: str
    started: str
    """When it was attempted first."""
    upto: str | None = None
    """The rows that were to be taken in."""
    version: int = FORMAT

    @cached_property
    def key(self) -> str:
        """Equal for two attempts at the same thing only."""
        content: dict[str, Any] = {"number": self.number, "point": self.point, "pins": self.pins}
        return runfile.digest(content | {"plan": self.plan_digest, "version": self.version})


@dataclass(frozen=True)
class Finished:
    """A finished step, and what it wrote."""

    __pydantic_config__ = STRICT

    key: str
    """The attempt that it belongs to."""
    step: StepEntry
    output: StateEntry | ResultEntry


_BEGIN = TypeAdapter(Begin)
_FINISHED = TypeAdapter(Finished)


@dataclass(frozen=True)
class Attempt:
    """A run that is going on."""

    storage: Storage
    lock: Lock
    job: str
    begun: Begin
    previous: RunFile | None
    """The run before."""
    behind: tuple[str, ...]
    """The points of the runs before."""
    resumed: bool
    """Whether an earlier attempt had begun it."""

    @property
    def number(self) -> int:
        return self.begun.number

    def is_of(self, run: RunFile) -> bool:
        """Whether a run is what was attempted: another process may have committed another of the same number."""
        begun = self.begun
        return (run.number, run.point, run.started) == (begun.number, begun.point, begun.started)

    def folder_for_state(self, name: str) -> str:
        """The folder for the rows of a state."""
        return layout.rows("states", name, self.number, self.lock.number)

    def folder_for_result(self, query: str) -> str:
        """The folder for the rows of a result."""
        return layout.rows("results", query, self.number, self.lock.number)

    def folder_for_delta(self, query: str) -> str:
        """The folder for the change to a result since its last delivery."""
        return layout.rows("deltas", query, self.number, self.lock.number)

    def done(self, step: str) -> Finished | None:
        """A step that an earlier attempt finished, if what it wrote is whole; its entry says that it is reused."""
        finished = _finished(self.storage, layout.step_file(self.number, step), self.begun.key)
        if finished is None or damage(self.storage, finished.output):
            return None
        return replace(finished, step=replace(finished.step, reused=True))

    def record(self, step: StepEntry, output: StateEntry | ResultEntry) -> Finished:
        """Note that a step is finished and its rows are all written; what is returned has the sizes of its files."""
        self.lock.confirm()
        finished = Finished(self.begun.key, step, checked(self.storage, output))
        self.storage.replace(layout.step_file(self.number, step.name), _FINISHED.dump_json(finished, indent=1))
        return finished

    def commit(self, run: RunFile) -> RunFile:
        """Make the run visible, and publish its results; returns the run file as it is stored."""
        if (run.job, run.number, run.point) != (self.job, self.number, self.begun.point):
            raise ValueError(
                f"run {run.number} of {run.job} at {run.point} is not the one that was begun: {self.begun}"
            )
        self.lock.confirm()  # Who took the workspace over may have collected what is looked for here.
        before = self.previous
        origin = before.origin if before else self.number
        run = replace(run, previous=before and before.number, origin=origin, behind=self.behind)
        self._check_whole(run)
        entries = (*run.states.values(), *run.results.values())
        self.storage.sync(f for entry in entries for f in entry.folders if layout.run_of(f) == self.number)
        self.lock.confirm()
        stored = create_run_file(self.storage, run)
        publish(self.storage, stored)
        self.storage.delete(layout.pending(self.number))
        return stored

    def _check_whole(self, run: RunFile) -> None:
        entries = {"state": run.states, "result": {q: r for q, r in run.results.items() if r.run == self.number}}
        for kind, named in entries.items():
            for name, entry in named.items():
                if found := damage(self.storage, entry):
                    raise WorkspaceError(
                        f"the {kind} {name} is damaged: {'; '.join(found)}",
                        hint="nothing was committed; run again, and it is computed again",
                    )


def create_run_file(storage: Storage, run: RunFile) -> RunFile:
    """Store a run file, which is the instant of the commit."""
    content = runfile.write(run)
    stored = runfile.read(content, storage.uri(layout.run_file(run.number)))
    try:
        storage.write_new(layout.run_file(run.number), content)
    except FileExistsError:
        raise LockedError(
            f"another process has committed run {run.number} of the workspace {storage.uri()} meanwhile",
            hint="nothing of this run was committed; run again",
        ) from None
    return stored


def pending(storage: Storage, number: int) -> Begin | None:
    """The attempt at a run that was begun and not committed; one that cannot be read has lost no more than time."""
    content = storage.read(layout.begin_file(number))
    try:
        begun = _BEGIN.validate_json(content or b"")
    except ValidationError:
        return None
    return begun if begun.number == number and begun.version == FORMAT else None


def start(storage: Storage, begun: Begin) -> None:
    """Begin an attempt, forgetting what was attempted before: its begin.json first, so that no step is taken for one of ours."""
    storage.delete(layout.begin_file(begun.number))
    storage.delete(layout.pending(begun.number))
    storage.replace(layout.begin_file(begun.number), _BEGIN.dump_json(begun, indent=1))


def finished_steps(storage: Storage, begun: Begin) -> tuple[Finished, ...]:
    """The steps that an attempt has finished."""
    folder = f"{layout.pending(begun.number)}/steps"
    found = (_finished(storage, f"{folder}/{name}", begun.key) for name in storage.list(folder))
    return tuple(finished for finished in found if finished is not None)


def _finished(storage: Storage, path: str, key: str) -> Finished | None:
    content = storage.read(path)
    try:
        finished = _FINISHED.validate_json(content or b"")
    except ValidationError:
        return None
    return finished if finished.key == key else None
