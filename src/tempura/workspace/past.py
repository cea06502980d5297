"""The runs behind, of which few are ever looked at: the newest one tells the points of all, and each other is read when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import overload

from tempura.workspace.runfile import RunFile


class Past(Sequence[RunFile]):
    """The runs since the beginning or the last reset, oldest first; the numbers of runs follow each other."""

    def __init__(self, points: Sequence[str], first: int, read: Callable[[int], RunFile]):
        self.points = tuple(points)
        """Where each was run."""
        self._first = first
        self._read = cache(read)

    def __len__(self) -> int:
        return len(self.points)

    @overload
    def __getitem__(self, index: int) -> RunFile: ...
    @overload
    def __getitem__(self, index: slice) -> list[RunFile]: ...
    def __getitem__(self, index: int | slice) -> RunFile | list[RunFile]:
        places = range(len(self.points))[index]
        if isinstance(places, range):
            return [self._read(self._first + place) for place in places]
        return self._read(self._first + places)
