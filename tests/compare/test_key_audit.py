"""Which changes of a call its key does not show: those that a rule declares, and else none."""

from __future__ import annotations

import json

import pytest

from pytest_agentreplay.compare.key_audit import CLIENT_IDS, KeyAudit, describe_rule
from pytest_agentreplay.compare.matching import Matching
from pytest_agentreplay.model.exchanges import Body, FrameCall, HttpCall, ToolCall
from pytest_agentreplay.model.rules import Rule
from pytest_agentreplay.providers import READER, RULES
from pytest_agentreplay.settings.parsers import make_rules
from tests.compare.test_matching import BODIES, http

TEN = {"model": "m", "metadata": {"tenant": "acme", "run": 7}, "stream": True, "user": "ann", "n": [1, 2], "stop": None}
FORM = b'--B\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--B--\r\n'
GEMINI = "https://generativelanguage.googleapis.com/v1beta/models/gemini-3:generateContent?key=k&alt=sse"
CALLS = [
    *(http(body, url) for url, body, _ in BODIES.values()),
    http({"contents": [{"parts": [{"text": "hi"}]}, {"parts": [{"inlineData": {"data": "AA=="}}]}]}, GEMINI),
    http(FORM, "https://api.openai.com/v1/files", [("Content-Type", "multipart/form-data; boundary=B")]),
    http(b"a=1&a=2&b=", "https://a.example/", [("Content-Type", "application/x-www-form-urlencoded")]),
    http(b"plain", "https://a.example/?x=1&bare&api_key=[[redacted:credential:1]]#part", [("Accept", "text/plain")]),
    http(b"", "https://[[redacted:credential:2]]@a.example/", method="GET"),
    http([{"jsonrpc": "2.0", "id": 123456789, "method": "tools/list"}], "https://mcp.example/mcp"),
    FrameCall("wss://api.openai.com/v1/realtime?model=m", headers=(("openai-beta", "realtime=v1"),)),
    FrameCall("wss://api.openai.com/v1/realtime", 1, body=Body(b'{"type":"response.create","event_id":"event_12345"}')),
    FrameCall("stdio:server --flag", 1, body=Body(b'{"jsonrpc":"2.0","id":1,"method":"ping"}'), boundary="mcp"),
    ToolCall("look", {"q": "x", "limit": 3.0, "deep": {"list": [[], {}, None, 1e300]}}, facts={"self": {"shop": 1}}),
]


def project(*lines):
    return [rule for place, reason in lines for rule in make_rules(place, reason)]


def audited(calls, *rules, matching=None):
    return KeyAudit(matching or Matching(READER, (*RULES, *rules)), READER).audit(calls)


def hidden(found):
    """What is hidden, by the paths of rules."""
    assert not found.faults
    return {label.partition(" (reason")[0].removeprefix("rule "): number for label, number in found.hidden.items()}


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call!r:.20}")
def test_nothing_is_hidden_that_no_rule_declares(call):
    found = audited([call])
    assert not found.faults
    assert found.tried - found.hidden.total() == found.seen > 0


@pytest.mark.parametrize("name", BODIES)
def test_reduced_bodies_show_what_whole_ones_show(name):
    """`test_matching` tries the same changes on the whole bodies."""
    url, body, places = BODIES[name]
    found = hidden(audited([http(body, url)]))
    ids = found.pop(CLIENT_IDS.partition(" (reason")[0], 0)
    assert {label.rpartition(" ")[2]: number for label, number in found.items()} == dict.fromkeys(places, 2)
    assert ids == (2 if name == "json-rpc" else 0)


def test_a_rule_with_a_filter_hides_what_it_finds_in_the_whole_body():
    messages = [{"role": "user", "id": "m1", "meta": {"n": 1}}, {"role": "tool", "id": "m2"}]
    call = http({"messages": messages}, "https://a.example/v1", [("content-type", "application/json")])
    found = audited([call], *project(("$.messages[?(@.role == 'user')]['id', 'meta']", "new")))
    assert hidden(found) == {"http body $.messages[?(@.role == 'user')]['id', 'meta']": 6}
    assert found.seen == audited([call]).seen - 6 + 1, "the other id is compared; a member is added to each message"


