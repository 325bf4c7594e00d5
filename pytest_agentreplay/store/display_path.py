"""A path as people would type it."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_agentreplay.core.paths import near


def shown(path: Path | str) -> str:
    """`path` from the working directory when it lies below, else whole; with slashes on every system."""
    whole = Path(os.path.abspath(path))  # noqa: PTH100  resolving would follow links, which people did not type
    try:
        return near(whole, Path.cwd())
    except OSError:  # a working directory that is gone
        return whole.as_posix()
