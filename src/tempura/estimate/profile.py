"""The coefficients of a cluster, by which rows and bytes become core-seconds."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, cast

from tempura.errors import JobError


@dataclass(frozen=True)
class Profile:
    """The coefficients of a cluster: seconds of one core per row, per byte, and each time. Calibration replaces them."""

    job: float = 0.3
    """Starting a Spark job, warm."""
    shuffle: float = 0.07
    """An exchange, whatever its size."""
    file: float = 0.004
    """Creating or opening a file."""
    scan_byte: float = 1.25e-8
    scan_row: float = 3e-7
    load_byte: float = 1e-8
    load_row: float = 1e-7
    save_byte: float = 2e-8
    save_row: float = 3e-7
    exchange_byte: float = 1.5e-8
    exchange_row: float = 2e-7
    broadcast_byte: float = 3e-8
    broadcast_row: float = 2e-7
    memory_byte: float = 2e-10
    """Holding a byte of a hash table or a sort."""
    build_row: float = 4e-7
    probe_row: float = 2e-7
    output_row: float = 1e-7
    pair: float = 5e-8
    """Comparing two rows in a join without keys."""
    aggregate_row: float = 3e-7
    aggregate_call_row: float = 2e-8
    sort_row: float = 2e-8
    """For each doubling of the rows sorted."""
    filter_row: float = 5e-8
    project_row: float = 3e-8
    expression_row: float = 2e-8
    """Evaluating an expression that is more than a column."""
    union_row: float = 1e-8
    window_row: float = 3e-7
    cpu: float = 1.0
    """What a core-second of each kind counts."""
    io: float = 1.0
    memory: float = 1.0
    network: float = 1.0
    cores: int = 2
    executors: int = 1
    buckets: int = 8
    """Files of a state that is distributed by keys."""
    split_bytes: float = 128e6
    broadcast_limit: float = 64e6
    """Bytes up to which a side of a join may be copied to every executor."""

    def __post_init__(self) -> None:
        for f in fields(self):
            value: Any = getattr(self, f.name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
                raise JobError(
                    f"the cost profile's {f.name!r} is {value!r}", hint="coefficients are numbers, zero or more"
                )
        for name in ("cores", "executors", "buckets", "split_bytes"):
            if getattr(self, name) <= 0:
                raise JobError(f"the cost profile's {name!r} is {getattr(self, name)!r}", hint=f"{name} is at least 1")

    @staticmethod
    def from_json(text: str) -> Profile:
        """A profile from a JSON object; what it leaves out is as in `DEFAULT`."""
        try:
            given: object = json.loads(text)
        except json.JSONDecodeError as error:
            raise JobError(
                f"the cost profile is not JSON: {error.msg}", line=error.lineno, column=error.colno
            ) from error
        if not isinstance(given, dict):
            raise JobError("the cost profile is not a JSON object", hint='write {"job": 0.3, ...}')
        values = cast(dict[str, Any], given)
        known = {f.name for f in fields(Profile)}
        for name in values:
            if name not in known:
                raise JobError(
                    f"the cost profile has no coefficient {name!r}", hint=f"coefficients are {', '.join(sorted(known))}"
                )
        return Profile(**values)

    @staticmethod
    def load(path: str | Path) -> Profile:
        """A profile from a JSON file."""
        return Profile.from_json(Path(path).read_text(encoding="utf-8"))

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2)


DEFAULT = Profile()
