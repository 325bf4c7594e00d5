"""When two calls are the same call: nothing unlisted is overlooked, nothing that carries no meaning counts."""

from __future__ import annotations

import copy
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agentreplay.core.divergence import ABSENT, Difference
from pytest_agentreplay.core.matching import ClientIds, Matching
from pytest_agentreplay.core.model import Body, FrameCall, HttpCall, ToolCall
from pytest_agentreplay.core.rules import BOUNDARY, MATCHED_HEADERS, Rule
from pytest_agentreplay.core.selector import compile_path, show
from pytest_agentreplay.dialects import READER, RULES
from pytest_agentreplay.errors import SettingsError

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


TOOL = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}},
}
BODIES = {
    "chat": (
        CHAT,
        {
            "model": "gpt-5",
            "messages": [
                {"role": "system", "content": "be kind"},
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "hi"},
                        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
                    ],
                },
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"q":1}'}}
                    ],
                },
                {"role": "tool", "tool_call_id": "call_1", "content": "found"},
            ],
            "tools": [TOOL],
            "temperature": 0.5,
            "user": "u1",
            "safety_identifier": "s1",
            "metadata": {"tenant": "acme", "trace_id": "t1"},
            "stream": True,
            "stream_options": {"include_usage": True},
            "prompt_cache_key": "pk",
            "n": 1,
        },
        {"$.prompt_cache_key"},
    ),
    "responses": (
        "https://api.openai.com/v1/responses",
        {
            "model": "gpt-5",
            "instructions": "be kind",
            "input": [
                {"role": "user", "content": "hi"},
                {"type": "function_call_output", "call_id": "call_1", "output": "ok"},
            ],
            "previous_response_id": "resp_ALICE",
            "store": False,
            "prompt_cache_key": "pk",
            "reasoning": {"effort": "low"},
        },
        {"$.prompt_cache_key"},
    ),
    "messages": (
        "https://api.anthropic.com/v1/messages",
        {
            "model": "claude",
            "max_tokens": 10,
            "system": [{"type": "text", "text": "be kind", "cache_control": {"type": "ephemeral"}}],
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok", "is_error": False}],
                }
            ],
            "tools": [{"name": "look", "input_schema": {"type": "object"}}],
            "metadata": {"user_id": "u"},
            "prompt_cache_key": "nobody has heard of it here",
        },
        set(),
    ),
    "unknown": (
        "https://crm.example/orders",
        {"order": {"id": 4421, "lines": [1, 2]}, "idempotency_key": "k", "id": 7},
        {"$.idempotency_key"},
    ),
    "json-rpc": (
        "https://mcp.example/mcp",
        {
            "jsonrpc": "2.0",
            "id": 3,
            "method": "tools/call",
            "params": {
                "name": "look",
                "arguments": {"id": 1},
                "_meta": {"progressToken": 3, "traceparent": "00-a-b-01", "other": 1},
            },
        },
        # the id and the progress token are one number: renamed together, told apart when one of them changes alone
        {"$.params._meta.traceparent"},
    ),
}


def mutated(value):
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return value + "~"
        case None:
            return "~"
    return None


@pytest.mark.parametrize("name", BODIES)
def test_mutation_audit_only_the_declared_fields_may_change_unseen(name):
    url, body, hidden = BODIES[name]
    survivors = {"mutated": set(), "deleted": set(), "swapped": set(), "grown": set()}
    for place, value in compile_path("$..*").find(body):
        path = show(place)
        alone = compile_path(path)
        if not isinstance(value, dict | list) and same(http(body, url), http(alone.replace(body, mutated), url)):
            survivors["mutated"].add(path)
        if same(http(body, url), http(alone.remove(body), url)):
            survivors["deleted"].add(path)
        if isinstance(value, dict) and same(
            http(body, url), http(alone.replace(body, lambda v: {**v, "unheard_of": 1}), url)
        ):
            survivors["grown"].add(path)
        if (
            isinstance(value, list)
            and len(value) > 1
            and same(http(body, url), http(alone.replace(body, lambda v: [v[1], v[0], *v[2:]]), url))
        ):
            survivors["swapped"].add(path)
    assert survivors["deleted"] == survivors["mutated"] == hidden
    assert survivors["swapped"] == survivors["grown"] == set()
    assert not same(http(body, url), http({**body, "unheard_of": None}, url))


LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
)
TREES = st.dictionaries(
    st.text(max_size=4),
    st.recursive(
        LEAVES,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)


@settings(derandomize=True)
@given(TREES, st.data())
def test_any_leaf_of_any_body_counts(body, data):
    leaves = [place for place, value in compile_path("$..*").find(body) if not isinstance(value, dict | list)]
    if leaves:
        path = compile_path(show(data.draw(st.sampled_from(leaves))))
        other = data.draw(LEAVES)
        changed = path.replace(body, lambda _: other)
        assert same(http(body, "https://a/"), http(changed, "https://a/")) == (
            json.dumps(body, sort_keys=True) == json.dumps(changed, sort_keys=True)
        )


@settings(derandomize=True)
@given(TREES, st.randoms(use_true_random=False), st.sampled_from([None, 2]))
def test_order_of_names_and_white_space_do_not_count(body, order, indent):
    names = list(body)
    order.shuffle(names)
    other = json.dumps({name: body[name] for name in names}, indent=indent).encode()
    assert same(http(body, "https://a/"), http(other, "https://a/"))


BYTES = st.sampled_from(
    [
        b"", b"{}", b"[1]", b"a=1&b=2", b"\xff", b"--B\r\n\r\nx\r\n--B--", b'{"a": 1}', b'{"a":1}',
        b'{"idempotency_key":1}',
    ]
)  # fmt: skip
TYPES = st.sampled_from(
    [
        "application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=B",
        "multipart/form-data; boundary=C", "text/plain",
    ]
)  # fmt: skip
URLS = st.sampled_from(
    [
        "https://a/", "https://A:443", "https://a/?x=1&y=2", "https://a/?y=2&x=1", "http://127.0.0.1:1/",
        "http://localhost:2/", "https://a/?api_key=1",
    ]
)  # fmt: skip
CALLS = st.builds(
    lambda body, url, kind, coding, extra: http(body, url, (("Content-Type", kind), *coding, *extra)),
    BYTES,
    URLS,
    TYPES,
    st.sampled_from([(), (("content-encoding", "gzip"),)]),
    st.sampled_from([(), (("X-Stainless-Lang", "py"),), (("anthropic-beta", "x"),)]),
)


@settings(derandomize=True, max_examples=400)
@given(CALLS, CALLS)
def test_equal_fingerprints_mean_equal_keys(one, other):
    same(one, other)
    assert (MATCHING.fingerprint(one) == MATCHING.fingerprint(copy.copy(one))) is True


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("https://A.example:443/x", "https://a.example/x", True),
        ("https://a.example", "https://a.example/", True),
        ("https://a.example./x", "https://a.example/x", True),
        ("https://a.example/x#top", "https://a.example/x", True),
        ("https://me:pw@a.example/x", "https://a.example/x", True),
        ("http://127.0.0.1:41233/x", "http://127.0.0.1:5/x", True),
        ("http://localhost:41233/x", "http://[::1]/x", True),
        ("https://a.example/x?b=2&a=1", "https://a.example/x?a=1&b=2", True),
        ("https://a.example/x?a=%7Eb", "https://a.example/x?a=~b", True),
        ("https://a.example/x?a=1&a=2", "https://a.example/x?a=2&a=1", False),
        ("https://a.example/x?a=", "https://a.example/x", False),
        ("https://a.example:8443/x", "https://a.example/x", False),
        ("http://a.example/x", "https://a.example/x", False),
        ("https://a.example/x/", "https://a.example/x", False),
        ("https://a.example/a%2Fb", "https://a.example/a/b", False),
        ("https://b.example/x", "https://a.example/x", False),
        ("http://127.0.0.1:5/x", "http://10.0.0.1:5/x", False),
        ("https://x.openai.azure.com/d?api-version=1", "https://x.openai.azure.com/d?api-version=2", False),
        ("https://a.example/x?api_key=1", "https://a.example/x", True),
        ("https://maps.googleapis.com/x?key=1", "https://maps.googleapis.com/x?key=2", True),
        ("https://kv.example/x?key=1", "https://kv.example/x?key=2", False),
        ("https://notgoogleapis.com/x?key=1", "https://notgoogleapis.com/x?key=2", False),
        (
            "https://s3.amazonaws.com/o?X-Amz-Signature=1&X-Amz-Date=2",
            "https://s3.amazonaws.com/o?X-Amz-Signature=3&X-Amz-Date=4",
            True,
        ),
        ("https://s3.amazonaws.com/o?X-Amz-Expires=1", "https://s3.amazonaws.com/o?X-Amz-Expires=2", False),
        ("https://a/?acl", "https://a/?acl=", False),
        ("https://a/?acl&b=1", "https://a/?b=1&acl", True),
        ("http://tenant-a.localhost:1/", "http://tenant-b.localhost:1/", False),
        ("http://127.0.0.2:1/", "http://127.0.0.1:1/", False),
        ("http://[::1]:1/", "http://localhost:2/", True),
    ],
)
def test_urls(one, other, equal):
    assert same(http(url=one), http(url=other)) is equal
    assert (MATCHING.fingerprint(http(url=one)) == MATCHING.fingerprint(http(url=other))) is equal


