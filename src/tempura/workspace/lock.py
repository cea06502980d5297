"""A workspace has one holder at a time; a dead one is succeeded.

Claims are files `lock/<n>.json`, created atomically, and the highest number holds the workspace. A claim ends by a file `<n>.released` beside it, or by
its process being dead; only then does the next one, n + 1, get created. Nobody ever writes to another's claim, so there is nothing to race for but the creation of
n + 1, which one process wins; where creating is not atomic, whose claim is there when it is looked at before a commit. It removes the lower ones, never the highest: so one who has slept, and now creates a number that others have left behind, finds
a higher one when it looks once more, and withdraws.

A holder on this system is dead when its process is gone, or when another process has its number. One elsewhere (on another machine, in another
container, before the last boot) is dead when its `beat`, which a thread renews every 15 seconds, is two minutes old; the clocks should agree to within a minute.
"""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from uuid import uuid4

from pydantic import ConfigDict, TypeAdapter, ValidationError

from tempura.errors import LockedError, WorkspaceError
from tempura.workspace.faults import CLOCKWORK
from tempura.workspace.storage import Storage

BEAT = 15.0
"""Seconds between two beats."""
SILENCE = timedelta(minutes=2)
"""A holder elsewhere that has not been heard of for so long is dead."""
FOLDER = "lock"


@dataclass(frozen=True)
class Claim:
    """Who holds a workspace."""

    __pydantic_config__ = ConfigDict(strict=True, extra="forbid")

    host: str
    system: str
    """What its pid is valid in: two machines or containers may have the same name."""
    pid: int
    born: str
    """When its process started, as the system counts it: another process may get the same pid."""
    since: str
    beat: str
    command: str
    token: str
    """Differs between any two claims."""

    @property
    def here(self) -> bool:
        """Whether its process could be seen from here."""
        return self.system == _system()

    @property
    def alive(self) -> bool:
        """Whether the holder may still be running."""
        if self.here:
            return _born(self.pid) in (self.born, "")
        return datetime.now(UTC) - datetime.fromisoformat(self.beat) < SILENCE

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {self.since} ({self.command})"


_CLAIM = TypeAdapter(Claim)
_LOST = Claim("a machine that crashed", "", 0, "", "", datetime.min.replace(tzinfo=UTC).isoformat(), "", "")
"""Whoever it was is dead: a claim is on the disk from the start, and beats that do not wait for it lose theirs only if the machine crashes."""


def holder(storage: Storage) -> Claim | None:
    """Who holds the workspace now."""
    claims = _claims(storage)
    top = max(claims, default=0)
    claim = None if _released(storage, top) else _read(storage, top)
    return claim if claim is not None and claim.alive else None


class Lock:
    """The right to change a workspace, held from `with` to its end."""

    def __init__(self, storage: Storage, command: str):
        now = _now()
        pid = os.getpid()
        self._storage = storage
        self._claim = Claim(
            socket.gethostname(), _system(), pid, _born(pid) or "", now, beat=now, command=command, token=uuid4().hex
        )
        self._stop = threading.Event()
        self._still = threading.Lock()
        """Held while the claim is being renewed: some remote file systems cannot do that at once."""
        self._heart = threading.Thread(target=self._beat, name=CLOCKWORK, daemon=True)
        self.number = 0
        """The number of the claim: no two holders, one after the other, have the same; 0 while nothing is held."""

    def __enter__(self) -> Lock:
        while not self.number:
            self._acquire()
        self._heart.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._heart.join()
        mine, self.number = self.number, 0
        try:
            if self._mine(_read(self._storage, mine)):
                self._storage.replace(f"{FOLDER}/{mine}.released", b"")
        except (OSError, WorkspaceError):
            # What happened before is what should be told; the claim ends with the process.
            if error is None:
                raise

    def confirm(self) -> None:
        """The workspace is still ours; LockedError if it never was, or if somebody took it over."""
        with self._still:
            claims = _claims(self._storage)
            taker = _read(self._storage, top := max(claims, default=0))
        if self.number and top == self.number and self._mine(taker):
            return
        raise LockedError(
            f"the workspace {self._storage.uri()} was taken over by {taker or 'another process'}"
            if self.number
            else f"the workspace {self._storage.uri()} is not locked by this process",
            hint="nothing of this run was committed; run again when the other one has ended",
        )

    def _acquire(self) -> None:
        """Claim the workspace; without success, and without an error, if somebody else changed the claims meanwhile."""
        claims = _claims(self._storage)
        top = max(claims, default=0)
        if top and not _released(self._storage, top):
            claim = _read(self._storage, top)
            if claim is None:
                return
            if claim.alive:
                raise _locked(self._storage, claim)
        mine = top + 1
        try:
            self._storage.write_new(_path(mine), _CLAIM.dump_json(self._claim))
        except FileExistsError:
            return
        if _read(self._storage, mine) != self._claim:
            return
        claims = _claims(self._storage)
        if max(claims) != mine:
            self._storage.delete(_path(mine))
            return
        for number in sorted(claims - {mine}):
            self._storage.delete(_path(number))
            self._storage.delete(f"{FOLDER}/{number}.released")
        self.number = mine

    def _mine(self, claim: Claim | None) -> bool:
        """Whether it is this claim: where files cannot be created atomically, another may have been written over it."""
        return claim is not None and claim.token == self._claim.token

    def _beat(self) -> None:
        path = _path(self.number)
        while not self._stop.wait(BEAT):
            try:
                if not self._mine(_read(self._storage, self.number)):
                    return
                with self._still:
                    self._storage.replace(path, _CLAIM.dump_json(replace(self._claim, beat=_now())))
            except (OSError, WorkspaceError):
                # A full disk, say, or a network that is down. The next beat tries again, and a commit finds out whether the workspace is still ours.
                continue


def _claims(storage: Storage) -> set[int]:
    """The numbers of all claims, held and released."""
    return {int(name.partition(".")[0]) for name in storage.list(FOLDER) if name.partition(".")[0].isdecimal()}


def _released(storage: Storage, number: int) -> bool:
    return storage.exists(f"{FOLDER}/{number}.released")


def _path(number: int) -> str:
    return f"{FOLDER}/{number}.json"


def _read(storage: Storage, number: int) -> Claim | None:
    path = _path(number)
    content = storage.read(path)
    if content is None:
        return None
    if not content.strip(b"\0"):
        return _LOST
    try:
        return _CLAIM.validate_json(content)
    except ValidationError:
        raise WorkspaceError(
            f"the lock file {storage.uri(path)} is damaged",
            hint="delete it if no run is going on in this workspace",
        ) from None


def _locked(storage: Storage, claim: Claim) -> LockedError:
    after = f"or stop process {claim.pid}" if claim.here else "if it is dead, the workspace is free after two minutes"
    return LockedError(f"the workspace {storage.uri()} is in use by {claim}", hint=f"wait until it has ended, {after}")


def _system() -> str:
    """What process numbers are valid in: this boot of this machine, and the container; elsewhere than on Linux, the host."""
    try:
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return socket.gethostname()


def _born(pid: int) -> str | None:
    """When a process of this system started, in its own count; empty if that cannot be told, None if there is no such process, or only its remains."""
    try:
        with suppress(PermissionError):
            # Refused if it is somebody else's, but then it is there.
            os.kill(pid, 0)
    except ProcessLookupError:
        return None
    try:
        # The fields after the name, which may hold any character: state, then eighteen others, then the start.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return None if fields[0] in ("Z", "X") else fields[19]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
