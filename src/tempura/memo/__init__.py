"""The memo: every TVR, definition, view and link that exploration has found, and who said so."""

from tempura.memo.memo import Fact, Memo, Term, Tvr, ViewRef
from tempura.memo.spans import IntervalSpans, SignatureSpans, Span, Spans

__all__ = ["Fact", "IntervalSpans", "Memo", "SignatureSpans", "Span", "Spans", "Term", "Tvr", "ViewRef"]
