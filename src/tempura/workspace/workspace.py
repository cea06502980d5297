"""A workspace is the folder in which a job's runs leave states, results and run files.

Folders of rows are written once and never changed; a run file, created atomically and last, names them. Readers see what the newest run file names, and
anything else is garbage. So a run may be killed at any instruction: what was committed stays, finished steps of the killed run are found again, and the rest is collected.
`layout` shows what is where.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import takewhile
from pathlib import Path
from typing import cast

from tempura.errors import LockedError, WorkspaceError
from tempura.workspace import attempt as attempts
from tempura.workspace import garbage as waste
from tempura.workspace import layout, runfile
from tempura.workspace.attempt import Attempt, Begin
from tempura.workspace.damage import damage
from tempura.workspace.lock import Claim, Lock, holder
from tempura.workspace.past import Past
from tempura.workspace.pointers import publish, published
from tempura.workspace.runfile import FORMAT, RESET, NewerError, ResultEntry, RunFile, StateEntry, Version
from tempura.workspace.storage import Storage


class Workspace:
    """The states, results and runs of one job. Reading needs no lock; whatever changes something is done between `with workspace.lock(…)` and its end."""

    def __init__(self, storage: Storage, job: str):
        self.storage = storage
        self.job = job
        self._lock: Lock | None = None

    @classmethod
    def open(cls, place: str | Path | Storage, job: str, *, create: bool = True) -> Workspace:
        """The workspace of a job at a local folder or a URI, mended if a run was killed while publishing.

        Where there is none it is made, or without `create` looks like one in which nothing has been run.
        """
        storage = place if isinstance(place, Storage) else Storage.at(place)
        content = storage.read(layout.WORKSPACE)
        workspace = cls(storage, job)
        if content is None and not create:
            return workspace
        _check_identity(storage, content or _create(storage, job), job)
        workspace._mend()
        return workspace

    def lock(self, command: str) -> Lock:
        """The lock, to be held by `with`; `command` is what others are told about its holder."""
        self._lock = Lock(self.storage, command)
        return self._lock

    def holder(self) -> Claim | None:
        """Who is changing the workspace now."""
        return holder(self.storage)

    def latest(self) -> RunFile | None:
        """The newest run, or None before the first; an error if it is damaged or runs before it are missing."""
        numbers = self._numbers()
        if not numbers:
            return None
        run = self._run(numbers[-1])
        missing = set(range(run.origin, run.number)) - set(numbers)
        if missing:
            raise WorkspaceError(
                f"the run file {self.storage.uri(layout.run_file(min(missing)))} is missing",
                hint="restore it from a backup, or run `tempura reset` to start afresh, keeping the results",
            )
        return run

    def history(self) -> Iterator[RunFile]:
        """All runs, the newest first; before a reset, those that can be read."""
        latest = self.latest()
        for number in reversed(self._numbers()):
            try:
                yield self._run(number)
            except WorkspaceError:
                if latest is None or number >= latest.origin:
                    raise

    def past(self) -> Past:
        """The runs since the beginning or the last reset."""
        latest = self.latest()
        if latest is None or latest.point == RESET:
            return Past((), 0, self._run)
        behind = latest.behind
        if behind is None:
            older = takewhile(lambda run: run.point != RESET, (r for r in self.history() if r.number < latest.number))
            behind = tuple(run.point for run in older)[::-1]
        return Past((*behind, latest.point), latest.number - len(behind), self._run)

    def pending(self) -> Begin | None:
        """The attempt that was begun and not committed. Attempted again with the same pins and plan, it goes on where it stopped."""
        return attempts.pending(self.storage, self._next(self.latest()))

    def begin(self, point: str, pins: Mapping[str, Version], plan_digest: str, upto: str | None = None) -> Attempt:
        """Begin the next run, or go on with it if the same was begun before; what was begun otherwise is forgotten."""
        lock = self._held()
        latest = self.latest()
        wanted = Begin(self._next(latest), point, pins, plan_digest, started=runfile.now(), upto=upto)
        begun = self.pending()
        resumed = begun is not None and begun.key == wanted.key
        if begun is None or not resumed:
            begun = wanted
            attempts.start(self.storage, begun)
        return Attempt(self.storage, lock, self.job, begun, latest, self.past().points, resumed)

    def check_state(self, entry: StateEntry) -> tuple[str, ...]:
        """What is missing or damaged in the folders of a state; empty if all is well."""
        return damage(self.storage, entry)

    def check_result(self, entry: ResultEntry) -> tuple[str, ...]:
        """What is missing or damaged in the folders of a result; empty if all is well."""
        return damage(self.storage, entry)

    def garbage(self, keep_results: int | None = None) -> tuple[str, ...]:
        """What `collect` would delete now: all that no run needs, and all but the newest results if so asked."""
        if keep_results is not None and keep_results < 1:
            raise WorkspaceError("at least one result of each query is kept", hint="give a number of 1 or more")
        claim = self._lock.number if self._lock else 0
        return waste.garbage(self.storage, self.latest(), claim, keep_results)

    def collect(self, keep_results: int | None = None) -> int:
        """Delete what no run needs; returns the bytes that were freed."""
        self._held()
        freed = 0
        for path in self.garbage(keep_results):
            freed += self.storage.size_of(path).bytes
            self.storage.delete(path)
        waste.collected(self.storage, self.latest())
        return freed

    def reset(self) -> RunFile | None:
        """Forget all states and versions, and keep the results: a run file without them, so that history only grows. None if there was no run."""
        self._held()
        numbers = self._numbers()
        if not numbers:
            self.storage.delete(layout.begin_file(1))
            return None
        known = self._newest_readable()
        number, now = numbers[-1] + 1, runfile.now()
        results = known.results if known else dict[str, ResultEntry]()
        run = RunFile(
            self.job, "", number, RESET, now, now, pins={}, states={}, results=results, origin=number, behind=()
        )
        stored = attempts.create_run_file(self.storage, run)
        publish(self.storage, stored)
        return stored

    def _held(self) -> Lock:
        if self._lock is None:
            raise LockedError(
                f"the workspace {self.storage.uri()} is not locked by this process",
                hint="do this inside `with workspace.lock(…)`",
            )
        self._lock.confirm()
        return self._lock

    def _mend(self) -> None:
        """Publish the newest run, if it was killed before it could do so itself."""
        latest = self._newest_readable()
        if latest is None or latest.number != self._numbers()[-1] or published(self.storage, latest):
            return
        try:
            with self.lock("publishing the latest results"):
                publish(self.storage, self._newest_readable() or latest)
        except WorkspaceError:
            # Whoever holds it is publishing just now. And where nothing can be written, looking must be possible all the same.
            return

    def _numbers(self) -> list[int]:
        names = (name.partition(".") for name in self.storage.list("runs"))
        return sorted(int(number) for number, _, end in names if number.isdecimal() and end == "json")

    def _next(self, latest: RunFile | None) -> int:
        return latest.number + 1 if latest else 1

    def _run(self, number: int) -> RunFile:
        path = layout.run_file(number)
        name = self.storage.uri(path)
        run = runfile.read(self.storage.read(path) or b"", name)
        if (run.number, run.job) != (number, self.job):
            raise WorkspaceError(
                f"the run file {name} is that of run {run.number} of the job `{run.job}`",
                hint="put it back where it belongs, or run `tempura reset` to start afresh, keeping the results",
            )
        return run

    def _newest_readable(self) -> RunFile | None:
        for number in reversed(self._numbers()):
            try:
                return self._run(number)
            except NewerError:
                raise
            except WorkspaceError:
                # `latest` tells it; opening and resetting must work all the same.
                continue
        return None


def _create(storage: Storage, job: str) -> bytes:
    found = storage.list()
    if found:
        made = storage.read(layout.WORKSPACE)
        if made is not None:
            return made  # By another first run, since it was looked for.
        raise WorkspaceError(
            f"{storage.uri()} is not a workspace, and not empty either: it has {found[0]}",
            hint="give the job a folder of its own: `workspace:` in the job file",
        )
    content = json.dumps({"format": FORMAT, "job": job}, ensure_ascii=False).encode()
    try:
        storage.write_new(layout.WORKSPACE, content)
    except FileExistsError:
        return storage.read(layout.WORKSPACE) or b""
    return content


def _check_identity(storage: Storage, content: bytes, job: str) -> None:
    name = storage.uri(layout.WORKSPACE)
    try:
        document = cast("dict[str, object]", json.loads(content))
        version, owner = int(cast("int", document["format"])), document["job"]
    except (ValueError, TypeError, KeyError):
        raise WorkspaceError(
            f"{name} is damaged: it is not the JSON of a workspace",
            hint=f'if this is the workspace of `{job}`, write into it: {{"format": {FORMAT}, "job": "{job}"}}',
        ) from None
    if version > FORMAT:
        raise runfile.newer(name, version)
    if owner != job:
        raise WorkspaceError(
            f"{storage.uri()} is the workspace of the job `{owner}`, not of `{job}`",
            hint="give each job a workspace of its own: `workspace:` in the job file",
        )