def test_each_rule_is_counted_with_its_reason_and_every_unknown_field_is_seen():
    call = http(TEN, "https://a.example/v1?day=1&zone=2", [("content-type", "application/json"), ("accept", "*/*")])
    assert hidden(audited([call])) == {}
    rules = project(
        ("$.user", "who"), ("$.metadata", "run"), ("$..run", "x"), ("query:day", "today"), ("header:accept", "a")
    )
    found = audited([call], *rules)
    assert hidden(found) == {
        "http body $.user": 2,  # changed, deleted
        "http body $.metadata": 6,  # a member added, it and both members deleted, both values changed
        "http query day": 2,
        "http header accept": 2,
    }
    assert describe_rule(rules[0]) in found.hidden
    assert "(reason: who)" in describe_rule(rules[0])


def test_ids_of_the_client_are_a_row_of_their_own_and_compared_by_their_use():
    call = http({"jsonrpc": "2.0", "id": "abcdefghij", "method": "x"}, "https://a.example/")
    found = audited([call])
    assert found.hidden == {CLIENT_IDS: 1}
    assert "id: deleted" not in str(found.faults)


def test_values_that_are_equal_in_part_are_changed_in_that_part_too():
    call = http({"run": "run-12", "other": "run-12"}, "https://a.example/?day=2026-01-02")
    rules = project((r"$.run ~ run-\d+", "x"), (r"query:day ~ \d{4}-\d\d-\d\d", "y"))
    assert hidden(audited([call], *rules)) == {r"http body $.run ~ run-\d+": 1, r"http query day ~ \d{4}-\d\d-\d\d": 1}


def test_the_boundary_of_a_multipart_is_hidden_by_its_rule():
    call = next(call for call in CALLS if call.body.data == FORM)
    assert hidden(audited([call])) == {"http header content-type;boundary": 1}


def test_rules_by_index_see_the_whole_list():
    call = http({"messages": [{"at": 1}, {"at": 2}, {"at": 3}]}, "https://a.example/")
    found = audited([call], *project(("$.messages[-1].at", "x")))
    assert hidden(found) == {"http body $.messages[-1].at": 2}
    first = audited([call], Rule("http", "body", "$.messages[0]", "drop", "x"))
    assert hidden(first) == {"http body $.messages[0]": 3}


def test_arguments_of_tools_have_the_make_rules_tools():
    call = ToolCall("look", {"tenant": "acme", "q": "x"}, facts={"self": {"tenant": "a"}, "version": "1"})
    assert hidden(audited([call], *project(("$.tenant", "x")))) == {"tool body $.tenant": 2}
    assert hidden(audited([call], *project(("$.self", "x")))) == {"tool body $.self": 4}


def test_what_is_resent_counts_once():
    messages = [{"role": "user", "content": f"say {number}"} for number in range(6)]
    turns = [http({"messages": messages[: number + 1]}, "https://a.example/") for number in range(6)]
    whole = audited(turns[-1:])
    assert audited(turns).tried == whole.tried, "earlier turns hold nothing else"


class Forgetful(Matching):
    """Leaves out what no rule names."""

    def text(self, call, held=None):
        text = super().text(call, held)
        return (
            text.replace('"user":"ann~"', '"user":"ann"').replace("[2,1]", "[1,2]").replace('"stop":null', '"stop":0')
        )


def test_a_matching_that_overlooks_a_change_is_at_fault():
    call = http(TEN, "https://a.example/v1")
    found = audited([call], matching=Forgetful(READER, RULES))
    assert set(found.faults) == {"$.user: changed", "$.n: neighbours swapped"}


def test_bytes_that_are_no_text_and_deep_bodies_are_audited():
    deep = b'{"a":' * 400 + b"1" + b"}" * 400
    found = audited([HttpCall("POST", "https://a.example/", (), Body(b"\xff\x00")), http(deep, "https://a.example/")])
    assert not found.faults
    assert json.loads(deep)


def test_credentials_and_local_ports_are_wired_and_so_not_ignored():
    headers = [("authorization", "Bearer [[redacted:credential:12]]"), ("x-tenant", "[[digest:9c71]]"), ("date", "now")]
    call = http({"user": "ann"}, "http://127.0.0.1:8123/a?api_key=[[redacted:credential:34]]", headers)
    matching = Matching(READER, (*RULES, *project(("$.user", "who"))))
    values = matching.ignored_values(call)
    assert {path: value for path, (value, _) in values.items()} == {
        "$.user": "ann",
        "headers.x-tenant": "[[digest:9c71]]",
        "headers.date": "now",
    }
    assert values["$.user"][1].reason == "who"
    assert values["headers.x-tenant"][1] is None
    equal = Matching(READER, (*RULES, *project(("path: /v*", "the version"))))
    there = http(b"", "http://127.0.0.1:8123/v1", ())
    assert equal.ignored_values(there) == {"url": ("http://127.0.0.1/v1", None)}