@pytest.mark.parametrize(
    ("header", "counts"),
    [
        *((name, True) for name in ("Accept", "anthropic-version", "Anthropic-Beta", "OpenAI-Beta", "X-Amz-Target", "mcp-session-id", "If-None-Match", "Host")),
        *(
            (name, False)
            for name in (
                "User-Agent", "x-stainless-retry-count", "X-Stainless-Unheard-Of", "Idempotency-Key", "traceparent", "baggage", "x-b3-traceid",
                "X-Amz-Date", "amz-sdk-invocation-id", "authorization", "x-api-key", "cookie", "connection", "content-length",
                "accept-encoding", "openai-organization", "x-nobody-knows",
            )
        ),
    ],
)  # fmt: skip
def test_headers(header, counts):
    with_one, with_other = (http(headers=(JSON_TYPE, (header, value))) for value in "ab")
    assert same(with_one, with_other) is not counts
    assert same(with_one, http()) is not counts
    if not counts:
        (difference,) = MATCHING.drift(with_one, with_other)
        assert (difference.path, difference.recorded, difference.now) == (f"headers.{header.lower()}", "a", "b")


def test_order_and_case_of_headers_do_not_count_but_the_order_of_repeats_does():
    assert same(http(headers=(("Accept", "a"), ("Range", "b"))), http(headers=(("range", "b"), ("accept", "a"))))
    assert not same(http(headers=(("prefer", "a"), ("prefer", "b"))), http(headers=(("prefer", "b"), ("prefer", "a"))))


def test_method_and_kind_of_body_count():
    assert not same(http(method="PUT"), http())
    form = http(b'{"a":1}', headers=(("content-type", "text/plain"),))
    assert not same(form, http(b'{"a":1}'))


def test_every_shipped_rule_says_why_and_no_rule_hides_a_header_that_matches():
    assert all(rule.reason and rule.source for rule in RULES)
    assert len({(r.scope, r.part, r.path, r.host) for r in RULES}) == len(RULES)
    assert not {rule.path for rule in RULES if rule.part == "header"} & MATCHED_HEADERS


@pytest.mark.parametrize(
    "wrong",
    [
        {"part": "cookie"},
        {"action": "ignore"},
        {"reason": " "},
        {"part": "body", "path": "a.b"},
        {"part": "url", "path": "port"},
        {"path": "X-Upper"},
    ],
)
def test_a_rule_that_cannot_be_meant_is_refused(wrong):
    with pytest.raises(SettingsError):
        Rule(**{"scope": "http", "part": "header", "path": "x", "action": "drop", "reason": "r", **wrong})


# ---- a project's own rules


def test_rules_of_a_project_reach_headers_queries_bodies_and_tools():
    mine = Matching(
        READER,
        (
            *RULES,
            Rule("http", "header", "accept", "watch", "three clients", ""),
            Rule("http", "query", "utm_*", "drop", "campaigns", ""),
            Rule("http", "body", "$.items[*].seen_at", "watch", "a clock", ""),
            Rule("anthropic", "query", "beta", "drop", "a flag of the SDK", ""),
            Rule("tool", "body", "$.now", "drop", "a clock", ""),
        ),
    )
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
    assert not same(http(url="http://127.0.0.1:1/"), http(url="http://127.0.0.1:2/"), bare)
    assert not same(http(url="http://a/#1"), http(url="http://a/"), bare)
    assert not same(http(url="http://u@a/"), http(url="http://a/"), bare)
    assert not same(upload("A"), upload("B"), bare)


