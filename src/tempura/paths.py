"""Where the paths in a job lead."""

from __future__ import annotations

import os
from pathlib import Path


def local(folder: Path, path: str) -> Path:
    """A path of this machine as a job gives it: from the job's folder, unless it starts at the root or, with `~`, at somebody's home."""
    return (folder / os.path.expanduser(path)).absolute()
