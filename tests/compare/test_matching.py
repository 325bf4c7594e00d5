"""When two calls are the same call: nothing unlisted is overlooked, nothing that carries no meaning counts."""

from __future__ import annotations

import copy
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.compare.matching import ClientIds, Matching
from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.model.divergence import ABSENT
from pytest_agentreplay.model.exchanges import Body, FrameCall, HttpCall, ToolCall
from pytest_agentreplay.model.json_paths import show
from pytest_agentreplay.model.path_parsing import compile_path
from pytest_agentreplay.model.rules import BOUNDARY, MATCHED_HEADERS, Rule
from pytest_agentreplay.providers import READER, RULES

MATCHING = Matching(READER, RULES)
CHAT = "https://api.openai.com/v1/chat/completions"
JSON_TYPE = ("content-type", "application/json")


def http(body=b"", url=CHAT, headers=(JSON_TYPE,), method="POST"):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return HttpCall(method, url, tuple(headers), Body(data))


def key(call, matching=MATCHING):
    return matching.key(call, ClientIds())


def same(one, other, matching=MATCHING):
    equal = key(one, matching) == key(other, matching)
    if matching.fingerprint(one) == matching.fingerprint(other):
        assert equal, "equal fingerprints mean equal keys"
    return equal


TOOL = {"name": "look", "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}}
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
USE = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"q":1}'}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok", "is_error": False}
META = {"progressToken": 3, "traceparent": "00-a-b-01", "other": 1}
BODIES = {  # the url, the body, and the only places in it that may change unseen
    "chat": (CHAT, {
        "model": "gpt-5", "messages": [
            {"role": "system", "content": "be kind"},
            {"role": "user", "content": [{"type": "text", "text": "hi"}, PICTURE]},
            {"role": "assistant", "content": None, "tool_calls": [USE]},
            {"role": "tool", "tool_call_id": "call_1", "content": "found"},
        ],
        "tools": [{"type": "function", "function": TOOL}], "temperature": 0.5, "user": "u1", "safety_identifier": "s1",
        "metadata": {"tenant": "acme", "trace_id": "t1"}, "stream": True, "stream_options": {"include_usage": True},
        "prompt_cache_key": "pk", "n": 1,
    }, {"$.prompt_cache_key"}),
    "responses": ("https://api.openai.com/v1/responses", {
        "model": "gpt-5", "instructions": "be kind", "input": [
            {"role": "user", "content": "hi"}, {"type": "function_call_output", "call_id": "call_1", "output": "ok"},
        ],
        "previous_response_id": "resp_ALICE", "store": False, "prompt_cache_key": "pk", "reasoning": {"effort": "low"},
    }, {"$.prompt_cache_key"}),
    "messages": ("https://api.anthropic.com/v1/messages", {
        "model": "claude", "max_tokens": 10, "messages": [{"role": "user", "content": [RESULT]}],
        "system": [{"type": "text", "text": "be kind", "cache_control": {"type": "ephemeral"}}],
        "tools": [{"name": "look", "input_schema": {"type": "object"}}], "metadata": {"user_id": "u"},
        "prompt_cache_key": "nobody has heard of it here",
    }, set()),
    "unknown": ("https://crm.example/orders", {
        "order": {"id": 4421, "lines": [1, 2]}, "idempotency_key": "k", "id": 7,
    }, {"$.idempotency_key"}),
    "json-rpc": ("https://mcp.example/mcp", {
        "jsonrpc": "2.0", "id": 3, "method": "tools/call",
        "params": {"name": "look", "arguments": {"id": 1}, "_meta": META},
        # the id and the progress token are one number: renamed together, told apart when one of them changes alone
    }, {"$.params._meta.traceparent"}),
}  # fmt: skip


def mutated(value):
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
    return "~" if value is None else f"{value}~"


def edits(value):
    """What of a value may be changed, each by its name."""
    if not isinstance(value, dict | list):
        yield "mutated", mutated
    elif isinstance(value, dict):
        yield "grown", lambda v: {**v, "unheard_of": 1}
    elif len(value) > 1:
        yield "swapped", lambda v: [v[1], v[0], *v[2:]]


