"""The machine's clocks for our own waits and timings, out of reach of tests that freeze time.

freezegun and tests of their own replace `time.monotonic`, `time.sleep` and their like, freezegun in every module that
holds them. So these functions come from a copy of the module `time` that nobody else has.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


def _copy(original: ModuleType) -> ModuleType:
    """Return `original`, a module in C, made anew. CPython does so since 3.9 (https://bugs.python.org/issue1635741)."""
    spec = importlib.util.find_spec(original.__name__)
    if spec is None or spec.loader is None:
        return original
    copy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copy)
    return copy


_OWN = _copy(time)

monotonic: Callable[[], float] = _OWN.monotonic
monotonic_ns: Callable[[], int] = _OWN.monotonic_ns
perf_counter: Callable[[], float] = _OWN.perf_counter
process_time: Callable[[], float] = _OWN.process_time
sleep: Callable[[float], None] = _OWN.sleep


def wall() -> float:
    """Return the seconds since the epoch, whoever travels: time-machine changes `time.time` in C, for every copy."""
    hatch = getattr(sys.modules.get("time_machine"), "escape_hatch", None)
    return float(hatch.time.time() if hatch is not None and hatch.is_travelling() else _OWN.time())
