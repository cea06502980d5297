"""Disjoint sets of small integers, for things that turned out to be the same."""

from __future__ import annotations


class UnionFind:
    """Numbers 0, 1, 2, …; `find` gives the representative of a number's set, the oldest member."""

    def __init__(self) -> None:
        self.parent: list[int] = []

    def add(self) -> int:
        self.parent.append(len(self.parent))
        return len(self.parent) - 1

    def find(self, x: int) -> int:
        parent = self.parent
        while parent[x] != x:
            parent[x] = parent[parent[x]]
            x = parent[x]
        return x

    def union(self, a: int, b: int) -> tuple[int, int]:
        """Join the sets of a and b; the representative that stays, and the one that went."""
        a, b = self.find(a), self.find(b)
        if a > b:
            a, b = b, a
        self.parent[b] = a
        return a, b
