"""UNMET: keep the rows that have not met their partner yet, and look nowhere else when partners arrive.

For L ⟕ R where the join columns are a key of R and R only grows (orders and their returns): a row of L that has its partner is settled
for good, so a new row of R can only meet a row that is still alone. The link `unmet` leads from an outer join to those rows, L ▷ R; with them
at hand neither L nor R is read again. A method is a rule set in a file of its own; this one needs no change elsewhere.
"""

from __future__ import annotations

from tempura.algebra import AntiJoin, InnerJoin, LeftOuterJoin, Minus, Plus, Project
from tempura.explore import Time, TvrRef
from tempura.expr import TRUE, Expr
from tempura.rules.lang import Link, payloads, rule, rule_set, times, tvrs, where
from tempura.rules.views import condition, padded

Q, L, R = tvrs("Q L R")
on = payloads("on")
t, u = times("t u")

unmet = Link("unmet")
"""The rows of the preserved side without a partner."""


def one_partner(L: TvrRef, R: TvrRef, on: Expr) -> bool:
    """Whether a row of L has at most one partner: equalities alone decide, and their columns of R hold a key of R."""
    split = condition(L, R, on)
    compared = {e.right.name for e in split.equi}
    return split.residual is TRUE and any(key <= compared for key in R.keys)


@rule(
    Q[:] == LeftOuterJoin(L[:], R[:], on),
    where(one_partner, "the join columns are not a key of the right side"),
    unless=lambda Q: unmet(Q).exists,
)
def rows_without_partner(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr):
    """unmet(L ⟕ R) = L ▷ R."""
    unmet(Q)[:] = AntiJoin(L[:], R[:], on)


@rule(
    Q[:] == AntiJoin(L[:], R[:], on),
    L[t:u],
    R[t:u],
    where(lambda R, t: R.insert_only(t), "retractions in the right side"),
)
def still_unmet(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr, t: Time, u: Time):
    """L' ▷ R' = (L ▷ R + ΔL ▷ R) ▷ ΔR, if R takes nothing back: of {1} ▷ {1}, a partner taken back would leave {1}."""
    Q[u] = AntiJoin(Plus((Q[t], AntiJoin(L[t:u], R[t], on))), R[t:u], on)


@rule(
    Q[:] == LeftOuterJoin(L[:], R[:], on),
    L[t:u],
    R[t:u],
    unmet(Q)[:],
    where(one_partner, "the join columns are not a key of the right side"),
    where(lambda R, t: R.insert_only(t), "retractions in the right side"),
)
def meetings(Q: TvrRef, L: TvrRef, R: TvrRef, on: Expr, t: Time, u: Time):
    """Δ(L ⟕ R) = ΔL ⟕ R + met - pad(met), met = (unmet + ΔL ▷ R) ⋈ ΔR. Without the key, ΔR could meet a row that is no longer alone."""
    if unmet(Q).id != Q.known(AntiJoin(L[:], R[:], on)):
        return
    met = InnerJoin(Plus((unmet(Q)[t], AntiJoin(L[t:u], R[t], on))), R[t:u], on)
    grown = Plus((LeftOuterJoin(L[t:u], R[t], on), met))
    Q[t:u] = Minus(grown, Project(met, padded(L.schema, R.schema)))


UNMET = rule_set("UNMET", (rows_without_partner, still_unmet, meetings))
