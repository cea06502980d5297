"""The same job on a standalone cluster that loses a worker in the middle of a run, and through Spark Connect."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tempura.spark.java import java_environment
from tests.spark.runjobs import QUICK

ROOT = Path(__file__).resolve().parents[2]
SPARK_CLASS = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
LIMIT = 240
"""Seconds for a whole job."""
ENVIRONMENT = {**os.environ, **QUICK, "SPARK_LOCAL_IP": "127.0.0.1"}


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def listening(port: int) -> bool:
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def daemon(kind: str, *options: str, log: Path) -> Generator[subprocess.Popen[bytes]]:
    """A master or worker on loopback, ended when it is no longer needed."""
    environment = {
        **ENVIRONMENT,
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_WORKER_DIR": str(log.parent / "work"),
    }
    command = [SPARK_CLASS, f"org.apache.spark.deploy.{kind}", "--host", "127.0.0.1", *options]
    with java_environment():
        environment |= {name: os.environ[name] for name in ("JAVA_HOME", "PATH") if name in os.environ}
    with (
        log.open("wb") as said,
        subprocess.Popen(command, stdout=said, stderr=said, env=environment) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def whole_job(master: str, folder: Path) -> Generator[subprocess.Popen[str]]:
    """A process that runs a job in a session on the master; its errors go to a file beside the folder."""
    environment = {**ENVIRONMENT, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    command = [sys.executable, "-m", "tests.spark.elsewhere", master, str(folder)]
    with (
        errors(folder).open("w") as said,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True, env=environment, cwd=ROOT) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def errors(folder: Path) -> Path:
    return folder.with_suffix(".errors")


def test_a_worker_dies_in_the_middle_of_a_run(tmp_path: Path):
    port, page = free_port(), free_port()
    master = f"spark://127.0.0.1:{port}"
    resources = ("--cores", "1", "--memory", "1g")
    with daemon("master.Master", "--port", str(port), "--webui-port", str(page), log=tmp_path / "master.log"):
        deadline = time.monotonic() + 60
        while not listening(port):
            assert time.monotonic() < deadline, (tmp_path / "master.log").read_text()
            time.sleep(0.1)
        with (
            daemon(
                "worker.Worker", *resources, "--webui-port", str(free_port()), master, log=tmp_path / "one.log"
            ) as doomed,
            daemon("worker.Worker", *resources, "--webui-port", str(free_port()), master, log=tmp_path / "two.log"),
            whole_job(master, tmp_path / "job") as job,
        ):
            assert job.stdout is not None
            lines: list[str] = []
            for line in job.stdout:
                lines.append(line.strip())
                if line.startswith("t2 started") and doomed.poll() is None:
                    doomed.kill()
            job.wait(LIMIT)
            assert doomed.poll() is not None, lines
            assert lines[-1] == "same", (lines, errors(tmp_path / "job").read_text()[-2000:])


def test_through_spark_connect(tmp_path: Path):
    with whole_job("local[2]", tmp_path / "job") as job:
        said, _ = job.communicate(timeout=LIMIT)
    lines = said.splitlines()
    assert lines and lines[-1] == "same", (lines, errors(tmp_path / "job").read_text()[-2000:])
    assert any(line.startswith("t2 done") for line in lines)
