"""Real SDKs in real children, Node's among them: recorded, replayed offline, and told where they part."""

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.model_server import Ask, Raw
from tests.support.small_projects import edited, furnished, passed, summary

pytestmark = pytest.mark.env("main")

SOURCE = Path(__file__).with_name("node_agent")
PROMPT = "You help customers. Be brief."

PYTHON_ANTHROPIC = """
import os, sys
from anthropic import Anthropic

client = Anthropic()
system = os.environ.get("AGENT_PROMPT", "You help customers. Be brief.")
first = client.messages.create(
    model="m-2", max_tokens=99, system=system, messages=[{"role": "user", "content": sys.argv[1]}]
).content[0].text
with client.messages.stream(
    model="m-2", max_tokens=99, system=system,
    messages=[{"role": "user", "content": sys.argv[1]}, {"role": "assistant", "content": first}, {"role": "user", "content": "again"}],
) as stream:
    print(first, "|", stream.get_final_text())
"""

AGENTS = """
import asyncio, os, subprocess, sys

NODE = os.environ["NODE_AGENT"]

def say(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout.strip()

async def say_later(*command):
    child = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    said, _ = await child.communicate()
    return said.decode().strip()
"""

TESTS = """
import asyncio, sys
import pytest
from openai import OpenAI
from agents import NODE, say, say_later

@pytest.mark.parametrize(("order", "how"), [("A-17", "whole"), ("B-18", "stream")])
def test_node(agentreplay, order, how):
    assert "late" in say("node", NODE, f"Where is {order}?", how)
    assert [(turn.model, [use.name for use in turn.tool_uses]) for turn in agentreplay.run.model_calls] == [
        ("m-1", ["lookup_order"]), ("m-1", []),
    ]

def test_node_tries_again(agentreplay):
    assert "late" in say("node", NODE, "busy?")
    assert [x.outcome.status for x in agentreplay.run.run.exchanges] == [503, 200, 200]
    assert [x.attempt for x in agentreplay.run.run.exchanges] == [1, 2, 1]

def test_python_anthropic(agentreplay):
    assert "|" in asyncio.run(say_later(sys.executable, "agent_anthropic.py", "Where is A-17?"))

def test_beside_a_client_in_this_process(agentreplay):
    asked = [{"role": "user", "content": "Who are you?"}]
    assert OpenAI().chat.completions.create(model="m-1", messages=asked).choices[0].message.content
    assert "late" in say("node", NODE, "Where is C-19?")
    assert [x.lane for x in agentreplay.run.run.exchanges] == ["main", "main.1", "main.1"]
"""

INI = """
agentreplay_children =
    node *
    python agent_anthropic.py *
"""


def model(body, number):
    """Looks orders up, says that they are late; is busy once when asked about that."""
    said = body["messages"]
    if said[-1].get("content") == "busy?" and number % 2:
        return Raw(
            status=503, reason="Busy", headers=[("content-length", "4"), ("retry-after-ms", "1")], chunks=[b"busy"]
        )
    if body.get("tools") and said[-1]["role"] == "user":
        return Ask("lookup_order", {"order_id": "A-17"})
    return f"It is late (answer {number})."


@pytest.fixture(scope="module")
def node_agent(pytestconfig):
    """The agent beside its packages, installed once for each lock file."""
    missing = [name for name in ("node", "npm") if shutil.which(name) is None]
    if missing:
        told = f"an agent on Node is part of these tests, and there is no {' and no '.join(missing)} on PATH"
        pytest.fail(told) if os.environ.get("CI") else pytest.skip(told)
    lock = hashlib.sha256((SOURCE / "package-lock.json").read_bytes()).hexdigest()
    folder = pytestconfig.cache.mkdir("node-agent") / lock[:12]
    if not (folder / "node_modules" / "openai").is_dir():
        made = folder.with_name(f"{folder.name}-{os.getpid()}")
        shutil.copytree(SOURCE, made)
        npm = [shutil.which("npm"), "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
        done = subprocess.run(npm, cwd=made, capture_output=True, encoding="utf-8", timeout=240)
        assert done.returncode == 0, f"npm ci failed: {done.stdout}{done.stderr}"
        try:
            made.rename(folder)
        except OSError:  # another worker was first
            shutil.rmtree(made)
    shutil.copy(SOURCE / "agent.mjs", folder)
    return folder / "agent.mjs"


@pytest.fixture(scope="module")
def recorded(shared_project, node_agent):
    made = shared_project(model, environ={"NODE_AGENT": str(node_agent)})
    furnished(made, INI, agents=AGENTS, test_children=TESTS, agent_anthropic=PYTHON_ANTHROPIC)
    made.environ |= {
        "OPENAI_BASE_URL": made.server.url + "/v1",
        "OPENAI_API_KEY": "sk-live-0123456789abcdef",
        "ANTHROPIC_BASE_URL": made.server.url,
        "ANTHROPIC_API_KEY": "sk-ant-live-0123456789abcdef",
    }
    done = passed(made.record())
    assert len(made.files) == 5
    assert "[AR-UNFROZEN] tool lookup_order ran in a child process and will run again in a replay" in done.stdout
    assert "your.module" not in done.stdout
    assert "test_python_anthropic.snapshot.json (created, 2 calls, test passed)" in done.stdout
    assert len(made.ledger) == 4, "a recording whose child has tools is not replayed unasked"
    return made


def offline(project, *words, **environ):
    """A replay without an upstream, a key, or a base URL of the child's provider."""
    nowhere = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    hits = project.server.hits
    done = project.replay(*words, **nowhere | {"OPENAI_API_KEY": "none", "ANTHROPIC_API_KEY": ""} | environ)
    assert project.server.hits == hits, "a replay has asked the upstream"
    return done


def test_children_replay_side_by_side_under_xdist(recorded):
    before = len(recorded.ledger)
    done = passed(offline(recorded, "-p", "xdist.plugin", "-n", "2"))
    assert "5 passed" in done.stdout
    assert len(recorded.ledger) - before == 4, "a child's own tools run in a replay, as the page says"


def test_a_changed_prompt_is_told_at_its_turn(recorded):
    short = {"AGENT_PROMPT": "You help customers. Be short.", "COLUMNS": "160"}
    told = summary(offline(recorded, "-k", "whole or again or anthropic or this_process", **short))
    assert len(told) == 4, told
    for test, said in told.items():
        where = "turn 2/3" if "in_this_process" in test else r"turn 1/[23]"
        assert re.match(rf"\[AR-PROMPT\] {where}: .*system.*brief -> short", said), f"{test}: {said}"


def test_a_change_in_the_childs_tool_is_told_at_the_turn_that_sees_it(recorded):
    agent = Path(recorded.environ["NODE_AGENT"])
    changed = agent.with_name("other.mjs")
    changed.write_text(agent.read_text(encoding="utf-8").replace('"late"', '"lost"'), encoding="utf-8")
    (said,) = summary(offline(recorded, "-k", "whole", NODE_AGENT=str(changed), COLUMNS="160")).values()
    assert re.match(r"\[AR-RESULT\] turn 2/2: model m-1: the tool result that it is told changed", said), said


def test_a_child_that_is_not_named_is_refused(recorded):
    with edited(recorded, "pytest.ini", "node *", "deno *"):
        done = offline(recorded, "-k", "whole", COLUMNS="160")
    assert "[AR-NET] refused in a closed replay: 1 child process node" in done.stdout, done.stdout
