"""Sizes of files as people write them (`2MB`, `500 kB`, `1_000_000`) and as they read them."""

from __future__ import annotations

import re

UNITS = {"": 1, "kb": 1000, "mb": 1_000_000}
WRITTEN = re.compile(r"(\d[\d_]*)\s*(kb|mb|)", re.IGNORECASE)


def parse_size(text: str) -> int | None:
    """Return a size in bytes; None for what is none."""
    written = WRITTEN.fullmatch(text.strip())
    return int(written[1]) * UNITS[written[2].lower()] if written else None


def format_size(size: int) -> str:
    """Return bytes as people read them."""
    return f"{size} bytes" if size < 1000 else f"{size / 1000:.1f} kB" if size < 1e6 else f"{size / 1e6:.1f} MB"
