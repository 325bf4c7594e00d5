"""A model call off the wire: what its bytes say, and that nothing else comes through."""

import json
from itertools import product

from pytest_agentreplay.model.exchanges import Body, Failure, HttpCall, HttpReply
from pytest_agentreplay.traces import wire
from pytest_agentreplay.traces.moments import add_milliseconds, moment

CHAT = "https://api.openai.com/v1/chat/completions"
ASKED = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "temperature": 0}
CHOICE = {"message": {"content": "yes"}, "finish_reason": "stop"}
REPLY = {"id": "c1", "model": "m-1", "system_fingerprint": "fp", "choices": [CHOICE]}
SENT = HttpCall("POST", CHAT, wire.JSON, Body(wire.compact(ASKED)))


def test_the_neutral_fields_come_from_the_bytes_and_facts_win():
    call = wire.json_call("openai_chat", ASKED, REPLY, started=5, id="x", provider="azure.ai.openai")
    assert (call.dialect, call.provider, call.operation, call.model) == ("openai_chat", "azure.ai.openai", "chat", "m")
    assert call.messages == ({"role": "user", "parts": [{"type": "text", "content": "hi"}]},)
    assert call.reply == {"role": "assistant", "parts": [{"type": "text", "content": "yes"}], "finish_reason": "stop"}
    assert (call.response_id, call.response_model, call.fingerprint, call.status) == ("c1", "m-1", "fp", 200)
    assert (call.parameters, call.started, call.id, call.fault) == ({"temperature": 0}, 5, "x", None)
    assert json.loads(call.request.body.data) == ASKED
    assert call.request.url == CHAT
    assert sum(call.response.cuts) == len(call.response.body)


BODIES = {
    "gemini": {"contents": []},
    "bedrock": {"messages": []},
    "ollama_generate": {"model": "m", "prompt": "hi"},
    "openai_responses": {"input": "hi"},
    "openai_embeddings": {"model": "m", "input": "hi"},
}


def test_the_address_of_a_dialect_is_one_that_this_dialect_knows():
    for dialect, stream in product(sorted(wire.ADDRESSES), (False, True)):
        body = BODIES.get(dialect, ASKED | {"max_tokens": 1})
        call = wire.json_call(wire.address(dialect, model="a/b:1", stream=stream), body, None)
        assert (call.dialect, call.reply) == (dialect, None)


def test_a_failure_an_error_reply_and_one_that_broke_off_are_faults():
    broken = wire.model_call(SENT, Failure("httpx.ReadTimeout", "too slow"))
    refused = wire.json_call(CHAT, ASKED, {"error": {"message": "slow down", "type": "rate_limit"}}, status=429)
    assert (broken.fault.type, broken.fault.message, broken.reply) == ("httpx.ReadTimeout", "too slow", None)
    assert (refused.fault.type, refused.reply, refused.status) == ("HTTP 429", None, 429)
    assert "slow down" in refused.fault.message
    came, stream = b'data: {"choices": [{"delta": {"content": "ye"}}]}\n\n', (("content-type", "text/event-stream"),)
    call = wire.model_call(SENT, HttpReply(200, headers=stream, body=Body(came), failure=Failure("E", "cut")))
    assert call.reply["parts"] == [{"type": "text", "content": "ye"}], "and what came is kept"
    assert "cut" in call.fault.message


def test_credentials_of_headers_and_url_stay_outside():
    names = ("Authorization", "Cookie", "x-api-key", "x-goog-api-key")
    secret = tuple((name, f"hidden-{at}") for at, name in enumerate(names))
    answered = (("Set-Cookie", "sid=hidden-5"), ("x-request-id", "r1"))
    url = CHAT.replace("api.", "user:hidden-6@api.") + "?key=hidden-7"
    sent = HttpCall("POST", url, (*secret, *wire.JSON), Body(wire.compact(ASKED)))
    call = wire.model_call(sent, HttpReply(200, headers=answered, body=Body(wire.compact(REPLY))))
    assert "hidden" not in f"{call.request.url}{call.request.headers}{call.response.headers}"
    assert call.response.headers == (("x-request-id", "r1"),)


def test_one_moment_in_the_ways_of_logs():
    texts = ["2026-11-20T13:51:50.5Z", "2026-11-20 13:51:50.500000 UTC", "2026-11-20T15:51:50.500+02:00"]
    texts += ["2026-11-20T11:51:50.5-0200", "2026-11-20T13:51:50,500000000"]
    numbers = [1795182710.5, 1795182710500, 1795182710500000, 1795182710500000000]
    assert [moment(one) for one in (*texts, *numbers)] == [1795182710500000000] * 9
    none = ["", "yesterday", "2026-13-40T99:00:00Z", "2026-11-20T13:51:50+99:00", None, True, -1, 0, 1e300, []]
    assert [moment(one) for one in (*none, float("nan"))] == [None] * 11
    assert add_milliseconds(10, 1.5) == 1_500_010
    assert [add_milliseconds(None, 1.5), *(add_milliseconds(10, one) for one in ("1.5", True, 1e300, -1))] == [None] * 5
    assert wire.compact({"a": "\ud800é"}) == b'{"a":"\\ud800\\u00e9"}', "half a character is an escape"
    assert wire.compact({"a": "é"}) == '{"a":"é"}'.encode()
