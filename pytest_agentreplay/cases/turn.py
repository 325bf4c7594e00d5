"""A turn and a tool call as tests see them: plain values, one-line reprs.

What happened inside a tool call (its own requests, a sub-agent) is part of that call and no turn of its own, because a
frozen tool is answered whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_agentreplay.model.exchanges import Failure, FramesReply, HttpReply, Run, ToolCall, ToolReply
from pytest_agentreplay.model.turns import tool_of, turns
from pytest_agentreplay.providers import json_rpc
from pytest_agentreplay.providers.lenient import parse_text
from pytest_agentreplay.values.deserializer import to_plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_agentreplay.model.exchanges import Exchange, Json, JsonObject
    from pytest_agentreplay.model.reading import CallReading, Chunk, Reader, ReplyReading, ToolUse
    from pytest_agentreplay.model.turns import Turn

MOST = 60
"""Characters of a value in a repr."""


@dataclass(frozen=True, slots=True, repr=False)
class ToolCallView:
    """A tool call that was made: shown name, arguments by parameter name, and what came of it.

    `arguments` and `result` are plain values (a dataclass is a dict of its fields). A generator's result is the list
    of its items. `failed` says that `result` is the text of an exception, "KeyError: 7". `turn` is the turn's number.
    """

    name: str
    arguments: dict[str, object] = field(default_factory=dict)
    result: object = None
    failed: bool = False
    turn: int = 0
    lane: str = "main"

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={short(value)}" for name, value in self.arguments.items())
        outcome = f" raised {short(self.result)[1:-1]}" if self.failed else f" -> {short(self.result)}"
        return f"{self.name}({clip(arguments)}){outcome}"


@dataclass(frozen=True, slots=True, repr=False)
class RetrievalView:
    """A retrieval that was made: shown name, arguments, the text looked for, and the chunks that came, best first.

    Each chunk has `id`, `score` and `content`, as far as what came shows them; `result` is all that came, as plain
    values. `embedding_model` is what the test or the settings said. `failed` says that `result` is the text of an
    exception.
    """

    name: str
    query: str = ""
    chunks: tuple[Chunk, ...] = ()
    arguments: dict[str, object] = field(default_factory=dict)
    embedding_model: str = ""
    result: object = None
    failed: bool = False
    turn: int = 0
    lane: str = "main"

    def __repr__(self) -> str:
        chunks = ", ".join(chunk.name for chunk in self.chunks) or short(self.result)
        return f"{self.name}({short(self.query)}) -> {clip(chunks)}"


@dataclass(frozen=True, slots=True, repr=False)
class TurnView:
    """One model call and the tool calls that it set off.

    `number` counts from 1 in each lane, and there for each `agent` that somebody named; turn 0 holds the tools that ran
    before any model call, and has no model.
    `text` is the reply's text, `tool_uses` what the model asked for, `tool_calls` what ran, `retrievals` what was
    looked up, `usage` the tokens as the provider counts them. `request` and `reply` are all that was read of both.
    """

    number: int
    lane: str = "main"
    model: str = ""
    text: str = ""
    tool_uses: tuple[ToolUse, ...] = ()
    tool_calls: tuple[ToolCallView, ...] = ()
    retrievals: tuple[RetrievalView, ...] = ()
    finish_reasons: tuple[str, ...] = ()
    usage: dict[str, int] = field(default_factory=dict)
    exchange: Exchange | None = None
    request: CallReading | None = None
    reply: ReplyReading | None = None
    agent: str = ""

    def __repr__(self) -> str:
        called = ", ".join(use.name for use in self.tool_uses) or ", ".join(call.name for call in self.tool_calls)
        text = f" {short(self.text)}" if self.text else ""
        lane = "" if self.lane == "main" else f" [{self.lane}]"
        model = f" {self.model}" if self.model else ""
        agent = f"{self.agent} " if self.agent else ""
        return f"<{agent}turn {self.number}{lane}{model}{text}{f' -> {called}' if called else ''}>"


def read_turns(run: Run, reader: Reader) -> tuple[TurnView, ...]:
    """Return the turns of a run in the order in which they began."""
    answers = json_rpc.answers(run.exchanges)
    return tuple(view(turn, reader, answers) for turn in turns(run, reader))


def view(turn: Turn, reader: Reader, answers: Mapping[int, JsonObject]) -> TurnView:
    """One turn from its exchanges; `answers` are what came for calls over a lasting connection, by their start."""
    number, lane, model = turn.number, turn.lane, turn.model
    mine = [x for x in turn.exchanges if x.parent is None]
    called = tuple(
        tool_call(tool, x, number, answers.get(x.start) or read_http_answer(x, reader))
        for x in mine
        if (tool := tool_of(x.call, reader)) is not None
    )
    retrieved = [(x.call, x) for x in mine if isinstance(x.call, ToolCall) and x.call.boundary == "retrieval"]
    retrievals = tuple(retrieval(call, x, number, reader) for call, x in retrieved)
    if model is None:
        return TurnView(number, lane, tool_calls=called, retrievals=retrievals, agent=turn.agent)
    request, reply = reader.read_call(model.call), reader.read_reply(model.call, model.outcome)
    return TurnView(
        number,
        lane,
        model=request.model or request.name,
        text=reply.text,
        tool_uses=reply.tool_uses,
        tool_calls=called,
        retrievals=retrievals,
        finish_reasons=reply.finish_reasons,
        usage=reply.usage,
        exchange=model,
        request=request,
        reply=reply,
        agent=turn.agent,
    )


def tool_call(call: ToolCall, x: Exchange, turn: int, answer: JsonObject | None = None) -> ToolCallView:
    """One tool call from its exchange; `answer` is what came for one that went over a lasting connection."""
    frozen = isinstance(x.call, ToolCall)
    arguments = {name: to_plain(value) if frozen else value for name, value in call.arguments.items()}
    result: object = None
    failure: Failure | None = None
    match x.outcome:
        case ToolReply(value, None, failure):
            result = to_plain(value)
        case ToolReply(_, items, failure):
            result = [to_plain(item) for item in items or ()]
        case Failure():
            failure = x.outcome
        case FramesReply() | HttpReply():
            result, failure = read_answer(answer)
        case None:
            pass
    if failure is not None:
        result = f"{failure.type.rpartition('.')[2]}: {failure.message}".removesuffix(": ")
    failed = failure is not None or (isinstance(result, dict) and result.get("isError") is True)
    return ToolCallView(call.name, arguments, result, failed=failed, turn=turn, lane=x.lane)


def read_http_answer(x: Exchange, reader: Reader) -> JsonObject | None:
    """Return what came for a tool call that was an HTTP request, in the form of an answer."""
    if isinstance(x.call, ToolCall) or not isinstance(x.outcome, HttpReply):
        return None
    reply = reader.read_reply(x.call, x.outcome)
    return {"error": {"message": reply.error}} if reply.error else {"result": reply.result}


def read_answer(answer: JsonObject | None) -> tuple[object, Failure | None]:
    """Return the result of a tool of MCP, or what came instead of one."""
    if answer is None:
        return None, Failure("ConnectionError", "the connection ended before the tool answered")
    if isinstance(error := answer.get("error"), dict):
        return None, Failure("McpError", str(error.get("message", "")))
    return answer.get("result"), None


def retrieval(call: ToolCall, x: Exchange, turn: int, reader: Reader) -> RetrievalView:
    """One retrieval from its exchange."""
    reading, as_tool = reader.read_call(call), tool_call(call, x, turn)
    return RetrievalView(
        call.name,
        query=" ".join(message for message in reading.messages if isinstance(message, str)),
        chunks=reader.read_chunks(x.outcome),
        arguments=as_tool.arguments,
        embedding_model=reading.model,
        result=as_tool.result,
        failed=as_tool.failed,
        turn=turn,
        lane=x.lane,
    )


def parsed_arguments(value: Json) -> dict[str, object]:
    """Return a model's tool arguments as values; text that is no JSON object stands under ""."""
    tree = parse_text(value)
    return dict(tree) if isinstance(tree, dict) else {"": tree}


def short(value: object) -> str:
    """Return a value's repr on one line, cut to MOST characters."""
    return clip(" ".join(repr(value).split()))


def clip(text: str) -> str:
    """At most MOST characters of a text, its end kept when something had to go."""
    return text if len(text) <= MOST else f"{text[: MOST - 8]}...{text[-5:]}"
