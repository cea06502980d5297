"""The golden files: what rules say, what memos know, what plans do, and that running them gives the batch result."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden_format import Block, Session, read, write

FILES = sorted((Path(__file__).parent / "golden").glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_golden(path: Path, request: pytest.FixtureRequest):
    blocks, session = read(path.read_text()), Session()
    wrong: list[str] = []
    for block in blocks:
        if not block.head:
            continue
        found = session.output(block)
        if request.config.getoption("--rewrite"):
            block.expected = found
        elif found != block.expected:
            wrong.append(told(path, block, found))
    if request.config.getoption("--rewrite"):
        path.write_text(write(blocks))
    assert not wrong, "\n\n".join([*wrong, "pytest --rewrite writes what there is"])


def told(path: Path, block: Block, found: list[str]) -> str:
    return "\n".join(
        [f"{path.name}:{block.line}: {block.head}", *block.text, "expected", *block.expected, "found", *found]
    )


def test_there_are_goldens():
    assert {p.stem for p in FILES} >= {"im1", "im2", "ojv", "hov", "part", "monotone", "running_example"}


def test_wrong_expectations_fail():
    """A golden whose output is another is told, and rewriting mends it and nothing else."""
    text = "# A filter.\nfire rule=delta_filter\nQ[:] = Filter[X.a > 1](X[:])\nX[t1:t2]\n----\nQ[t1:t2] = nothing\n"
    [block] = read(text)
    found = Session().output(block)
    assert found == ["Q[t1:t2] = Filter[a > 1](X[t1:t2])"] != block.expected
    block.expected = found
    assert write([block]) == text.replace("nothing", "Filter[a > 1](X[t1:t2])")
