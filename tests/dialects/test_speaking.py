"""What is written in a dialect is read back as what it was made of, whole and streamed; the official SDKs take it."""

import json
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.core.model import Failure, HttpReply
from pytest_agentreplay.core.reading import ToolUse
from pytest_agentreplay.demo.server import ModelServer, Raw
from pytest_agentreplay.dialects import READER, all_dialects, encode, genai

pytestmark = pytest.mark.env("main", "lowest")

DIALECT = pytest.mark.parametrize("dialect", sorted(encode.SPOKEN))
FORM = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)
ARGUMENTS = st.dictionaries(WORDS, st.none() | st.booleans() | st.integers(-9, 9) | WORDS, max_size=3)
CALLS = st.lists(st.builds(ToolUse, st.uuids().map(str), WORDS, ARGUMENTS), max_size=3)
SCHEMA = {"type": "object", "properties": {"order_id": {"type": "string"}}}
TOOLS = ({"type": "function", "name": "lookup_order", "description": "Look it up", "parameters": SCHEMA},)
ASKED = (
    {"role": "system", "parts": [{"type": "text", "content": "Be kind."}]},
    {"role": "user", "parts": [{"type": "text", "content": "Where is Zoë's order?"}]},
    {
        "role": "assistant",
        "parts": [
            {"type": "text", "content": "I look."},
            {"type": "tool_call", "id": "call_1", "name": "lookup_order", "arguments": {"order_id": "A-1"}},
        ],
    },
    {
        "role": "tool",
        "parts": [{"type": "tool_call_response", "id": "call_1", "response": {"status": "delivered", "n": [1, None]}}],
    },
)


def request(dialect, stream=False, **more):
    return encode.request(dialect, model="gpt-x", messages=ASKED, tools=TOOLS, stream=stream, **more)


def message(text, uses, finish=""):
    texts = [{"type": "text", "content": text}] if text else []
    calls = [{"type": "tool_call", "id": u.id, "name": u.name, "arguments": u.arguments} for u in uses]
    return {"role": "assistant", "parts": [*texts, *calls], "finish_reason": finish}


def without_names_for_ids(found):
    """Gemini names the tool where the others repeat the id of its call."""
    return json.loads(json.dumps(found).replace('"lookup_order"', '"call_1"'))


def test_every_dialect_that_is_written_is_read():
    assert {one.name for one in all_dialects()} >= encode.SPOKEN


@DIALECT
@FORM
def test_a_request_is_read_back(dialect, stream):
    call = request(dialect, stream, parameters={"temperature": 0.5})
    reading = READER.read_call(call)
    assert (reading.dialect, reading.stream, reading.kind) == (dialect, stream, "model")
    assert reading.model == "gpt-x"
    assert genai.tools(reading.tools) == TOOLS
    assert 0.5 in reading.knobs.values()
    told = genai.conversation(reading)
    assert [one["role"] for one in told] == ["system", "user", "assistant", "tool"]
    assert without_names_for_ids(told) == without_names_for_ids(ASKED)
    assert READER.tool_uses(reading)[0].name == "lookup_order"


@DIALECT
def test_a_base_moves_a_request(dialect):
    call = request(dialect, base="http://127.0.0.1:8080/")
    assert call.url.startswith("http://127.0.0.1:8080/")
    assert READER.read_call(call).dialect == dialect


@DIALECT
@FORM
@given(text=st.just("") | WORDS, uses=CALLS)
def test_a_reply_is_read_back(dialect, stream, text, uses):
    call = request(dialect, stream)
    said = message(text, uses)
    usage = {"input_tokens": 12, "output_tokens": 3}
    told = encode.reply(call, said, model="gpt-x-1", response_id="r1", usage=usage)
    assert told == encode.reply(call, said, model="gpt-x-1", response_id="r1", usage=usage)
    assert sum(told.cuts) == len(told.body)
    found = READER.read_reply(call, told)
    assert found.text == text
    assert [(u.id, u.name, genai.parsed(u.arguments)) for u in found.tool_uses] == [
        (u.id, u.name, u.arguments) for u in uses
    ]
    assert not found.error
    if not stream or dialect != "openai_chat":  # chat streams usage only where it is asked for
        assert found.usage.get("output_tokens") == 3


