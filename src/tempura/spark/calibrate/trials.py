"""What is run to find out what work costs: small jobs, planned and run like any other, each with much of some kinds of work and little of the rest.

No trial has one kind of work alone, and none needs to: what each coefficient is follows from all of them together. Those over a handful of rows tell the fixed costs, the same query over
few and over many rows what grows with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tempura.job.shapes import Policy
from tempura.spark.calibrate.tables import FEW, MANY, MORE, MOST


@dataclass(frozen=True)
class Trial:
    """A query, and how much of the tables is there when it is run."""

    name: str
    query: str
    batches: tuple[str, ...] = (MANY,)
    """One for each point; the result is due at the last."""
    policy: Policy = "full"
    copies: bool = True
    """Whether a join may copy its smaller side everywhere; otherwise both sides are shuffled."""


def _each(function: str, columns: Iterable[str]) -> str:
    """A function of each of some columns, as the columns s0, s1 and so on."""
    return ", ".join(f"{function}({column}) AS s{n}" for n, column in enumerate(columns))


_NUMBERS = ("quantity", "sale", "handful.day", "price", "handful.shop + handful.day", "quantity * 2", "sale - handful.day", "price - quantity")  # fmt: skip
_MANY_SUMS = _each("sum", _NUMBERS)
_SUMMED = tuple(f"s{n}" for n in range(len(_NUMBERS)))

_FIXED = {
    "copy of a handful": "SELECT * FROM handful",
    "groups of a handful": "SELECT shop, sum(quantity) AS n FROM handful GROUP BY shop",
    "groups of groups of a handful": "SELECT n, count(*) AS c FROM (SELECT k, sum(n) AS n FROM (SELECT shop, day % 7 AS k, count(*) AS n FROM handful GROUP BY shop, day % 7) GROUP BY k) GROUP BY n",
    "joins of a handful": "SELECT year, weekday, sum(quantity) AS n FROM handful JOIN days ON handful.day = days.day GROUP BY year, weekday",
    "many joins of a handful": "SELECT year, category, state, sum(quantity) AS n FROM handful JOIN days ON handful.day = days.day JOIN items ON handful.shop = items.item JOIN customers ON handful.quantity = customers.customer GROUP BY year, category, state",
    "many sums of a handful": f"SELECT shop, {_MANY_SUMS} FROM handful GROUP BY shop",
    "groups of groups of many sums of a handful": f"SELECT shop, {_each('max', _SUMMED)} FROM (SELECT shop, k, {_each('min', _SUMMED)} FROM (SELECT shop, day % 7 AS k, quantity % 5 AS l, {_MANY_SUMS} FROM handful GROUP BY shop, day % 7, quantity % 5) GROUP BY shop, k) GROUP BY shop",
    "many sums of joins of a handful": f"SELECT shop, {_MANY_SUMS} FROM handful JOIN days ON handful.day = days.day JOIN items ON handful.shop = items.item WHERE year > 1 AND list_price > 0 GROUP BY shop",
    "union of handfuls": " UNION ALL ".join(["SELECT sale, price FROM handful"] * 6),
}

_LIGHT = {
    "scan of two columns": "SELECT sum(quantity) AS a, sum(shop) AS b FROM sales",
    "scan of all columns": "SELECT sum(sale) AS a, sum(day) AS b, sum(item) AS c, sum(shop) AS d, sum(customer) AS e, sum(quantity) AS f, max(price) AS g, max(cost) AS h, max(tax) AS i, sum(length(note)) AS j FROM sales",
    "sum of one column": "SELECT sum(price) AS a FROM sales",
    "groups": "SELECT shop, sum(price) AS a FROM sales GROUP BY shop",
    "groups of two columns": "SELECT shop, quantity, sum(price) AS a FROM sales GROUP BY shop, quantity",
    "groups of three columns": "SELECT shop, quantity, day % 5 AS d, sum(price) AS a, count(*) AS n FROM sales GROUP BY shop, quantity, day % 5",
    "groups of a text": "SELECT note, sum(price) AS a FROM sales GROUP BY note",
    "many groups": "SELECT customer, sum(price) AS a, count(*) AS n FROM sales GROUP BY customer",
    "star": "SELECT year, category, state, sum(price) AS a, count(*) AS n FROM sales JOIN days ON sales.day = days.day JOIN items ON sales.item = items.item JOIN customers ON sales.customer = customers.customer GROUP BY year, category, state",
    "join of one": "SELECT year, sum(quantity) AS n FROM sales JOIN days ON sales.day = days.day GROUP BY year",
    "filter": "SELECT sum(quantity) AS a, sum(shop) AS b FROM sales WHERE quantity < 20 AND shop < 40",
    "expressions": "SELECT sum(a) AS a, sum(b) AS b, sum(c) AS c FROM (SELECT quantity * shop AS a, price - cost AS b, CASE WHEN quantity > 50 THEN price ELSE tax END AS c FROM sales)",
    "many sums": "SELECT shop, sum(price) AS a, sum(cost) AS b, sum(tax) AS c, avg(price) AS d, min(cost) AS e, max(tax) AS f, sum(quantity) AS g, count(*) AS n FROM sales GROUP BY shop",
    "semi-join": "SELECT shop, sum(quantity) AS n FROM sales WHERE sale IN (SELECT sale FROM returns) GROUP BY shop",
    "union": "SELECT sum(a) AS a, sum(b) AS b FROM (SELECT quantity AS a, price AS b FROM sales UNION ALL SELECT shelf, weight FROM parcels)",
}

_HEAVY = {
    "copy of two columns": "SELECT sale, quantity FROM sales",
    "copy of all columns": "SELECT * FROM sales",
    "different values": "SELECT shop, count(DISTINCT customer) AS n FROM sales GROUP BY shop",
    "group of each row": "SELECT count(*) AS c, max(n) AS n FROM (SELECT sale, quantity, sum(price) AS n FROM sales GROUP BY sale, quantity)",
    "join with a middling copy": "SELECT reason, sum(quantity) AS n FROM sales JOIN returns ON sales.sale = returns.sale GROUP BY reason",
    "first rows": "SELECT sale, price FROM sales ORDER BY price DESC, sale LIMIT 100",
    "window": "SELECT max(n) AS n, sum(quantity) AS q FROM (SELECT quantity, rank() OVER (PARTITION BY customer ORDER BY price) AS n FROM sales)",
    "pairs": "SELECT count(*) AS n FROM items JOIN days ON items.list_price < days.day / 10",
}

_WIDE = "SELECT shelf, max(note) AS a, max(price) AS b, max(cost) AS c, max(tax) AS d FROM sales JOIN parcels ON sales.sale = parcels.sale GROUP BY shelf"

_SHUFFLED = {
    "join": "SELECT shelf, sum(quantity) AS n FROM sales JOIN parcels ON sales.sale = parcels.sale GROUP BY shelf",
    "outer join": "SELECT shop, sum(price) AS a, sum(amount) AS b FROM sales LEFT JOIN returns ON sales.sale = returns.sale GROUP BY shop",
    "join of wide rows": _WIDE,
    "join by a text": "SELECT shop, count(*) AS n FROM sales WHERE NOT EXISTS (SELECT 1 FROM parcels WHERE parcels.label = sales.note AND parcels.shelf = sales.day) GROUP BY shop",
    "join by two numbers": "SELECT shop, count(*) AS n FROM sales WHERE NOT EXISTS (SELECT 1 FROM returns WHERE returns.reason = sales.customer AND returns.amount = sales.price) GROUP BY shop",
}

_KEPT = {
    "kept join of wide rows": _WIDE,
    "kept join": "SELECT shelf, sum(quantity) AS n FROM sales JOIN parcels ON sales.sale = parcels.sale GROUP BY shelf",
    "kept window": "SELECT customer, max(n) AS n, sum(quantity) AS q FROM (SELECT customer, quantity, rank() OVER (PARTITION BY customer ORDER BY price) AS n FROM sales) GROUP BY customer",
    "kept groups": "SELECT customer, sum(price) AS a, count(*) AS n FROM sales GROUP BY customer",
    "kept outer join": "SELECT shop, sum(CASE WHEN amount IS NULL THEN price ELSE -amount END) AS a FROM sales LEFT JOIN returns ON sales.sale = returns.sale GROUP BY shop",
}


def trials() -> Iterator[Trial]:
    """All of them, the quickest first."""
    yield from (Trial(name, query, (FEW,)) for name, query in _FIXED.items())
    yield from (Trial(f"{name}, few rows", query, (FEW,)) for name, query in (_LIGHT | _HEAVY).items())
    yield from (Trial(name, query, (MOST,)) for name, query in _LIGHT.items())
    yield from (Trial(name, query) for name, query in _HEAVY.items())
    for name, query in _SHUFFLED.items():
        yield Trial(f"shuffled {name}, few rows", query, (FEW,), copies=False)
        yield Trial(f"shuffled {name}", query, copies=False)
    yield from (Trial(name, query, (MANY, MORE), "incremental", copies=False) for name, query in _KEPT.items())
    yield Trial("kept star", _LIGHT["star"], (MANY, MORE), "incremental")
