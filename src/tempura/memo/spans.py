"""Spans: the stretches of time over which exploration speaks of deltas.

The laws of deltas do not depend on when a delta happens, only on which tables change in it. So with translational symmetry (TS)
exploration works with **signatures**: a span is the set of tables that change, one per kind of step and one per single tick, and the search
instantiates what was found for every interval of that signature. A TVR only sees its own tables, so `L[t:u]` of a step in which
only R changes is empty, and spans that agree on a TVR's tables are the same span for it.

Without TS (the paper's ablation) a span is a concrete interval of ticks and every law is found again for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from tempura.timeline import Interval, Ticks

Span = frozenset[str] | Interval
Tables = frozenset[str]


class Spans(Protocol):
    """Which spans there are, as a TVR over some tables sees them."""

    def of(self, tables: Tables) -> Sequence[Span]:
        """The distinct spans in which something of `tables` changes."""
        ...

    def restrict(self, tables: Tables, span: Span) -> Span | None:
        """The span as seen through `tables`; None if nothing of them changes in it."""
        ...

    def changed(self, span: Span) -> Tables:
        """The tables that change in the span."""
        ...

    def signature(self, tables: Tables, interval: Interval) -> Span | None:
        """The span under which the laws for a concrete interval were explored."""
        ...


class SignatureSpans:
    """Translational symmetry: a span is the set of tables that change."""

    def __init__(self, ticks: Ticks, intervals: Iterable[Interval]):
        self.ticks = ticks
        self.signatures = tuple(dict.fromkeys(ticks.changed(i) for i in intervals))
        self._of: dict[Tables, tuple[frozenset[str], ...]] = {}

    def of(self, tables: Tables) -> Sequence[Span]:
        found = self._of.get(tables)
        if found is None:
            found = self._of[tables] = tuple(dict.fromkeys(s & tables for s in self.signatures if s & tables))
        return found

    def restrict(self, tables: Tables, span: Span) -> Span | None:
        assert isinstance(span, frozenset)
        return span & tables or None

    def changed(self, span: Span) -> Tables:
        assert isinstance(span, frozenset)
        return span

    def signature(self, tables: Tables, interval: Interval) -> Span | None:
        return self.ticks.changed(interval) & tables or None


class IntervalSpans:
    """No symmetry: a span is an interval of ticks, as far as the tables in question see it."""

    def __init__(self, ticks: Ticks, intervals: Iterable[Interval]):
        self.ticks = ticks
        self.intervals = tuple(intervals)
        self._of: dict[Tables, tuple[Interval, ...]] = {}

    def of(self, tables: Tables) -> Sequence[Span]:
        found = self._of.get(tables)
        if found is None:
            seen = (self.signature(tables, i) for i in self.intervals)
            found = self._of[tables] = tuple(dict.fromkeys(s for s in seen if s is not None))
        return found

    def restrict(self, tables: Tables, span: Span) -> Span | None:
        assert isinstance(span, Interval)
        return self.signature(tables, span)

    def changed(self, span: Span) -> Tables:
        assert isinstance(span, Interval)
        return self.ticks.changed(span)

    def signature(self, tables: Tables, interval: Interval) -> Interval | None:
        start, end = self.ticks.seen(tables, interval.start), self.ticks.seen(tables, interval.end)
        return Interval(start, end) if start < end else None
