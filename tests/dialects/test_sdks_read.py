"""What the SDKs' own helpers make of a stream is what the dialects read in the same bytes."""

from __future__ import annotations

import anthropic
import httpx
import httpx2
import openai
import pytest

from pytest_agentreplay.core.model import Body, HttpCall, HttpReply
from pytest_agentreplay.demo.replies import anthropic as anthropic_replies
from pytest_agentreplay.demo.replies import openai_chat, openai_responses
from pytest_agentreplay.demo.script import Ask, Say
from pytest_agentreplay.dialects import READER

pytestmark = pytest.mark.env("main", "legacy", "lowest")

SAY = Say("Let me see, é 😀", (Ask("look", {"q": 1}), Ask("now", {})))


def sdk_over(sdk, stream):
    """A client of the SDK that gets `stream` for an answer, and the exchange that it then makes."""
    library = httpx2 if issubclass(sdk.DefaultHttpxClient, httpx2.Client) else httpx
    exchanged = []

    def handle(request):
        headers = (("content-type", "text/event-stream"),)
        call = HttpCall(request.method, str(request.url), (("content-type", "application/json"),), Body(request.read()))
        exchanged.append((call, HttpReply(200, headers=headers, body=Body(stream))))
        return library.Response(200, headers=dict(headers), content=stream)

    make = openai.OpenAI if sdk is openai else anthropic.Anthropic
    return make(api_key="k", http_client=sdk.DefaultHttpxClient(transport=library.MockTransport(handle))), exchanged


def chat(client):
    message = [{"role": "user", "content": "hi"}]
    with client.chat.completions.stream(model="m", messages=message) as stream:
        final = stream.get_final_completion().choices[0]
    uses = [(c.id, c.function.name, c.function.arguments) for c in final.message.tool_calls]
    return final.message.content, uses, final.finish_reason


def responses(client):
    with client.responses.stream(model="m", input="hi") as stream:
        final = stream.get_final_response()
    uses = [(item.call_id, item.name, item.arguments) for item in final.output if item.type == "function_call"]
    return final.output_text, uses, None


def messages(client):
    with client.messages.stream(model="m", max_tokens=9, messages=[{"role": "user", "content": "hi"}]) as stream:
        final = stream.get_final_message()
    text = "".join(block.text for block in final.content if block.type == "text")
    return text, [(b.id, b.name, b.input) for b in final.content if b.type == "tool_use"], final.stop_reason


@pytest.mark.parametrize(
    ("sdk", "say", "ask"),
    [
        (openai, openai_chat.chat_stream, chat),
        (openai, openai_responses.responses_stream, responses),
        (anthropic, anthropic_replies.messages_stream, messages),
    ],
    ids=["chat", "responses", "messages"],
)
def test_the_sdks_read_the_same(sdk, say, ask):
    stream = b"".join(say({"model": "m", "messages": [], "input": "hi"}, SAY))
    client, exchanged = sdk_over(sdk, stream)
    with client:
        text, uses, stopped = ask(client)
    [(call, reply)] = exchanged
    read = READER.read_reply(call, reply)
    assert (read.text, [(use.id, use.name, use.arguments) for use in read.tool_uses]) == (text, uses)
    assert text == SAY.text
    assert [name for _, name, _ in uses] == ["look", "now"]
    if stopped is not None:
        assert read.finish_reasons == (stopped,)
