"""JSON-RPC 2.0 as the Model Context Protocol speaks it, whatever carries it: bodies, events, frames, lines.

What a message asks and answers, which message answers which over a lasting connection, and under which of today's ids.
"""

from __future__ import annotations

from dataclasses import replace
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
    from collections.abc import Hashable, Iterable, Mapping

    from pytest_agentreplay.model.exchanges import Call, Exchange, Json, JsonObject, Outcome

# https://modelcontextprotocol.io/specification: what stands before the slash of a method, of clients and of servers.
_METHODS = frozenset({"initialize", "ping", "logging", "completion", "tools", "resources", "prompts", "roots"})
_METHODS_OF_SERVERS = frozenset({"sampling", "elicitation", "notifications", "tasks", "server"})

# What a JSON-RPC client makes up: the number of its request, and the token under which it wants to hear of progress.
_REQUEST_IDS = ("$.id", "$.params._meta.progressToken", "$.params.requestId")
_BATCH_IDS = ("$[*].id", "$[*].params._meta.progressToken", "$[*].params.requestId")


def methods(tree: Json) -> tuple[str, ...]:
    """The methods of a JSON-RPC request, notification or batch of them; () for a client's answer and anything else."""
    messages = objects(tree) if isinstance(tree, list) else [obj(tree)]
    if not messages or not all(message.get("jsonrpc") == "2.0" and "method" in message for message in messages):
        return ()
    return tuple(string(message["method"]) for message in messages)


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
    messages = objects(tree) if isinstance(tree, list) else [obj(tree)]
    params, name = obj(messages[0].get("params")), ", ".join(called)
    batch: JsonObject = {"batch": [*messages]}
    parameters = params if len(messages) == 1 else batch
    reading = CallReading("mcp", name, "mcp", operation=name, parameters=parameters, client_ids=client_ids(tree))
    if called != ("tools/call",):
        return reading
    tool, arguments = string(params.get("name")), obj(params.get("arguments"))
    return replace(reading, kind="tool", name=tool, operation="execute_tool", parameters=arguments)


def answer(messages: Iterable[Json], request: Json = None) -> JsonObject:
    """The answer among the messages that came: that to the id of `asked`, else the last one; {} when none came.

    Notifications and the server's own requests may stand beside it, each answer of a batch too.
    """
    flat = [obj(item) for many in messages for item in (many if isinstance(many, list) else [many])]
    answers = [item for item in flat if "method" not in item and ("result" in item or "error" in item)]
    mine = [item for item in answers if item.get("id") == obj(request).get("id")]
    return (mine or answers or [{}])[-1]


def read_answer(message: Json) -> ReplyReading:
    """The answer to a request: a tool's texts and its result, or what went wrong.

    `result` is what the tool gave as a value, else its content; `error` is said for a tool's own errors too.
    """
    fields = obj(message)
    if isinstance(fields.get("error"), dict):
        error = obj(fields["error"])
        return ReplyReading(error=f"{error.get('code', '')}: {string(error.get('message'))}".strip(": "))
    result = fields.get("result")
    body = obj(result)
    blocks = objects(body.get("content"))
    text = "\n".join(filter(None, (string(block.get("text")) for block in blocks)))
    if not blocks and "content" not in body and "isError" not in body and result not in (None, {}):
        text = canonical(result)
    # https://modelcontextprotocol.io/specification/2025-06-18/server/tools#structured-content
    value = body.get("structuredContent", body.get("content", result))
    failed = body.get("isError") is True
    return ReplyReading(text=text, result=value, error=(text or "the tool failed") if failed else "")


def write_answer(call: Call, outcome: Outcome, like: Outcome | None = None) -> Outcome | None:
    """What a tool gave as the answer to `call`, which asks for it over MCP; None for what cannot be told so.

    `like` is an answer of the same tool: where it wraps its value under "result", as SDKs do with what is no object,
    this one does too.
    """
    if isinstance(call, ToolCall) or not isinstance(outcome, ToolReply | Failure):
        return None
    request = parse(call.body.data)
    if isinstance(request, NotJson) or methods(request) != ("tools/call",):
        return None
    value: Json = outcome.message if isinstance(outcome, Failure) else outcome.value
    wrapped = isinstance(outcome, ToolReply) and _read_structured(like).keys() == {"result"}
    if wrapped and isinstance(value, dict) and value.keys() == {"result"}:
        value = value["result"]
    text: Json = value if isinstance(value, str) else canonical(value)
    result: JsonObject = {"content": [{"type": "text", "text": text}], "isError": isinstance(outcome, Failure)}
    if wrapped or isinstance(value, dict):
        result["structuredContent"] = {"result": value} if wrapped else value
    message: JsonObject = {"jsonrpc": "2.0", "id": obj(request).get("id"), "result": result}
    data = canonical(message).encode("utf-8", "surrogatepass")
    if isinstance(call, FrameCall):
        return FramesReply.from_frames([Frame(data)])
    headers = (("content-type", "application/json"), ("content-length", str(len(data))))
    return HttpReply(200, "OK", headers=headers, body=Body(data), cuts=(len(data),))


