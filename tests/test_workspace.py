"""What a workspace keeps, what it refuses, and what it throws away."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.fs as fs
import pytest

from tempura.errors import LockedError, WorkspaceError
from tempura.workspace import RESET, Attempt, ResultEntry, RunFile, StateEntry, StepEntry, Storage, Workspace, remote
from tempura.workspace import runfile as files
from tempura.workspace.layout import safe
from tempura.workspace.local import LocalStorage
from tempura.workspace.pointers import latest
from tempura.workspace.remote import RemoteStorage

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = (("id", "bigint", False), ("price", "decimal(7,2)", True))
PINS = {"orders": {"files": ["a", "b"], "greatest": 2.5}}


def write_rows(attempt: Attempt, folder: str, text: str = "rows") -> None:
    for name in ("part-0.parquet", "part-1.parquet", "_SUCCESS", ".part-0.parquet.crc"):
        attempt.storage.write_new(f"{folder}/{name}", text.encode())


def state(attempt: Attempt, name: str = "kept") -> StateEntry:
    """A state, written and recorded."""
    folder = attempt.folder_for_state(name)
    write_rows(attempt, folder)
    entry = StateEntry(
        name, f"{name}[mon]", "f00", (folder,), COLUMNS, False, attempt.number, "mon", ("id",), 4, rows=3,
        read_at=("tue",),
    )  # fmt: skip
    done = attempt.record(StepEntry(name, "state", entry.view, "SELECT 1", {"rows": 3.0}, {"cpu_seconds": 0.5}), entry)
    assert isinstance(done.output, StateEntry)
    return done.output


def result(attempt: Attempt, query: str = "revenue") -> ResultEntry:
    """A result and its delta, written and recorded."""
    folder, delta = attempt.folder_for_result(query), attempt.folder_for_delta(query)
    write_rows(attempt, folder, "the whole")
    write_rows(attempt, delta, "the change")
    entry = ResultEntry(query, folder, COLUMNS, attempt.number, attempt.begun.point, delta, ("price DESC",), rows=2)
    done = attempt.record(StepEntry(query, "result", query, "SELECT 2"), entry)
    assert isinstance(done.output, ResultEntry)
    return done.output


def run_of(attempt: Attempt, *entries: StateEntry | ResultEntry) -> RunFile:
    begun = attempt.begun
    states = {e.name: e for e in entries if isinstance(e, StateEntry)}
    results = {e.query: e for e in entries if isinstance(e, ResultEntry)}
    return RunFile(
        "sales", "d1", attempt.number, begun.point, begun.started, files.now(), begun.pins, states, results,
        plan={"cost": [1, None, "x"]}, measured={"wall_seconds": 0.1},
    )  # fmt: skip


def commit(workspace: Workspace, point: str) -> RunFile:
    """A whole run: one state, one result."""
    attempt = workspace.begin(point, PINS, f"plan of {point}")
    return attempt.commit(run_of(attempt, state(attempt), result(attempt)))


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace.open(tmp_path / "w", "sales")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "w"


def test_runs_follow_each_other(workspace: Workspace, place: Path):
    assert workspace.latest() is None and list(workspace.history()) == [] and workspace.pending() is None
    with workspace.lock("run"):
        first, second = commit(workspace, "mon"), commit(workspace, "tue")
    assert (first.number, first.previous, second.number, second.previous) == (1, None, 2, 1)
    again = Workspace.open(place, "sales")
    assert again.latest() == second
    assert list(again.history()) == [second, first]
    assert again.pending() is None and not list((place / "pending").iterdir())
    kept = second.states["kept"]
    assert kept.checksum == {kept.folders[0]: {"part-0.parquet": 4, "part-1.parquet": 4}} and kept.bytes == 8
    assert second.pins == PINS and second.plan["cost"] == [1, None, "x"]


def test_the_latest_result_has_names_that_stay(workspace: Workspace, place: Path):
    with workspace.lock("run"):
        commit(workspace, "mon")
        second = commit(workspace, "tue").results["revenue"]
    stable = place / "results" / "revenue"
    assert os.readlink(stable / "latest") == "2-1"
    assert (stable / "latest" / "part-0.parquet").read_text() == "the whole"
    assert json.loads((stable / "latest.json").read_text()) == {
        "run": 2, "point": "tue", "folder": second.folder, "delta": second.delta_folder,
    }  # fmt: skip
    assert workspace.storage.uri(second.folder) == f"file://{stable / '2-1'}"


def test_names_that_stay_are_mended_on_opening(workspace: Workspace, place: Path):
    with workspace.lock("run"):
        commit(workspace, "mon")
        stable = place / "results" / "revenue"
        older = (stable / "latest.json").read_bytes()
        commit(workspace, "tue")
        newer = (stable / "latest.json").read_bytes()
        # As if it had been killed right after the run file.
        (stable / "latest.json").write_bytes(older)
        (stable / "latest").unlink()
        Workspace.open(place, "sales")
        assert (stable / "latest.json").read_bytes() == older, "the holder of the lock does that itself"
    Workspace.open(place, "sales")
    assert (stable / "latest.json").read_bytes() == newer and os.readlink(stable / "latest") == "2-1"


def test_a_backup_that_followed_the_link_is_mended(workspace: Workspace, place: Path):
    """What was a link is a folder then."""
    with workspace.lock("run"):
        commit(workspace, "mon")
        stable = place / "results" / "revenue"
        (stable / "latest").unlink()
        shutil.copytree(stable / "1-1", stable / "latest")
        commit(workspace, "tue")
    assert os.readlink(stable / "latest") == "2-1"


def test_where_nothing_can_be_written_one_can_look(workspace: Workspace, place: Path, monkeypatch: pytest.MonkeyPatch):
    """A run that was killed before it was published would be, on opening."""
    with workspace.lock("run"):
        commit(workspace, "mon")
        second = commit(workspace, "tue")
    (place / "results/revenue/latest.json").write_text("{}")

    def full(path: str, content: bytes) -> None:
        raise WorkspaceError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "write_new", lambda _, *args: full(*args))
        assert Workspace.open(place, "sales").latest() == second
    Workspace.open(place, "sales")
    assert json.loads((place / "results/revenue/latest.json").read_text())["run"] == second.number


def test_delivered_is_what_a_run_was_to_deliver(workspace: Workspace):
    """After a reset, a result of before may have the same point."""
    with workspace.lock("run"):
        attempt = workspace.begin("mon", PINS, "plan")
        run = run_of(attempt, result(attempt, "revenue"), result(attempt, "costs"))
    steps = (StepEntry("kept", "state", "", ""), StepEntry("revenue@mon", "result", "", ""))
    assert replace(run, steps=steps).delivered == (run.results["revenue"],)


def test_a_folder_of_somebody_else_is_told(workspace: Workspace, monkeypatch: pytest.MonkeyPatch):
    def refused(path: Path) -> os.stat_result:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "stat", refused)
    for look in (workspace.storage.exists, workspace.storage.delete):
        with pytest.raises(WorkspaceError, match="Permission denied"):
            look("runs")


def test_an_attempt_at_the_same_goes_on(workspace: Workspace):
    with workspace.lock("run"):
        attempt = workspace.begin("mon", PINS, "plan")
        assert not attempt.resumed and attempt.done("kept") is None
        kept = state(attempt)
    with workspace.lock("run again"):
        begun = workspace.pending()
        assert begun is not None and (begun.point, begun.pins, begun.plan_digest) == ("mon", PINS, "plan")
        again = workspace.begin("mon", begun.pins, "plan")
        done = again.done("kept")
        assert again.resumed and again.begun.started == attempt.begun.started
        assert done is not None and done.output == kept and done.step.reused
        assert done.step.measured == {"cpu_seconds": 0.5}
        assert again.folder_for_state("kept") != kept.folders[0], "a killed writer may still be writing there"
        assert again.done("revenue") is None
        run = again.commit(run_of(again, kept, result(again)))
    assert run.states["kept"].folders == ("states/kept/1-1",)
    assert run.results["revenue"].folder == "results/revenue/1-2"


@pytest.mark.parametrize(
    ("point", "pins", "plan"),
    [("tue", PINS, "plan"), ("mon", {"orders": {"files": ["a"]}}, "plan"), ("mon", PINS, "other plan")],
)
def test_an_attempt_at_something_else_starts_afresh(workspace: Workspace, point: str, pins: Any, plan: str):
    with workspace.lock("run"):
        kept = state(workspace.begin("mon", PINS, "plan"))
    with workspace.lock("run again"):
        again = workspace.begin(point, pins, plan)
        assert not again.resumed and again.done("kept") is None
        assert set(workspace.garbage()) == {"states/kept"}
        workspace.collect()
        assert workspace.check_state(kept) == ("states/kept/1-1 is missing",)


def test_a_recorded_step_that_is_damaged_is_not_done(workspace: Workspace, place: Path):
    with workspace.lock("run"):
        attempt = workspace.begin("mon", PINS, "plan")
        kept = state(attempt)
        journal = next(place.glob("pending/1/steps/*.json"))
        text = journal.read_text()
        journal.write_text(text[:-9])
        assert attempt.done("kept") is None
        journal.write_text(text)
        assert attempt.done("kept") is not None
        (place / kept.folders[0] / "part-1.parquet").write_text("cut")
        assert attempt.done("kept") is None


def test_an_unreadable_beginning_is_begun_again(workspace: Workspace, place: Path):
    with workspace.lock("run"):
        workspace.begin("mon", PINS, "plan")
        (place / "pending" / "1" / "begin.json").write_text("{")
        assert workspace.pending() is None
        assert not workspace.begin("mon", PINS, "plan").resumed
        assert workspace.pending() is not None


def test_damage_to_a_state_is_told_and_not_committed(workspace: Workspace, place: Path):
    with workspace.lock("run"):
        attempt = workspace.begin("mon", PINS, "plan")
        kept = state(attempt)
        folder = place / kept.folders[0]
        assert workspace.check_state(kept) == ()
        (folder / "part-0.parquet").unlink()
        (folder / "part-1.parquet").write_text("longer than it was")
        (folder / "part-2.parquet").write_text("")
        assert workspace.check_state(kept) == (
            "states/kept/1-1/part-0.parquet is missing",
            "states/kept/1-1/part-2.parquet does not belong there",
            "states/kept/1-1/part-1.parquet has 18 bytes instead of 4",
        )
        assert workspace.check_state(replace(kept, checksum={})) == ("states/kept/1-1 has no recorded sizes",)
        with pytest.raises(WorkspaceError, match="the state kept is damaged: states/kept/1-1/part-0") as told:
            attempt.commit(run_of(attempt, kept))
        assert told.value.hint.startswith("nothing was committed")
    assert workspace.latest() is None


def test_one_run_is_committed_once(workspace: Workspace):
    with workspace.lock("run"):
        attempt = workspace.begin("mon", PINS, "plan")
        run = run_of(attempt, state(attempt))
        with pytest.raises(ValueError, match="is not the one that was begun"):
            attempt.commit(replace(run, number=2))
        assert attempt.is_of(attempt.commit(run))
        with pytest.raises(LockedError, match="another process has committed run 1"):
            attempt.commit(run)
        assert not attempt.is_of(replace(run, point=RESET)) and not attempt.is_of(replace(run, started="later"))


def edit(**changes: Any) -> Callable[[bytes], bytes]:
    """Change a run file by hand."""
    return lambda content: json.dumps(json.loads(content) | changes).encode()


def sign(**changes: Any) -> Callable[[bytes], bytes]:
    """Change a run file and its digest."""

    def change(content: bytes) -> bytes:
        document = json.loads(content) | changes
        return json.dumps(document | {"digest": files.digest(document)}).encode()

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (edit(point="wed"), "is damaged: its digest does not fit its content, so it was cut short or edited by hand"),
        (lambda content: content[: len(content) // 2], "is damaged: it is not the JSON of a run file"),
        (lambda content: b"", "is damaged: it is not the JSON of a run file"),
        (lambda content: b"[]", "is damaged: it is not the JSON of a run file"),
        (sign(colour="red"), "is damaged: `colour`: Unexpected keyword argument"),
        (sign(point=7), "is damaged: `point`: Input should be a valid string"),
        (sign(number=3), "is that of run 3 of the job `sales`"),
        (sign(version=0), "has format 0, which this version of tempura (format 3) no longer reads"),
    ],
)
def test_a_run_file_is_believed_only_if_it_is_whole(
    workspace: Workspace, place: Path, change: Callable[[bytes], bytes], message: str
):
    with workspace.lock("run"):
        commit(workspace, "mon")
        commit(workspace, "tue")
    path = place / "runs" / "2.json"
    path.write_bytes(change(path.read_bytes()))
    again = Workspace.open(place, "sales")
    with pytest.raises(WorkspaceError) as told:
        again.latest()
    assert message in told.value.message and "runs/2.json" in told.value.message
    assert "`tempura reset`" in told.value.hint
    with again.lock("run"), pytest.raises(WorkspaceError):
        again.begin("wed", PINS, "plan")
    # A reset helps, and takes back no result that can still be told from the run files.
    with again.lock("reset"):
        reset = again.reset()
        assert reset is not None and (reset.number, reset.point, reset.states, reset.pins) == (3, RESET, {}, {})
        assert reset.results["revenue"].run == 1
        again.collect()
    assert (place / "results" / "revenue" / "2-1").exists(), "run 2 may have delivered it"
    assert not (place / "states" / "kept").exists()
    assert [run.number for run in again.history()] == [3, 1]
    with again.lock("run"):
        assert commit(again, "mon").number == 4
    assert again.latest() == next(again.history())


def test_reformatting_a_run_file_changes_nothing(workspace: Workspace, place: Path):
    with workspace.lock("run"):
        run = commit(workspace, "mon")
    path = place / "runs" / "1.json"
    path.write_text(json.dumps(json.loads(path.read_text()), sort_keys=True))
    assert workspace.latest() == run


def test_a_newer_workspace_is_left_alone(workspace: Workspace, place: Path):
    with workspace.lock("run"):
        commit(workspace, "mon")
    path = place / "runs" / "1.json"
    path.write_bytes(sign(version=4)(path.read_bytes()))
    with pytest.raises(WorkspaceError, match=r"runs/1\.json was made by a newer tempura: it has format 4") as told:
        Workspace.open(place, "sales")
    assert told.value.hint.startswith("upgrade tempura")
    with workspace.lock("reset"), pytest.raises(WorkspaceError, match="made by a newer tempura"):
        workspace.reset()
    (place / "workspace.json").write_text('{"format": 4, "job": "sales"}')
    with pytest.raises(WorkspaceError, match=r"workspace\.json was made by a newer tempura"):
        Workspace.open(place, "sales")


def test_an_older_format_is_migrated(workspace: Workspace, place: Path, monkeypatch: pytest.MonkeyPatch):
    with workspace.lock("run"):
        run = commit(workspace, "mon")
    path = place / "runs" / "1.json"
    document = json.loads(path.read_text())
    document["at"], document["version"] = document.pop("point"), 0
    path.write_text(json.dumps(document | {"digest": files.digest(document)}))

    def renamed(old: files.Document) -> files.Document:
        return {("point" if key == "at" else key): value for key, value in old.items()} | {"version": files.FORMAT}

    monkeypatch.setitem(files.MIGRATIONS, 0, renamed)
    migrated = Workspace.open(place, "sales").latest()
    assert migrated is not None and replace(migrated, digest=run.digest) == run


def test_run_files_from_before_runs_told_points(workspace: Workspace, place: Path):
    with workspace.lock("run"):
        runs = [commit(workspace, point) for point in ("mon", "tue")]
    for run in runs:
        path = place / "runs" / f"{run.number}.json"
        document = json.loads(path.read_text()) | {"version": run.number}
        del document["behind"]
        document["states"]["kept"] |= {"points": [], "lineage": PINS}
        path.write_text(json.dumps(document | {"digest": files.digest(document)}))
    again = Workspace.open(place, "sales")
    found = again.latest()
    assert found is not None and (found.version, found.behind, found.states["kept"].points) == (3, None, None)
    assert replace(found, digest=runs[1].digest, behind=("mon",)) == runs[1]
    assert again.past().points == ("mon", "tue") and again.past()[0].point == "mon"
    with again.lock("run"):
        assert commit(again, "wed").behind == ("mon", "tue")


def test_runs_behind_are_read_when_they_are_asked_for(
    workspace: Workspace, place: Path, monkeypatch: pytest.MonkeyPatch
):
    with workspace.lock("run"):
        assert workspace.past().points == () and list(workspace.past()) == []
        old, *_ = (commit(workspace, point) for point in ("sun", "sat"))
        workspace.reset()
        assert workspace.past().points == ()
        runs = [commit(workspace, point) for point in ("mon", "tue", "wed")]
    assert [run.behind for run in (old, *runs)] == [(), (), ("mon",), ("mon", "tue")]
    seen: list[str] = []
    again = Workspace.open(place, "sales")
    files.read.cache_clear()
    read = again.storage.read
    monkeypatch.setattr(again.storage, "read", lambda path: seen.append(path) or read(path))
    past = again.past()
    assert (past.points, past[-1], past[0]) == (("mon", "tue", "wed"), runs[2], runs[0])
    assert set(seen) == {"runs/6.json", "runs/4.json"}
    assert list(past) == past[:] == runs
    assert len(seen) == len(set(seen)) + 1, "the newest is looked at before, too"


def test_a_missing_run_file_is_noticed(workspace: Workspace, place: Path):
    with workspace.lock("run"):
        for point in ("mon", "tue", "wed"):
            commit(workspace, point)
    (place / "runs" / "2.json").unlink()
    with pytest.raises(WorkspaceError, match=r"runs/2\.json is missing"):
        Workspace.open(place, "sales").latest()
    with workspace.lock("reset"):
        workspace.reset()
    assert [run.number for run in workspace.history()] == [4, 3, 1]


def test_a_workspace_belongs_to_one_job(workspace: Workspace, place: Path):
    with pytest.raises(WorkspaceError, match="is the workspace of the job `sales`, not of `returns`") as told:
        Workspace.open(place, "returns")
    assert "`workspace:` in the job file" in told.value.hint
    (place / "workspace.json").write_text("sales")
    with pytest.raises(WorkspaceError, match=r"workspace\.json is damaged") as told:
        Workspace.open(place, "sales")
    assert '{"format": 3, "job": "sales"}' in told.value.hint


def test_a_workspace_that_another_first_run_makes_just_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    storage = Storage.at(tmp_path)
    listed = storage.list

    def late(folder: str = "") -> tuple[str, ...]:
        Workspace.open(tmp_path, "sales")
        return listed(folder)

    with monkeypatch.context() as patch:
        patch.setattr(storage, "list", late)
        assert Workspace.open(storage, "sales").latest() is None
    assert (tmp_path / "workspace.json").exists()


def test_a_folder_with_something_else_is_not_made_a_workspace(tmp_path: Path):
    (tmp_path / "results").mkdir()
    with pytest.raises(WorkspaceError, match="is not a workspace, and not empty either: it has results"):
        Workspace.open(tmp_path, "sales")
    assert [p.name for p in tmp_path.iterdir()] == ["results"]
    (tmp_path / "file").touch()
    with pytest.raises(WorkspaceError, match=r"cannot read .*/file/workspace\.json: Not a directory") as told:
        Workspace.open(tmp_path / "file", "sales")
    assert told.value.hint == "check that the place exists and that you may write there"


def test_reset_before_the_first_run(workspace: Workspace):
    with workspace.lock("reset"):
        state(workspace.begin("mon", PINS, "plan"))
        assert workspace.reset() is None
        assert workspace.pending() is None and workspace.latest() is None
        assert not workspace.begin("mon", PINS, "plan").resumed


def test_garbage_is_what_nobody_names(workspace: Workspace, place: Path):
    with workspace.lock("killed"):
        attempt = workspace.begin("mon", PINS, "plan of mon")
        write_rows(attempt, attempt.folder_for_state("kept"))
        write_rows(attempt, attempt.folder_for_result("revenue"))
        assert workspace.garbage() == (), "the run is still writing there"
    with workspace.lock("run"):
        commit(workspace, "mon")
        commit(workspace, "tue")
        attempt = workspace.begin("wed", PINS, "plan of wed")
        unfinished = state(attempt, "later")
        for leftover in (".tmp-1", "runs/.tmp-2", "pending/3/steps/.tmp-3", "results/revenue/.tmp-4", "lock/.tmp-5"):
            (place / leftover).write_text("12345")
        (place / "pending" / "1").mkdir()
    found = {
        ".tmp-1", "runs/.tmp-2", "pending/3/steps/.tmp-3", "results/revenue/.tmp-4", "lock/.tmp-5", "pending/1",
        "states/kept/1-1", "states/kept/1-2", "results/revenue/1-1",
    }  # fmt: skip
    assert set(workspace.garbage()) == found
    with workspace.lock("collect"):
        assert workspace.collect() == 5 * 5 + 2 * 4 * len("rows") + 4 * len("rows")
        assert workspace.garbage() == () and workspace.collect() == 0
        assert workspace.check_state(unfinished) == ()
        latest = workspace.latest()
        assert latest is not None and workspace.check_state(latest.states["kept"]) == ()
        assert [run.results["revenue"].folder for run in workspace.history()] == [
            "results/revenue/2-2", "results/revenue/1-2",
        ]  # fmt: skip
        assert (place / "results/revenue/1-2").exists() and (place / "deltas/revenue/1-2").exists()
        assert workspace.begin("wed", PINS, "plan of wed").done("later") is not None


def test_only_the_newest_results_are_kept_if_so_asked(workspace: Workspace, place: Path):
    with workspace.lock("run"):
        for number in range(1, 13):
            commit(workspace, f"p{number}")
            workspace.collect()
        assert len(list((place / "results" / "revenue").glob("*-1"))) == 12
        assert workspace.collect(keep_results=2) == 10 * 4 * (len("the whole") + len("the change"))
        assert {p.name for p in (place / "results" / "revenue").glob("*-1")} == {"11-1", "12-1"}
        assert {p.name for p in (place / "deltas" / "revenue").iterdir()} == {"11-1", "12-1"}
        with pytest.raises(WorkspaceError, match="at least one result of each query is kept"):
            workspace.collect(keep_results=0)


def test_collecting_after_each_run_reads_only_its_own_run_file(workspace: Workspace, monkeypatch: pytest.MonkeyPatch):
    with workspace.lock("run"):
        for number in range(1, 6):
            commit(workspace, f"p{number}")
        workspace.collect()
        commit(workspace, "p6")
        read, opened = workspace.storage.read, list[str]()
        monkeypatch.setattr(workspace.storage, "read", lambda path: (opened.append(path), read(path))[1])
        workspace.collect()
    assert {path for path in opened if path.startswith("runs/")} == {"runs/6.json"}


def test_collecting_goes_on_when_its_note_is_unreadable(workspace: Workspace, place: Path):
    with workspace.lock("run"):
        commit(workspace, "mon")
        (place / "collected.json").write_text("?")
        workspace.collect()
    assert json.loads((place / "collected.json").read_text()) == {"run": 1}


@pytest.mark.parametrize(("operation", "path"), [("fsync", "w"), ("link", "w/runs/2.json")])
def test_a_full_disk_is_told_and_loses_nothing(
    workspace: Workspace, place: Path, monkeypatch: pytest.MonkeyPatch, operation: str, path: str
):
    with workspace.lock("run"):
        first = commit(workspace, "mon")
        attempt = workspace.begin("tue", PINS, "plan")
        run = run_of(attempt, state(attempt), result(attempt))

        def full(*arguments: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patch:
            patch.setattr(os, operation, full)
            with pytest.raises(WorkspaceError, match="the disk is full: cannot write ") as told:
                attempt.commit(run)
        assert told.value.message.endswith(f"/{path}")
        assert "`tempura gc`" in told.value.hint
        assert workspace.latest() == first
        assert [p.name for p in (place / "runs").iterdir()] == ["1.json"]
    with workspace.lock("again"):
        again = workspace.begin("tue", PINS, "plan")
        assert again.done("kept") is not None and again.commit(run).number == 2


def test_a_real_limit_on_what_can_be_written(tmp_path: Path):
    code = f"""
