"""Where a text of a recording came from: the earlier reply or tool result that holds it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pytest_agentreplay.core.diff import texts
from pytest_agentreplay.core.divergence import Kind
from pytest_agentreplay.core.model import ToolReply

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.core.diagnose.classify import ContentChange
    from pytest_agentreplay.core.model import Exchange, Json
    from pytest_agentreplay.core.reading import Reader

WORD = 6  # characters from which on a changed word is looked up by itself
AROUND = 10  # characters on both sides that a shorter one is looked up with
SENTENCE = 24  # characters of a prompt's text that are looked up: a word of it that a reply says too is no news


def sought(change: ContentChange) -> str:
    """The old text of the first difference, as far as it is worth looking for; "" when it is not."""
    if not change.differences:
        return ""
    recorded, now = change.differences[0].recorded, change.differences[0].now
    if not isinstance(recorded, str):
        return ""
    snippet = recorded[:200].strip()
    if isinstance(now, str):
        start, old, _ = texts.hunk(recorded, now)
        snippet = old.strip()
        if snippet and len(old) < WORD:
            snippet = recorded[max(0, start - AROUND) : start + len(old) + AROUND].strip()
    return snippet if len(snippet) >= (SENTENCE if change.kind is Kind.PROMPT else 4) else ""


def spoken(exchange: Exchange, reader: Reader) -> Iterator[str]:
    """All that an exchange gave back, as texts to search in."""
    if exchange.call.boundary != "tool":
        reading = reader.read_reply(exchange.call, exchange.outcome)
        yield reading.text
        for use in reading.tool_uses:
            yield use.arguments if isinstance(use.arguments, str) else json.dumps(use.arguments, ensure_ascii=False)
    if isinstance(exchange.outcome, ToolReply):
        for value in (exchange.outcome.value, *(exchange.outcome.items or ())):
            yield from strings(value)
            yield json.dumps(value, ensure_ascii=False)


def strings(value: Json) -> Iterator[str]:
    """All strings in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)
