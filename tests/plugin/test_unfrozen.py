"""What no boundary took: told while recording, closed in a replay, whatever the agent swallows."""

import re

import pytest

from pytest_agentreplay.demo.script import Ask

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

AGENT = """
import json, os, platform, socket, subprocess, sys, uuid
import httpx2

URL = os.environ["MODEL_URL"]
PORT = int(URL.rpartition(":")[2])

def find_parcel(code):
    with open("ledger.txt", "a") as ledger:
        ledger.write(f"find {code}\\n")
    return {"parcel": code}

def other_name(code):
    return find_parcel(code)

def post(messages):
    tools = [{"type": "function", "function": {"name": "find_parcel"}}]
    body = {"model": "m", "messages": messages, "tools": tools}
    return httpx2.post(URL + "/v1/chat/completions", json=body).json()["choices"][0]["message"]

def agent(run=find_parcel):
    messages = [{"role": "user", "content": "Where is parcel P-1?"}]
    message = post(messages)
    (use,) = message["tool_calls"]
    result = run(**json.loads(use["function"]["arguments"]))
    post([*messages, message, {"role": "tool", "tool_call_id": use["id"], "content": json.dumps(result)}])

def hello():
    return post([{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}])

def by_socket():
    with socket.create_connection(("127.0.0.1", PORT)):
        pass

def by_datagram():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out: out.sendto(b"hello", ("127.0.0.1", PORT))

def by_child():
    subprocess.run([sys.executable, "-I", "-c", "pass"], check=True)

def by_child_that_joins():
    subprocess.run([sys.executable, "-c", "pass"], check=True)

def by_shell():
    os.system("true")

def by_name():
    socket.getaddrinfo("db.internal.example", 5432)

def probes():
    platform.processor(), platform.uname(), platform.platform(), uuid.getnode()
"""

TESTS = """
import pytest, agent

def swallowed(way):
    try:
        way()
    except BaseException:
        pass

@pytest.mark.parametrize("way", ["by_socket", "by_datagram", "by_child", "by_shell", "by_name"])
def test_way(way, agentreplay):
    agent.hello()
    swallowed(getattr(agent, way))

def test_probes(agentreplay):
    agent.probes()
    agent.hello()

def test_child_that_joins(agentreplay):
    agent.hello()
    agent.by_child_that_joins()
"""

WAYS = {
    "by_socket": (
        "1 connect to 127.0.0.1:{port} from {by_socket}",
        "agentreplay_allow_hosts = 127.0.0.1:{port}",
    ),
    "by_datagram": (
        "1 datagram to 127.0.0.1:{port} from {by_datagram}",
        "agentreplay_allow_hosts = 127.0.0.1:{port}",
    ),
    "by_child": ("1 child process python -I from {by_child}", "agentreplay_allow_subprocess = python"),
    "by_shell": ("1 child process sh from {by_shell}", "agentreplay_allow_subprocess = sh"),
    "by_name": (
        "1 look-up of db.internal.example:5432 from {by_name}",
        "agentreplay_allow_hosts = db.internal.example:5432",
    ),
}


def script(body, number):
    asked = [message for message in (body or {}).get("messages", []) if message["role"] == "user"]
    if asked and "parcel" in asked[0]["content"] and body["messages"][-1]["role"] == "user":
        return Ask("find_parcel", {"code": "P-1"})
    return f"Done ({number})."


@pytest.fixture(scope="module")
def ways(shared_project):
    project = shared_project(script)
    project.write(agent=AGENT, test_ways=TESTS)
    (project.root / "pytest.ini").write_text("[pytest]\npythonpath = .\n", encoding="utf-8")
    project.recording = project.record()
    project.hits = project.server.hits
    return project


def filled(project, way):
    """What is said of a way, with the port of the day, and the second line of the function as its place."""
    lines = AGENT.splitlines()
    place = f"agent.py:{lines.index(f'def {way}():') + 2} in {way}"
    return [text.format(port=project.server.url.rpartition(":")[2], **{way: place}) for text in WAYS[way]]


@pytest.mark.parametrize("way", WAYS)
def test_a_gap_is_listed_with_its_place_and_kept(ways, way):
    line, _ = filled(ways, way)
    assert f"not recorded: {line}" in " ".join(ways.recording.stdout.split())
    (run,) = [s.run for s in ways.snapshots if s.run.header.test == f"test_ways.py::test_way[{way}]"]
    assert run.header.kit["gaps"] == [line]


