"""Reading the bytes of model providers: which fields are messages, tools, parameters, usage; how a stream reads.

`READER` picks the dialect by the end of the URL's path and the shape of the body, so proxies, gateways, Azure and
loopback servers are read without a setting. `RULES` is the shipped table of what is not compared.

Packages add a provider with a `Dialect` and an entry point (docs/extending/add-a-provider.md).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING

from pytest_agentreplay.compare.matching.address import MatchContent, content, decode_body, header, split
from pytest_agentreplay.model.canonical_json import NOT_JSON, NotJson, parse
from pytest_agentreplay.model.exchanges import Failure, FrameCall, FramesReply, HttpCall, HttpReply, ToolCall
from pytest_agentreplay.model.reading import CallReading, ReplyReading, ToolUse
from pytest_agentreplay.providers.dialect import Dialect, Unread, error_of, read_unknown_call, text_of
from pytest_agentreplay.providers.hosts import provider, region
from pytest_agentreplay.providers.lenient import obj
from pytest_agentreplay.providers.rules import RULES as RULES
from pytest_agentreplay.providers.rules import is_declared as is_declared
from pytest_agentreplay.providers.streams import ServerSentEvent, list_events, split_events

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.compare.matching.address import Url
    from pytest_agentreplay.model.exchanges import Call, Json, Outcome
    from pytest_agentreplay.model.reading import Chunk

# The modules with dialects, in the order in which these are tried, and words of which every path of theirs has one. A
# test speaks one or two of the dialects, and each module costs some 0.3 ms: the others are not imported.
FAMILIES = (
    ("openai_chat", ("/completions",)),
    ("openai_responses", ("/responses",)),
    ("anthropic", ("/v1/messages", "/invoke", "awPredict")),
    ("gemini", ("Content",)),
    ("bedrock", ("/converse",)),
    ("ollama", ("/api/chat", "/api/generate")),
    ("cohere", ("/v2/chat",)),
    ("vectors", ("embed", "Embed", "predict", "rerank")),
)


def _load_dialects(module: str) -> tuple[Dialect, ...]:
    dialects: tuple[Dialect, ...] = import_module(f"{__name__}.{module}").DIALECTS
    return dialects


def list_ours() -> Iterator[Dialect]:
    """Yield every dialect of this package in the order in which they are tried."""
    for module, _ in FAMILIES:
        yield from _load_dialects(module)


def find_dialect(name: str) -> Dialect | None:
    """Return the dialect of this name, ours or of another package; None if there is none."""
    return next((dialect for dialect in chain(list_ours(), _load_others()) if dialect.name == name), None)


def _load_others() -> Iterator[Dialect]:
    from pytest_agentreplay.providers import others

    yield from others.load_dialects(list_ours)


class Dialects:
    """The reader of all dialects: a `model.reading.Reader`.

    Whatever a call or reply holds, reading gives an answer; only what `Body.data` raises (a damaged file) comes out.
    """

    def read_call(self, call: Call) -> CallReading:
        """Return the call as its dialect reads it; kind "http" and dialect "generic" for what none knows."""
        if isinstance(call, ToolCall):
            if call.boundary == "tool":
                return CallReading(kind="tool", name=call.name, operation="execute_tool", parameters=call.arguments)
            from pytest_agentreplay.providers import in_process

            return in_process.read_call(call) if call.boundary == "model" else in_process.read_retrieval(call)
        url = split(call.url)
        if isinstance(call, FrameCall):
            from pytest_agentreplay.providers import frames

            reading = frames.read_call(call, url)
            return replace(reading, provider=provider(url.host) or reading.provider)
        request = content(call.headers, call.body)
        dialect = choose_dialect(call, url, request)
        if dialect is None:
            from pytest_agentreplay.providers import json_rpc

            message = json_rpc.read_message(request.tree) if request.kind == "json" else None
            return message or read_unknown_call(call, url, request)
        reading = dialect.read_call(obj(request.tree), url)
        return replace(
            reading,
            dialect=dialect.name,
            provider=provider(url.host) or reading.provider or dialect.provider,
            region=region(url),
        )

    def read_reply(self, call: Call, outcome: Outcome | None) -> ReplyReading:
        """Return the reply to `call`; of one that broke off, as much as came, and in `error` how it broke."""
        if isinstance(call, ToolCall):
            if call.boundary != "model":
                return ReplyReading()
            from pytest_agentreplay.providers import in_process

            return in_process.read_reply(outcome)
        if isinstance(outcome, Failure):
            return ReplyReading(error=f"{outcome.type}: {outcome.message}".rstrip(": "))
        url = split(call.url)
        if isinstance(outcome, FramesReply):
            from pytest_agentreplay.providers import frames

            return frames.read_reply(call, url, outcome)
        if not isinstance(outcome, HttpReply) or isinstance(call, FrameCall):
            return ReplyReading()
        data, _ = decode_body(outcome.body.data, header(outcome.headers, "content-encoding"))
        request = content(call.headers, call.body)
        dialect = choose_dialect(call, url, request)
        events = split_events(header(outcome.headers, "content-type"), data)
        tree = None if events is not None else parse(data)
        if dialect is not None:
            with suppress(Unread):
                events = list_events(tree) if isinstance(tree, list) else events
                body = dialect.join(events) if events is not None else obj(tree)
                return replace(dialect.read_reply(body), error=error_of(outcome, body, data))
        if (answer := _read_mcp_reply(request, outcome, data, events, tree)) is not None:
            return answer
        return ReplyReading(text=text_of(outcome, data), error=error_of(outcome, obj(tree), data))

    def read_chunks(self, outcome: Outcome | None) -> tuple[Chunk, ...]:
        """Return the chunks that a retrieval returned."""
        from pytest_agentreplay.providers import in_process

        return in_process.read_chunks(outcome)

    def tool_uses(self, reading: CallReading) -> tuple[ToolUse, ...]:
        """Return the tool calls in the history that a call resends, in order."""
        from pytest_agentreplay.providers.messages import find_tool_uses

        return tuple(use for message in reading.messages for use in find_tool_uses(message))

    def tool_results(self, reading: CallReading) -> dict[str, Json]:
        """Return the tool results in the history that a call resends, as sent, by the id of the tool call."""
        from pytest_agentreplay.providers.messages import find_tool_results

        results: dict[str, Json] = {}
        for message in reading.messages:
            results |= find_tool_results(message)
        return results


def choose_dialect(call: HttpCall, url: Url, request: MatchContent) -> Dialect | None:
    """Return the dialect of a call, ours before those of other packages; None if no dialect knows the call."""
    tree = request.tree
    if call.method != "POST" or not isinstance(tree, dict) or request.kind != "json":
        return None
    path = url.path.rstrip("/")
    if (ours := next((dialect for dialect in list_dialects(path) if dialect.fits(tree)), None)) is not None:
        return ours
    for dialect in _load_others():
        # One that fails to read the call does not know it.
        with suppress(Unread):
            if dialect.matches_path(path) and dialect.fits(tree):
                dialect.read_call(tree, url)
                return dialect
    return None


@lru_cache(maxsize=512)
def list_dialects(path: str) -> tuple[Dialect, ...]:
    """Return our dialects whose paths end like `path`."""
    return tuple(
        dialect
        for module, words in FAMILIES
        if any(word in path for word in words)
        for dialect in _load_dialects(module)
        if dialect.matches_path(path)
    )


def _read_mcp_reply(
    request: MatchContent, reply: HttpReply, data: bytes, events: list[ServerSentEvent] | None, tree: Json | NotJson
) -> ReplyReading | None:
    """Return the answer to a message of MCP, among all that came with it; None if it is none."""
    from pytest_agentreplay.providers import json_rpc

    if request.kind != "json" or json_rpc.read_message(request.tree) is None or isinstance(tree, NotJson):
        return None
    answer = json_rpc.answer([tree] if events is None else [event.value for event in events], request.tree)
    reading = json_rpc.read_answer(answer)
    return replace(reading, error=reading.error or error_of(reply, answer if reply.status >= 400 else {}, data))


READER = Dialects()
"""The reader of every part of the product."""


def asks_model(call: Call) -> bool:
    """Return whether `READER` reads a call as one of a model.

    Each replay asks it of each of its calls, so the body is parsed without what only a comparison needs, which takes
    four times as long.
    """
    if not isinstance(call, HttpCall):
        return READER.read_call(call).kind == "model"
    is_plain = "json" in header(call.headers, "content-type") and not header(call.headers, "content-encoding")
    tree = parse(call.body.data) if is_plain else NOT_JSON
    request = content(call.headers, call.body) if isinstance(tree, NotJson) else MatchContent("json", tree, b"")
    url = split(call.url)
    dialect = choose_dialect(call, url, request)
    return dialect is not None and dialect.read_call(obj(request.tree), url).kind == "model"
