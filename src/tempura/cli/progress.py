"""What a run does while it does it: on a terminal a line for each step that moves, elsewhere a line when it begins and one when it is done."""

from __future__ import annotations

import time
from contextlib import ExitStack
from types import TracebackType

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

BEGUN, DONE = "started ", "done "
"""How the lines begin by which a run tells of its steps."""


class Shown:
    """Is told what happens, line by line, and shows it."""

    def __init__(self, console: Console):
        self._console = console
        self._since: dict[str, float] = {}
        self._moving: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._open = ExitStack()
        if console.is_terminal:
            columns = (SpinnerColumn(finished_text="✓"), TextColumn("{task.description}"), TimeElapsedColumn())
            self._moving = Progress(*columns, console=console)

    def __enter__(self) -> Shown:
        if self._moving is not None:
            self._open.enter_context(self._moving)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def __call__(self, line: str) -> None:
        if line.startswith(BEGUN):
            self._begun(line.removeprefix(BEGUN))
        elif line.startswith(DONE) and line.removeprefix(DONE) in self._since:
            self._done(line.removeprefix(DONE))
        else:
            self._print(f"  {line}")

    def _begun(self, what: str) -> None:
        self._since[what] = time.perf_counter()
        if self._moving is not None:
            self._tasks[what] = self._moving.add_task(what, total=1)
        else:
            self._print(f"  … {what}")

    def _done(self, what: str) -> None:
        seconds = time.perf_counter() - self._since.pop(what)
        if self._moving is not None:
            self._moving.update(self._tasks.pop(what), completed=1)
        else:
            self._print(f"  ✓ {what}, {seconds:.1f} s")

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)
