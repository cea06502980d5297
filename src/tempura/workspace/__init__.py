"""The folder in which a job's runs leave states, results and run files, so that a run may be killed at any instruction."""

from tempura.workspace.attempt import Attempt, Begin, Finished
from tempura.workspace.faults import fault
from tempura.workspace.lock import Claim, Lock
from tempura.workspace.past import Past
from tempura.workspace.runfile import RESET, ResultEntry, RunFile, StateEntry, StepEntry, Version
from tempura.workspace.storage import Size, Storage
from tempura.workspace.workspace import Workspace

__all__ = [
    "RESET",
    "Attempt",
    "Begin",
    "Claim",
    "Finished",
    "Lock",
    "Past",
    "ResultEntry",
    "RunFile",
    "Size",
    "StateEntry",
    "StepEntry",
    "Storage",
    "Version",
    "Workspace",
    "fault",
]
