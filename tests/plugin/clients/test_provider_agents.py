"""Order-status agents on the SDKs of Google, Amazon, Ollama and Cohere: recorded, replayed offline, told where they part."""

import pytest

from pytest_agentreplay.demo.script import Ask
from pytest_agentreplay.dialects import READER

pytestmark = pytest.mark.env("clients", "lastyear")

AGENT = """
import json, os, pathlib

URL = os.environ["MODEL_URL"]
PROMPT = "Be brief."
QUESTION = "Where is my order A-17?"
SCHEMA = {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]}
FUNCTION = {"type": "function", "function": {"name": "lookup_order", "description": "d", "parameters": SCHEMA}}

CLIENTS = []

def kept(client):
    CLIENTS.append(client)
    return client

def close():
    while CLIENTS:
        CLIENTS.pop().close()

def lookup_order(order_id):
    with pathlib.Path(__file__).with_name("ledger.txt").open("a") as ledger:
        ledger.write(f"lookup {order_id}\\n")
    return {"order": order_id, "status": "late"}

def google():
    from google import genai
    from google.genai import types
    client = kept(genai.Client(api_key="any", vertexai=False, http_options={"base_url": URL}))
    tool = types.Tool(function_declarations=[{"name": "lookup_order", "parameters_json_schema": SCHEMA}])
    config = types.GenerateContentConfig(
        system_instruction=PROMPT, tools=[tool], automatic_function_calling={"disable": True}
    )
    contents = [types.UserContent(QUESTION)]
    while True:
        made = client.models.generate_content(model="gemini-x", contents=contents, config=config)
        contents.append(made.candidates[0].content)
        calls = [part.function_call for part in contents[-1].parts if part.function_call]
        if not calls:
            return made.text
        answers = [types.Part.from_function_response(name=c.name, response=lookup_order(**c.args)) for c in calls]
        contents.append(types.UserContent(answers))

def amazon():
    import boto3
    keys = {"aws_access_key_id": "any", "aws_secret_access_key": "any", "region_name": "eu-west-1"}
    client = kept(boto3.client("bedrock-runtime", endpoint_url=URL, **keys))
    tools = [{"toolSpec": {"name": "lookup_order", "inputSchema": {"json": SCHEMA}}}]
    messages = [{"role": "user", "content": [{"text": QUESTION}]}]
    while True:
        asked = {"modelId": "claude-x", "messages": messages, "system": [{"text": PROMPT}], "toolConfig": {"tools": tools}}
        content, uses = [], {}
        for event in client.converse_stream(**asked)["stream"]:
            if "contentBlockStart" in event:
                use = {**event["contentBlockStart"]["start"]["toolUse"], "input": ""}
                content.append({"toolUse": use})
            elif "contentBlockDelta" in event:
                delta = event["contentBlockDelta"]["delta"]
                if "toolUse" in delta:
                    content[-1]["toolUse"]["input"] += delta["toolUse"]["input"]
                elif content and "text" in content[-1]:
                    content[-1]["text"] += delta["text"]
                else:
                    content.append({"text": delta["text"]})
        uses = [block["toolUse"] for block in content if "toolUse" in block]
        if not uses:
            return content[0]["text"]
        for use in uses:
            use["input"] = json.loads(use["input"])
        messages.append({"role": "assistant", "content": content})
        results = [{"toolUseId": u["toolUseId"], "content": [{"json": lookup_order(**u["input"])}]} for u in uses]
        messages.append({"role": "user", "content": [{"toolResult": result} for result in results]})

def llama():
    import ollama
    client = ollama.Client(host=URL)
    kept(client._client)
    messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": QUESTION}]
    while True:
        text, calls = "", []
        for chunk in client.chat("llama-x", messages, stream=True, tools=[FUNCTION]):
            text += chunk.message.content or ""
            calls += chunk.message.tool_calls or ()
        if not calls:
            return text
        messages.append({"role": "assistant", "content": text, "tool_calls": calls})
        for call in calls:
            told = json.dumps(lookup_order(**call.function.arguments))
            messages.append({"role": "tool", "tool_name": call.function.name, "content": told})

def command():
    import cohere, httpx
    client = cohere.ClientV2(api_key="any", base_url=URL, httpx_client=kept(httpx.Client()))
    messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": QUESTION}]
    while True:
        message = client.chat(model="command-x", messages=messages, tools=[FUNCTION]).message
        if not message.tool_calls:
            return message.content[0].text
        messages.append({"role": "assistant", "tool_plan": message.tool_plan, "tool_calls": message.tool_calls})
        for call in message.tool_calls:
            told = json.dumps(lookup_order(**json.loads(call.function.arguments)))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": told})
"""

TESTS = """
import pytest, agent

@pytest.mark.parametrize("speak", ["google", "amazon", "llama", "command"])
def test_order(speak, agentreplay):
    try:
        assert "late" in getattr(agent, speak)()
    finally:
        agent.close()
    agentreplay.run.assert_tool_calls([("lookup_order", {"order_id": "A-17"})])
    assert len(agentreplay.run.model_calls) == 2
"""

INI = """
[pytest]
pythonpath = .
agentreplay_tools = agent.lookup_order = read
"""

AT = {
    "google": "$.systemInstruction.parts[0].text",
    "amazon": "$.system[0].text",
    "llama": "$.messages[0].content",
    "command": "$.messages[0].content",
}


def script(body, number):
    told = "A-17" in str(body) and "late" in str(body)
    return f"It is late (answer {number})." if told else Ask("lookup_order", {"order_id": "A-17"})


def test_agents_on_the_providers_own_sdks(shared_project):
    project = shared_project(script)
    project.write(agent=AGENT, test_orders=TESTS)
    (project.root / "pytest.ini").write_text(INI, encoding="utf-8")
    done = project.record()
    assert done.returncode == 0, done.stdout
    assert len(project.ledger) == 4
    assert "AR-UNFROZEN" not in done.stdout
    for snapshot in project.snapshots:
        (first, *_, last) = (x for x in snapshot.run.exchanges if READER.read_call(x.call).kind == "model")
        assert [use.name for use in READER.read_reply(first.call, first.outcome).tool_uses] == ["lookup_order"]
        assert "late" in READER.read_reply(last.call, last.outcome).text
        assert len(READER.tool_results(READER.read_call(last.call))) == 1
    assert project.offline().returncode == 0
    told, done = project.diverged()
    assert len(told) == 4
    for name, at in AT.items():
        (said,) = [line for test, line in told.items() if name in test]
        assert "AR-PROMPT" in said
        assert "turn 1/2: model " in said
        assert at in done.stdout
