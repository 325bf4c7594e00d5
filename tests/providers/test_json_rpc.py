"""JSON-RPC and MCP, over HTTP and over a lasting connection: which message belongs to which, and which is a tool call."""

import json

import pytest

from pytest_agentreplay.compare.matching import ClientIds, Matching
from pytest_agentreplay.model.exchanges import Body, Exchange, Frame, FrameCall, FramesReply
from pytest_agentreplay.model.turns import label, tool_of
from pytest_agentreplay.providers import READER, RULES, json_rpc, stream_json
from tests.support.exchanges import JSON_TYPE, SSE_TYPE, call, reply, sse

MCP = "https://m.test/mcp"


def rpc(method, **params):
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}


def data(**message):
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


def sent(**message):
    return FrameCall("stdio:python orders.py", 1, body=Body(data(**message)), boundary="mcp")


# ---- over HTTP


def test_an_mcp_tool_call_is_a_tool_call_and_json_rpc_says_its_method_and_its_ids():
    asked = call(rpc("tools/call", name="look", arguments={"q": 1}, _meta={"progressToken": 3}), MCP)
    reading = READER.read_call(asked)
    assert (reading.kind, reading.name, reading.parameters, reading.dialect) == ("tool", "look", {"q": 1}, "mcp")
    assert label(asked, READER) == "tool look"
    assert "$.id" in reading.client_ids
    result = {"content": [{"type": "text", "text": "found"}], "structuredContent": {"n": 1}, "isError": False}
    plain = {"jsonrpc": "2.0", "id": 7, "result": result}
    streamed = reply(sse({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}}, plain), SSE_TYPE)
    found = [READER.read_reply(asked, one) for one in (reply(plain), streamed, reply([plain]))]
    for one in (*found, json_rpc.read_answer(plain)):
        assert (one.text, one.result, one.error) == ("found", {"n": 1}, "")

    def read(body):
        reading = READER.read_call(call(body, "https://m/mcp"))
        return reading.operation, [*reading.client_ids][:1]

    first, second = {"jsonrpc": "2.0", "id": 1, "method": "a"}, {"jsonrpc": "2.0", "method": "b"}
    assert read(first | {"method": "x/y"}) == ("x/y", ["$.id"])
    assert read([first, second]) == ("a, b", ["$[*].id"])
    assert read({"jsonrpc": "2.0", "id": 1, "result": 1})[1] == []


def test_an_mcp_tool_that_failed_and_a_call_that_failed():
    def error(*answered):
        return READER.read_reply(call(rpc("tools/call", name="look"), MCP), reply(*answered)).error

    told = {"content": [{"type": "text", "text": "no such order"}], "isError": True}
    assert error({"id": 7, "result": told}) == "no such order"
    assert json_rpc.read_answer({"result": {"isError": True}}).error == "the tool failed"
    assert error({"id": 7, "error": {"code": -32602, "message": "unknown tool"}}) == "-32602: unknown tool"
    assert error(b"<html>", (), 502) == "502 <html>"
    assert error({"detail": "x"}, JSON_TYPE, 401).startswith("401 ")


def test_other_messages_of_mcp_are_told_by_their_method():
    listing = call(rpc("tools/list"), MCP)
    assert (READER.read_call(listing).kind, label(listing, READER)) == ("mcp", "mcp tools/list")
    assert READER.read_reply(listing, reply({"id": 7, "result": {"tools": []}})).text == '{"tools":[]}'
    assert READER.read_call(call([rpc("tools/call", name="a"), rpc("ping")], MCP)).name == "tools/call, ping"
    assert READER.read_call(call(rpc("eth_call"), "https://chain.test/")).kind == "http"
    assert READER.read_call(call({"jsonrpc": "2.0", "id": 1, "result": {}}, MCP)).kind == "http"
    assert json_rpc.answer([{"method": "x"}, None, 5]) == {}
    first, second = {"id": 7, "result": 1}, {"id": 8, "result": 2}
    assert [json_rpc.answer([first, second], rpc("ping")), json_rpc.answer([[first], second])] == [first, second]


# ---- over a lasting connection


