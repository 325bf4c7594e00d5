"""What is written in a dialect is read back as what it was made of, whole and streamed; test_sdks has the SDKs take it."""

import json
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agentreplay.model.exchanges import Failure, HttpReply
from pytest_agentreplay.model.reading import ToolUse
from pytest_agentreplay.providers import READER, encode, list_ours
from pytest_agentreplay.providers.lenient import parse_text
from pytest_agentreplay.providers.messages import normalize_conversation, normalize_reply, normalize_tools
from tests.traces.neutral import asks, gives, text

WRITTEN = sorted(dialect.name for dialect in list_ours() if dialect.writer)

DIALECT = pytest.mark.parametrize("dialect", WRITTEN)
FORM = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)
ARGUMENTS = st.dictionaries(WORDS, st.none() | st.booleans() | st.integers(-9, 9) | WORDS, max_size=3)
CALLS = st.lists(st.builds(ToolUse, st.uuids().map(str), WORDS, ARGUMENTS), max_size=3)
SCHEMA = {"type": "object", "properties": {"order_id": {"type": "string"}}}
TOOLS = ({"type": "function", "name": "lookup_order", "description": "Look it up", "parameters": SCHEMA},)
LOOKED = asks(("call_1", "lookup_order", {"order_id": "A-1"}), words="I look.")
GAVE = gives(("call_1", {"status": "delivered", "n": [1, None]}))
ASKED = (text("system", "Be kind."), text("user", "Where is Zoë's order?"), LOOKED, GAVE)


def request(dialect, stream=False, **more):
    return encode.request(dialect, model="gpt-x", messages=ASKED, tools=TOOLS, stream=stream, **more)


def message(words, uses=(), finish=""):
    return asks(*((use.id, use.name, use.arguments) for use in uses), words=words) | {"finish_reason": finish}


def without_names_for_ids(found):
    """Gemini names the tool where the others repeat the id of its call."""
    return json.loads(json.dumps(found).replace('"lookup_order"', '"call_1"'))


@DIALECT
@FORM
def test_a_request_is_read_back(dialect, stream):
    call = request(dialect, stream, parameters={"temperature": 0.5})
    reading = READER.read_call(call)
    assert (reading.dialect, reading.stream, reading.kind) == (dialect, stream, "model")
    assert reading.model == "gpt-x"
    assert normalize_tools(reading.tools) == TOOLS
    assert 0.5 in reading.knobs.values()
    told = normalize_conversation(reading)
    assert [one["role"] for one in told] == ["system", "user", "assistant", "tool"]
    assert without_names_for_ids(told) == without_names_for_ids(ASKED)
    assert READER.tool_uses(reading)[0].name == "lookup_order"
    moved = request(dialect, base="http://127.0.0.1:8080/")
    assert moved.url.startswith("http://127.0.0.1:8080/")
    assert READER.read_call(moved).dialect == dialect


@DIALECT
@FORM
@settings(max_examples=20)
@given(words=st.just("") | WORDS, uses=CALLS)
def test_a_reply_is_read_back(dialect, stream, words, uses):
    call = request(dialect, stream)
    said = message(words, uses)
    usage = {"input_tokens": 12, "output_tokens": 3}
    told = encode.reply(call, said, model="gpt-x-1", response_id="r1", usage=usage)
    assert told == encode.reply(call, said, model="gpt-x-1", response_id="r1", usage=usage)
    assert sum(told.cuts) == len(told.body)
    found = READER.read_reply(call, told)
    assert found.text == words
    calls = [(use.id, use.name, parse_text(use.arguments)) for use in found.tool_uses]
    assert calls == [(use.id, use.name, use.arguments) for use in uses]
    assert not found.error
    if not stream or dialect != "openai_chat":  # chat streams usage only where it is asked for
        assert found.usage.get("output_tokens") == 3


@DIALECT
@FORM
def test_an_end_before_the_end_is_told(dialect, stream):
    call = request(dialect, stream)
    for finish in ("length", "max_tokens", "content_filter"):
        found = READER.read_reply(call, encode.reply(call, message("half", finish=finish)))
        assert normalize_reply(found)["finish_reason"] not in {"stop", "end_turn", "STOP", "completed"}, finish


@DIALECT
@pytest.mark.parametrize("now", WRITTEN)
def test_a_reply_is_retold_in_another_form(dialect, now):
    for recorded_stream, asked_stream in product([False, True], repeat=2):
        recorded, asked = request(dialect, recorded_stream), request(now, asked_stream)
        uses = [ToolUse("call_7", "lookup_order", {"order_id": "A-1"})]
        came = encode.reply(recorded, message("Zoë?", uses), model="gpt-x-1", response_id="r1")
        told = encode.retell(asked, recorded, came)
        assert (told is came) == ((dialect, recorded_stream) == (now, asked_stream))
        found = READER.read_reply(asked, told)
        assert (found.text, [(u.id, u.name) for u in found.tool_uses]) == ("Zoë?", [("call_7", "lookup_order")])


def test_what_nobody_can_say_otherwise_stays():
    recorded, asked = request("openai_chat"), request("anthropic", stream=True)
    refused = HttpReply(429, "Too Many Requests", body=encode.reply(recorded, message("x")).body)
    for outcome in (Failure("httpx.ReadTimeout", "slow"), refused, HttpReply(200, "OK")):
        assert encode.retell(asked, recorded, outcome) is outcome
