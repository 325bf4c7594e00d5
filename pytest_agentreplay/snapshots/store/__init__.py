"""Paths and files; the only package that opens files for writing. Here is a path as people would type it."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_agentreplay.model.paths import relative_path

# Folders that hold copies of what lies behind a URL, which is shown in their place.
FETCHED: dict[Path, str] = {}


def format_path(path: Path | str) -> str:
    """Return `path` from the working directory when it lies below, else whole; with slashes on every system."""
    absolute = Path(os.path.abspath(path))  # noqa: PTH100  resolving would follow links, which people did not type
    for folder, url in FETCHED.items():
        if absolute.is_relative_to(folder):
            return "/".join([url, *absolute.relative_to(folder).parts])
    try:
        return relative_path(absolute, Path.cwd())
    except OSError:  # a working directory that is gone
        return absolute.as_posix()