@pytest.mark.parametrize("name", BODIES)
def test_mutation_audit_only_the_declared_fields_may_change_unseen(name):
    url, body, hidden = BODIES[name]
    survivors = {"mutated": set(), "deleted": set(), "swapped": set(), "grown": set()}
    for place, value in compile_path("$..*").find(body):
        path = show(place)
        alone = compile_path(path)
        changed = {kind: alone.replace(body, edit) for kind, edit in edits(value)} | {"deleted": alone.remove(body)}
        for kind, other in changed.items():
            if same(http(body, url), http(other, url)):
                survivors[kind].add(path)
    assert survivors == {"mutated": hidden, "deleted": hidden, "swapped": set(), "grown": set()}
    assert not same(http(body, url), http({**body, "unheard_of": None}, url))


BYTES = st.sampled_from([
    b"", b"{}", b"[1]", b"a=1&b=2", b"\xff", b"--B\r\n\r\nx\r\n--B--", b'{"a": 1}', b'{"a":1}', b'{"idempotency_key":1}',
])  # fmt: skip
TYPES = st.sampled_from([
    "application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=B",
    "multipart/form-data; boundary=C", "text/plain",
])  # fmt: skip
URLS = st.sampled_from([
    "https://a/", "https://A:443", "https://a/?x=1&y=2", "https://a/?y=2&x=1", "http://127.0.0.1:1/",
    "http://localhost:2/", "https://a/?api_key=1",
])  # fmt: skip
EXTRA = st.sampled_from([
    (), (("content-encoding", "gzip"),), (("X-Stainless-Lang", "py"),), (("anthropic-beta", "x"),),
])  # fmt: skip
CALLS = st.builds(
    lambda body, url, kind, extra: http(body, url, (("Content-Type", kind), *extra)), BYTES, URLS, TYPES, EXTRA
)


@given(CALLS, CALLS)
def test_equal_fingerprints_mean_equal_keys(one, other):
    same(one, other)
    assert MATCHING.fingerprint(one) == MATCHING.fingerprint(copy.copy(one))


S3 = "https://s3.amazonaws.com/o?X-Amz-"
SAME_URLS = [
    ("https://A.example:443/x", "https://a.example/x"), ("https://a.example", "https://a.example/"),
    ("https://a.example./x", "https://a.example/x"), ("https://a.example/x#top", "https://a.example/x"),
    ("https://me:pw@a.example/x", "https://a.example/x"), ("http://127.0.0.1:41233/x", "http://127.0.0.1:5/x"),
    ("http://localhost:41233/x", "http://[::1]/x"), ("https://a.example/x?b=2&a=1", "https://a.example/x?a=1&b=2"),
    ("https://a.example/x?a=%7Eb", "https://a.example/x?a=~b"),
    ("https://a.example/x?api_key=1", "https://a.example/x"),
    ("https://maps.googleapis.com/x?key=1", "https://maps.googleapis.com/x?key=2"),
    (S3 + "Signature=1&X-Amz-Date=2", S3 + "Signature=3&X-Amz-Date=4"), ("https://a/?acl&b=1", "https://a/?b=1&acl"),
]  # fmt: skip
OTHER_URLS = [
    ("https://a.example/x?a=1&a=2", "https://a.example/x?a=2&a=1"), ("https://a.example/x?a=", "https://a.example/x"),
    ("https://a.example:8443/x", "https://a.example/x"), ("http://a.example/x", "https://a.example/x"),
    ("https://a.example/x/", "https://a.example/x"), ("https://a.example/a%2Fb", "https://a.example/a/b"),
    ("https://b.example/x", "https://a.example/x"), ("http://127.0.0.1:5/x", "http://10.0.0.1:5/x"),
    ("https://x.openai.azure.com/d?api-version=1", "https://x.openai.azure.com/d?api-version=2"),
    ("https://kv.example/x?key=1", "https://kv.example/x?key=2"),
    ("https://notgoogleapis.com/x?key=1", "https://notgoogleapis.com/x?key=2"), (S3 + "Expires=1", S3 + "Expires=2"),
    ("https://a/?acl", "https://a/?acl="), ("http://tenant-a.localhost:1/", "http://tenant-b.localhost:1/"),
    ("http://127.0.0.2:1/", "http://127.0.0.1:1/"),
]  # fmt: skip


