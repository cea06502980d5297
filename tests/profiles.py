"""Profiles for tests that need certain things to be dear and others to be cheap."""

from __future__ import annotations

from bench.calibration import GUESSED

STEADY = GUESSED
"""Coefficients that stay, whatever is measured."""
