"""Tools that nobody has frozen, and tests without the plugin that ask a model: told while recording."""

import pytest

from pytest_agentreplay.cli.listing import make_row
from pytest_agentreplay.providers import READER
from pytest_agentreplay.report import page_data
from pytest_agentreplay.runs.inventory import read_inventory
from pytest_agentreplay.runs.pages import write_folder
from tests.support.model_script import Ask
from tests.support.project import NOBODY
from tests.support.small_projects import edited, flat, furnished, passed, recorded, runs, summary

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

AGENT = """
import json, os
import httpx2

URL = os.environ["MODEL_URL"]

def find_parcel(code):
    with open("ledger.txt", "a") as ledger:
        ledger.write(f"find {code}\\n")
    return {"parcel": code}

def post(messages):
    tools = [{"type": "function", "function": {"name": "find_parcel"}}]
    body = {"model": "m", "messages": messages, "tools": tools}
    return httpx2.post(URL + "/v1/chat/completions", json=body).json()["choices"][0]["message"]

def agent():
    messages = [{"role": "user", "content": "Where is parcel P-1?"}]
    message = post(messages)
    (use,) = message["tool_calls"]
    result = find_parcel(**json.loads(use["function"]["arguments"]))
    post([*messages, message, {"role": "tool", "tool_call_id": use["id"], "content": json.dumps(result)}])

def hello():
    return post([{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}])
"""


def script(body, number):
    asked = [message for message in (body or {}).get("messages", []) if message["role"] == "user"]
    if asked and "parcel" in asked[0]["content"] and body["messages"][-1]["role"] == "user":
        return Ask("find_parcel", {"code": "P-1"})
    return f"Done ({number})."


UNFROZEN = """
import agent

def test_unseen(agentreplay):
    agent.agent()

def test_given(agentreplay):
    agentreplay.tool(agent.find_parcel)
    agent.agent()
"""


def test_a_tool_that_ran_unseen_is_told_with_the_line_to_add(shared_project):
    project = recorded(furnished(shared_project(script), agent=AGENT, test_tools=UNFROZEN))
    assert project.recording.stdout.count("[AR-UNFROZEN]") == 1
    assert "tool find_parcel" in flat(project.recording)
    (missed,) = runs(project)["unseen"].header.kit["unfrozen"]
    assert missed["tool"] == "find_parcel"
    assert "agent.find_parcel" in missed["path"]
    before = len(project.ledger)
    replayed = passed(project.replay())
    told = "tool find_parcel runs for real in a replay: it ran unseen when test_tools.py::test_unseen recorded it"
    assert f"[AR-UNFROZEN] {told}" in replayed.stdout
    assert "add to agentreplay_tools:   agent.find_parcel" in replayed.stdout
    assert "0 live, 1 not frozen)" in replayed.stdout
    assert len(project.ledger) == before + 1
    on_ci = project.offline(CI="true")
    assert "1 passed, 1 error" in on_ci.stdout, "what the other test gives is frozen"
    assert "[AR-UNFROZEN] tool find_parcel ran unseen when recorded: where CI is set, freeze it or" in flat(on_ci)
    assert "freeze it, in agentreplay_tools: agent.find_parcel" in flat(on_ci)
    for name in ("agent.find_parcel", "find_parcel"):
        with edited(project, "pytest.ini", "[pytest]", f"[pytest]\nagentreplay_tools = {name} = live"):
            assert "AR-UNFROZEN" not in passed(project.replay("-k", "unseen", CI="true")).stdout
    recorded_unseen, given = read_inventory(project.root)[::-1]
    assert (recorded_unseen.unfrozen, given.unfrozen) == (("find_parcel",), ())
    assert "passed; runs for real: find_parcel" in make_row(recorded_unseen)
    facts = page_data.describe_run(runs(project)["unseen"])["facts"]
    assert ["not frozen", "find_parcel (runs for real in a replay)"] in facts
    index = write_folder(project.root / "pages", project.root).read_text(encoding="utf-8")
    assert '"unfrozen":["find_parcel"]' in index.replace('": ', '":')
    # What it says to paste is what mends it.
    recorded(furnished(project, "agentreplay_tools =\n    agent.find_parcel\n"))
    assert "AR-UNFROZEN" not in passed(project.offline()).stdout


BYSTANDERS = """
import socket
import agent

def ask(host):
    try:
        socket.getaddrinfo(host, 443)
    except OSError:
        pass

def test_one():
    ask("api.openai.com")
    ask("api.anthropic.com")

def test_two():
    ask("api.openai.com")

def test_harmless():
    ask("example.com")

def test_frozen(agentreplay):
    agent.hello()
"""

SAID = "not recorded: 2 tests without the plugin called a model at api.anthropic.com, api.openai.com"


def test_tests_without_the_plugin_that_ask_a_model_are_counted_while_recording(shared_project):
    project = furnished(shared_project(script), agent=AGENT, test_bystanders=BYSTANDERS)
    project.plugins += ("xdist.plugin",)
    assert SAID in project.record("-n", "2").stdout
    assert SAID in project.record("-k", "not frozen").stdout, "also where nothing is recorded"
    assert "model at" not in project.run().stdout, "a replay listens to nobody else"