def test_drift_tells_the_url_and_counts_only_what_differs():
    old = http({"model": "m", "messages": [], "prompt_cache_key": "a"}, "http://u@127.0.0.1:1/v1/chat/completions#x")
    new = http({"model": "m", "messages": [], "prompt_cache_key": "b"}, "http://u@127.0.0.1:2/v1/chat/completions")
    assert same(old, new)
    notes = {d.path: d.note.partition(":")[0] for d in MATCHING.drift(old, new)}
    assert notes == {"$.prompt_cache_key": "watch", "url.loopback-port": "drop", "url.fragment": "drop"}
    assert MATCHING.drift(old, old) == ()


# ---- tools


def test_tools_match_by_name_and_typed_arguments():
    assert same(ToolCall("look", {"a": 1, "b": 2}), ToolCall("look", {"b": 2, "a": 1}))
    assert MATCHING.fingerprint(ToolCall("look", {"a": 1, "b": 2})) == MATCHING.fingerprint(
        ToolCall("look", {"b": 2, "a": 1})
    )
    for other in (
        ToolCall("book", {"a": 1}),
        ToolCall("look", {"a": 1.0}),
        ToolCall("look", {"a": True}),
        ToolCall("look", {}),
    ):
        assert not same(ToolCall("look", {"a": 1}), other)


# ---- bodies


def upload(mark, data=b"\x00\x01"):
    body = (
        f'--{mark}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nassistants\r\n'
        f'--{mark}\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\n\r\n'
    ).encode() + data + f"\r\n--{mark}--\r\n".encode()  # fmt: skip
    return http(body, "https://a/files", (("content-type", f"multipart/form-data; boundary={mark}"),))


def test_the_boundary_of_a_multipart_does_not_count_but_its_parts_do():
    assert same(upload("3fa9"), upload("77bc"))
    assert not same(upload("3fa9"), upload("77bc", b"\x00\x02"))
    broken = http(b"no multipart", headers=(("content-type", "multipart/form-data; boundary=x"),))
    assert same(broken, broken)


def test_forms_match_by_field_with_the_order_of_repeats():
    form = (("content-type", "application/x-www-form-urlencoded"),)
    assert same(http(b"a=1&b=%20", headers=form), http(b"b=+&a=1", headers=form))
    assert not same(http(b"a=1&a=2", headers=form), http(b"a=2&a=1", headers=form))
    assert same(http(b"a=1&idempotency_key=1", headers=form), http(b"a=1&idempotency_key=2", headers=form))


# ---- ids that the client made up


def rpc(number, method="tools/call", **params):
    return http({"jsonrpc": "2.0", "id": number, "method": method, "params": params}, "https://mcp.example/")


