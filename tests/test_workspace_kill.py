"""A process is killed at every write, rename and delete of two runs; the next one finishes, repeats nothing, and leaves no garbage.

The fault points are found by running once with a log. Each kill is that of a real process: a child forked from one that has everything loaded.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from tempura.workspace import Attempt, ResultEntry, RunFile, StateEntry, StepEntry, Workspace, faults
from tempura.workspace.runfile import now

POINTS = ("mon", "tue")
ROOT = Path(__file__).resolve().parent.parent


def play(place: Path, effects: Path) -> None:
    """Run all points that are due; every step that is computed is noted in `effects`."""
    workspace = Workspace.open(place, "sales")
    with workspace.lock("play"):
        workspace.collect()
        latest = workspace.latest()
        for point in POINTS[POINTS.index(latest.point) + 1 if latest else 0 :]:
            run_point(workspace, point, effects)
            workspace.collect()


def run_point(workspace: Workspace, point: str, effects: Path) -> None:
    begun = workspace.pending()
    # What a source holds moves on between two attempts: only a pin makes the second one compute the same.
    fresh = {"orders": {"version": time.monotonic_ns()}}
    pins = begun.pins if begun and begun.point == point else fresh
    if point == "tue" and begun is None:
        # Begun with another plan, which is given up: nothing of it may be taken for a step of this one.
        carry_out(workspace.begin(point, pins, plan_digest="an older plan"), "draft", effects)
    attempt = workspace.begin(point, pins, plan_digest=f"plan of {point}")
    assert attempt.done(f"draft@{point}") is None
    state = carry_out(attempt, "kept", effects)
    result = carry_out(attempt, "revenue", effects)
    assert isinstance(state, StateEntry) and isinstance(result, ResultEntry)
    attempt.commit(
        RunFile(
            "sales", "d", attempt.number, point, attempt.begun.started, now(), pins, {"kept": state}, {"revenue": result}
        )
    )  # fmt: skip


def carry_out(attempt: Attempt, name: str, effects: Path) -> StateEntry | ResultEntry:
    step = f"{name}@{attempt.begun.point}"
    if done := attempt.done(step):
        return done.output
    with effects.open("a") as log:
        log.write(f"{step}\n")
    number, point = attempt.number, attempt.begun.point
    pinned = json.dumps(attempt.begun.pins)
    columns = (("a", "int", True),)
    if name != "revenue":
        folder = attempt.folder_for_state(name)
        output = StateEntry(name, f"kept[{point}]", "f", (folder,), columns, False, number, point)
        folders = output.folders
    else:
        folder, delta = attempt.folder_for_result(name), attempt.folder_for_delta(name)
        output = ResultEntry(name, folder, columns, number, point, delta_folder=delta)
        folders = output.folders
    for part in folders:
        at = Path(attempt.storage.uri(part).removeprefix("file://"))
        at.mkdir(parents=True, exist_ok=True)
        faults.fault(f"job of {step}")
        for i in range(2):
            (at / f"part-{i}.parquet").write_text(f"{step} {pinned} {i}")
            faults.fault(f"file of {step}")
        (at / "_SUCCESS").touch()
    return attempt.record(StepEntry(step, "result" if name == "revenue" else "state", step, "SELECT 1"), output).output


def forked(place: Path, effects: Path, *, fault: int = 0, log: str = "") -> int:
    """Play in a child process that is killed at a fault point; how it ended."""
    pid = os.fork()
    if pid == 0:
        os.environ |= {"TEMPURA_FAULT": str(fault), "TEMPURA_FAULT_LOG": log}
        importlib.reload(faults)
        code = 1
        try:
            play(place, effects)
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def recorded(place: Path) -> set[str]:
    """The steps that are committed, or recorded as finished."""
    steps = {
        f"{name}@{POINTS[int(path.stem) - 1]}" for path in place.glob("runs/*.json") for name in ("kept", "revenue")
    }
    journal = place.glob("pending/*/steps/*.json")
    return steps | {json.loads(path.read_text())["step"]["name"] for path in journal}


def look(place: Path) -> dict[str, str]:
    """All files of a workspace, apart from lock, times and versions, with the numbers of claims left out."""
    found: dict[str, str] = {}
    for path in sorted(place.rglob("*")):
        name = path.relative_to(place).as_posix()
        if (path.is_dir() and not path.is_symlink()) or name.startswith("lock/"):
            continue
        text = os.readlink(path) if path.is_symlink() else path.read_text()
        text = re.sub(r'"(version|orders)": \d{5,}|"(digest|started|finished)": "[^"]*"', "…", text)
        text = re.sub(r"-\d+(?=[/\"]|$)", "-c", text)
        # The sizes of files depend on the digits of a version.
        found[re.sub(r"(\d)-\d+/", r"\1-c/", name)] = re.sub(r'(\.parquet|"bytes)": \d+', r"\1", text)
    return found


def sweep(folder: Path) -> None:
    """Kill at every fault point, go on, and compare with a run that nobody killed."""
    # Processes are killed here, not machines: what the system has been given survives without waiting for the disk.
    os.fsync = lambda fd: None
    log = folder / "points.log"
    assert forked(folder / "whole", folder / "effects", log=str(log)) == 0
    whole = look(folder / "whole")
    points = log.read_text().splitlines()
    killed = 0
    for k in range(1, len(points) + 1):
        place, effects = folder / f"w{k}", folder / f"effects{k}"
        ends = [forked(place, effects, fault=k)]
        if k % 5 == 0:
            # The one that goes on is killed as well.
            before = recorded(place)
            effects.unlink(missing_ok=True)
            ends.append(forked(place, effects, fault=k // 2))
            assert not before & computed(effects), (k, points[k - 1])
        killed += ends.count(-signal.SIGKILL)
        assert ends[0] == -signal.SIGKILL, (k, points[k - 1], ends)
        before = recorded(place)
        effects.unlink(missing_ok=True)
        assert forked(place, effects) == 0, (k, points[k - 1])
        everything = {f"{name}@{point}" for name in ("kept", "revenue") for point in POINTS}
        assert computed(effects) == everything - before, (k, points[k - 1])
        assert look(place) == whole, (k, points[k - 1])
        check(place)
    print(json.dumps({"points": points, "killed": killed}))


def computed(effects: Path) -> set[str]:
    lines = effects.read_text().split() if effects.exists() else []
    assert len(lines) == len(set(lines))
    return set(lines) - {"draft@tue"}


def check(place: Path) -> None:
    """Nothing is left over, all is whole, and each run's rows were computed from the versions that its run file says."""
    workspace = Workspace.open(place, "sales")
    assert workspace.garbage() == ()
    assert workspace.holder() is None
    assert len(list((place / "lock").iterdir())) == 2
    for run in workspace.history():
        assert workspace.check_result(run.results["revenue"]) == ()
        for folder in run.results["revenue"].folders:
            assert json.dumps(run.pins) in (place / folder / "part-0.parquet").read_text()


def test_killed_at_every_fault_point(tmp_path: Path):
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.test_workspace_kill", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    points = report["points"]
    for kind in ("write", "name", "wrote", "delete", "deleted", "link", "linked", "job", "file"):
        assert any(point.startswith(f"{kind} ") for point in points), f"no fault point of the kind {kind}"
    assert any(point == "wrote runs/2.json" for point in points)
    assert report["killed"] >= len(points) > 70
    assert time.monotonic() - began < 60


if __name__ == "__main__":
    sweep(Path(sys.argv[1]))
