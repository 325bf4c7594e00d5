"""numpy's random numbers: the global generator is seeded as `random` is, and fresh generators are the run's own.

A generator that is made without a seed (`default_rng()`) asks the operating system for entropy; in a run it gets a
number drawn from the run's seed. Not while a module is imported: what is made there outlives the test.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.environment import randomness

if TYPE_CHECKING:
    from types import ModuleType


class Global:
    """The generator behind `numpy.random.rand` and its like, asked as the module `random` is."""

    def __init__(self, module: ModuleType) -> None:
        """`module` is `numpy.random`."""
        self._random = module

    def getstate(self) -> Any:
        """Where it stands; with the bit generator, which agents may exchange (from numpy 1.24 on)."""
        bits = getattr(self._random, "get_bit_generator", None)
        return bits and bits(), self._random.get_state(legacy=False)

    def setstate(self, state: Any) -> None:
        """Stand there again."""
        bits, numbers = state
        if bits is not None and bits is not self._random.get_bit_generator():
            self._random.set_bit_generator(bits)
        self._random.set_state(numbers)

    def seed(self, number: int) -> None:
        """Begin anew; 32 bits are what numpy takes at no cost."""
        self._random.seed(number & 0xFFFF_FFFF)


def patch(module: ModuleType) -> None:
    """Hold `numpy.random` in each run from now on."""
    source = module.bit_generator
    if not hasattr(source.randbits, "__wrapped__"):
        source.randbits = drawn_in_runs(source.randbits)
    randomness.join("numpy", Global(module))


def drawn_in_runs(randbits: Any) -> Any:
    """`randbits` of the operating system, but for a run that draws here."""

    @functools.wraps(randbits)
    def draw_bits(bits: int) -> int:
        source = randomness.drawing()
        if source is None or importing():
            return int(randbits(bits))
        return source[0].entropy(source[1])

    return draw_bits


def importing() -> bool:
    """Whether a module is being imported on this stack."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
