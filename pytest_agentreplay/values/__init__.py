"""Values to readable JSON and back, equal and of the same types: `freeze`, `load`.

JSON values stay as they are. What JSON cannot say stands in an object with one key: {"$tuple": [1, 2]}; a key of
the user's that begins with "$" is doubled. Standard-library values need no hint (`tags`); instances of classes need
one that comes from code (`objects`). A value that would not come back is refused, never approximated (`results`).

Arguments are only compared, and never thawed: their instances need no hint, and are written by their state
(`arguments`).
"""

from __future__ import annotations

from pytest_agentreplay.values.arguments import ArgumentContent, freeze_arguments
from pytest_agentreplay.values.deserializer import load
from pytest_agentreplay.values.objects import Codec
from pytest_agentreplay.values.results import freeze

__all__ = ["ArgumentContent", "Codec", "freeze", "freeze_arguments", "load"]
