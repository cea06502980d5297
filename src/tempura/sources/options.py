"""Options of Spark's readers: Spark takes their names in any case, here each has one, so that what is checked is what Spark reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NAMES = ("header", "sep", "quote", "escape", "encoding", "nullValue", "lineSep", "multiLine", "mode", "timeZone")
"""The options that are looked at here too."""
_SPELLED = {name.lower(): name for name in _NAMES}
LOSSY = ("ignoreCorruptFiles", "ignoreMissingFiles")
"""Options by which Spark reads on where it should fail."""
_ALIASES = {"delimiter": "sep", "charset": "encoding"}
"""Other names, which Spark looks at where the option itself is not given."""


def texts(given: Mapping[str, Any]) -> dict[str, str]:
    """Options as Spark takes them: `header: true` is a text."""
    return {name: as_text(value) for name, value in given.items()}


def as_text(value: Any) -> str:
    """A value as Spark takes it; a number of a job file knows how it was written, so that -999.00 stays what stands in the data."""
    return str(value).lower() if isinstance(value, bool) else str(getattr(value, "text", value))


def spelled(given: Mapping[str, Any]) -> dict[str, str]:
    """Options by the names under which they are looked at; raises ValueError where one is given twice, and not alike."""
    found: dict[str, tuple[str, str]] = {}
    for name, value in texts(given).items():
        other, before = found.setdefault(name.lower(), (name, value))
        if value != before:
            raise ValueError(f"the option `{other}` is {before!r}, and as `{name}` it is {value!r}")
    for alias, name in _ALIASES.items():
        if alias in found:
            found = {name: found[alias]} | {low: told for low, told in found.items() if low != alias}
    return {_SPELLED.get(low, name): value for low, (name, value) in found.items()}
