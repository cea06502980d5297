"""Estimates of sizes, and what work on them costs."""

from tempura.estimate.column import ColumnStats
from tempura.estimate.cost import CostModel, CostVector, Shape, Side, SparkCost, UnitCost
from tempura.estimate.profile import DEFAULT, Profile
from tempura.estimate.relation import Stats
from tempura.estimate.selectivity import selectivity
from tempura.estimate.stats import DERIVE, derive
from tempura.estimate.tables import delta_stats, table_stats

__all__ = [
    "DEFAULT",
    "DERIVE",
    "ColumnStats",
    "CostModel",
    "CostVector",
    "Profile",
    "Shape",
    "Side",
    "SparkCost",
    "Stats",
    "UnitCost",
    "delta_stats",
    "derive",
    "selectivity",
    "table_stats",
]