@pytest.mark.parametrize("test", ["test_probes", "test_child_that_joins"])
def test_probes_of_the_standard_library_and_children_that_join_are_no_gap(ways, test):
    (run,) = [s.run for s in ways.snapshots if s.run.header.test == f"test_ways.py::{test}"]
    assert "gaps" not in run.header.kit


def test_a_replay_is_closed_even_to_those_who_swallow(ways):
    done = ways.replay()
    assert ways.server.hits == ways.hits, "nothing came through"
    assert "5 failed, 2 passed" in done.stdout
    sections = dict(
        re.findall(r"^_+ test_way\[(\w+)\] _+$(.*?)(?=^_{3,}|^-{3,})", done.stdout, re.MULTILINE | re.DOTALL)
    )
    for way in WAYS:
        line, allow = filled(ways, way)
        said = sections[way]
        assert "[AR-NET]" in said
        assert line.partition(" from ")[2] in said, said
        assert allow in said, said
        assert "Traceback" not in said


def test_what_is_allowed_passes(ways):
    before = (ways.root / "pytest.ini").read_text(encoding="utf-8")
    allowed = (
        "agentreplay_allow_hosts =\n    127.0.0.1\n    db.internal.example\nagentreplay_allow_subprocess = python\n"
    )
    (ways.root / "pytest.ini").write_text(before + allowed, encoding="utf-8")
    try:
        done = ways.replay()
    finally:
        (ways.root / "pytest.ini").write_text(before, encoding="utf-8")
    assert "open to 127.0.0.1, db.internal.example" in done.stdout
    assert "1 failed, 6 passed" in done.stdout
    assert "child process sh" in done.stdout


UNFROZEN = """
import agent

def test_unseen(agentreplay):
    agent.agent()

def test_given(agentreplay):
    agentreplay.tool(agent.find_parcel)
    agent.agent()
"""


def test_a_tool_that_ran_unseen_is_told_with_the_line_to_add(shared_project):
    project = shared_project(script)
    project.write(agent=AGENT, test_tools=UNFROZEN)
    ini = project.root / "pytest.ini"
    ini.write_text("[pytest]\npythonpath = .\n", encoding="utf-8")
    done = project.record()
    said = " ".join(done.stdout.split())
    assert said.count("[AR-UNFROZEN]") == 1
    assert "tool find_parcel" in said
    (run,) = [s.run for s in project.snapshots if s.run.header.test == "test_tools.py::test_unseen"]
    (missed,) = run.header.kit["unfrozen"]
    assert missed["tool"] == "find_parcel"
    assert "agent.find_parcel" in missed["path"]
    # What it says to paste is what mends it.
    ini.write_text("[pytest]\npythonpath = .\nagentreplay_tools =\n    agent.find_parcel\n", encoding="utf-8")
    project.record()
    ledger = project.ledger
    again = project.replay()
    assert again.returncode == 0, again.stdout
    assert "AR-UNFROZEN" not in again.stdout
    assert project.ledger == ledger


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
    project = shared_project(script)
    project.plugins += ("xdist.plugin",)
    project.write(agent=AGENT, test_bystanders=BYSTANDERS)
    (project.root / "pytest.ini").write_text("[pytest]\npythonpath = .\n", encoding="utf-8")
    assert SAID in project.record().stdout
    assert SAID in project.record("-n", "2").stdout
    assert SAID in project.record("-k", "not frozen").stdout, "also where nothing is recorded"
    assert "model at" not in project.record("-k", "harmless or frozen").stdout
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
    project = shared_project()
    project.write(test_gemini=BY_NAME)
    done = project.record()
    assert done.stdout.count("[AR-UNFROZEN]") == 1, done.stdout
    (kit,) = (snapshot.run.header.kit for snapshot in project.snapshots)
    assert [missed["tool"] for missed in kit["unfrozen"]] == ["find_parcel"]
    (model,) = kit["models"]
    assert (model["provider"], model["region"], model["model"]) == ("gcp.vertex_ai", "europe-west4", "g")
    assert model["parameters"] == {"generationConfig.temperature": 0.5, "generationConfig.topP": 1}
    assert project.offline().returncode == 0
    project.edit("test_gemini.py", "Find parcel", "Seek parcel")
    told = project.replay().stdout
    assert "AR-PROMPT" in told
    assert "$.contents[0].parts[0].text" in told