import resource
from tempura.workspace import Workspace
workspace = Workspace.open({str(tmp_path)!r}, "sales")
with workspace.lock("run"):
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    workspace.begin("mon", {{"orders": {{"files": ["x" * 200]}}}}, "plan")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": str(ROOT / "src")}
    )
    assert done.returncode == 1
    assert "WorkspaceError: the disk is full: cannot write" in done.stderr and "begin.json" in done.stderr
    assert not list((tmp_path / "pending" / "1").iterdir())
    assert sorted(p.name for p in (tmp_path / "lock").iterdir()) == ["1.json", "1.released"]


def test_of_two_who_create_a_file_one_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    storage = Storage.at(tmp_path)
    storage.write_new("a/b", b"first")
    with pytest.raises(FileExistsError):
        storage.write_new("a/b", b"second")

    def unsupported(*names: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    # A disk with neither hard links nor symbolic ones.
    monkeypatch.setattr(os, "link", unsupported)
    monkeypatch.setattr(os, "symlink", unsupported)
    with pytest.raises(FileExistsError):
        storage.write_new("a/b", b"third")
    storage.write_new("a/c", b"fourth")
    storage.link("a/latest", "c")
    assert storage.list("a") == ("b", "c") and storage.leftovers("a") == ()
    assert (storage.read("a/b"), storage.read("a/c"), storage.read("a/d")) == (b"first", b"fourth", None)
    size = storage.size_of("")
    assert (size.bytes, size.files) == (11, 2)


def test_a_temporary_file_that_was_collected_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    storage, link, lost = Storage.at(tmp_path), os.link, list[Path]()

    def collected_before(old: Path, new: Path) -> None:
        if not lost:
            lost.append(old)
            old.unlink()
        link(old, new)

    monkeypatch.setattr(os, "link", collected_before)
    storage.write_new("a", b"content")
    assert lost and storage.read("a") == b"content" and storage.leftovers() == ()


class Strict:
    """A file system that does not move a file over another one, as HDFS."""

    def __init__(self, files: fs.FileSystem):
        self._files = files

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def move(self, old: str, new: str) -> None:
        if self._files.get_file_info(new).type != fs.FileType.NotFound:
            raise OSError(f"cannot move to {new}: it exists")
        self._files.move(old, new)


@pytest.mark.parametrize("strict", [False, True])
def test_a_workspace_on_a_file_system_of_pyarrow(tmp_path: Path, strict: bool):
    below = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    storage = RemoteStorage(Strict(below) if strict else below, "bucket/w", "s3a://bucket/w")
    workspace = Workspace.open(storage, "sales")
    with workspace.lock("run"), pytest.raises(LockedError, match="the workspace s3a://bucket/w is in use"):
        workspace.lock("second").__enter__()
    with workspace.lock("run"):
        commit(workspace, "mon")
        second = commit(workspace, "tue")
        assert workspace.garbage() == ("states/kept/1-2",)
        assert workspace.collect() == 16
        assert workspace.begin("wed", PINS, "plan").number == 3
        with pytest.raises(FileExistsError):
            storage.write_new("runs/2.json", b"")
    with workspace.lock("run"):
        assert workspace.begin("wed", PINS, "plan").resumed
    again = Workspace.open(storage, "sales")
    assert again.latest() == second and again.check_state(second.states["kept"]) == ()
    assert storage.uri(second.results["revenue"].folder) == "s3a://bucket/w/results/revenue/2-2"
    assert json.loads(storage.read("results/revenue/latest.json") or b"")["run"] == 2
    assert latest(storage, "revenue") == "s3a://bucket/w/results/revenue/latest.json", "where there are no links"
    assert storage.leftovers("runs") == () and storage.list("lock") == ("3.json", "3.released")
    assert (storage.size_of("runs/1.json").files, storage.size_of("nothing").files) == (1, 0)


def test_a_file_system_that_does_not_move_over_a_file_keeps_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    storage = RemoteStorage(Strict(fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())), "", "hdfs://host")
    storage.write_new("a", b"first")
    exists, too_early = storage.exists, iter([False])
    monkeypatch.setattr(storage, "exists", lambda path: next(too_early, True) and exists(path))
    with pytest.raises(FileExistsError):
        storage.write_new("a", b"second")
    assert storage.read("a") == b"first" and storage.leftovers() == ()
    storage.replace("a", b"third")
    assert storage.read("a") == b"third" and storage.leftovers() == ()


