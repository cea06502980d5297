"""The coefficients of a cluster, by which rows and bytes become core-seconds."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, cast

from tempura.errors import JobError


@dataclass(frozen=True)
class Profile:
    """The coefficients of a cluster: seconds of one core per row, per byte, and each time. `tempura calibrate` measures them."""

    job: float = 0.083
    """Starting a Spark job, warm."""
    shuffle: float = 0.0034
    """An exchange, whatever its size."""
    broadcast: float = 0.051
    """A copy for every executor, whatever its size: Spark collects it by a job of its own."""
    operator: float = 0.00041
    """An operator, however few its rows: planning it, generating its code, and compiling that."""
    column: float = 0.0017
    """A column that comes out of an operator, likewise."""
    file: float = 0.015
    """Creating or opening a file."""
    scan_byte: float = 7.3e-10
    scan_row: float = 2e-10
    scan_value: float = 1.4e-09
    """A row's value of one column: files keep values by column, most of them as numbers of a dictionary, however wide they are."""
    load_byte: float = 2.8e-09
    load_row: float = 8.7e-09
    save_byte: float = 7.5e-09
    save_row: float = 8.2e-09
    exchange_byte: float = 4.9e-09
    exchange_row: float = 3.2e-07
    broadcast_byte: float = 2.6e-08
    broadcast_row: float = 2.8e-08
    memory_byte: float = 3.9e-11
    """Holding a byte of a hash table or a sort."""
    build_row: float = 4.6e-09
    probe_row: float = 9.6e-09
    merge_row: float = 1.9e-08
    """A row of either side of a join of which no side is copied: both are sorted by their keys."""
    merge_compared_row: float = 7.9e-07
    """What more that takes where keys are several or texts: those Spark sorts by comparing rows, a single number by its digits."""
    output_row: float = 1.1e-08
    pair: float = 4.3e-09
    """Comparing two rows in a join without keys."""
    aggregate_row: float = 2.4e-10
    aggregate_key_row: float = 8.8e-09
    """Each column that a row is grouped by."""
    aggregate_key_byte: float = 1.7e-09
    aggregate_call_row: float = 4.8e-09
    group_row: float = 2.5e-07
    """Looking up the group of a row where groups are many."""
    sort_row: float = 6.5e-09
    """For each doubling of the rows sorted."""
    filter_row: float = 9.7e-09
    project_row: float = 3.9e-10
    expression_row: float = 5e-10
    """Evaluating an expression that is more than a column."""
    union_row: float = 3.3e-10
    window_row: float = 5.6e-07
    cpu: float = 1.0
    """What a core-second of each kind counts."""
    io: float = 1.0
    memory: float = 1.0
    network: float = 1.0
    cores: int = 2
    executors: int = 1
    buckets: int = 4
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
            value = getattr(self, name)
            if value < 1 or (name in WHOLE and value != int(value)):
                kind = "a whole number, at least 1" if name in WHOLE else "at least 1"
                raise JobError(f"the cost profile's {name!r} is {value!r}", hint=f"{name} is {kind}")

    @staticmethod
    def from_json(text: str) -> Profile:
        """A profile from a JSON object; what it leaves out is as in `DEFAULT`, and what it says of its measurement is not read."""
        try:
            given: object = json.loads(text)
        except json.JSONDecodeError as error:
            raise JobError(
                f"the cost profile is not JSON: {error.msg}", line=error.lineno, column=error.colno
            ) from error
        if not isinstance(given, dict):
            raise JobError("the cost profile is not a JSON object", hint='write {"job": 0.3, ...}')
        values = {k: v for k, v in cast(dict[str, Any], given).items() if k != MEASURED}
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
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise JobError(
                f"the cost profile {path.name!r} is missing",
                hint=f"it is looked for in {str(path.parent)!r}; `tempura calibrate --out {path.name}` measures one",
            ) from None
        except (OSError, UnicodeDecodeError):
            raise JobError(
                f"the cost profile {path.name!r} cannot be read as text",
                hint="give the JSON file that `tempura calibrate` wrote",
            ) from None
        try:
            return Profile.from_json(text)
        except JobError as error:
            where = "" if error.line is None else f" (its line {error.line})"
            raise JobError(f"in {path.name!r}: {error.message}{where}", hint=error.hint) from error

    def to_json(self, measured: Mapping[str, Any] | None = None) -> str:
        """The profile as a JSON object, with where, when and how it was measured if that is given."""
        return json.dumps(({MEASURED: dict(measured)} if measured else {}) | asdict(self), indent=2)


WHOLE = ("cores", "executors", "buckets")
"""The fields that count things."""

MEASURED = "measured"
"""The entry of a profile's JSON that says where, when and how it was measured."""

DEFAULT = Profile()

COEFFICIENTS = tuple(f.name for f in fields(Profile))[: [f.name for f in fields(Profile)].index("cpu")]
"""The fields that costs are sums of multiples of; the others say how large and how many things are."""
