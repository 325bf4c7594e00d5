"""OpenAI's chat completions, which Azure, Mistral, Groq, Hugging Face and many more speak too."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.demo.replies.words import halves, pieces, reply_of, sse
from pytest_agentreplay.dialects.encode import openai_chat

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.demo.replies.words import Event
    from pytest_agentreplay.demo.script import Say


def chat(body: dict[str, Any], say: Say) -> dict[str, Any]:
    """A chat completion."""
    reply = openai_chat.whole(reply_of(say, body, "messages", name="chatcmpl-"))
    return {**reply, "created": int(time.time())}


def chat_stream(body: dict[str, Any], say: Say) -> Iterator[bytes]:
    """A chat completion as chunks; the usage chunk comes when the request includes it."""

    def events() -> Iterator[Event]:
        whole = chat(body, say)
        base = {name: whole[name] for name in ("id", "created", "model", "system_fingerprint")}
        base["object"] = "chat.completion.chunk"

        def chunk(delta: dict[str, Any], finish: str | None = None) -> Event:
            return "", {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

        yield chunk({"role": "assistant", "content": "" if say.text else None})
        for piece in pieces(say.text):
            yield chunk({"content": piece})
        for index, call in enumerate(whole["choices"][0]["message"].get("tool_calls", ())):
            arguments = call["function"]["arguments"]
            if "tral" in whole["model"]:
                # Mistral's models give a call in one piece, and their SDK takes no other.
                yield chunk({"tool_calls": [{**call, "index": index}]})
                continue
            opened = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
            yield chunk({"tool_calls": [opened]})
            for part in halves(arguments):
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
        yield chunk({}, whole["choices"][0]["finish_reason"])
        if (body.get("stream_options") or {}).get("include_usage"):
            yield "", {**base, "choices": [], "usage": whole["usage"]}

    return sse(events(), named=False, done=True)
