"""Anthropic's Messages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.demo.replies.words import halves, pieces, reply_of, sse
from pytest_agentreplay.dialects.encode import anthropic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.demo.replies.words import Event
    from pytest_agentreplay.demo.script import Say


def messages(body: dict[str, Any], say: Say) -> dict[str, Any]:
    """A message of the Anthropic Messages API."""
    return anthropic.whole(reply_of(say, body, "messages", name="msg_", call="toolu_"))


def messages_stream(body: dict[str, Any], say: Say) -> Iterator[bytes]:
    """A message of the Anthropic Messages API as its events."""
    return sse(message_events(body, say), named=True)


def message_events(body: dict[str, Any], say: Say) -> Iterator[Event]:
    """The events of a message, a ping among them."""
    whole = messages(body, say)
    begun = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
    yield typed("message_start", message=begun)
    for index, block in enumerate(whole["content"]):
        text = block["type"] == "text"
        opened = {**block, **({"text": ""} if text else {"input": {}})}
        yield typed("content_block_start", index=index, content_block=opened)
        if index == 0:
            yield typed("ping")
        for part in pieces(block["text"]) if text else halves(json.dumps(block["input"])):
            delta = {"type": "text_delta", "text": part} if text else {"type": "input_json_delta", "partial_json": part}
            yield typed("content_block_delta", index=index, delta=delta)
        yield typed("content_block_stop", index=index)
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield typed("message_delta", delta=ended, usage={"output_tokens": whole["usage"]["output_tokens"]})
    yield typed("message_stop")


def typed(name: str, **data: Any) -> Event:
    """An event that says its own name."""
    return name, {"type": name, **data}
