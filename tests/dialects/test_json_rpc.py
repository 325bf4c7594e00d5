"""Messages of MCP over a lasting connection: which belongs to which, whatever came between."""

import json

import pytest

from pytest_agentreplay.core.matching import ClientIds, Matching
from pytest_agentreplay.core.model import Body, Exchange, Frame, FrameCall, FramesReply
from pytest_agentreplay.core.turns import label, tool_of
from pytest_agentreplay.dialects import READER, RULES, json_rpc, stream_json


def data(**message):
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


def call(**message):
    return FrameCall("stdio:python orders.py", 1, body=Body(data(**message)), boundary="mcp")


ASKED = data(id=3, method="tools/call", params={"name": "t", "_meta": {"progressToken": 3}})


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
    question = json_rpc.subject(ASKED, by_agent=True)
    assert question is not None
    assert (json_rpc.subject(said, by_agent=by_agent) == question) is same


def test_answers_and_progress_come_under_the_ids_of_today():
    names = {json_rpc.plain(3): 7}
    answer = json_rpc.renamed({"jsonrpc": "2.0", "id": 3, "result": {"id": 3}}, names)
    assert answer == {"jsonrpc": "2.0", "id": 7, "result": {"id": 3}}
    progress = json_rpc.renamed({"method": "notifications/progress", "params": {"progressToken": 3, "total": 3}}, names)
    assert progress["params"] == {"progressToken": 7, "total": 3}
    asked_back = {"id": 3, "method": "roots/list"}
    assert json_rpc.renamed(asked_back, names) is asked_back


def test_an_answer_is_found_though_others_were_asked_meanwhile():
    frames = [Frame(data(id=2, result={"of": 2})), Frame(data(id=1, result={"of": 1}))]
    exchanges = [
        Exchange(FrameCall("stdio:python orders.py", boundary="mcp"), FramesReply(), 1, 2),
        Exchange(call(id=1, method="tools/call", params={"name": "slow"}), FramesReply(), 3, 4),
        Exchange(call(id=2, method="tools/call", params={"name": "quick"}), FramesReply.of(frames), 5, 6),
        Exchange(call(id=3, method="tools/call", params={"name": "never"}), FramesReply(), 7, 8),
    ]
    found = json_rpc.answers(exchanges)
    assert {start: answer["result"] for start, answer in found.items()} == {3: {"of": 1}, 5: {"of": 2}}


def test_a_tool_call_is_told_as_one_and_its_ids_and_the_version_of_the_client_are_not_compared():
    def look(number, argument):
        params = {"name": "look", "arguments": {"n": argument}, "_meta": {"progressToken": number}}
        return call(id=number, method="tools/call", params=params)

    first, later, other = look(1, 1), look(9, 1), look(1, 2)
    tool = tool_of(first, READER)
    assert (label(first, READER), tool.name, tool.arguments) == ("tool look", "look", {"n": 1})
    matching = Matching(READER, RULES)
    assert matching.key(first, ClientIds()) == matching.key(later, ClientIds()) != matching.key(other, ClientIds())
    clients = ({"protocolVersion": "1", "clientInfo": {"name": "a", "version": version}} for version in ("1.0", "2.0"))
    hello = [call(id=0, method="initialize", params=params) for params in clients]
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
    assert stream_json.renamed(answer, {"req_1_ab": "req_1_cd"})["response"]["request_id"] == "req_1_cd"
    assert stream_json.subject(b'{"type": "user", "message": {}}', by_agent=True) is None


@pytest.mark.parametrize("kind", [[], {}, ["control_request"], None, 1])
def test_a_line_whose_type_is_no_text_is_about_nothing(kind):
    line = {"type": kind, "request_id": "req_1_ab", "response": {"request_id": "req_1_ab"}}
    said = json.dumps(line).encode()
    assert stream_json.subject(said, by_agent=True) is None
    assert stream_json.asked(said) == ""
    assert stream_json.client_ids(line) == ()
    assert stream_json.renamed(line, {"req_1_ab": "req_1_cd"}) == line
