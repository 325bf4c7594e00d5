"""Wraps a seam of a library for good: once, whoever asks, however often."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.boundaries import crossing as doorstep

if TYPE_CHECKING:
    from collections.abc import Callable

    Seam = Callable[..., Any]


def wrap(owner: Any, name: str, make: Callable[[Seam], Seam]) -> None:
    """Put `make(original)` in the place of `owner.name`. Where there is no such name nothing happens.

    A second copy of our modules (test tools that restore sys.modules) takes over from the first.
    """
    seam = vars(owner).get(name)
    if seam is None:
        return
    whose, original = getattr(seam, "__agentreplay__", (None, seam))
    if whose is not doorstep.current:
        made: Any = functools.wraps(original)(make(original))
        made.__agentreplay__ = (doorstep.current, original)
        setattr(owner, name, made)
