"""The methods by name, and what each builds on."""

from __future__ import annotations

from collections.abc import Iterable

from tempura.errors import JobError
from tempura.rules.deltas import INTRA, INTRA_UNPRUNED, MERGE
from tempura.rules.eager import EAGER
from tempura.rules.im1 import IM1
from tempura.rules.im2 import IM2
from tempura.rules.joins import HOV, JOINS
from tempura.rules.lang import RuleSet
from tempura.rules.matching import MONOTONE
from tempura.rules.ojv import OJV
from tempura.rules.part import PART

METHODS: dict[str, RuleSet] = {"IM1": IM1, "IM2": IM2, "OJV": OJV, "HOV": HOV, "PART": PART}
ALL = IM1 | IM2 | OJV | HOV | PART
NONE = RuleSet("none", ())
"""No method at all: every result is recomputed."""
COMMON = JOINS | MONOTONE | EAGER | MERGE
"""What every method builds on."""


def methods(names: Iterable[str]) -> RuleSet:
    """The rule set of some methods by name."""
    found = NONE
    for name in names:
        wanted = METHODS.get(name.upper().replace("-", ""))
        if wanted is None:
            raise JobError(f"there is no method {name!r}", hint=f"the methods are {', '.join(METHODS)}")
        found = wanted if found is NONE else found | wanted
    return found


def rules(chosen: RuleSet, *, pruned: bool = True) -> RuleSet:
    """The rules to explore with: join orders, what every method builds on, and the methods; without methods join orders alone.

    The difference of two snapshots as the last way to a delta belongs to IM-1: any operator has a delta there. The other methods have deltas where
    their own rules, or those of monotone operators, give one.
    """
    if not chosen.rules:
        return JOINS
    inside = INTRA if pruned else INTRA_UNPRUNED
    return (COMMON | inside if IM1 in chosen.parts else COMMON) | chosen
