"""Other SDKs on a run that was frozen in one API: each is answered in its own."""

from __future__ import annotations

import functools
import json

import pytest

from tests.runs.shop import NOBODY, Shop, by_hand, tried

pytestmark = pytest.mark.env("clients")


def gemini(shop, messages):
    from google import genai
    from google.genai import types

    client = genai.Client(api_key="any", http_options={"base_url": shop.url})
    config = types.GenerateContentConfig(
        system_instruction=shop.prompt,
        tools=[types.Tool(function_declarations=shop.functions)],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    said = [types.Content(role="user", parts=[types.Part(text=one["content"])]) for one in messages]
    for _ in range(shop.rounds):
        reply = client.models.generate_content(model=shop.model, contents=said, config=config)
        said.append(reply.candidates[0].content)
        if not reply.function_calls:
            return reply.text
        told = [(call.name, json.loads(shop.call(call.name, dict(call.args)))) for call in reply.function_calls]
        results = [types.Part.from_function_response(name=name, response={"result": it}) for name, it in told]
        said.append(types.Content(role="user", parts=results))
    return None


def bedrock(shop, messages):
    import boto3

    keys = {"aws_access_key_id": "any", "aws_secret_access_key": "any"}
    client = boto3.client("bedrock-runtime", region_name="eu-central-1", endpoint_url=shop.url, **keys)
    (function,) = shop.functions
    spec = function | {"inputSchema": {"json": function["parameters"]}}
    del spec["parameters"]
    more = {"system": [{"text": shop.prompt}], "toolConfig": {"tools": [{"toolSpec": spec}]}}
    said = [{"role": one["role"], "content": [{"text": one["content"]}]} for one in messages]
    for _ in range(shop.rounds):
        reply = client.converse(modelId=shop.model, messages=said, **more)["output"]["message"]
        said.append(reply)
        uses = [block["toolUse"] for block in reply["content"] if "toolUse" in block]
        if not uses:
            return "".join(block["text"] for block in reply["content"])
        told = [(use["toolUseId"], shop.call(use["name"], use["input"])) for use in uses]
        results = [{"toolResult": {"toolUseId": use, "content": [{"text": text}]}} for use, text in told]
        said.append({"role": "user", "content": results})
    return None


SDKS = pytest.mark.parametrize("client", [gemini, bedrock], ids=lambda one: one.__name__)


@SDKS
@pytest.mark.parametrize("dialect", ["openai_chat", "anthropic", "gemini", "bedrock"])
def test_by_its_meaning_a_run_answers_them(client, dialect, tmp_path):
    run = by_hand(dialect)
    evidence = tried(tmp_path, run, functools.partial(client, Shop(NOBODY)), fidelity="semantic")
    assert evidence.divergence is None, evidence.divergence
    assert evidence.output == "Your order goes to u-3."
    other = functools.partial(client, Shop(NOBODY, prompt="You help nobody."))
    parted = tried(tmp_path, run, other, fidelity="semantic").divergence
    assert [one.note for one in parted.differences] == ["customers -> nobody"]


@SDKS
def test_by_position_a_fixed_agent_runs_to_its_end(client, tmp_path):
    fixed = functools.partial(client, Shop(NOBODY, prompt="You help nobody.", about="Elsewhere."))
    evidence = tried(tmp_path, by_hand("anthropic", stream=True), fixed, half="desired")
    assert (evidence.divergence, evidence.output) == (None, "Your order goes to u-3.")
