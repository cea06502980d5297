"""pyarrow, which says nothing of its types, under names that type checkers take as they are used."""

# pyright: reportMissingTypeStubs=false
from __future__ import annotations

from typing import Any

import pyarrow
import pyarrow.compute
import pyarrow.csv
import pyarrow.fs
import pyarrow.json
import pyarrow.parquet

pa: Any = pyarrow
pc: Any = pyarrow.compute
pq: Any = pyarrow.parquet
csv: Any = pyarrow.csv
json: Any = pyarrow.json
fs: Any = pyarrow.fs
