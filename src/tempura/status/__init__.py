"""Where a job stands: points done and due, states, results, costs; read from its workspace, without Spark."""

from tempura.status.status import PointStatus, ResultStatus, StateStatus, Status, status_of
from tempura.status.text import run_text, runs_text, status_text

__all__ = [
    "PointStatus",
    "ResultStatus",
    "StateStatus",
    "Status",
    "run_text",
    "runs_text",
    "status_of",
    "status_text",
]
