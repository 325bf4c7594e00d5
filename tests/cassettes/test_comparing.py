"""A played request beside the recorded one: what is equal, and what a difference is called."""

import json
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.compare.matching import Matching
from pytest_agentreplay.providers import READER, RULES
from pytest_agentreplay.redaction.places import Places
from pytest_agentreplay.redaction.redaction import Redaction
from pytest_agentreplay.runs.cassettes.verdicts import ComparedRequest, LoadedCassette
from pytest_agentreplay.runs.cassettes.watching import CassetterWatch, CassetteWatch

pytestmark = pytest.mark.env("main")

URL = "https://api.openai.com/v1/chat/completions"
HEADERS = {"Content-Type": "application/json", "Authorization": "Bearer none"}
REPLY = {"status": {"code": 200, "message": "OK"}, "headers": {}, "body": {"string": b"{}"}}
ASKED = {
    "model": "m-1",
    "temperature": 0,
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Where is A-17?"}],
    "tools": [{"type": "function", "function": {"name": "lookup", "description": "Find it."}}],
}


def request(body=ASKED, url=URL, headers=HEADERS, method="POST"):
    from vcr.request import Request

    data = json.dumps(body).encode() if isinstance(body, dict) else body
    return Request(method, url, data, dict(headers))


def make_rules():
    return Matching(READER, RULES), Redaction(Places({}))


def compare(now, *recorded, reply=REPLY):
    cassette = LoadedCassette("tape.yaml", [(each, reply) for each in recorded], *make_rules())
    return cassette.compare(ComparedRequest(now, cassette), 0)[0]


def edited(**changes):
    return request({**ASKED, **changes})


TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


def rewrite(tree, draw):
    """Return the JSON of a tree with its members in another order and other white space."""
    blank = draw(st.sampled_from(["", " ", "\n", "\t "]))
    if isinstance(tree, dict):
        rows = draw(
            st.permutations([f"{json.dumps(name)}{blank}:{rewrite(value, draw)}" for name, value in tree.items()])
        )
        return f"{blank}{{{blank}{f'{blank},'.join(rows)}}}{blank}"
    if isinstance(tree, list):
        return f"[{blank}{f',{blank}'.join(rewrite(value, draw) for value in tree)}]"
    return f"{json.dumps(tree, ensure_ascii=draw(st.booleans()))}{blank}"


def test_a_method_is_compared_as_it_is_sent():
    assert compare(request(), request(method="post")).verdict == "equal"  # as an older google-genai recorded it


@given(st.data(), st.dictionaries(st.text(max_size=6), TREES, max_size=4))
def test_a_request_equals_itself_however_its_json_is_written(data, more):
    body = ASKED | more
    again = request(rewrite(body, data.draw).encode())
    assert compare(again, request(body)).verdict == "equal"
    assert compare(request(body), again).verdict == "equal"


EQUAL = {
    "bytes": request(),
    "credentials": request(headers=HEADERS | {"Authorization": "Bearer sk-live-0123456789abcdefABCDEF"}),
    "a header that the cassette lacks": request(headers=HEADERS | {"OpenAI-Beta": "assistants=v2"}),
    "the form that aiohttp's stub keeps": ASKED,
}


@pytest.mark.parametrize("what", EQUAL)
def test_what_does_not_count(what):
    now = EQUAL[what]
    if isinstance(now, dict):
        now = request()
        now._body = ASKED
    assert compare(now, request()).verdict == "equal"


def test_ports_of_this_machine_and_the_order_of_a_query_do_not_count():
    first, second = (
        request(url=f"http://127.0.0.1:{port}/v1/chat/completions?{query}")
        for port, query in ((81, "a=1&b=2"), (8080, "b=2&a=1"))
    )
    assert compare(first, second).verdict == "equal"