def test_which_urls_are_the_same():
    def told(one, other):
        one, other = http(url=one), http(url=other)
        return {same(one, other), MATCHING.fingerprint(one) == MATCHING.fingerprint(other)}

    assert [pair for pair in SAME_URLS if told(*pair) != {True}] == []
    assert [pair for pair in OTHER_URLS if told(*pair) != {False}] == []


COUNT = """
Accept anthropic-version Anthropic-Beta OpenAI-Beta X-Amz-Target mcp-session-id If-None-Match Host
"""
DO_NOT_COUNT = """
User-Agent x-stainless-retry-count X-Stainless-Unheard-Of Idempotency-Key traceparent baggage x-b3-traceid X-Amz-Date
amz-sdk-invocation-id authorization x-api-key cookie connection content-length accept-encoding openai-organization
x-nobody-knows
"""


def test_headers_count_by_a_list_and_with_the_order_of_repeats():
    for header in (COUNT + DO_NOT_COUNT).split():
        with_one, with_other = (http(headers=(JSON_TYPE, (header, value))) for value in "ab")
        counts = header in COUNT.split()
        assert (same(with_one, with_other), same(with_one, http())) == (not counts, not counts), header
        if not counts:
            (difference,) = MATCHING.drift(with_one, with_other)
            assert (difference.path, difference.recorded, difference.now) == (f"headers.{header.lower()}", "a", "b")
    assert same(http(headers=(("Accept", "a"), ("Range", "b"))), http(headers=(("range", "b"), ("accept", "a"))))
    assert not same(http(headers=(("prefer", "a"), ("prefer", "b"))), http(headers=(("prefer", "b"), ("prefer", "a"))))
    assert not same(http(method="PUT"), http()), "the method"
    assert not same(http(b'{"a":1}', headers=(("content-type", "text/plain"),)), http(b'{"a":1}')), "the kind of body"


def test_every_shipped_rule_says_why_and_no_rule_hides_a_header_that_matches():
    assert all(rule.reason and rule.source for rule in RULES)
    assert len({(r.scope, r.part, r.path, r.host) for r in RULES}) == len(RULES)
    assert not {rule.path for rule in RULES if rule.part == "header"} & MATCHED_HEADERS
    assert any(rule.path == BOUNDARY for rule in RULES)


WRONG = [
    *({"part": "cookie"}, {"action": "ignore"}, {"reason": " "}, {"part": "body", "path": "a.b"}, {"path": "X-Upper"}),
    {"part": "url", "path": "port"},
]


def test_a_rule_that_cannot_be_meant_is_refused():
    for wrong in WRONG:
        with pytest.raises(SettingsError):
            Rule(**{"scope": "http", "part": "header", "path": "x", "action": "drop", "reason": "r", **wrong})


def test_rules_of_a_project_reach_headers_queries_bodies_and_tools():
    own = [
        Rule("http", "header", "accept", "watch", "three clients", ""),
        Rule("http", "query", "utm_*", "drop", "campaigns", ""),
        Rule("http", "body", "$.items[*].seen_at", "watch", "a clock", ""),
        Rule("anthropic", "query", "beta", "drop", "a flag of the SDK", ""),
        Rule("tool", "body", "$.now", "drop", "a clock", ""),
    ]
    mine = Matching(READER, (*RULES, *own))
    old = http({"items": [{"id": 1, "seen_at": 1}]}, "https://a/?utm_x=1", (("accept", "x"),))
    new = http({"items": [{"id": 1, "seen_at": 2}]}, "https://a/?utm_y=1", (("accept", "y"),))
    assert same(old, new, mine)
    assert not same(old, new)
    assert {(d.path, d.recorded, d.now, d.note) for d in mine.drift(old, new)} == {
        ("headers.accept", "x", "y", "watch: three clients"),
        ("query.utm_x", "1", ABSENT, "drop: campaigns"),
        ("query.utm_y", ABSENT, "1", "drop: campaigns"),
        ("$.items[0].seen_at", 1, 2, "watch: a clock"),
    }
    assert same(ToolCall("t", {"q": 1, "now": 1}), ToolCall("t", {"q": 1, "now": 2}), mine)
    assert [d.path for d in mine.drift(ToolCall("t", {"now": 1}), ToolCall("t", {}))] == ["$.now"]
    claude = BODIES["messages"][1]
    assert same(http(claude, "https://a/v1/messages?beta=1"), http(claude, "https://a/v1/messages"), mine)
    assert not same(http({}, "https://a/v1/other?beta=1"), http({}, "https://a/v1/other"), mine)


