"""A path as people would type it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def shown(path: Path | str) -> str:
    """`path` from the working directory when it lies below, else whole."""
    whole = os.path.abspath(path)  # noqa: PTH100  resolving would follow links, which people did not type
    try:
        near = os.path.relpath(whole)
    except (ValueError, OSError):  # another drive; a working directory that is gone
        return whole
    return whole if near.startswith(os.pardir) else near
