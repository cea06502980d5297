"""Estimates that exploration itself needs: how large TVRs are when all has arrived, to order joins by."""

from __future__ import annotations

from collections.abc import Sequence

from tempura.algebra import InnerJoin, Scan
from tempura.catalog import Catalog
from tempura.estimate import Stats, delta_stats, derive, table_stats
from tempura.expr import Expr
from tempura.memo.memo import Memo
from tempura.schema import Schema
from tempura.timeline import Timeline


class FinalSizes:
    """Statistics of TVRs at the last point, by their first definitions; and of their change in the last step."""

    def __init__(self, catalog: Catalog, timeline: Timeline):
        self.catalog = catalog
        self.timeline = timeline
        self._final: dict[int, Stats] = {}

    def final(self, memo: Memo, tvr: int) -> Stats:
        tvr = memo.find(tvr)
        found = self._final.get(tvr)
        if found is None:
            member = next(iter(memo.tvr(tvr).definitions))
            if member.op is Scan:
                found = table_stats(
                    self.catalog[member.payload[0]], self.timeline, len(self.timeline) - 1, self.catalog
                )
            else:
                inputs = [self.final(memo, i) for i in member.inputs]
                found = derive(
                    member.op.build(member.inputs, member.payload), inputs, [memo.tvr(i).schema for i in member.inputs]
                )
            self._final[tvr] = found
        return found

    def change(self, memo: Memo, tvr: int) -> Stats:
        """What is new at the last point, taken as the share by which the TVR's changing tables grow there."""
        whole = self.final(memo, tvr)
        last = len(self.timeline) - 1
        shares: list[float] = []
        for name in memo.tvr(tvr).tables:
            table = self.catalog[name]
            rows = table.rows(self.timeline, last)
            if last and rows:
                shares.append(delta_stats(table, self.timeline, last - 1, last, self.catalog).rows / rows)
        share = min(1.0, max(shares, default=0.0))
        return whole.thinned(whole.rows * share)

    def join(self, left: Stats, right: Stats, on: Expr, schemas: Sequence[Schema]) -> Stats:
        return derive(InnerJoin(0, 1, on), [left, right], schemas)  # type: ignore[arg-type]

    def rows(self, stats: Stats) -> float:
        return stats.rows
