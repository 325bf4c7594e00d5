"""Which calls change something outside: tools that are not known to read, and requests other than GET.

What a model, a retriever or an embedding is asked changes nothing, though it goes by POST.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.core.model import HttpCall
from pytest_agentreplay.core.turns import function_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_agentreplay.core.model import Call
    from pytest_agentreplay.core.reading import Reader

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def has_effects(call: Call, reader: Reader, reads: Callable[[str], bool]) -> bool:
    """Whether a call may change something. `reads` knows the tools, by name, that were declared to change nothing."""
    tool = function_of(call, reader)
    if tool is not None:
        return tool.boundary == "tool" and not reads(tool.name)
    if not isinstance(call, HttpCall) or call.method in SAFE_METHODS:
        return False
    return reader.read_call(call).kind == "http"
