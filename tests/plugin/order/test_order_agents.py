"""Order-status agents on boto3's Converse and google-genai: recorded, replayed with no server, told where they part."""

import json

import pytest

from pytest_agentreplay.demo.script import Ask

pytestmark = pytest.mark.env("clients", "lastyear")

AGENT = """
import os, pathlib
import boto3
from google import genai
from google.genai import types

URL = os.environ["MODEL_URL"]
PROMPT = "You help customers. Be brief."

def note(line):
    with pathlib.Path(__file__).with_name("ledger.txt").open("a", encoding="utf-8") as ledger:
        ledger.write(line + "\\n")

def lookup_order(order_id: str) -> dict:
    note(f"lookup {order_id}")
    return {"order": order_id, "status": "late"}

def refund(order_id: str, amount: float) -> str:
    note(f"refund {order_id} {amount}")
    return f"refunded {amount}"

TOOLS = {"lookup_order": lookup_order, "refund": refund}
SCHEMA = {"type": "object", "properties": {"order_id": {"type": "string"}}}

def bedrock(question):
    keys = {"aws_access_key_id": "any", "aws_secret_access_key": "any", "region_name": "eu-west-1"}
    client = boto3.client("bedrock-runtime", endpoint_url=URL, **keys)
    specs = [{"toolSpec": {"name": name, "inputSchema": {"json": SCHEMA}}} for name in TOOLS]
    messages = [{"role": "user", "content": [{"text": question}]}]
    while True:
        reply = client.converse(
            modelId="claude-x", system=[{"text": PROMPT}], messages=messages, toolConfig={"tools": specs}
        )["output"]["message"]
        uses = [block["toolUse"] for block in reply["content"] if "toolUse" in block]
        if not uses:
            return reply["content"][0]["text"]
        results = [
            {"toolUseId": use["toolUseId"], "content": [{"text": str(TOOLS[use["name"]](**use["input"]))}]} for use in uses
        ]
        messages += [reply, {"role": "user", "content": [{"toolResult": result} for result in results]}]

def google_genai(question):
    client = genai.Client(api_key="any", vertexai=False, http_options={"base_url": URL})
    declared = [{"name": name, "parameters_json_schema": SCHEMA} for name in TOOLS]
    config = {"system_instruction": PROMPT, "tools": [{"function_declarations": declared}]}
    contents = [types.Content(role="user", parts=[types.Part(text=question)])]
    while True:
        content = client.models.generate_content(model="gemini-x", contents=contents, config=config).candidates[0].content
        calls = [part.function_call for part in content.parts if part.function_call]
        if not calls:
            return content.parts[0].text
        answers = [
            types.Part.from_function_response(name=call.name, response={"result": TOOLS[call.name](**call.args)})
            for call in calls
        ]
        contents += [content, types.Content(role="user", parts=answers)]
"""

TESTS = """
import pytest, agent

@pytest.mark.parametrize("way", ["bedrock", "google_genai"])
def test_refund(way, agentreplay):
    assert "refund" in getattr(agent, way)("Where is A-17?")
    agentreplay.run.assert_tool_calls(["lookup_order", "refund"])
"""

INI = """[pytest]
pythonpath = .
agentreplay_tools =
    agent.lookup_order = read
    agent.refund
"""

THEIRS = ("-W", "ignore")


def script(body, number):
    said = json.dumps(body)
    match said.count('"toolResult"') + said.count('"functionResponse"') + said.count('"function_response"'):
        case 0:
            return Ask("lookup_order", {"order_id": "A-17"})
        case 1:
            return Ask("refund", {"order_id": "A-17", "amount": 18.5})
    return f"Here is your refund (answer {number})."


def test_agents_are_replayed_offline_and_told_where_they_part(shared_project):
    project = shared_project(script)
    project.write(agent=AGENT, test_shop=TESTS)
    (project.root / "pytest.ini").write_text(INI, encoding="utf-8")
    recorded = project.record(*THEIRS)
    assert recorded.returncode == 0, recorded.stdout
    assert project.ledger == ["lookup A-17", "refund A-17 18.5"] * 2
    replayed = project.offline(*THEIRS)
    assert replayed.returncode == 0, replayed.stdout
    assert "replayed 2 tests (6 turns, 10 calls served, 0 live)" in replayed.stdout
    told, _ = project.diverged(*THEIRS, COLUMNS="200")
    assert {test: said.split(" ")[0:3] for test, said in told.items()} == {
        "test_refund[bedrock]": ["FAILED", "[AR-PROMPT]", "turn"],
        "test_refund[google_genai]": ["FAILED", "[AR-PROMPT]", "turn"],
    }
    assert all("turn 1/3: " in said for said in told.values())
