"""Sources: where the rows of base tables come from, described as data."""

from tempura.sources.changes import ChangesSource, Operation
from tempura.sources.delta import DeltaSource
from tempura.sources.files import FilesSource
from tempura.sources.folders import FoldersSource
from tempura.sources.source import (
    KINDS,
    Change,
    DeltaVersion,
    Files,
    Options,
    Part,
    Reading,
    Source,
    SparkTable,
    TableStatistics,
    Version,
    misfit,
    register,
)
from tempura.sources.table import TableSource

__all__ = [
    "KINDS",
    "Change",
    "ChangesSource",
    "DeltaSource",
    "DeltaVersion",
    "Files",
    "FilesSource",
    "FoldersSource",
    "Operation",
    "Options",
    "Part",
    "Reading",
    "Source",
    "SparkTable",
    "TableSource",
    "TableStatistics",
    "Version",
    "misfit",
    "register",
]
