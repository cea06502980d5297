"""Systems in processes of their own are asked alike, and what they answer is compared with the batch query; here by small systems made of a few lines."""

from __future__ import annotations

import csv
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench import peers
from bench._peers import continuous, process
from bench._peers.continuous import Kept, measured, plain
from bench._peers.others import OTHERS
from bench._peers.pathway_process import EXPRESSIONS
from bench._peers.process import Peer, PeerError, what_is_asked
from bench._peers.views import VIEWS, View

VIEW = View(
    "returned", "SELECT cr_reason_sk, SUM(cr_return_amount) AS returned FROM catalog_returns GROUP BY cr_reason_sk"
)
TOOK = "'seconds': 0.2, 'cpu': 0.1, 'refused': None"


def system(tmp_path: Path, answer: str) -> Peer:
    """One that computes its answer from what is asked by a line of Python."""
    script = tmp_path / "system.py"
    script.write_text(f"import json, sys\nasked = json.load(open(sys.argv[1]))\nprint(json.dumps({answer}))")
    return Peer("System", (sys.executable, str(script)), "install it")


def test_a_view_that_a_process_answers_is_compared_with_the_batch_query(tmp_path: Path):
    right = system(tmp_path, f"{{{TOOK}, 'views': [rows[::-1] for rows in asked['expected']]}}").refreshed(
        VIEW, 0.01, 2
    )
    assert right == {"seconds": 0.2, "cpu": 0.1, "right": True, "refused": None, "version": "unknown"}
    wrong = system(tmp_path, f"{{{TOOK}, 'views': [asked['expected'][0]] * 2}}").refreshed(VIEW, 0.01, 1)
    assert wrong["right"] is False


def test_a_refusal_ends_the_rounds_and_too_long_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    refused = system(tmp_path, "{'refused': 'no ' + asked['view'], 'cpu': None}").refreshed(VIEW, 0.01, 3)
    assert refused == {"refused": "no returned", "cpu": None, "version": "unknown"}
    monkeypatch.setattr(process, "PATIENCE", 0.5)
    slow = system(tmp_path, "__import__('time').sleep(60)").refreshed(VIEW, 0.01, 1)
    assert slow["refused"] == slow["error"] == "not done within 0.5 s" and slow["cpu"] is None


def test_a_system_that_is_not_there_or_breaks_says_what_to_do(tmp_path: Path):
    with pytest.raises(PeerError, match="System failed on returned: KeyError: 'nothing'") as failed:
        system(tmp_path, "asked['nothing']").refreshed(VIEW, 0.01, 1)
    assert failed.value.hint == "install it"
    for name in ("flink", "pathway"):
        with pytest.raises(PeerError, match="cannot be started"):
            OTHERS[name](tmp_path / "python").refreshed(VIEW, 0.01, 1)


def test_what_is_asked_has_all_that_the_view_needs(tmp_path: Path):
    asked = what_is_asked(VIEW, 0.01, tmp_path, header=True)
    told = asked["tables"]["catalog_returns"]
    assert set(told["columns"]) == set(told["nullable"]) == {"cr_reason_sk", "cr_return_amount"} and told["growing"]
    assert asked["output"] == ["cr_reason_sk", "returned"]
    with (
        (tmp_path / "catalog_returns" / "first.csv").open() as first,
        (tmp_path / "catalog_returns.csv").open() as more,
    ):
        parts = [list(csv.DictReader(file)) for file in (first, more)]
    assert len(parts[0]) > len(parts[1]) > 100
    total = sum(float(row["cr_return_amount"] or 0) for part in parts for row in part)
    assert sum(float(row[1]) for row in asked["expected"][1]) == pytest.approx(total)


def counting(ending: Callable[[Kept], None]) -> Callable[[dict[str, Any], Kept], Callable[[], None]]:
    """A continuous query that counts the files of its table, and how it ends once there are two."""

    def start(asked: dict[str, Any], kept: Kept) -> Callable[[], None]:
        def follow() -> None:
            kept.change((1,), 1)
            while len(list((Path(asked["place"]) / "rows").iterdir())) < 2:
                time.sleep(0.01)
            ending(kept)

        return follow

    return start


def counted(kept: Kept) -> None:
    kept.change((1,), -1)
    kept.change((2,), 1)


def broken(kept: Kept) -> None:
    raise ValueError("no more\nof this")


def unchanged(kept: Kept) -> None:
    pass


def refusing(asked: dict[str, Any], kept: Kept) -> Callable[[], None]:
    raise ValueError("not this")


@pytest.mark.parametrize(
    ("start", "right", "refused"),
    [
        (counting(counted), True, None),
        (counting(unchanged), False, None),
        (counting(broken), None, "no more"),
        (refusing, None, "not this"),
    ],
)
def test_a_continuous_query_is_right_wrong_broken_or_refused(
    start: Any, right: bool | None, refused: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(continuous, "QUIET", 0.5)
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "first.csv").touch()
    (tmp_path / "rows.csv").touch()
    asked = {"place": str(tmp_path), "tables": {"rows": {"growing": True}}, "expected": [[["1"]], [["2"]]]}
    found = measured(asked, start, time.process_time)
    assert (found["right"], found["refused"]) == (right, refused)
    assert json.dumps(found)


def test_rows_are_compared_as_texts():
    assert plain((1, None, 2.0, "a")) == ("1", "None", "2.00", "a")


def test_every_view_has_its_expression_for_pathway():
    assert list(EXPRESSIONS) == [view.name for view in VIEWS]


def test_the_table_tells_who_refuses_and_who_was_asked_otherwise():
    taken = {"seconds": 2.0, "cpu": 1.0, "right": True, "refused": None}
    cells = {
        "totals tempura": taken,
        "totals pathway": taken | {"note": "in Python"},
        "totals pg_ivm": {"seconds": None, "cpu": None, "right": None, "refused": "no UNION"},
        "totals flink": taken | {"right": False},
    }
    view = next(view for view in VIEWS if view.name == "totals")
    table = peers._shown(cells, [view], ["tempura", "pathway", "pg_ivm", "flink"], 1, 2)
    assert table.caption == "pathway: in Python\npg_ivm refused: no UNION"
    assert [next(iter(column.cells)) for column in table.columns[1:]] == [
        "1.00 (2.00)", "1.00 (2.00)", "refused", "1.00 (2.00) WRONG",
    ]  # fmt: skip
