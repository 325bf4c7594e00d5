"""Bedrock's Converse and InvokeModel with Anthropic's bodies; streams are binary frames, each with two checksums."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.demo.replies.anthropic import message_events
from pytest_agentreplay.demo.replies.words import halves, pieces, reply_of
from pytest_agentreplay.dialects.encode import bedrock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.demo.script import Say


def converse(body: dict[str, Any], say: Say) -> dict[str, Any]:
    """A Converse reply in one piece."""
    return {**bedrock.whole(reply_of(say, body, "messages", call="tooluse_")), "metrics": {"latencyMs": 7}}


def converse_stream(body: dict[str, Any], say: Say) -> Iterator[bytes]:
    """A Converse reply as its events; only blocks that are tool calls are announced."""
    whole = converse(body, say)
    yield bedrock.frame("messageStart", {"role": "assistant"})
    for index, block in enumerate(whole["output"]["message"]["content"]):
        at = {"contentBlockIndex": index}
        use = block.get("toolUse")
        if use:
            start = {"toolUse": {"toolUseId": use["toolUseId"], "name": use["name"]}}
            yield bedrock.frame("contentBlockStart", {**at, "start": start})
        for part in halves(json.dumps(use["input"])) if use else pieces(block["text"]):
            delta = {"toolUse": {"input": part}} if use else {"text": part}
            yield bedrock.frame("contentBlockDelta", {**at, "delta": delta})
        yield bedrock.frame("contentBlockStop", at)
    yield bedrock.frame("messageStop", {"stopReason": whole["stopReason"]})
    yield bedrock.frame("metadata", {"usage": whole["usage"], "metrics": whole["metrics"]})


def invoke_stream(body: dict[str, Any], say: Say) -> Iterator[bytes]:
    """The events of a Messages stream, each as base64 in a frame."""
    for _, event in message_events(body, say):
        yield bedrock.frame("chunk", {"bytes": base64.b64encode(json.dumps(event).encode()).decode()})
