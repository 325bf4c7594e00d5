"""The check of redaction itself: outside of what stands for something redacted, a whole value is as it was.

It shares nothing with what finds and replaces, so that a fault there is seen. The parts of a stream are not looked at:
what stands for a key that was cut stands in the first of them.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING

from pytest_agentreplay.model.exchanges import FrameCall, HttpCall, HttpReply, ToolCall, ToolReply
from pytest_agentreplay.redaction.encodings import as_bytes

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    from pytest_agentreplay.model.exchanges import Call, Json, Outcome


def tree_of(value: Call | Outcome) -> Json:
    """Return what a call or an outcome says as JSON; None for a body that is none, or a list, which may be a stream."""
    match value:
        case ToolCall():
            return value.arguments
        case ToolReply():
            return value.value
        case HttpCall() | FrameCall() | HttpReply():
            try:
                tree = json.loads(value.body.data)
            except (ValueError, RecursionError):
                return None
            return tree if isinstance(tree, dict) else None
        case _:
            return None


def is_untouched(before: Json, after: Json, stands_in: re.Pattern[bytes], is_known: Callable[[bytes], bool]) -> bool:
    """Return whether a tree is as it was but for texts that match `stands_in`, and parts of values that are known."""
    pairs: list[tuple[Json, Json]] = [(before, after)]
    while pairs:
        old, new = pairs.pop()
        if isinstance(old, dict) and isinstance(new, dict):
            if not any(name.startswith("$byte") for name in old):
                pairs += zip(old.values(), new.values(), strict=False)
        elif isinstance(old, list) and isinstance(new, list):
            pairs += zip(old, new, strict=False)
        elif old != new and not keeps_rest(as_bytes(str(old)), as_bytes(str(new)), stands_in, is_known):
            return False
    return True


def keeps_rest(before: bytes, after: bytes, stands_in: re.Pattern[bytes], is_known: Callable[[bytes], bool]) -> bool:
    """Return whether what a text holds beside its stand-ins stood in the same order before, with nothing around it."""
    spans = [hit.span() for hit in stands_in.finditer(after)]
    rest = [after[end:start] for (_, end), (start, _) in pairwise([(0, 0), *spans, (len(after), 0)])]
    # A cut value of a list may begin before the rest does.
    at = 0 if before.startswith(rest[0]) else before.find(rest[0])
    if at < 0 or (at and not is_known(before[:at])):
        return False
    at += len(rest[0])
    for text in rest[1:]:
        begin = before.find(text, at)
        if begin < 0:
            return False
        at = begin + len(text)
    return before.endswith(rest[-1]) if spans else at == len(before) or is_known(before[at:])
