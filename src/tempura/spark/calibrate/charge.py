"""A cost that knows what it is the sum of.

Costs are sums of coefficients times numbers of rows, bytes and things. Where the coefficients of a profile are `Charge`s, so is every cost that the model works out with them, and
a plan's cost tells how often each coefficient is in it, whatever rule, operator or estimate put it there. To fit coefficients to measurements nothing else need be known of the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tempura.estimate.profile import COEFFICIENTS, Profile

Amounts = Mapping[str, float]
"""How often each coefficient is charged: rows, bytes, jobs, files."""


class Charge(float):
    """A number of core-seconds, and the amounts it is made of.

    >>> p = itemized(Profile(job=0.5, scan_row=2e-7))
    >>> cost = 3e6 * p.scan_row + p.job
    >>> float(cost), amounts(cost)
    (1.1, {'scan_row': 3000000.0, 'job': 1.0})
    """

    amounts: Amounts

    def __new__(cls, seconds: float, amounts: Amounts) -> Charge:
        made = super().__new__(cls, seconds)
        made.amounts = amounts
        return made

    def __add__(self, other: float) -> Charge:
        if not isinstance(other, Charge):
            return Charge(float(self) + other, self.amounts)
        together = dict(self.amounts)
        for name, amount in other.amounts.items():
            together[name] = together.get(name, 0.0) + amount
        return Charge(float(self) + float(other), together)

    __radd__ = __add__

    def __mul__(self, factor: float) -> Charge:
        factor = float(factor)
        return Charge(float(self) * factor, {name: amount * factor for name, amount in self.amounts.items()})

    __rmul__ = __mul__

    def __truediv__(self, factor: float) -> Charge:
        return self * (1.0 / factor)


def itemized(profile: Profile) -> Profile:
    """The same profile; costs under it are `Charge`s."""
    return replace(profile, **{name: Charge(getattr(profile, name), {name: 1.0}) for name in COEFFICIENTS})


def amounts(cost: float) -> dict[str, float]:
    """What a cost is made of; a plain number is made of nothing that is known."""
    return {name: amount for name, amount in cost.amounts.items() if amount} if isinstance(cost, Charge) else {}


def priced(found: Amounts, profile: Profile) -> float:
    """What the amounts cost under a profile."""
    return sum(amount * getattr(profile, name) for name, amount in found.items())
