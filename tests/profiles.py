"""Profiles for tests that need certain things to be dear and others to be cheap."""

from __future__ import annotations

from typing import Any

from tempura.estimate import Profile
from tempura.estimate.profile import COEFFICIENTS

_GIVEN: dict[str, Any] = {
    "job": 0.3, "shuffle": 0.07, "broadcast": 0.035, "file": 0.004,
    "scan_byte": 1.25e-8, "scan_row": 3e-7, "load_byte": 1e-8, "load_row": 1e-7, "save_byte": 2e-8, "save_row": 3e-7,
    "exchange_byte": 1.5e-8, "exchange_row": 2e-7, "broadcast_byte": 3e-8, "broadcast_row": 2e-7, "memory_byte": 2e-10,
    "build_row": 4e-7, "probe_row": 2e-7, "output_row": 1e-7, "pair": 5e-8, "aggregate_row": 3e-7, "aggregate_call_row": 2e-8,
    "sort_row": 2e-8, "filter_row": 5e-8, "project_row": 3e-8, "expression_row": 2e-8, "union_row": 1e-8, "window_row": 3e-7,
}  # fmt: skip

STEADY = Profile(**(dict.fromkeys(COEFFICIENTS, 0.0) | _GIVEN), cores=2, executors=1, buckets=8)
"""Coefficients that stay, whatever is measured; what is not named here costs nothing."""
