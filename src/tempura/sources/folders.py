"""One folder per batch."""

from __future__ import annotations

from dataclasses import dataclass

from tempura.sources.filebased import FileBased, FileOptions
from tempura.sources.order import ByBatch, Order
from tempura.sources.source import register


@register
@dataclass(frozen=True, kw_only=True)
class FoldersSource(FileBased):
    """Folders below a path, each a batch that arrives whole, in the natural order of their names: `batch=2` before `batch=10`.

    A declared column that the files lack is taken from the folder's name: `day=2026-11-15` gives every row its `day`.
    """

    kind = "folders"
    shape = FileOptions

    @property
    def order(self) -> Order:
        return ByBatch()
