"""Bedrock's Converse and InvokeModel with Anthropic's bodies; streams are binary frames, each with two checksums."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.demo.replies.anthropic import message_events
from pytest_agentreplay.demo.replies.words import halves, pieces, tokens
from pytest_agentreplay.demo.script import fresh
from pytest_agentreplay.dialects.encode.bedrock import frame

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.demo.script import Say


def converse(body: dict[str, Any], say: Say) -> dict[str, Any]:
    """A Converse reply in one piece."""
    content: list[dict[str, Any]] = [{"text": say.text}] if say.text else []
    content += [
        {"toolUse": {"toolUseId": fresh("tooluse_"), "name": ask.name, "input": ask.arguments}} for ask in say.asks
    ]
    given, made = tokens(body.get("messages")), tokens([say.text, len(say.asks)])
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": "tool_use" if say.asks else "end_turn",
        "usage": {"inputTokens": given, "outputTokens": made, "totalTokens": given + made},
        "metrics": {"latencyMs": 7},
    }


def converse_stream(body: dict[str, Any], say: Say) -> Iterator[bytes]:
    """A Converse reply as its events; only blocks that are tool calls are announced."""
    whole = converse(body, say)
    yield frame("messageStart", {"role": "assistant"})
    for index, block in enumerate(whole["output"]["message"]["content"]):
        at = {"contentBlockIndex": index}
        use = block.get("toolUse")
        if use:
            start = {"toolUse": {"toolUseId": use["toolUseId"], "name": use["name"]}}
            yield frame("contentBlockStart", {**at, "start": start})
        for part in halves(json.dumps(use["input"])) if use else pieces(block["text"]):
            delta = {"toolUse": {"input": part}} if use else {"text": part}
            yield frame("contentBlockDelta", {**at, "delta": delta})
        yield frame("contentBlockStop", at)
    yield frame("messageStop", {"stopReason": whole["stopReason"]})
    yield frame("metadata", {"usage": whole["usage"], "metrics": whole["metrics"]})


def invoke_stream(body: dict[str, Any], say: Say) -> Iterator[bytes]:
    """The events of a Messages stream, each as base64 in a frame."""
    for _, event in message_events(body, say):
        yield frame("chunk", {"bytes": base64.b64encode(json.dumps(event).encode()).decode()})
