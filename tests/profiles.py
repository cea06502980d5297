"""Profiles for tests that need certain things to be dear and others to be cheap."""

from __future__ import annotations

from dataclasses import replace

from bench.calibration import GUESSED

STEADY = replace(GUESSED, buckets=8)
"""Coefficients that stay, whatever is measured."""
