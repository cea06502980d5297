"""The order of the layers: a module imports only from above its own layer, and planning needs neither Spark nor DuckDB."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src"
LAYERS = (
    "errors paths sqltext", "timeline schema expr", "volatile", "failing", "catalog", "sources", "algebra", "memo plans", "rules.lang", "rules.compile", "explore", "rules", "space",
    "estimate", "reference", "job sql", "choose", "implement definitions", "standing", "assemble", "explain", "optimizer", "trust", "workspace", "course", "status", "spark", "testing", "__init__", "cli",
)  # fmt: skip
ORDER = {name: i for i, layer in enumerate(LAYERS) for name in layer.split()}


def layer(module: str) -> str:
    """The name in LAYERS that a module belongs to: the longest one that begins its own."""
    parts = module.removeprefix("tempura").strip(".").split(".")
    names = (".".join(parts[:n]) or "__init__" for n in range(len(parts), 0, -1))
    return next(name for name in names if name in ORDER)


def imports(tree: ast.AST) -> Iterator[str]:
    """The modules of ours that a module loads with itself: not what type checkers read, nor what a method asks for when called."""
    for part in ast.iter_child_nodes(tree):
        if isinstance(part, ast.FunctionDef) or (
            isinstance(part, ast.If) and "TYPE_CHECKING" in ast.unparse(part.test)
        ):
            continue
        if isinstance(part, ast.ImportFrom) and (part.module or "").split(".")[0] == "tempura":
            yield part.module or ""
        elif isinstance(part, ast.Import):
            yield from (a.name for a in part.names if a.name.split(".")[0] == "tempura")
        yield from imports(part)


def test_modules_import_from_above():
    found: list[str] = []
    for path in sorted((SOURCE / "tempura").rglob("*.py")):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        own = layer(module)
        for other in set(imports(ast.parse(path.read_text()))):
            if layer(other) != own and ORDER[layer(other)] >= ORDER[own]:
                found.append(f"{module} imports {other}, which is not above it")
    assert not found, "\n".join(found)


def test_planning_needs_no_engine():
    loaded = "import sys, tempura; print(*sorted({m.split('.')[0] for m in sys.modules} & {'pyspark', 'duckdb'}))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", loaded], capture_output=True, text=True, env={"PYTHONPATH": str(SOURCE)}
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")