@pytest.mark.parametrize(
    ("said", "by_agent", "same"),
    [
        (data(id=3, result={}), False, True),
        (data(id=3, error={"code": 1, "message": "no"}), False, True),
        (data(method="notifications/progress", params={"progressToken": 3, "progress": 1}), False, True),
        (data(id="3", result={}), False, False),
        (data(id=4, result={}), False, False),
        (data(id=3, method="sampling/createMessage"), False, False),
        (data(id=3, result={}), True, False),
        (data(method="notifications/message", params={"data": "x"}), False, False),
    ],
)
def test_a_question_and_what_answers_it_have_one_subject(said, by_agent, same):
    asked = data(id=3, method="tools/call", params={"name": "t", "_meta": {"progressToken": 3}})
    question = json_rpc.subject(asked, by_agent=True)
    assert question is not None
    assert (json_rpc.subject(said, by_agent=by_agent) == question) is same


def test_answers_and_progress_come_under_the_ids_of_today():
    names = {json_rpc.make_key(3): 7}
    answer = json_rpc.rename_ids({"jsonrpc": "2.0", "id": 3, "result": {"id": 3}}, names)
    assert answer == {"jsonrpc": "2.0", "id": 7, "result": {"id": 3}}
    progress = json_rpc.rename_ids(
        {"method": "notifications/progress", "params": {"progressToken": 3, "total": 3}}, names
    )
    assert progress["params"] == {"progressToken": 7, "total": 3}
    asked_back = {"id": 3, "method": "roots/list"}
    assert json_rpc.rename_ids(asked_back, names) is asked_back


def test_an_answer_is_found_though_others_were_asked_meanwhile():
    frames = [Frame(data(id=number, result={"of": number})) for number in (2, 1)]
    opened = FrameCall("stdio:python orders.py", boundary="mcp")
    asked = [sent(id=number, method="tools/call", params={"name": "t"}) for number in (1, 2, 3)]
    outcomes = [FramesReply(), FramesReply(), FramesReply.from_frames(frames), FramesReply()]
    calls = zip([opened, *asked], outcomes, (1, 3, 5, 7), strict=True)
    found = json_rpc.answers([Exchange(one, outcome, start, start + 1) for one, outcome, start in calls])
    assert {start: answer["result"] for start, answer in found.items()} == {3: {"of": 1}, 5: {"of": 2}}


def test_a_tool_call_is_told_as_one_and_its_ids_and_the_version_of_the_client_are_not_compared():
    def look(number, argument):
        params = {"name": "look", "arguments": {"n": argument}, "_meta": {"progressToken": number}}
        return sent(id=number, method="tools/call", params=params)

    first, later, other = look(1, 1), look(9, 1), look(1, 2)
    tool = tool_of(first, READER)
    assert (label(first, READER), tool.name, tool.arguments) == ("tool look", "look", {"n": 1})
    matching = Matching(READER, RULES)
    assert matching.key(first, ClientIds()) == matching.key(later, ClientIds()) != matching.key(other, ClientIds())
    clients = ({"protocolVersion": "1", "clientInfo": {"name": "a", "version": version}} for version in ("1.0", "2.0"))
    hello = [sent(id=0, method="initialize", params=params) for params in clients]
    assert len({matching.key(one, ClientIds()) for one in hello}) == 1
    assert [one.path for one in matching.drift(*hello)] == ["$.params.clientInfo.version"]


def test_lines_of_a_child_process_are_tied_by_their_request_ids():
    request = {"type": "control_request", "request_id": "req_1_ab", "request": {"subtype": "initialize"}}
    asked = json.dumps(request).encode()
    answer = {"type": "control_response", "response": {"subtype": "success", "request_id": "req_1_ab"}}
    about = stream_json.subject(asked, by_agent=True)
    assert about is not None
    assert about == stream_json.subject(json.dumps(answer).encode(), by_agent=False)
    assert about != stream_json.subject(asked, by_agent=False)
    names = {json_rpc.make_key("req_1_ab"): "req_1_cd"}
    assert stream_json.rename_ids(answer, names)["response"]["request_id"] == "req_1_cd"
    assert stream_json.made_ids(asked) == {"id": "req_1_ab"}
    assert stream_json.subject(b'{"type": "user", "message": {}}', by_agent=True) is None
    for kind in ([], {}, ["control_request"], None, 1):
        line = {"type": kind, "request_id": "req_1_ab", "response": {"request_id": "req_1_ab"}}
        said = json.dumps(line).encode()
        assert (stream_json.subject(said, by_agent=True), stream_json.made_ids(said)) == (None, {})
        assert stream_json.client_ids(line) == ()
        assert stream_json.rename_ids(line, names) == line
