"""Paths as reports show them: with slashes on every system, so that what is said is the same on all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import PurePath


def near(file: PurePath, here: PurePath) -> str:
    """`file` as people would type it in the folder `here`: from there when it lies below, else whole. Both absolute."""
    return (file.relative_to(here) if file.is_relative_to(here) else file).as_posix()