BY_NAME = """
import os, httpx2

URL = os.environ["MODEL_URL"] + "/v1/projects/p/locations/europe-west4/publishers/google/models/g:generateContent"

def find_parcel(code):
    return {"parcel": code}

def test_gemini(agentreplay):
    contents = [{"role": "user", "parts": [{"text": "Find parcel P-1"}]}]
    schema = {"type": "object", "properties": {"code": {"type": "string"}}}
    tools = [{"functionDeclarations": [{"name": "find_parcel", "parameters": schema}]}]
    for _ in range(2):
        body = {"contents": contents, "tools": tools, "generationConfig": {"temperature": 0.5, "topP": 1}}
        content = httpx2.post(URL, json=body).json()["candidates"][0]["content"]
        contents.append(content)
        for part in content["parts"]:
            if "functionCall" in part:
                answer = {"name": "find_parcel", "response": find_parcel(**part["functionCall"]["args"])}
                contents.append({"role": "user", "parts": [{"functionResponse": answer}]})
"""


def test_where_the_api_gives_no_ids_a_tool_is_known_by_its_name(shared_project):
    project = recorded(furnished(shared_project(), test_gemini=BY_NAME))
    assert project.recording.stdout.count("[AR-UNFROZEN]") == 1, project.recording.stdout
    (run,) = runs(project).values()
    assert [missed["tool"] for missed in run.header.kit["unfrozen"]] == ["find_parcel"]
    (model,) = run.header.kit["models"]
    assert (model["provider"], model["region"], model["model"]) == ("gcp.vertex_ai", "europe-west4", "g")
    knobs = READER.read_call(run.exchanges[0].call).knobs
    assert knobs == {"generationConfig.temperature": 0.5, "generationConfig.topP": 1}
    project.edit("test_gemini.py", "Find parcel", "Seek parcel")
    told = project.offline().stdout
    assert "AR-PROMPT" in told
    assert "$.contents[0].parts[0].text" in told


RENAMED = """
import json
import agent

def _find(code):
    return agent.find_parcel(code)

def find_in_books(code):
    return agent.find_parcel(code)

TOOLS = {"find_parcel": _find}

def run(tool):
    messages = [{"role": "user", "content": "Where is parcel P-1?"}]
    message = agent.post(messages)
    (use,) = message["tool_calls"]
    result = tool(**json.loads(use["function"]["arguments"]))
    told = {"role": "tool", "tool_call_id": use["id"], "content": json.dumps(result)}
    return agent.post([*messages, message, told])["content"]
"""
DESK = """
import desk

def test_registry(agentreplay):
    assert "Done" in desk.run(desk.TOOLS["find_parcel"])

def test_given(agentreplay):
    agentreplay.tool(desk.find_in_books, name="find_parcel")
    assert "Done" in desk.run(desk.find_in_books)
    agentreplay.run.assert_tool_calls(["find_parcel"])
"""


def test_a_tool_under_another_name_is_proved_and_told_as_the_model_knows_it(shared_project):
    files = {
        "agent": AGENT.replace("ledger.txt", "ledger2.txt").replace("def find_parcel", "def look"),
        "test_desk": DESK,
    }
    files["agent"] = files["agent"].replace("find_parcel(**", "look(**")
    files["desk"] = RENAMED.replace("agent.find_parcel", "agent.look")
    for line, name in (("desk._find", "_find"), ("desk._find = read as find_parcel", "find_parcel")):
        project = furnished(shared_project(script), f"agentreplay_tools =\n    {line}\n", **files)
        project.proves = True
        recorded(project)
        assert project.recording.stdout.count("   replays") == 2, line
        assert "AR-UNFROZEN" not in project.recording.stdout
        assert [x.call.name for x in runs(project)["registry"].exchanges if x.call.boundary == "tool"] == [name]
        with edited(project, "desk.py", "json.dumps(result)", '"It is " + json.dumps(result)'):
            assert "AR-HISTORY" in summary(project.offline())["registry"]


LIVE = """
import desk

def test_declared(agentreplay):
    assert "Done" in desk.run(desk.TOOLS["find_parcel"])

def test_in_the_test(agentreplay):
    tool = agentreplay.tool(lambda code: {"parcel": code}, name="find_parcel", effects="live")
    assert "Done" in desk.run(tool)
"""


def test_a_tool_that_is_declared_live_runs_for_real_and_is_counted(shared_project):
    files = {"agent": AGENT, "desk": RENAMED, "test_live": LIVE}
    ini = "agentreplay_tools =\n    desk._find = live as find_parcel\n    agent.json.dumps = live\n"
    project = furnished(shared_project(script), ini, **files)
    project.proves = True
    recorded(project)
    assert "AR-UNFROZEN" not in project.recording.stdout
    assert project.recording.stdout.count("   replays") == 2
    assert runs(project)["declared"].header.kit["live"] == ["dumps", "find_parcel"]
    ledger = project.root / "ledger.txt"
    before = len(ledger.read_text(encoding="utf-8").splitlines())
    replayed = passed(project.replay(MODEL_URL=NOBODY))
    assert "tools frozen but 2 LIVE" in replayed.stdout
    assert "4 calls served, 2 tools declared live: dumps, find_parcel)" in flat(replayed)
    assert len(ledger.read_text(encoding="utf-8").splitlines()) == before + 1, "the tool ran"
