"""What the consumer of a generator tool gives it back: values sent, exceptions thrown, and where it stopped.

Kept in `ToolReply.sent`, in order: {"after": 2, "value": ...} for what was sent when the second item had come, and
{"after": 2, "raised": {...}} for what was thrown. `next(generator)` sends nothing and is not kept.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.session.library_values import add_library_codecs
from pytest_agentreplay.intercept.tools.argument_serializing import ArgumentFreezing
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.exchanges import ToolReply
from pytest_agentreplay.values.failure import failure_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_agentreplay.intercept.session.pending_call import PendingCall
    from pytest_agentreplay.intercept.session.session_parts import Redactor
    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.values import Codec

_PLACEHOLDER = re.compile(r"\[\[redacted:[^\]]*\]\]")


def sent(after: int, value: Any, codecs: Sequence[Codec]) -> JsonObject | None:
    """Return what was sent after so many items as it is kept; None for nothing."""
    return (
        None
        if value is None
        else {"after": after} | ArgumentFreezing({"value": value}, codecs=add_library_codecs(codecs)).arguments
    )


def thrown(after: int, error: BaseException, codecs: Sequence[Codec]) -> JsonObject:
    """Return what was thrown in after so many items as it is kept."""
    failure = failure_of(error, codecs)
    return {"after": after, "raised": {"type": failure.type, "message": failure.message}}


class GeneratorInput:
    """What was sent into one replayed generator when it was recorded, to compare with what is sent now."""

    def __init__(self, intercepted: PendingCall, redactor: Redactor) -> None:
        """Nothing is compared for a reply that no generator gave: that of a trace, or one written by hand."""
        recorded = intercepted.exchange.outcome if intercepted.exchange is not None else None
        kept = recorded.sent if isinstance(recorded, ToolReply) else None
        self._recorded = None if kept is None else {x["after"]: x for x in kept if isinstance(x, dict)}
        self._intercepted = intercepted
        self._redactor = redactor

    def difference(self, after: int, now: JsonObject | None) -> str:
        """Return in a few words what differs between what is sent now and what was; "" for nothing."""
        if self._recorded is None:
            return ""
        was = self._recorded.get(after)
        if now is not None:
            outcome = self._redactor.redact_outcome(self._intercepted.call, ToolReply(sent=(now,)))
            assert isinstance(outcome, ToolReply)
            assert outcome.sent is not None
            [now] = outcome.sent  # type: ignore[assignment]
        if _same(was, now):
            return ""
        return f"{_described(now)} after item {after}; in the recording {_described(was)}"


def _same(was: Json, now: Json) -> bool:
    """Whether both are equal; a secret of the recording stands for any other."""
    texts = _PLACEHOLDER.split(canonical(was))
    return re.fullmatch(".*".join(map(re.escape, texts)), canonical(now), re.DOTALL) is not None


def _described(entry: Json) -> str:
    if not isinstance(entry, dict):
        return "nothing was sent"
    if isinstance(raised := entry.get("raised"), dict):
        return f"{raised['type']}({raised['message']!r}) was thrown"
    return f"{canonical(entry.get('value'))} was sent"
