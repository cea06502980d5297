"""The coefficients under which the model agrees best with what was measured.

Errors and coefficients are compared by their logarithms: half as much is as wrong as twice as much, a run of a tenth of a second says as much as one of ten, and no coefficient is ever zero. What
the trials do not tell keeps its proportion to the rest of the profile that it is fitted from: a weak pull towards that decides there.

With c = prior · eᵘ this is the least Σ log²(predicted / measured) + PULL · Σ u². The derivative of a predicted cost's logarithm by a coefficient's is the share that the coefficient has
in the cost, so each step of Newton's method (Gauss's variant of it) solves one small system of linear equations.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tempura.estimate.profile import COEFFICIENTS, Profile
from tempura.spark.calibrate.charge import Amounts, priced

PULL = (0.2 / math.log(5)) ** 2
"""Where the model errs by a fifth at best, a coefficient is taken to be right within a factor of five until shown otherwise."""
STEPS = 60
LONGEST = 0.5
"""How far one step may go, so that it stays where the shares are about what they were."""


@dataclass(frozen=True)
class Observation:
    """What a run is made of, and the core-seconds that it took."""

    name: str
    amounts: Amounts
    seconds: float

    def error(self, profile: Profile) -> float:
        """By which share of what it took the model errs under a profile: above zero if it thinks the run dearer than it was."""
        return priced(self.amounts, profile) / self.seconds - 1


def disagreement(observed: Sequence[Observation], profile: Profile) -> float:
    """The median of the relative errors, whatever their sign."""
    return statistics.median(abs(o.error(profile)) for o in observed)


def fitted(observed: Sequence[Observation], profile: Profile) -> Profile:
    """The profile with the coefficients that agree best with what was observed."""
    scale = statistics.median(o.seconds / priced(o.amounts, profile) for o in observed)
    prior = replace(profile, **{name: getattr(profile, name) * scale for name in COEFFICIENTS})
    u = [0.0] * len(COEFFICIENTS)
    found = prior
    for _ in range(STEPS):
        step = _step(observed, found, u)
        farthest = max(map(abs, step))
        shorter = LONGEST / max(LONGEST, farthest)
        u = [x + shorter * s for x, s in zip(u, step, strict=True)]
        found = replace(prior, **{n: getattr(prior, n) * math.exp(x) for n, x in zip(COEFFICIENTS, u, strict=True)})
        if farthest < 1e-6:
            break
    return found


def _step(observed: Sequence[Observation], profile: Profile, u: Sequence[float]) -> list[float]:
    """Where to go from the coefficients of a profile, which are e to the `u` times those of the prior."""
    size = range(len(COEFFICIENTS))
    left = [[PULL if i == j else 0.0 for j in size] for i in size]
    right = [-PULL * x for x in u]
    for o in observed:
        predicted = priced(o.amounts, profile)
        missing = math.log(o.seconds / predicted)
        shares = [o.amounts.get(n, 0.0) * getattr(profile, n) / predicted for n in COEFFICIENTS]
        for i in size:
            right[i] += shares[i] * missing
            for j in size:
                left[i][j] += shares[i] * shares[j]
    return _solved(left, right)


def _solved(left: list[list[float]], right: list[float]) -> list[float]:
    """The x with left · x = right, by elimination; the pull keeps the diagonal away from zero."""
    rows = [[*row, value] for row, value in zip(left, right, strict=True)]
    for i, pivot in enumerate(rows):
        for other in rows[i + 1 :]:
            factor = other[i] / pivot[i]
            for j in range(i, len(pivot)):
                other[j] -= factor * pivot[j]
    x = [0.0] * len(rows)
    for i in reversed(range(len(rows))):
        known = sum(rows[i][j] * x[j] for j in range(i + 1, len(rows)))
        x[i] = (rows[i][-1] - known) / rows[i][i]
    return x
