"""Replies of Ollama's chat and generate, whose streams are lines of JSON, and of Cohere's chat of version 2."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.providers.model_reply import dumped, server_sent
from pytest_agentreplay.providers.openai_chat_writing import call_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.providers.model_reply import ModelReply


def _line(reply: ModelReply, *, done: bool = True, **more: Any) -> dict[str, Any]:
    """A line of Ollama's; the last one has the counts."""
    line = {"model": reply.model, "created_at": datetime.now(UTC).isoformat(), **more, "done": done}
    counts = {"prompt_eval_count": reply.tokens("input_tokens"), "eval_count": reply.tokens("output_tokens")}
    ended = {"done_reason": "stop", "total_duration": 5_000_000, "load_duration": 1_000_000, **counts}
    return {**line, **ended} if done else line


def _ndjson(lines: Iterable[dict[str, Any]]) -> tuple[bytes, ...]:
    return tuple(dumped(line).encode() + b"\n" for line in lines)


def _message(reply: ModelReply, text: str) -> dict[str, Any]:
    """A message of Ollama's, with the tool calls where there are any. They bear no id."""
    calls = [{"function": {"name": use.name, "arguments": use.arguments}} for use in reply.uses]
    return {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}


def chat(reply: ModelReply) -> dict[str, Any]:
    """A chat reply in one piece."""
    return _line(reply, message=_message(reply, reply.text))


def stream_chat(reply: ModelReply, _body: dict[str, Any]) -> tuple[bytes, ...]:
    """A chat reply in lines: a piece of text each, then the tool calls, then the counts."""
    messages = [{"role": "assistant", "content": piece} for piece in reply.pieces(reply.text)]
    messages += [_message(reply, "")] if reply.uses else []
    lines = [_line(reply, message=message, done=False) for message in messages]
    return _ndjson([*lines, _line(reply, message={"role": "assistant", "content": ""})])


def generate(reply: ModelReply) -> dict[str, Any]:
    """The completion of a prompt in one piece."""
    return _line(reply, response=reply.text)


def stream_generate(reply: ModelReply, _body: dict[str, Any]) -> tuple[bytes, ...]:
    """The completion of a prompt in lines."""
    lines = [_line(reply, response=piece, done=False) for piece in reply.pieces(reply.text)]
    return _ndjson([*lines, _line(reply, response="")])


def cohere_chat(reply: ModelReply) -> dict[str, Any]:
    """Cohere's reply in one piece; what is said beside tool calls is their plan."""
    message: dict[str, Any] = {"role": "assistant", "content": [{"type": "text", "text": reply.text}]}
    if reply.uses:
        message = {"role": "assistant", "tool_plan": reply.text, "tool_calls": [call_of(use) for use in reply.uses]}
    counts = {name: reply.tokens(name) for name in ("input_tokens", "output_tokens")}
    usage = {"billed_units": counts, "tokens": counts}
    finish = "TOOL_CALL" if reply.uses else "COMPLETE"
    return {"id": reply.id, "message": message, "finish_reason": finish, "usage": usage}


def stream_cohere_chat(reply: ModelReply, _body: dict[str, Any]) -> tuple[bytes, ...]:
    """Cohere's reply as its events."""
    return server_sent((name, {"type": name, **data}) for name, data in _cohere_events(reply))


def _cohere_events(reply: ModelReply) -> Iterator[tuple[str, dict[str, Any]]]:
    body = cohere_chat(reply)
    empty = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
    yield "message-start", {"id": reply.id, "delta": {"message": empty}}
    if reply.uses:
        for piece in reply.pieces(reply.text):
            yield "tool-plan-delta", {"delta": {"message": {"tool_plan": piece}}}
    else:
        yield "content-start", _part(0, content={"type": "text", "text": ""})
        for piece in reply.pieces(reply.text):
            yield "content-delta", _part(0, content={"text": piece})
        yield "content-end", {"index": 0}
    for index, call in enumerate(body["message"].get("tool_calls", ())):
        function = call["function"]
        yield "tool-call-start", _part(index, tool_calls={**call, "function": {**function, "arguments": ""}})
        for piece in reply.pieces(function["arguments"]):
            yield "tool-call-delta", _part(index, tool_calls={"function": {"arguments": piece}})
        yield "tool-call-end", {"index": index}
    yield "message-end", {"delta": {"finish_reason": body["finish_reason"], "usage": body["usage"]}}


def _part(index: int, **message: Any) -> dict[str, Any]:
    """A change of the message's part number `index`."""
    return {"index": index, "delta": {"message": message}}