SDK = {"extra": "x"}
STALE = {
    "prompt": (
        edited(messages=[{"role": "system", "content": "Be short."}, ASKED["messages"][1]]),
        "prompt or history",
    ),
    "history": (edited(messages=ASKED["messages"] + [{"role": "assistant", "content": "yes"}]), "prompt or history"),
    "parameter": (edited(temperature=1), "parameter"),
    "a field that an SDK adds": (edited(**SDK), "parameter"),
    "schema": (edited(tools=[]), "tool schema"),
    "model": (edited(model="m-2"), "model"),
    "path": (request(url="https://api.openai.com/v1/other"), "other"),
    "bytes": (request(b"{not json"), "other"),
    "method": (request(method="PUT"), None),
    "header": (request(headers=HEADERS | {"Content-Type": "text/plain"}), None),
}


@pytest.mark.parametrize("what", STALE)
def test_a_change_is_stale_by_its_cause(what):
    now, cause = STALE[what]
    play = compare(now, request())
    assert play.verdict == "stale"
    assert play.cause == cause or cause is None, play
    assert play.summary.startswith(f"{now.method} api.openai.com/v1/")
    assert "\n" not in play.summary


def test_two_bodies_that_are_no_json_are_not_equal_for_that():
    assert compare(request(b"{one"), request(b"{two")).verdict == "stale"


def test_a_request_that_another_interaction_holds_was_answered_by_the_wrong_one():
    other = edited(messages=[{"role": "user", "content": "Where is A-18?"}])
    play = compare(other, request(), other)
    assert (play.verdict, play.cause) == ("wrong interaction", "wrong interaction")
    assert "this is interaction 2, and interaction 1 was played" in play.summary


def test_a_time_is_noise_and_noise_beside_a_change_is_not():
    recorded, now = (edited(user=f"{day}T10:00:00Z") for day in ("2024-05-01", "2026-07-09"))
    assert compare(now, recorded).verdict == "noise"
    assert compare(edited(user="2026-07-09T10:00:00Z", temperature=1), recorded).verdict == "stale"


def test_replies_of_the_first_cassettes_are_read():
    old = {
        "status_code": 200,
        "http_version": "HTTP/1.1",
        "headers": {"content-type": ["application/json"]},
        "content": "{}",
    }
    assert compare(edited(model="m-2"), request(), reply=old).cause == "model"


@pytest.mark.parametrize("is_strict", [False, True])
@pytest.mark.parametrize("watch_class", [CassetteWatch, CassetterWatch])
def test_a_watch_restores_what_it_has_wrapped_and_leaves_a_cassetter_that_is_too_old(
    watch_class, is_strict, tmp_path, monkeypatch
):
    from vcr.cassette import Cassette

    older = SimpleNamespace(Cassette=type("Cassette", (), {"load": None}))
    monkeypatch.setitem(sys.modules, "cassetter", SimpleNamespace(cassette=older))
    before = dict(vars(Cassette))
    matching, redaction = make_rules()
    restore = watch_class(tmp_path, matching, lambda: redaction, is_strict=is_strict).install()
    assert Cassette.play_response is not before["play_response"]
    restore()
    assert dict(vars(Cassette)) == before


def test_a_comparison_reads_each_reply_once_and_nothing_of_megabytes_or_of_another_api(monkeypatch):
    other = "https://api.example.org/v1/list"
    large, small = ({**REPLY, "body": {"string": b"x" * size}} for size in (1 << 19, 99))
    upload = request(b"x" * (1 << 19), url=other)
    data = [(request(), small), (request(), large), (upload, large)]
    redaction, sizes, bodies = Redaction(Places({})), [], []
    redact, redact_call = redaction.redact_outcome, redaction.redact_call
    monkeypatch.setattr(
        redaction, "redact_call", lambda raw: bodies.append(len(raw.native.body.data)) or redact_call(raw)
    )
    monkeypatch.setattr(
        redaction, "redact_outcome", lambda call, reply: sizes.append(len(reply.body.data)) or redact(call, reply)
    )
    cassette = LoadedCassette("tape.yaml", data, Matching(READER, RULES), redaction)
    assert sizes == [], "loading reads none"
    for at, now in enumerate([edited(model="m-2"), edited(model="m-3"), request(b"{}", url=other)]):
        assert cassette.compare(ComparedRequest(now, cassette), at)[0].verdict == "stale"
    assert sizes == [99, 0, 0]
    assert max(bodies) < 999, "a long upload is told by its size and digest"
