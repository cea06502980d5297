"""One page with all finished experiments: what each shows, how it was measured, its figure, its table, and what was expected of it.

    python -m bench report                         # into .cache/bench/report.html
    python -m bench report --out DIR               # of the results in DIR, into DIR/report.html

The page needs nothing else: figures are drawn into it, and stand beside it as files, `NAME.svg`. Why an expectation was not met was found by people, who wrote it into `findings.md`.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from html import escape
from io import StringIO
from pathlib import Path
from typing import Any

from bench._record import OUT, RESULTS, document, wide_console
from tempura.errors import JobError

ORDER = (
    "planning", "complexity", "size", "methods", "ablation", "exact", "effect-ivm", "effect-pdw", "states", "sensitivity", "real-ivm",
    "real-pdw", "real-sensitivity", "warehouse", "refresh", "growth", "limit", "choice", "calibration", "peers",
)  # fmt: skip
"""The order of the page; experiments that are not named come last, and those that have no document are listed with their commands."""
MARKS = {True: ("✓", "met"), False: ("✗", "missed"), None: ("·", "unjudged")}

STYLE = """
:root { color-scheme: light }
body { font: 16px/1.5 system-ui, sans-serif; color: #1b1b1b; background: #fff; max-width: 1240px; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.9rem; margin-bottom: .3rem } h3 { font-size: 1.05rem; margin: 1.1rem 0 0 } h2 { font-size: 1.35rem; margin: 3.2rem 0 .2rem; border-top: 1px solid #ddd; padding-top: 1.2rem }
.what { margin: .2rem 0 .6rem; max-width: 60rem } .how { color: #555; font-size: .85rem; margin: .2rem 0 }
code { background: #f4f4f4; padding: .1rem .3rem; border-radius: 3px; font-size: .85rem }
figure { margin: 1.2rem 0 } figure svg { max-width: 100%; height: auto }
table { border-collapse: collapse; font-size: .82rem; font-variant-numeric: tabular-nums; margin: .8rem 0 }
caption { text-align: left; color: #444; padding-bottom: .3rem } th, td { padding: .18rem .55rem; border-bottom: 1px solid #eee; text-align: left; white-space: nowrap }
th { border-bottom: 1px solid #999; font-weight: 600 } .right { text-align: right } .wide { overflow-x: auto } td.text { white-space: normal }
ul.expected { list-style: none; padding: 0; margin: .8rem 0 } ul.expected li { padding: .12rem 0 .12rem 1.6rem; text-indent: -1.6rem }
.mark { display: inline-block; width: 1.6rem; text-indent: 0; font-weight: 700 } .met .mark { color: #0072B2 } .missed .mark { color: #D55E00 } .unjudged .mark { color: #777 }
summary { cursor: pointer; color: #0072B2 }
"""


def run(out: OUT = None) -> None:
    """Put all finished experiments on one page."""
    folder = out or RESULTS
    documents, others = finished(folder)
    if not documents:
        raise JobError(f"there is no finished experiment in {str(folder)!r}", hint="run one: `python -m bench size`")
    path = folder / "report.html"
    drawings = {name: svg(name, document) for name, document in documents.items()}
    path.write_text(page(documents, drawings), encoding="utf-8")
    console = wide_console()
    for name, drawing in drawings.items():
        if drawing.startswith("<?xml"):
            (folder / f"{name}.svg").write_text(drawing, encoding="utf-8")
        console.print(f"{name}: {verdict(documents[name])}", markup=False, highlight=False)
    for name in others:
        console.print(f"left out, as it is no finished experiment: {name}", markup=False, highlight=False)
    console.print(f"written to {path}", markup=False, highlight=False, soft_wrap=True)


def finished(folder: Path) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """The documents of a folder by the names of their files, in the order of the page, and the names of files that are none.

    A document says whether there are cells that were measured after it.
    """
    paths = sorted(folder.glob("*.json"))
    found = {path.stem: told for path in paths if (told := document(path)) is not None}
    others = [path.name for path in paths if path.stem not in found]
    others += [path.name for path in sorted(folder.glob("*.jsonl")) if path.stem not in found]
    place = {name: n for n, name in enumerate(ORDER)}
    order = sorted(found, key=lambda name: (place.get(found[name]["name"], len(ORDER)), name))
    return {name: found[name] | {"newer": _newer(folder / f"{name}.jsonl", found[name])} for name in order}, others


def _newer(cells: Path, shown: dict[str, Any]) -> bool:
    """Whether the last cell of a benchmark was measured after its document was written."""
    last: dict[str, Any] = {}
    for line in cells.read_text().splitlines() if cells.exists() else ():
        with suppress(json.JSONDecodeError):
            last = json.loads(line)
    return bool(last) and last["date"] > shown["date"]


def verdict(document: dict[str, Any]) -> str:
    """How many expectations were met."""
    judged = [e["met"] for e in document["expectations"] if e["met"] is not None]
    return f"{sum(judged)} of {len(judged)} as expected" if judged else "nothing expected"


def page(documents: Mapping[str, dict[str, Any]], drawings: Mapping[str, str]) -> str:
    """The whole page."""
    listed = "".join(
        f'<tr><td><a href="#{name}">{name}</a></td><td class=text>{_code(d["title"].rstrip("."))}</td>'
        f'<td class="right">{d["sf"]:g}</td><td class="right">{verdict(d)}</td></tr>'
        for name, d in documents.items()
    )
    measured = {d["name"] for d in documents.values()}
    absent = "".join(
        f"<tr><td>{name}</td><td class=text>{_code(title(name))}</td><td class=right>–</td><td class=right>not measured here: <code>python -m bench {name}</code></td></tr>"
        for name in ORDER
        if name not in measured
    )
    sections = "".join(section(name, d, drawings[name]) for name, d in documents.items())
    head = "<tr><th>experiment</th><th>what it shows</th><th class=right>scale factor</th><th class=right>came out</th></tr>"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Tempura: experiments</title><style>{STYLE}</style>'
        f"<h1>Tempura: experiments</h1><p class=what>Each was measured by the command that stands with it. What was expected stands beside what came out, met (✓) or not (✗).</p>"
        f"<div class=wide><table>{head}{listed}{absent}</table></div>{sections}</html>"
    )


def title(name: str) -> str:
    """What a benchmark shows, by its module, which need not be loaded for that."""
    told = ast.get_docstring(ast.parse(Path(__file__).with_name(f"{name.replace('-', '_')}.py").read_text()))
    return (told or name).splitlines()[0].rstrip(".")


def section(name: str, document: dict[str, Any], drawing: str) -> str:
    """One experiment."""
    machine, versions = document["machine"], document["versions"]
    settings = ", ".join(f"{k} {v}" for k, v in document["settings"].items() if k != "sf")
    how = [
        f"<code>{escape(document['command'])}</code>",
        f"{_measured(document)}; scale factor {document['sf']:g}" + (f"; {escape(settings)}" if settings else ""),
        escape(f"{machine['cores']} cores, {machine['memory']}, {machine['cpu']}, {machine['platform']}"),
        escape(", ".join(f"{package} {version}" for package, version in versions.items())),
    ]
    if document.get("newer"):
        how.append("It was begun anew since, and has not ended.")
    return (
        f'<section><h2 id="{name}">{name}</h2><p class=what>{_code(document["title"])}</p>'
        + "".join(f"<p class=how>{line}</p>" for line in how)
        + expectations(document["expectations"])
        + findings(document)
        + (f"<figure>{drawing[drawing.index('<svg') :]}</figure>" if "<svg" in drawing else drawing)
        + table(document.get("table"))
        + "</section>"
    )


def _measured(document: dict[str, Any]) -> str:
    """When the cells were measured, from the first to the last."""
    days = list(dict.fromkeys(date[:10] for date in document["measured"] if date)) or [document["date"][:10]]
    return " to ".join(days)


def expectations(expected: list[dict[str, Any]]) -> str:
    """What was expected, with marks."""
    items = "".join(
        f'<li class="{MARKS[e["met"]][1]}"><span class=mark>{MARKS[e["met"]][0]}</span>{escape(e["text"])}: <b>{escape(e["figure"])}</b></li>'
        for e in expected
    )
    return f"<ul class=expected>{items}</ul>" if items else ""


FINDINGS = Path(__file__).with_name("findings.md")


def findings(document: dict[str, Any]) -> str:
    """What was found when it was asked why: the paragraphs under the experiment's name. They are of runs that the documentation quotes."""
    parts = re.split(r"^## (.+)$", FINDINGS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    text = dict(zip(parts[1::2], parts[2::2], strict=True)).get(document["name"], "").strip()
    missed = any(e["met"] is False for e in document["expectations"])
    if not text:
        return "<p class=how>Why an expectation was missed has not been looked into.</p>" if missed else ""
    said = "".join(f"<p class=what>{_code(p)}</p>" for p in text.split("\n\n") if p)
    return f"<h3>Findings</h3><p class=how>Of the runs that docs/experiments.md quotes, of which this need not be one.</p>{said}"


def _code(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def svg(name: str, document: dict[str, Any]) -> str:
    """The figure; empty if there is none, or why it cannot be drawn."""
    from bench import _plots

    try:
        figure = _plots.figure_of(document)
    except (ValueError, LookupError, ArithmeticError, TypeError) as error:
        # The rest of the page is worth having all the same.
        return f"<p class=how>There is no figure: it cannot be drawn of these cells ({escape(repr(error))}).</p>"
    if figure is None:
        return ""
    text = StringIO()
    _plots.write_svg(figure, text, name)
    return text.getvalue()


LONG = 25
"""A table of more rows is folded away."""


def table(shown: dict[str, Any] | None) -> str:
    """The table that the benchmark printed."""
    if shown is None:
        return ""
    side = [" class=right" if right else "" for right in shown["right"]]

    def line(cells: list[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}{s}>{escape(c)}</{tag}>" for c, s in zip(cells, side, strict=True)) + "</tr>"

    caption = escape("\n".join(filter(None, (shown["title"], shown["caption"])))).replace("\n", "<br>")
    rows = "".join(line(row, "td") for row in shown["rows"])
    text = f"<div class=wide><table><caption>{caption}</caption>{line(shown['columns'], 'th')}{rows}</table></div>"
    return f"<details><summary>all {len(shown['rows'])} rows</summary>{text}</details>" if len(shown["rows"]) > LONG else text  # fmt: skip
