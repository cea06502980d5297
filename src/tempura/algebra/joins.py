"""The joins, where all of them are meant."""

from __future__ import annotations

from tempura.algebra.relational import AntiJoin, FullOuterJoin, InnerJoin, LeftOuterJoin, SemiJoin

JOINS = (InnerJoin, LeftOuterJoin, FullOuterJoin, SemiJoin, AntiJoin)
