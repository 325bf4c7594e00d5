"""What the model server says: replies as values, the scripts that choose them, and the words of each API.

Functions of the request; ids and times are new in each reply. The shapes are those that the official SDKs parse, as
`providers.encode` writes them.
"""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_agentreplay.model.reading import ToolUse
from pytest_agentreplay.providers import anthropic, genai, openai_chat_writing, openai_responses
from pytest_agentreplay.providers.lenient import obj, objects, string
from pytest_agentreplay.providers.model_reply import ModelReply, end_of, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


@dataclass(frozen=True, slots=True)
class Ask:
    """A tool call that the model makes: the tool's name and its arguments."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Say:
    """A whole reply of the model: some text, some tool calls, or both."""

    text: str = ""
    asks: tuple[Ask, ...] = ()


@dataclass(frozen=True, slots=True)
class Raw:
    """A reply said in bytes.

    `headers` go out as they are, in order and case; unless they name a length or an encoding of the transfer, the
    `chunks` are sent as HTTP chunks. `delay` is in seconds, before each chunk and before a reset. After `break_after`
    chunks the connection is cut: abruptly (`reset`) or as if the server had simply gone. `hang` says nothing more,
    and keeps the connection until the client leaves or the server stops. Status 0 sends no head, so a break or hang
    comes before any answer. `head` stands for status line, headers and blank line, for what is not HTTP at all.
    """

    status: int = 200
    headers: Sequence[tuple[str, str]] = ()
    chunks: Sequence[bytes] = ()
    reason: str = "OK"
    delay: float = 0.0
    break_after: int | None = None
    reset: bool = False
    hang: bool = False
    head: bytes | None = None


Reply: TypeAlias = "str | Ask | Say | Raw | Sequence[Ask]"
Script: TypeAlias = "Callable[[Any, int], Reply] | Iterable[Reply]"


def fresh(prefix: str) -> str:
    """Return an id that never comes twice; not drawn from `random`, which a run may have seeded."""
    return prefix + os.urandom(9).hex()


def in_order(replies: Iterable[Reply]) -> Callable[[Any, int], Reply]:
    """Return a script of replies by the request's number; past the last one it answers with status 500."""
    listed = list(replies)

    def reply(_body: Any, number: int) -> Reply:
        if number <= len(listed):
            return listed[number - 1]
        message = f"the script has {len(listed)} replies, and this is request {number}"
        return Raw(500, chunks=(json.dumps({"error": {"message": message}}).encode(),), reason="Internal Server Error")

    return reply


def default_script(body: Any, number: int) -> Reply:
    """Ask for a fitting tool when the last word is the user's and tools are offered; else say something new."""
    body = obj(body)
    role, text = last_word(body)
    offered = body.get("tools") or obj(body.get("toolConfig")).get("tools")
    tools = [tool for tool in genai.tools(objects(offered)) if tool["name"]]
    if tools and role == "user":
        return choose_tool(tools, text)
    return f"Answer {number} ({fresh('')}) to: {text}"


def last_word(body: dict[str, Any]) -> tuple[str, str]:
    """Who spoke last in a request of any API ("user", "tool", "assistant" ...), and what."""
    content: Any = next((body[name] for name in ("messages", "input", "contents", "prompt") if body.get(name)), "")
    last = content[-1] if isinstance(content, list) else content
    message = genai.message(last)
    texts = (text_of(part.get("content", part.get("response"))) for part in objects(message["parts"]))
    return string(message["role"]), " ".join(texts) or string(obj(last).get("content"))


def choose_tool(tools: Sequence[dict[str, Any]], text: str) -> Ask:
    """The first tool with a word of its name in `text`, else the first; its required arguments taken from `text`."""
    words = set(re.findall(r"[a-z]+", text.lower()))
    tool = next((t for t in tools if words & set(t["name"].lower().split("_"))), tools[0])
    schema: dict[str, Any] = obj(tool["parameters"])
    fields: dict[str, Any] = obj(schema.get("properties"))
    return Ask(tool["name"], {name: argument(fields.get(name, {}), text) for name in schema.get("required", fields)})


def argument(schema: dict[str, Any], text: str) -> Any:
    """Return a value for one argument: a number of `text`, a word with a digit in it, or its last word."""
    numbers = re.findall(r"\d+", text) or ["1"]
    if schema.get("enum"):
        return schema["enum"][0]
    match str(schema.get("type")).lower():
        case "integer" | "number":
            return int(numbers[0])
        case "boolean":
            return True
        case "array":
            return []
        case "object":
            return {}
        case _:
            words = re.findall(r"[\w-]+", text) or [""]
            return next((word for word in words if re.search(r"\d", word)), words[-1])


def count_tokens(value: Any) -> int:
    """Return a count that grows with what is said; no tokenizer."""
    return max(1, len(json.dumps(value)) // 4)


@dataclass(frozen=True, slots=True)
class Api:
    """One operation of an API: the end of its path, and the writers of its reply, whole and streamed.

    `messages` is the field of the body that the model reads; ids begin with `prefix`, those of tool calls with
    `call_prefix`; `type` is the content type of the stream.
    """

    path: str
    write_whole: Callable[[ModelReply], dict[str, Any]]
    write_stream: Callable[[ModelReply, dict[str, Any]], tuple[bytes, ...]]
    messages: str = "messages"
    prefix: str = ""
    call_prefix: str = "call_"
    type: str = "text/event-stream; charset=utf-8"

    def is_stream(self, body: dict[str, Any]) -> bool:
        """Return whether the reply to a request is a stream."""
        return bool(body.get("stream"))

    def write_reply(self, body: dict[str, Any], say: Say) -> dict[str, Any]:
        """Return the reply in one piece."""
        return self.write_whole(self.make_reply(body, say))

    def stream(self, body: dict[str, Any], say: Say) -> tuple[bytes, ...]:
        """Return the reply as a stream, an item for each event."""
        return self.write_stream(self.make_reply(body, say), body)

    def make_reply(self, body: dict[str, Any], say: Say) -> ModelReply:
        """Return what the model says, with fresh ids."""
        uses = tuple(ToolUse(self.call_prefix and fresh(self.call_prefix), a.name, a.arguments) for a in say.asks)
        read, written = count_tokens(body.get(self.messages)), count_tokens([say.text, len(say.asks)])
        model = body.get("model", "demo")
        return ModelReply(
            text=say.text,
            uses=uses,
            end=end_of("", uses),
            model=model,
            id=fresh(self.prefix),
            fingerprint="fp_demo",
            usage={"input_tokens": read, "output_tokens": written},
            created=int(time.time()),
            in_pieces="tral" not in model,  # Mistral's SDK takes no tool call in pieces
        )


APIS = [
    Api("/chat/completions", openai_chat_writing.write_reply, openai_chat_writing.write_stream, prefix="chatcmpl-"),
    Api("/responses", openai_responses.write_reply, openai_responses.write_stream, messages="input", prefix="resp_"),
    Api("/messages", anthropic.write_reply, anthropic.write_stream, prefix="msg_", call_prefix="toolu_"),
]
"""What the server speaks, by the end of the path, so that any base URL does. Tests add APIs of their own."""


def find_api(path: str, body: Any) -> tuple[Api, dict[str, Any]] | None:
    """Return the operation that `path` names, and the body with what the path says; None for any other path."""
    path = path.partition("?")[0]
    for api in APIS:
        if isinstance(body, dict) and (match := re.search(f"{api.path}$", path)):
            return api, {**match.groupdict(), **body}
    return None