def test_counters_of_json_rpc_are_renamed_and_nothing_else_that_looks_alike():
    assert same(rpc(1, q=1), rpc(2, q=1))
    assert not same(rpc(1, q=1), rpc(2, q=2))
    assert not same(rpc(1, id=1), rpc(1, id=2)), "a business id"
    answer = {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert not same(http(answer), http({**answer, "id": 2})), "the server made this one"


def test_a_batch_of_json_rpc():
    def batch(*ids):
        return http([{"jsonrpc": "2.0", "id": i, "method": "m"} for i in ids], "https://mcp.example/")

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
        return keys(
            realtime(type="conversation.item.create", item=item),
            realtime(type="conversation.item.delete", item_id=named),
        )

    assert run("item_aaaaaaaa", "item_aaaaaaaa") == run("item_bbbbbbbb", "item_bbbbbbbb")
    assert run("item_aaaaaaaa", "item_cccccccc") != run("item_bbbbbbbb", "item_dddddddd"), "items of the server"


def test_wiring_over_the_run_counts():
    def cancel(request):
        return rpc(None, "notifications/cancelled", requestId=request)

    first = keys(rpc(ID_A, q=1), rpc(ID_B, q=2), cancel(ID_A))
    assert first == keys(rpc(ID_B, q=1), rpc(ID_C, q=2), cancel(ID_B)), "renamed consistently"
    assert first[2] != keys(rpc(ID_A, q=1), rpc(ID_B, q=2), cancel(ID_B))[2], "wired to the other call"
    assert first[2] != keys(rpc(ID_A, q=1), rpc(ID_B, q=2), cancel(ID_C))[2], "wired to nothing"


def test_names_do_not_depend_on_the_order_of_concurrent_calls():
    calls = [rpc(ID_A, q=1), rpc(ID_B, q=2), rpc(ID_C, q=3)]
    later = [rpc(None, "notifications/cancelled", requestId=i) for i in (ID_A, ID_B, ID_C)]
    forward = keys(*calls, *later)
    mixed = [2, 0, 1]
    assert keys(*(calls[i] for i in mixed), *later)[3:] == forward[3:]


def test_twins_keep_their_ids_apart():
    twin_keys = keys(rpc(ID_A, q=1), rpc(ID_B, q=1), rpc(None, "x", requestId=ID_A), rpc(None, "x", requestId=ID_B))
    assert twin_keys[0] == twin_keys[1]
    assert twin_keys[2] != twin_keys[3]


def test_ids_of_replies_come_back_exactly():
    url, body, _ = BODIES["responses"]
    assert not same(http(body, url), http({**body, "previous_response_id": "resp_BOB"}, url))


@settings(derandomize=True, max_examples=50)
@given(st.integers(0, 10_000))
def test_a_run_keeps_its_keys_under_any_drawing_of_ids(seed):
    def run(draw):
        made = [f"{draw.getrandbits(64):016x}" for _ in range(4)]
        return keys(
            *(rpc(one, q=number % 2, requestId=made[number - 1] if number else "") for number, one in enumerate(made))
        )

    assert run(random.Random(seed)) == run(random.Random(seed + 1))


# ---- placeholders


def test_placeholders_match_up_to_renumbering():
    def said(*numbers):
        return http({"q": " ".join(f"[[redacted:key:{n}]]" for n in numbers)}, "https://a/?token=[[redacted:key:1]]")

    assert same(said(1, 2, 1), said(1, 3, 1))
    assert not same(said(1, 2, 1), said(1, 2, 2))
    assert same(http({"q": "[[redacted:key:1]]"}), http({"q": "[[redacted:openai-key:4]]"}))
    assert not same(http({"q": "[[redacted:key:1]]"}), http({"q": "a word"}))
    assert same(ToolCall("t", {"k": "[[redacted:key:1]]"}), ToolCall("t", {"k": "[[redacted:key:9]]"}))


def test_placeholders_of_people_match_exactly():
    one, other = http({"q": "[[redacted:email:1]]"}), http({"q": "[[redacted:email:2]]"})
    assert MATCHING.key(one, MATCHING.ids()) != MATCHING.key(other, MATCHING.ids())
    assert MATCHING.key(one, ClientIds()) == MATCHING.key(other, ClientIds())


# ---- an SDK that sends other fields


def test_fields_that_came_with_an_sdk_are_named():
    url, body, _ = BODIES["chat"]
    old = http(body, url)
    new = http({**body, "verbosity": "low"}, url, (JSON_TYPE, ("openai-beta", "x")))
    assert MATCHING.sdk_fields(old, new) == (
        Difference("$.verbosity", ABSENT, "low"),
        Difference("headers.openai-beta", ABSENT, "x"),
    )
    assert [d.path for d in MATCHING.sdk_fields(new, old)] == ["$.verbosity", "headers.openai-beta"]


def test_no_sdk_change_where_anything_else_differs():
    url, body, _ = BODIES["chat"]
    old = http(body, url)
    assert MATCHING.sdk_fields(old, http({**body, "verbosity": "low", "n": 2}, url)) == ()
    assert MATCHING.sdk_fields(old, http({**body, "verbosity": "low"}, url + "x")) == ()
    assert MATCHING.sdk_fields(old, http({k: v for k, v in body.items() if k != "tools"}, url)) == ()
    assert MATCHING.sdk_fields(old, http({k: v for k, v in body.items() if k != "prompt_cache_key"}, url)) == (), (
        "not in the key"
    )
    assert MATCHING.sdk_fields(old, http(b"bytes", url)) == ()
    assert MATCHING.sdk_fields(ToolCall("t"), old) == ()


def test_a_boundary_rule_is_a_rule_like_any_other():
    assert any(rule.path == BOUNDARY for rule in RULES)


def test_urls_are_forgotten_before_they_fill_the_memory():
    mine = Matching(READER, RULES)
    for number in range(5000):
        mine.fingerprint(http(url=f"https://a/{number}"))
    assert len(mine._urls) <= 4096
