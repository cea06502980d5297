"""One holder at a time: others are told who it is, the dead are succeeded, and nothing is committed without the lock."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tempura.errors import LockedError, WorkspaceError
from tempura.workspace import Lock, RunFile, StateEntry, Storage, Workspace, lock
from tempura.workspace.local import LocalStorage

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}


@contextmanager
def another_holder(place: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock until it is killed."""
    code = (
        "import sys, time; from tempura.workspace import Lock, Storage\n"
        f"with Lock(Storage.at({str(place)!r}), 'tempura run sales --at mon'): print('held', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        assert process.stdout and process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def claim(place: Path, number: int, **changes: object) -> Path:
    """A claim that looks like that of this process, but for some changes."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    with Lock(Storage.at(place / "template"), "somebody") as held:
        content = json.loads((place / "template" / "lock" / f"{held.number}.json").read_text())
    path = place / "lock" / f"{number}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content | {"since": now, "beat": now} | changes))
    return path


def test_a_second_process_is_told_who_holds_it_and_succeeds_the_dead(tmp_path: Path):
    with another_holder(tmp_path) as process:
        with pytest.raises(LockedError) as told, Lock(Storage.at(tmp_path), "second"):
            pass
        assert f"in use by process {process.pid} on {socket.gethostname()} since 20" in told.value.message
        assert told.value.message.endswith("(tempura run sales --at mon)")
        assert told.value.hint == f"wait until it has ended, or stop process {process.pid}"
        assert (found := lock.holder(Storage.at(tmp_path))) is not None and found.pid == process.pid
        # Killed, and not yet waited for: its remains still have the pid.
        process.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert lock.holder(Storage.at(tmp_path)) is None
        with Lock(Storage.at(tmp_path), "second") as taken:
            assert taken.number == 2
            assert [p.name for p in (tmp_path / "lock").iterdir()] == ["2.json"]
    assert {p.name for p in (tmp_path / "lock").iterdir()} == {"2.json", "2.released"}


def test_the_same_process_cannot_hold_it_twice(tmp_path: Path):
    with Lock(Storage.at(tmp_path), "first"), pytest.raises(LockedError, match="in use by process"):
        Lock(Storage.at(tmp_path), "second").__enter__()
    with Lock(Storage.at(tmp_path), "third") as third:
        assert third.number == 2


def test_another_process_with_the_same_pid_is_not_the_holder(tmp_path: Path):
    claim(tmp_path, 7, born="1")
    with Lock(Storage.at(tmp_path), "taker") as taken:
        assert taken.number == 8


def test_a_holder_elsewhere_lives_as_long_as_it_is_heard(tmp_path: Path):
    heard = datetime.now(UTC) - timedelta(seconds=100)
    claim(tmp_path, 7, host="elsewhere", system="other", pid=1, beat=heard.isoformat())
    with pytest.raises(LockedError, match="process 1 on elsewhere") as told:
        Lock(Storage.at(tmp_path), "taker").__enter__()
    assert "the workspace is free after two minutes" in told.value.hint
    claim(tmp_path, 7, host="elsewhere", system="other", pid=1, beat=(heard - timedelta(seconds=21)).isoformat())
    with Lock(Storage.at(tmp_path), "taker") as taken:
        assert taken.number == 8


def test_a_machine_of_the_same_name_is_not_this_one(tmp_path: Path):
    # No process has this number here, which says nothing about there.
    claim(tmp_path, 7, system="another boot", pid=2**22 + 1)
    with pytest.raises(LockedError, match="is in use by process 4194305"):
        Lock(Storage.at(tmp_path), "taker").__enter__()
    claim(tmp_path, 7, pid=2**22 + 1)
    with Lock(Storage.at(tmp_path), "taker") as taken:
        assert taken.number == 8


def test_a_damaged_lock_file_is_named(tmp_path: Path):
    claim(tmp_path, 7).write_text("{")
    with pytest.raises(WorkspaceError, match=r"lock/7\.json is damaged") as told:
        Lock(Storage.at(tmp_path), "taker").__enter__()
    assert told.value.hint == "delete it if no run is going on in this workspace"


@pytest.mark.parametrize("content", [b"", b"\0" * 300])
def test_a_claim_whose_bytes_a_crash_took_is_that_of_a_dead_holder(tmp_path: Path, content: bytes):
    claim(tmp_path, 7).write_bytes(content)
    assert lock.holder(Storage.at(tmp_path)) is None
    with Lock(Storage.at(tmp_path), "taker") as taken:
        assert taken.number == 8
    assert not (tmp_path / "lock/7.json").exists()


def test_the_heart_beats_also_after_a_beat_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lock, "BEAT", 0.01)
    monkeypatch.setattr(lock, "_now", lambda: datetime.now(UTC).isoformat())
    storage = Storage.at(tmp_path)
    replace, read, failures, down = storage.replace, storage.read, iter(range(3)), iter(range(2))

    def failing(path: str, content: bytes) -> None:
        if next(failures, None) is not None:
            raise WorkspaceError("the disk is full")
        replace(path, content)

    def unreachable(path: str) -> bytes | None:
        if threading.current_thread().name == lock.CLOCKWORK and next(down, None) is not None:
            raise OSError("the network is down")
        return read(path)

    monkeypatch.setattr(storage, "replace", failing)
    monkeypatch.setattr(storage, "read", unreachable)
    with Lock(storage, "run"):
        first = lock.holder(storage)
        limit = time.monotonic() + 10
        while lock.holder(storage) == first and time.monotonic() < limit:
            time.sleep(0.01)
        last = lock.holder(storage)
        assert first and last and last.beat > first.beat and next(failures, None) is None and next(down, None) is None


def test_what_failed_is_told_also_where_the_lock_cannot_be_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    storage = Storage.at(tmp_path)

    def full(path: str, content: bytes) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(storage, "replace", full)
    with pytest.raises(KeyError, match="what happened"), Lock(storage, "run"):
        raise KeyError("what happened")
    monkeypatch.undo()
    storage.delete("lock/1.json")
    monkeypatch.setattr(storage, "replace", full)
    with pytest.raises(OSError, match="the disk is full"), Lock(storage, "run"):
        pass


def test_who_lost_the_lock_commits_nothing(tmp_path: Path):
    place = tmp_path / "workspace"
    workspace = Workspace.open(place, "sales")
    with workspace.lock("run"):
        attempt = workspace.begin("mon", {}, "plan")
        taken = claim(tmp_path, 2, host="elsewhere", system="other", pid=9).replace(place / "lock" / "2.json")
        # The other one may have collected what was kept.
        kept = StateEntry("kept", "v", "f", ("states/kept/1-1",), (), False, 1, "mon")
        run = RunFile("sales", "d", 1, "mon", "s", "f", {}, {"kept": kept}, {})
        with pytest.raises(LockedError, match="was taken over by process 9 on elsewhere") as told:
            attempt.commit(run)
        assert told.value.hint.startswith("nothing of this run was committed")
        with pytest.raises(LockedError, match="was taken over"):
            workspace.collect()
        assert not (place / "runs").exists()
    # Leaving does not touch the claim of the other.
    assert taken.exists() and (found := workspace.holder()) and found.pid == 9


def test_of_two_that_created_the_same_claim_the_one_whose_it_is_commits(tmp_path: Path):
    """On a file system that does not create atomically, both may have gone on."""
    place = tmp_path / "workspace"
    workspace = Workspace.open(place, "sales")
    with workspace.lock("run"):
        attempt = workspace.begin("mon", {}, "plan")
        other = claim(tmp_path, 1, token="other", pid=9).replace(place / "lock" / "1.json")
        with pytest.raises(LockedError, match="was taken over by process 9"):
            attempt.commit(RunFile("sales", "d", 1, "mon", "s", "f", {}, {}, {}))
    assert other.exists() and not (place / "lock" / "1.released").exists() and not (place / "runs").exists()


def test_changes_need_the_lock(tmp_path: Path):
    workspace = Workspace.open(tmp_path, "sales")
    for change in (lambda: workspace.begin("mon", {}, ""), workspace.collect, workspace.reset):
        with pytest.raises(LockedError, match="not locked by this process"):
            change()
    with workspace.lock("run"):
        pass
    with pytest.raises(LockedError, match="not locked by this process"):
        workspace.collect()


class Sleepy(LocalStorage):
    """A disk that is slow at times, so that what a process saw is long gone when it acts."""

    def __init__(self, root: Path, dice: random.Random):
        super().__init__(root)
        self._dice = dice

    def write_new(self, path: str, content: bytes) -> None:
        time.sleep(self._dice.choice((0, 0, 0.002, 0.01)))
        super().write_new(path, content)
        time.sleep(self._dice.choice((0, 0, 0.002)))


def contend(place: Path, rounds: int, seed: int) -> None:
    """Take the lock again and again, count, and die while holding it now and then; more than one holder is a collision."""
    dice = random.Random(seed)
    while rounds:
        try:
            with Lock(Sleepy(place, dice), f"contender {seed}"):
                try:
                    os.close(os.open(place / "inside", os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    (place / f"collision {seed}").touch()
                count = int((place / "count").read_text())
                time.sleep(dice.random() * 0.002)
                (place / "count").write_text(str(count + 1))
                with (place / "taken").open("a") as log:
                    log.write(f"{seed}\n")
                (place / "inside").unlink()
                rounds -= 1
                if dice.random() < 0.3:
                    os.kill(os.getpid(), signal.SIGKILL)
        except LockedError:
            time.sleep(dice.random() * 0.002)


def race(place: Path) -> None:
    """Six processes contend; each that dies is followed by another one."""
    os.fsync = lambda fd: None
    (place / "count").write_text("0")
    running: dict[int, int] = {}
    seeds = iter(range(60))
    for _ in range(6):
        fork(place, next(seeds), running)
    while running:
        pid, status = os.wait()
        del running[pid]
        if os.waitstatus_to_exitcode(status) not in (0, -signal.SIGKILL):
            (place / "failure").touch()
        if (seed := next(seeds, None)) is not None:
            fork(place, seed, running)


def fork(place: Path, seed: int, running: dict[int, int]) -> None:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            contend(place, rounds=5, seed=seed)
            code = 0
        finally:
            os._exit(code)
    running[pid] = seed


def test_processes_that_race_for_the_lock_never_hold_it_together(tmp_path: Path):
    command = [sys.executable, "-m", "tests.test_workspace_lock", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=ENVIRONMENT)
    assert (done.returncode, done.stderr) == (0, "")
    assert not [p.name for p in tmp_path.iterdir() if p.name.startswith(("collision", "failure", "inside"))]
    taken = (tmp_path / "taken").read_text().splitlines()
    assert len(taken) == int((tmp_path / "count").read_text()) > 100
    assert len(set(taken)) > 20


if __name__ == "__main__":
    race(Path(sys.argv[1]))