def test_storage_that_spark_calls_s3a(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []

    def opened(uri: str) -> tuple[Any, str]:
        asked.append(uri)
        return fs.LocalFileSystem(), str(tmp_path)

    arrow = SimpleNamespace(FileSystem=SimpleNamespace(from_uri=opened), FileType=fs.FileType)
    monkeypatch.setattr(remote, "_arrow", lambda: arrow)
    for scheme in ("s3", "s3a"):
        assert RemoteStorage.at_uri(f"{scheme}://bucket/jobs").uri("runs") == "s3a://bucket/jobs/runs"
    assert asked == ["s3://bucket/jobs"] * 2


def test_where_a_storage_is():
    assert Storage.at("s3a://bucket/folder?region=us-east-1").uri("runs") == "s3a://bucket/folder/runs"
    assert Storage.at("file:///data/a b").uri("runs") == Storage.at("/data/a b").uri("runs") == "file:///data/a b/runs"
    with pytest.raises(WorkspaceError, match="cannot open the workspace cloud://x: Unrecognized filesystem") as told:
        Storage.at("cloud://x")
    assert told.value.hint.startswith("give a local folder, or a URI that pyarrow opens")


def test_names_become_parts_of_paths():
    assert safe("kept_mon-2.x") == "kept_mon-2.x"
    assert safe("sales@14:00") == "sales~40~14~3a~00"
    names = ["a/b", "a~2f~b", "..", ".", "_a", "a", "ä", "x" * 300, "x" * 301, "*", "a b", "a%20b"]
    parts = [safe(name) for name in names]
    assert len(set(parts)) == len(names)
    assert not [part for part in parts if len(part) > 140 or part.startswith((".", "_")) or set(part) & set("/:*% ")]
