"""What work costs on a cluster, measured there."""

from tempura.spark.calibrate.calibration import ROUNDS, SALES, Calibration, CalibrationError, calibrate

__all__ = ["ROUNDS", "SALES", "Calibration", "CalibrationError", "calibrate"]