def test_without_rules_everything_matches():
    bare = Matching(READER)
    pairs = ("http://127.0.0.1:1/", "http://127.0.0.1:2/"), ("http://a/#1", "http://a/"), ("http://u@a/", "http://a/")
    for one, other in pairs:
        assert not same(http(url=one), http(url=other), bare)
    assert not same(upload("A"), upload("B"), bare)


def test_drift_tells_the_url_and_counts_only_what_differs():
    old = http({"model": "m", "messages": [], "prompt_cache_key": "a"}, "http://u@127.0.0.1:1/v1/chat/completions#x")
    new = http({"model": "m", "messages": [], "prompt_cache_key": "b"}, "http://u@127.0.0.1:2/v1/chat/completions")
    assert same(old, new)
    notes = {d.path: d.note.partition(":")[0] for d in MATCHING.drift(old, new)}
    assert notes == {"$.prompt_cache_key": "watch", "url.loopback-port": "drop", "url.fragment": "drop"}
    assert MATCHING.drift(old, old) == ()


def test_tools_match_by_name_and_typed_arguments():
    one, other = ToolCall("look", {"a": 1, "b": 2}), ToolCall("look", {"b": 2, "a": 1})
    assert same(one, other)
    assert MATCHING.fingerprint(one) == MATCHING.fingerprint(other)
    for name, arguments in (("book", {"a": 1}), ("look", {"a": 1.0}), ("look", {"a": True}), ("look", {})):
        assert not same(ToolCall("look", {"a": 1}), ToolCall(name, arguments))


def upload(mark, data=b"\x00\x01"):
    body = (
        f'--{mark}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nassistants\r\n'
        f'--{mark}\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\n\r\n'
    ).encode() + data + f"\r\n--{mark}--\r\n".encode()  # fmt: skip
    return http(body, "https://a/files", (("content-type", f"multipart/form-data; boundary={mark}"),))


def test_multiparts_match_by_part_and_forms_by_field_with_the_order_of_repeats():
    assert same(upload("3fa9"), upload("77bc"))
    assert not same(upload("3fa9"), upload("77bc", b"\x00\x02"))
    form = (("content-type", "application/x-www-form-urlencoded"),)
    assert same(http(b"a=1&b=%20", headers=form), http(b"b=+&a=1", headers=form))
    assert not same(http(b"a=1&a=2", headers=form), http(b"a=2&a=1", headers=form))
    assert same(http(b"a=1&idempotency_key=1", headers=form), http(b"a=1&idempotency_key=2", headers=form))


def rpc(number, method="tools/call", **params):
    return http({"jsonrpc": "2.0", "id": number, "method": method, "params": params}, "https://mcp.example/")


