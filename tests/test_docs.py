"""What the pages say is what happens: their code is run, and what it prints is compared with what they show.

A page is read from top to bottom. A `python` block is run, in one namespace for the whole page, and what it prints is the `text` block that follows it,
if one does. In a `console` block each line after `$ ` is run as a command (`tempura`, perhaps with `| head`), and the lines below it are its output. Other blocks are only looked at.
`pytest tests/test_docs.py --rewrite` puts the real output into the pages; read the difference before you commit it.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tempura
from examples.extending.unmet import UNMET
from tempura.cli import app
from tempura.rules.deltas import INTRA
from tempura.rules.eager import EAGER
from tempura.rules.joins import JOINS
from tempura.rules.lang import RuleSet
from tempura.rules.matching import MONOTONE
from tempura.rules.methods import METHODS
from tempura.testing import Unsound, check_sound

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "docs/tour.md", "docs/extending.md", "docs/methods.md", "examples/sales/README.md")
ALL_PAGES = (
    *PAGES,
    "CONTRIBUTING.md",
    "docs/citations.md",
    "docs/operations.md",
    "docs/calibration.md",
    "bench/README.md",
)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and where its text stands in the page."""

    language: str
    text: str
    start: int
    end: int


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    fence = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    return [Block(m[1], m[2], m.start(2), m.end(2)) for m in fence.finditer(page)]


def prose(name: str) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", (ROOT / name).read_text(), flags=re.MULTILINE | re.DOTALL)


def stable(output: str) -> str:
    """Output without what differs from run to run: how long planning took."""
    return re.sub(r"planned in [\d.]+ s \(exploring [\d.]+, sharing [\d.]+\)", "planned in … s", output)


def ran(code: str, namespace: dict[str, Any]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "page", "exec"), namespace)
    return stable(printed.getvalue())


def shown(block: str) -> str:
    """A console block with the output that its commands have now."""
    found: list[str] = []
    for line in block.splitlines():
        if not line.startswith("$ "):
            continue
        command, _, filter_ = line[2:].partition(" | head -")
        program, *arguments = shlex.split(command)
        assert program == "tempura", f"{line}: only the command tempura is run"
        output = stable(CliRunner().invoke(app, arguments).output).rstrip("\n").splitlines()
        found += [line, *(output[: int(filter_)] if filter_ else output)]
    return "\n".join(found) + "\n"


def outputs(page: str) -> Iterator[tuple[Block, str]]:
    """The blocks that show output, each with the output that there is now."""
    namespace: dict[str, Any] = {}
    found = blocks(page)
    for i, block in enumerate(found):
        if block.language == "python":
            printed = ran(block.text, namespace)
            after = found[i + 1] if i + 1 < len(found) else None
            if (
                after is not None
                and after.language == "text"
                and page[block.end : after.start].split() == ["```", "```text"]
            ):
                yield after, printed
            else:
                assert printed == "", f"nothing on the page shows what this prints: {block.text}"
        elif block.language == "console":
            yield block, shown(block.text)


@pytest.mark.parametrize("name", PAGES)
def test_pages_show_what_happens(name: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest):
    monkeypatch.chdir(ROOT)
    path = ROOT / name
    page = path.read_text()
    now = list(outputs(page))
    if request.config.getoption("--rewrite"):
        for block, text in reversed(now):
            page = page[: block.start] + text + page[block.end :]
        path.write_text(page)
        return
    for block, text in now:
        assert block.text == text, "run pytest tests/test_docs.py --rewrite, and read the difference"


def test_a_page_that_lies_is_found():
    page = "```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n"
    assert [(block.text, text) for block, text in outputs(page)] == [("3\n", "2\n")]
    with pytest.raises(AssertionError, match="nothing on the page shows"):
        list(outputs("```python\nprint(1)\n```\n\nBetween.\n\n```text\n1\n```\n"))


@pytest.mark.parametrize("name", ALL_PAGES)
def test_links_lead_somewhere(name: str):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose(name)):
        assert ((ROOT / name).parent / target).exists(), target


@pytest.mark.parametrize("name", ALL_PAGES)
def test_paths_and_targets_of_make_exist(name: str):
    """A path in backticks exists; so does a target of make."""
    page = (ROOT / name).read_text()
    for path in re.findall(r"`((?:src|tests|bench|examples|docs)/[\w./-]*)`", page):
        assert (ROOT / path).exists(), path
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)", page)) <= targets


