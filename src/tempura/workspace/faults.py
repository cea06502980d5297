"""Fault points: where a test kills the process, to prove that a run may stop anywhere.

Every write, rename and delete passes fault points, and so does every job. `TEMPURA_FAULT_LOG=<file>` appends the name of each one reached, so that
a test finds them all; `TEMPURA_FAULT=<n>` kills the process (SIGKILL) at the n-th. Without these variables nothing happens.
"""

from __future__ import annotations

import itertools
import os
import signal
import threading

CLOCKWORK = "tempura heartbeat"
"""The thread whose writes are not counted: when they happen depends on the clock, and a count should not."""

_FATAL = int(os.environ.get("TEMPURA_FAULT", "0"))
_LOG = os.environ.get("TEMPURA_FAULT_LOG", "")
_reached = itertools.count(1)
_one_at_a_time = threading.Lock()


def fault(name: str) -> None:
    """The process reaches the fault point `name`; it ends here if a test has asked for that."""
    if (_FATAL or _LOG) and threading.current_thread().name != CLOCKWORK:
        _reach(name)


def _reach(name: str) -> None:
    with _one_at_a_time:
        number = next(_reached)
        if _LOG:
            with open(_LOG, "a", encoding="utf-8") as log:
                log.write(f"{name}\n")
        if number == _FATAL:
            os.kill(os.getpid(), signal.SIGKILL)
