"""trio's order of tasks: it throws dice for those that are ready in one go, so that nobody relies on an order.

A replay has to rely on one. While a test is recorded or replayed, tasks that are ready together run in the order in
which they were begun. trio can do so itself (for Hypothesis); only its dice are told to lie still.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.session import interceptions

if TYPE_CHECKING:
    from types import ModuleType

_SORTED = "_ALLOW_DETERMINISTIC_SCHEDULING"


class FixedBatchOrder(random.Random):
    """trio's, which lie still in a test."""

    def shuffle(self, x: Any) -> None:
        """Leave the tasks as they are sorted, or throw."""
        if interceptions.current() is None:
            super().shuffle(x)


def patch(module: ModuleType) -> None:
    """Take the dice of `trio._core._run`. Where a version has none nothing happens; done twice it is done once."""
    # trio 0.35: https://github.com/python-trio/trio/blob/main/src/trio/_core/_run.py
    if hasattr(module, _SORTED) and type(module._r) is random.Random:
        setattr(module, _SORTED, True)
        vars(module)["_r"] = FixedBatchOrder()