@DIALECT
@FORM
@pytest.mark.parametrize("finish", ["length", "max_tokens", "content_filter"])
def test_an_end_before_the_end_is_told(dialect, stream, finish):
    call = request(dialect, stream)
    found = READER.read_reply(call, encode.reply(call, message("half", [], finish)))
    assert genai.reply(found)["finish_reason"] not in {"stop", "end_turn", "STOP", "completed"}


@pytest.mark.parametrize(("before", "now"), [*product(sorted(encode.SPOKEN), repeat=2)])
@pytest.mark.parametrize("streams", [*product([False, True], repeat=2)], ids=str)
def test_a_reply_is_retold_in_another_form(before, now, streams):
    recorded, asked = request(before, streams[0]), request(now, streams[1])
    uses = [ToolUse("call_7", "lookup_order", {"order_id": "A-1"})]
    came = encode.reply(recorded, message("Zoë?", uses), model="gpt-x-1", response_id="r1")
    told = encode.retell(asked, recorded, came)
    assert (told is came) == ((before, streams[0]) == (now, streams[1]))
    found = READER.read_reply(asked, told)
    assert (found.text, [(u.id, u.name) for u in found.tool_uses]) == ("Zoë?", [("call_7", "lookup_order")])


def test_what_nobody_can_say_otherwise_stays():
    recorded, asked = request("openai_chat"), request("anthropic", stream=True)
    for outcome in (
        Failure("httpx.ReadTimeout", "slow"),
        HttpReply(429, "Too Many Requests", body=encode.reply(recorded, message("x", [])).body),
        HttpReply(200, "OK"),
    ):
        assert encode.retell(asked, recorded, outcome) is outcome


def test_openai_takes_what_is_written():
    import openai

    uses = [ToolUse("call_7", "lookup_order", {"order_id": "A-1"})]
    for stream in (False, True):
        with served("openai_chat", stream, uses) as server:
            client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
            asked = {"model": "gpt-x", "messages": [{"role": "user", "content": "hi"}]}
            if stream:
                with client.chat.completions.stream(**asked) as events:
                    choice = events.get_final_completion().choices[0]
            else:
                choice = client.chat.completions.create(**asked).choices[0]
            assert choice.message.content == "Zoë?"
            assert choice.message.tool_calls[0].function.name == "lookup_order"
        with served("openai_responses", stream, uses) as server:
            client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
            if stream:
                with client.responses.stream(model="gpt-x", input="hi") as events:
                    response = events.get_final_response()
            else:
                response = client.responses.create(model="gpt-x", input="hi")
            assert response.output_text == "Zoë?"
            assert response.output[1].call_id == "call_7"


def test_anthropic_takes_what_is_written():
    import anthropic

    uses = [ToolUse("toolu_7", "lookup_order", {"order_id": "A-1"})]
    for stream in (False, True):
        with served("anthropic", stream, uses) as server:
            client = anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0)
            asked = {"model": "claude-x", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
            if stream:
                with client.messages.stream(**asked) as events:
                    told = events.get_final_message()
            else:
                told = client.messages.create(**asked)
            assert told.content[0].text == "Zoë?"
            assert told.content[1].input == {"order_id": "A-1"}
            assert told.stop_reason == "tool_use"


def served(dialect, stream, uses):
    """A server that gives what is written in `dialect`."""
    told = encode.reply(request(dialect, stream), message("Zoë?", uses), model="gpt-x-1")
    return ModelServer(lambda body, number: Raw(headers=list(told.headers), chunks=tuple(told.chunks())))
