"""YAML read into plain values together with the line of every entry, so that a mistake can be shown where it was made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

import yaml

from tempura.errors import JobError

Path = tuple[str | int, ...]
"""Where a value stands in a document: keys and positions from the top."""


class _Loader(yaml.SafeLoader):
    """YAML's core schema only: under YAML 1.1, 14:00 is the number 840, 2026-11-01 a date, `on` true, and 1e6 a text."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


_NULL, _BOOL, _INT, _FLOAT, _MERGE = (f"tag:yaml.org,2002:{t}" for t in ("null", "bool", "int", "float", "merge"))
for _tag, _pattern, _first in (
    (_NULL, r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    (_BOOL, r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    (_INT, r"[-+]?(?:0|[1-9][0-9_]*)", list("-+0123456789")),
    (_FLOAT, r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9_]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", list("-+.0123456789")),
    (_MERGE, r"<<", ["<"]),
):
    _Loader.add_implicit_resolver(_tag, re.compile(f"(?:{_pattern})$"), _first)  # pyright: ignore[reportUnknownMemberType]


class Document:
    """A YAML document: its value, made of dicts with text keys, lists and scalars, and the line of each entry."""

    value: Any
    lines: Mapping[Path, int]

    def __init__(self, text: str):
        self._lines: dict[Path, int] = {}
        self._open: set[int] = set()
        self.lines = self._lines
        try:
            node = cast("yaml.Node | None", yaml.compose(text, _Loader))  # pyright: ignore[reportUnknownMemberType]
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            said = " ".join(part for part in (error.context, error.problem) if part)
            raise JobError(
                f"the job file is not YAML: {said}",
                hint="check indentation, brackets and quotes just before this place",
                line=mark.line + 1 if mark else None,
                column=mark.column + 1 if mark else None,
            ) from None
        except yaml.YAMLError as error:
            raise JobError(f"the job file is not YAML: {error}", hint="save it as UTF-8 text") from None
        self.value = None if node is None else self._value(node, ())

    def line(self, path: Path) -> int | None:
        """The line of the entry at `path`, or of the nearest entry around it."""
        for length in range(len(path), -1, -1):
            if path[:length] in self._lines:
                return self._lines[path[:length]]
        return None

    def _value(self, node: yaml.Node, path: Path) -> Any:
        self._lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node)
        if id(node) in self._open:
            raise JobError(
                "an anchor of the job file refers to itself", hint="write the value out", line=self._lines[path]
            )
        self._open.add(id(node))
        value: Any = None
        if isinstance(node, yaml.SequenceNode):
            value = [self._value(item, (*path, i)) for i, item in enumerate(node.value)]
        elif isinstance(node, yaml.MappingNode):
            value = self._mapping(node, path)
        self._open.discard(id(node))
        return value

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line: int = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise JobError("a key of the job file is not a word", hint="keys are names, such as `query`", line=line)
            if key_node.tag == _MERGE:
                merged.update(self._merged(value_node, path))
                continue
            key = str(key_node.value)
            if key in own:
                raise JobError(f"the key `{key}` appears twice", hint="keep one of the two", line=line)
            # The key's line, not the value's: a folded value starts on a later one.
            self._lines[*path, key] = line
            own[key] = self._value(value_node, (*path, key))
        return merged | own

    def _merged(self, node: yaml.Node, path: Path) -> dict[str, Any]:
        """What `<<: *anchor` brings in; later anchors give way to earlier ones, as YAML says."""
        parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
        found: dict[str, Any] = {}
        for part in reversed(parts):
            if not isinstance(part, yaml.MappingNode):
                raise JobError(
                    "`<<` takes keys over from a mapping", hint="refer to a mapping", line=node.start_mark.line + 1
                )
            found |= self._mapping(part, path)
        return found


class Whole(int):
    """A whole number that was not written as Python writes it, with its text: as a name, 2026_10 is not 202610."""

    text = ""


class Real(float):
    """Another number of that sort: as a name, 2026.10 is not 2026.1."""

    text = ""


def _scalar(node: yaml.ScalarNode) -> str | int | float | bool | None:
    try:
        return _read(node, str(node.value))
    except ValueError:
        said = f"{node.value!r} is marked as a number and is none"
        raise JobError(said, hint="leave the tag out", line=node.start_mark.line + 1) from None


def _read(node: yaml.ScalarNode, text: str) -> str | int | float | bool | None:
    if node.tag == _NULL:
        return None
    if node.tag == _BOOL:
        return text.lower() == "true"
    if node.tag in (_INT, _FLOAT):
        number = (Whole if node.tag == _INT else Real)(text.replace("_", ""))
        number.text = text
        plain = int(number) if isinstance(number, Whole) else float(number)
        return plain if str(plain) == text else number
    return text