def test_counters_of_json_rpc_are_renamed_and_nothing_else_that_looks_alike():
    def batch(*ids):
        return http([{"jsonrpc": "2.0", "id": i, "method": "m"} for i in ids], "https://mcp.example/")

    assert same(rpc(1, q=1), rpc(2, q=1))
    assert not same(rpc(1, q=1), rpc(2, q=2))
    assert not same(rpc(1, id=1), rpc(1, id=2)), "a business id"
    answer = {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert not same(http(answer), http({**answer, "id": 2})), "the server made this one"
    assert same(batch(1, 2), batch(7, 9))
    assert not same(batch(1, 2), batch(7, 7))


ID_A, ID_B, ID_C = "0b51cbb2-9d0e", "6e1c7a44-1f2b", "91f0aa37-77d1"


def keys(*calls):
    ids = ClientIds()
    return [MATCHING.key(call, ids) for call in calls]


@pytest.mark.parametrize(("one", "other"), [(ID_A, ID_B), ('urn:x:1 "', 'urn:y:22 "'), ("order-12345", "order-99999")])
def test_only_the_fields_of_the_protocol_are_renamed(one, other):
    def progress(token, **arguments):
        return rpc(token, _meta={"progressToken": token}, name="ship", arguments=arguments)

    assert same(progress(one, q=1), progress(other, q=1))
    assert same(progress(one, order=one), progress(other, order=one)), "a business id that is an id of the protocol too"
    for said in ("{}", "see '{}'.", "\n{}\n", '{{"id": "{}"}}'):
        assert not same(progress(one, order=said.format(one)), progress(other, order=said.format(other)))


def test_a_reference_is_renamed_where_the_client_made_its_item():
    def realtime(**event):
        return FrameCall("wss://api.openai.com/v1/realtime?model=m", 1, body=Body(json.dumps(event).encode()))

    def run(made, named):
        item = {"id": made, "type": "message", "role": "user", "content": []}
        create, delete = "conversation.item.create", "conversation.item.delete"
        return keys(realtime(type=create, item=item), realtime(type=delete, item_id=named))

    assert run("item_aaaaaaaa", "item_aaaaaaaa") == run("item_bbbbbbbb", "item_bbbbbbbb")
    assert run("item_aaaaaaaa", "item_cccccccc") != run("item_bbbbbbbb", "item_dddddddd"), "items of the server"


def cancel(request):
    return rpc(None, "notifications/cancelled", requestId=request)


def test_wiring_over_the_run_counts_and_not_the_order_of_concurrent_calls():
    first = keys(rpc(ID_A, q=1), rpc(ID_B, q=2), cancel(ID_A))
    assert first == keys(rpc(ID_B, q=1), rpc(ID_C, q=2), cancel(ID_B)), "renamed consistently"
    assert first[2] != keys(rpc(ID_A, q=1), rpc(ID_B, q=2), cancel(ID_B))[2], "wired to the other call"
    assert first[2] != keys(rpc(ID_A, q=1), rpc(ID_B, q=2), cancel(ID_C))[2], "wired to nothing"
    twins = keys(rpc(ID_A, q=1), rpc(ID_B, q=1), cancel(ID_A), cancel(ID_B))
    assert twins[0] == twins[1]
    assert twins[2] != twins[3]
    calls = [rpc(ID_A, q=1), rpc(ID_B, q=2), rpc(ID_C, q=3)]
    later = [*map(cancel, (ID_A, ID_B, ID_C))]
    assert keys(calls[2], calls[0], calls[1], *later)[3:] == keys(*calls, *later)[3:]


@given(st.integers(0, 10_000))
def test_a_run_keeps_its_keys_under_any_drawing_of_ids(seed):
    def run(draw):
        made = [f"{draw.getrandbits(64):016x}" for _ in range(4)]
        named = zip(made, ["", *made[:-1]], strict=True)
        return keys(*(rpc(one, q=n % 2, requestId=before) for n, (one, before) in enumerate(named)))

    assert run(random.Random(seed)) == run(random.Random(seed + 1))


def test_placeholders_match_up_to_renumbering_and_those_of_people_exactly():
    def said(*numbers):
        return http({"q": " ".join(f"[[redacted:key:{n}]]" for n in numbers)}, "https://a/?token=[[redacted:key:1]]")

    assert same(said(1, 2, 1), said(1, 3, 1))
    assert not same(said(1, 2, 1), said(1, 2, 2))
    assert same(http({"q": "[[redacted:key:1]]"}), http({"q": "[[redacted:openai-key:4]]"}))
    assert not same(http({"q": "[[redacted:key:1]]"}), http({"q": "a word"}))
    assert same(ToolCall("t", {"k": "[[redacted:key:1]]"}), ToolCall("t", {"k": "[[redacted:key:9]]"}))
    one, other = http({"q": "[[redacted:email:1]]"}), http({"q": "[[redacted:email:2]]"})
    assert MATCHING.key(one, MATCHING.ids()) != MATCHING.key(other, MATCHING.ids())
    assert MATCHING.key(one, ClientIds()) == MATCHING.key(other, ClientIds())


def test_urls_are_forgotten_before_they_fill_the_memory():
    mine = Matching(READER, RULES)
    for number in range(5000):
        mine.fingerprint(http(url=f"https://a/{number}"))
    assert len(mine._urls) <= 4096