@pytest.mark.parametrize("name", ALL_PAGES)
def test_tables_are_where_pages_say(name: str):
    """Where a page says `NAME` in `path`, the file defines it."""
    page = (ROOT / name).read_text()
    for table, path in re.findall(r"`([A-Z_]+)` in `(src/[\w./]+)`", page):
        assert re.search(rf"^{table}\b.* = ", (ROOT / path).read_text(), re.MULTILINE), f"{table} in {path}"


def test_the_job_in_the_readme_is_the_example():
    job = next(b.text for b in blocks((ROOT / "README.md").read_text()) if b.language == "yaml")
    assert job == (ROOT / "examples/sales/job.yaml").read_text()


@pytest.mark.parametrize("part", [*METHODS.values(), MONOTONE, INTRA, EAGER, JOINS], ids=lambda part: part.name)
def test_every_rule_and_its_law_are_listed(part: RuleSet):
    """docs/methods.md has a line for each rule, with its law as the rule itself states it."""
    page = (ROOT / "docs/methods.md").read_text()
    for rule in part.rules:
        assert f"{rule.name:34} {rule.law.splitlines()[0]}" in page


def test_reasons_are_quoted_as_they_are_given():
    """What docs/methods.md has in italics is a reason that the planner gives, or the beginning of one."""
    given = "".join(p.read_text() for p in (ROOT / "src/tempura").rglob("*.py"))
    quoted = re.findall(r"(?<![*\w])\*([^*\n]+)\*(?!\*)", prose("docs/methods.md"))
    assert len(quoted) > 10
    for reason in quoted:
        assert reason.removesuffix("…").strip() in given, reason


# The method that docs/extending.md builds.


def test_the_page_shows_the_file_of_the_example_method():
    source = (ROOT / "examples/extending/unmet.py").read_text()
    page = (ROOT / "docs/extending.md").read_text()
    quoted = [b.text for b in blocks(page) if b.language == "py"]
    assert len(quoted) >= 3
    for text in quoted:
        assert text in source


def tables(key: tuple[str, ...] = ("o_id",), retracts: float = 0.0) -> tempura.Catalog:
    """The tables of the running example over three points; returns with a key, unless told otherwise."""
    given = tempura.Job.load(ROOT / "examples/sales/job.yaml").catalog
    arrives = {"t1": 4.0, "t2": 3.0, "t3": 3.0}
    return tempura.Catalog(
        tempura.Table("sales", given["sales"].columns, ("o_id",), arrives),
        tempura.Table("returns", given["returns"].columns, key, arrives, {"t2": retracts, "t3": retracts}),
    )


SQL = (ROOT / "examples/sales/summary.sql").read_text()


@pytest.mark.parametrize("methods", [UNMET, tempura.IM1 | UNMET, tempura.ALL | UNMET], ids=lambda m: m.name)
def test_the_example_method_is_sound(methods: RuleSet):
    assert check_sound(methods, SQL, tables()) > 0


@pytest.mark.parametrize(
    ("catalog", "reason"),
    [
        (tables(key=()), "the join columns are not a key of the right side"),
        (tables(retracts=1.0), "retractions in the right side"),
    ],
)
def test_the_example_method_says_where_it_cannot_be_used(catalog: tempura.Catalog, reason: str):
    assert check_sound(UNMET, SQL, catalog) > 0
    timeline = tempura.Timeline.refresh(("t1", "t2", "t3"))
    plan = tempura.plan(tempura.Job(query=SQL, catalog=catalog, timeline=timeline), UNMET, baselines=False)
    told = {r.reason for r in plan.reasons if r.operator.startswith("LeftOuterJoin") and r.method == "UNMET"}
    assert any(reason in r for r in told)


def test_the_example_method_pays():
    job = tempura.Job.load(ROOT / "examples/extending/job.yaml")
    without, beside = (tempura.plan(job, m, baselines=False) for m in (tempura.ALL, tempura.ALL | UNMET))
    assert beside.cost.total < 0.95 * without.cost.total
    assert "UNMET" in {m for run in beside.runs for step in run.steps for m in step.methods}


def test_without_its_conditions_the_example_method_is_caught(monkeypatch: pytest.MonkeyPatch):
    """The condition on retractions is needed: without it, a member of a group disagrees with the others."""
    for rule in UNMET.rules:
        monkeypatch.setattr(rule, "conditions", tuple(c for c in rule.conditions if "retractions" not in c.reason))
    with pytest.raises(Unsound, match=r"rule (still_unmet|meetings)"):
        check_sound(UNMET, SQL, tables(retracts=1.0))
