"""The Model Context Protocol: what its JSON-RPC messages ask and answer, whatever carries them.

A message is a parsed value here, so that HTTP bodies, events, frames and lines are read alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.model.canonical_json import NotJson, canonical, parse
from pytest_agentreplay.model.exchanges import (
    Body,
    Failure,
    Frame,
    FrameCall,
    FramesReply,
    HttpReply,
    ToolCall,
    ToolReply,
)
from pytest_agentreplay.model.reading import CallReading, ReplyReading
from pytest_agentreplay.providers.lenient import obj, objects, string

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.model.exchanges import Call, Json, JsonObject, Outcome

_METHODS = frozenset({"initialize", "ping", "logging", "completion", "tools", "resources", "prompts", "roots"})
_METHODS_OF_SERVERS = frozenset({"sampling", "elicitation", "notifications", "tasks", "server"})

# What a JSON-RPC client makes up: the number of its request, and the token under which it wants to hear of progress.
_REQUEST_IDS = ("$.id", "$.params._meta.progressToken", "$.params.requestId")
_BATCH_IDS = ("$[*].id", "$[*].params._meta.progressToken", "$[*].params.requestId")


def methods(tree: Json) -> tuple[str, ...]:
    """The methods of a JSON-RPC request, notification or batch of them; () for a client's answer and anything else."""
    asked = objects(tree) if isinstance(tree, list) else [obj(tree)]
    if not asked or not all(one.get("jsonrpc") == "2.0" and "method" in one for one in asked):
        return ()
    return tuple(string(one["method"]) for one in asked)


def client_ids(tree: Json) -> tuple[str, ...]:
    """The paths of the ids that the client of a JSON-RPC message made."""
    if not methods(tree):
        return ()
    return _BATCH_IDS if isinstance(tree, list) else _REQUEST_IDS


def read_message(tree: Json) -> CallReading | None:
    """A message of MCP, or a batch of them: a tool call as "tool", everything else as "mcp"; None for what is neither.

    Read are requests and notifications of either side; of an answer the request tells what it is.
    """
    called = methods(tree)
    if not called or not all(name.partition("/")[0] in _METHODS | _METHODS_OF_SERVERS for name in called):
        return None
    asked = objects(tree) if isinstance(tree, list) else [obj(tree)]
    params = obj(asked[0].get("params"))
    if called == ("tools/call",):
        return CallReading(
            kind="tool",
            name=string(params.get("name")),
            dialect="mcp",
            operation="execute_tool",
            parameters=obj(params.get("arguments")),
            client_ids=client_ids(tree),
        )
    name = ", ".join(called)
    batch: JsonObject = {"batch": [*asked]}
    return CallReading(
        kind="mcp",
        name=name,
        dialect="mcp",
        operation=name,
        parameters=params if len(asked) == 1 else batch,
        client_ids=client_ids(tree),
    )


def answer(messages: Iterable[Json], asked: Json = None) -> JsonObject:
    """The answer among the messages that came: that to the id of `asked`, else the last one; {} when none came.

    Notifications and the server's own requests may stand beside it, each answer of a batch too.
    """
    flat = [obj(one) for many in messages for one in (many if isinstance(many, list) else [many])]
    answers = [one for one in flat if "method" not in one and ("result" in one or "error" in one)]
    mine = [one for one in answers if one.get("id") == obj(asked).get("id")]
    return (mine or answers or [{}])[-1]


def read_answer(message: Json) -> ReplyReading:
    """The answer to a request: a tool's texts and its result, or what went wrong.

    `result` is what the tool gave as a value, else its content; `error` is said for a tool's own errors too.
    """
    found = obj(message)
    if isinstance(found.get("error"), dict):
        error = obj(found["error"])
        return ReplyReading(error=f"{error.get('code', '')}: {string(error.get('message'))}".strip(": "))
    result = found.get("result")
    body = obj(result)
    blocks = objects(body.get("content"))
    text = "\n".join(filter(None, (string(block.get("text")) for block in blocks)))
    if not blocks and "content" not in body and "isError" not in body and result not in (None, {}):
        text = canonical(result)
    given = body.get("structuredContent", body.get("content", result))
    failed = body.get("isError") is True
    return ReplyReading(text=text, result=given, error=(text or "the tool failed") if failed else "")


def spelled(call: Call, outcome: Outcome, like: Outcome | None = None) -> Outcome | None:
    """What a tool gave as the answer to `call`, which asks for it over MCP; None for what cannot be told so.

    `like` is an answer of the same tool: where it wraps its value under "result", as SDKs do with what is no object,
    this one does too.
    """
    if isinstance(call, ToolCall) or not isinstance(outcome, ToolReply | Failure):
        return None
    asked = parse(call.body.data)
    if isinstance(asked, NotJson) or methods(asked) != ("tools/call",):
        return None
    given: Json = outcome.message if isinstance(outcome, Failure) else outcome.value
    wrapped = isinstance(outcome, ToolReply) and _structured(like).keys() == {"result"}
    if wrapped and isinstance(given, dict) and given.keys() == {"result"}:
        given = given["result"]
    text: Json = given if isinstance(given, str) else canonical(given)
    result: JsonObject = {"content": [{"type": "text", "text": text}], "isError": isinstance(outcome, Failure)}
    if wrapped or isinstance(given, dict):
        result["structuredContent"] = {"result": given} if wrapped else given
    message: JsonObject = {"jsonrpc": "2.0", "id": obj(asked).get("id"), "result": result}
    data = canonical(message).encode("utf-8", "surrogatepass")
    if isinstance(call, FrameCall):
        return FramesReply.of([Frame(data)])
    headers = (("content-type", "application/json"), ("content-length", str(len(data))))
    return HttpReply(200, "OK", headers=headers, body=Body(data), cuts=(len(data),))


def _structured(outcome: Outcome | None) -> JsonObject:
    """The structured content of an answer, {} where it has none."""
    frames = [frame.data for frame in outcome.frames()] if isinstance(outcome, FramesReply) else []
    found = [outcome.body.data] if isinstance(outcome, HttpReply) else frames
    trees = [tree for data in found if not isinstance(tree := parse(data), NotJson)]
    return obj(obj(answer(trees).get("result")).get("structuredContent"))
