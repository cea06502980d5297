"""What an expression may do, told from its text."""

from __future__ import annotations

import pytest

from tempura.expr import may_fail, parse

SAFE = ("a + b", "(a + b) / 2", "a % (7)", "a div 10", "cast('1' AS int)", "CASE WHEN a = 1 THEN 2 END")
FAILING = ("a / b", "a % 0", "a / (b - 1)", "xs[a]", "my_function(a)", "cast(code AS int)", "code / 2", "a / '2'")


@pytest.mark.parametrize("text", SAFE)
def test_what_cannot_fail(text: str):
    assert not may_fail(parse(text), frozenset("ab"))


@pytest.mark.parametrize("text", FAILING)
def test_what_may_fail(text: str):
    assert may_fail(parse(text), frozenset("ab"))