def _read_structured(outcome: Outcome | None) -> JsonObject:
    """Return the structured content of an answer, {} where it has none."""
    frames = [frame.data for frame in outcome.frames()] if isinstance(outcome, FramesReply) else []
    bodies = [outcome.body.data] if isinstance(outcome, HttpReply) else frames
    trees = [tree for data in bodies if not isinstance(tree := parse(data), NotJson)]
    return obj(obj(answer(trees).get("result")).get("structuredContent"))


SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


def message(data: bytes) -> JsonObject:
    """The message that `data` is; empty when it is none."""
    return obj(parse(data))


def is_request(fields: JsonObject) -> bool:
    """Whether whoever says it wants an answer."""
    return "method" in fields and "id" in fields


def subject(data: bytes, *, by_agent: bool) -> Hashable | None:
    """What a message is about: who asked, and under which id. A question and its answer have the same subject.

    Progress is about the question whose token it bears. None for what is about nothing else, such as a log line.
    """
    fields = message(data)
    if is_request(fields):
        return ("agent" if by_agent else "server"), make_key(fields["id"])
    if "id" in fields:
        return ("server" if by_agent else "agent"), make_key(fields["id"])
    if not by_agent and (token := _token(fields)) is not None:
        return "agent", token
    return None


def answers(exchanges: Iterable[Exchange]) -> dict[int, JsonObject]:
    """What answered each question that an agent asked over a connection of MCP, by the start of its exchange.

    An answer may have come after the agent had said other things, so it stands in the outcome of one of those.
    """
    # Ids are unique within a connection alone.
    starts: dict[tuple[int, Hashable], int] = {}
    by_start: dict[int, JsonObject] = {}
    for x in exchanges:
        if not isinstance(x.call, FrameCall) or x.call.boundary != "mcp":
            continue
        connection = x.call.connection or x.start
        if (about := subject(x.call.body.data, by_agent=True)) is not None:
            starts[connection, about] = x.start
        for frame in x.outcome.frames() if isinstance(x.outcome, FramesReply) else ():
            fields = message(frame.data)
            if "method" not in fields and (about := subject(frame.data, by_agent=False)) is not None:
                start = starts.get((connection, about))
                if start is not None:
                    by_start.setdefault(start, fields)
    return by_start


def made_ids(data: bytes) -> dict[str, Json]:
    """The ids that the client made up for a question, by what they are: its number, its token of progress."""
    fields = message(data)
    if not is_request(fields):
        return {}
    meta = obj(obj(fields.get("params")).get("_meta"))
    ids = {"id": fields.get("id"), "token": meta.get("progressToken")}
    return {name: value for name, value in ids.items() if value is not None}


def rename_ids(fields: JsonObject, names: Mapping[Hashable, Json]) -> JsonObject:
    """Return what the server sent, under the ids that the client has made up today; `names` has them by recorded id."""
    if "method" not in fields and "id" in fields:
        return {**fields, "id": names.get(make_key(fields["id"]), fields["id"])}
    params = obj(fields.get("params"))
    meta = obj(params.get("_meta"))
    if (token := _token(fields)) in names:
        return {**fields, "params": {**params, "progressToken": names[token]}}
    if (subscription := make_key(meta.get(SUBSCRIPTION))) in names:
        return {**fields, "params": {**params, "_meta": {**meta, SUBSCRIPTION: names[subscription]}}}
    return fields


def _token(fields: JsonObject) -> Hashable | None:
    return make_key(obj(fields.get("params")).get("progressToken")) if "method" in fields else None


def make_key(value: Json) -> Hashable | None:
    """Return an id as a key; numbers and texts stay apart."""
    return (type(value).__name__, value) if isinstance(value, str | int) else None
