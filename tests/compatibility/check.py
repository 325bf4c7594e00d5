"""Record, replay and divergence report in the environment that runs this, under the words for pytest that are given.

    python tests/compatibility/check.py --agent openai --test sync -- -p xdist.plugin -n 2

Prints one line of JSON: whether each of the three does what it should, what was said where not, and versions.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

# Behind what is installed: the plugin that is tried is that of the environment.
sys.path.append(str(Path(__file__).parents[2]))

from tests.support.model_server import Ask, ModelServer

TOOLS = """
import json, os, pathlib

URL = os.environ["MODEL_URL"]
PROMPT = "You help customers."
FIELDS = {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]}


def lookup_order(order_id: str) -> dict:
    with pathlib.Path(__file__).with_name("ledger.txt").open("a") as ledger:
        ledger.write(order_id + "\\n")
    return {"order": order_id, "status": "late"}
"""

AGENTS = {
    "openai": """
import openai
CLIENTS = openai.OpenAI, openai.AsyncOpenAI
PLACE = {"base_url": URL + "/v1", "api_key": "none"}
FUNCTION = {"name": "lookup_order", "description": "Where an order is.", "parameters": FIELDS}

async def answer(question, client, wait):
    messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": question}]
    while True:
        tools = [{"type": "function", "function": FUNCTION}]
        reply = await wait(client.chat.completions.create(model="m-1", messages=messages, tools=tools))
        message = reply.choices[0].message
        if not message.tool_calls:
            return message.content
        messages.append({"role": "assistant", "tool_calls": [c.model_dump() for c in message.tool_calls]})
        for call in message.tool_calls:
            result = lookup_order(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)})
""",
    "anthropic": """
import anthropic
CLIENTS = anthropic.Anthropic, anthropic.AsyncAnthropic
PLACE = {"base_url": URL, "api_key": "none"}
FUNCTION = {"name": "lookup_order", "description": "Where an order is.", "input_schema": FIELDS}

async def answer(question, client, wait):
    messages = [{"role": "user", "content": question}]
    while True:
        reply = await wait(client.messages.create(
            model="m-1", max_tokens=99, system=PROMPT, messages=messages, tools=[FUNCTION]
        ))
        uses = [block for block in reply.content if block.type == "tool_use"]
        if not uses:
            return reply.content[0].text
        messages.append({"role": "assistant", "content": [block.model_dump() for block in reply.content]})
        results = [
            {"type": "tool_result", "tool_use_id": use.id, "content": json.dumps(lookup_order(**use.input))}
            for use in uses
        ]
        messages.append({"role": "user", "content": results})
""",
}

WAYS = '''
def ask(question):
    """The answer, without a loop: nothing in it suspends."""
    async def now(value):
        return value
    with CLIENTS[0](**PLACE) as client:
        try:
            answer(question, client, now).send(None)
        except StopIteration as done:
            return done.value

async def aask(question):
    async def awaited(value):
        return await value
    async with CLIENTS[1](**PLACE) as client:
        return await answer(question, client, awaited)
'''

ASK = 'answer = agent.ask("Where is A-17?")'
AWAIT = 'answer = await agent.aask("Where is A-17?")'
CHECKS = """
    assert answer.endswith("is late.")
    agentreplay.run.assert_tool_calls(["lookup_order"])
"""
PLAIN = f"def test_order(agentreplay):\n    {ASK}{CHECKS}"
ASYNC = f"async def test_order(agentreplay):\n    {AWAIT}{CHECKS}"
TODAY = 'assert datetime.date.today().isoformat() == "2024-02-29"'

TESTS = {
    "sync": f"import agent\n{PLAIN}",
    "auto": f"import agent\n{ASYNC}",
    "asyncio": f"import pytest, agent\n@pytest.mark.asyncio\n{ASYNC}",
    "trio": f"import pytest, agent\n@pytest.mark.trio\n{ASYNC}",
    "anyio": f"""
import pytest, agent

@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param

@pytest.mark.anyio
{ASYNC}""",
    "unittest": """
import unittest, pytest, agent

@pytest.mark.agentreplay
class TestOrder(unittest.TestCase):
    def test_order(self):
        self.assertTrue(agent.ask("Where is A-17?").endswith("is late."))
""",
    "subtests": f"""
import agent
def test_order(agentreplay, subtests):
    with subtests.test("asks"):
        {ASK}{CHECKS}""",
    "inline": f"""
import agent
from inline_snapshot import snapshot

{PLAIN}
    assert answer.partition(": ")[2] == snapshot("it is late.")
    for call in agentreplay.run.tool_calls:
        assert call.name in snapshot(["lookup_order"])
""",
    "blockbuster": f"""
import pytest, agent, blockbuster
import httpcore2, trio  # what openai loads with its first client, by calls that block

@pytest.mark.asyncio
async def test_order(agentreplay):
    tool = agent.lookup_order.__code__.co_filename  # it writes its ledger on the event loop
    with blockbuster.blockbuster_ctx() as guard:
        for name in ("io.TextIOWrapper.write", "io.BufferedWriter.write"):
            guard.functions[name].can_block_in(tool, "lookup_order")
        {AWAIT}{CHECKS}""",
    "freezegun": f"""
import datetime, agent, freezegun
@freezegun.freeze_time("2024-02-29")
{PLAIN}    {TODAY}
""",
    "time_machine": f"""
import datetime, agent, time_machine
@time_machine.travel("2024-02-29T12:00:00Z", tick=False)
{PLAIN}    {TODAY}
""",
    "pyinstrument": f"""
import agent, pyinstrument
def test_order(agentreplay):
    with pyinstrument.Profiler(interval=0.001) as profiler:
        {ASK}
    assert profiler.last_session.sample_count{CHECKS}""",
    "transcript": f"""
import agent
def test_order(agentreplay, agent_snapshot):
    {ASK}{CHECKS}    assert agentreplay.run == agent_snapshot
""",
}

AUTOLOAD = "AUTOLOAD"
"""Stands among the words for pytest."""
INI = "[pytest]\npythonpath = .\nagentreplay_tools = agent.lookup_order = read\n"


def script(body: dict, number: int) -> object:
    """Ask for the tool, then answer; new words each time, so that a replay can be told from a second call."""
    last = body["messages"][-1]
    answered = last["role"] == "tool" or isinstance(last["content"], list)
    return f"Answer {number}: it is late." if answered else Ask("lookup_order", {"order_id": "A-17"})


def pytest_in(folder: Path, url: str, *words: str) -> subprocess.CompletedProcess[str]:
    """One run of pytest over the project, with the plugins that are named, or (AUTOLOAD) with all that are installed."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "AGENTREPLAY", "COV")) and k != "CI"}
    kept |= {"PYTHONDONTWRITEBYTECODE": "1", "MODEL_URL": url, "COLUMNS": "160"}
    loaded = []
    if AUTOLOAD not in words:
        kept["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        loaded = ["-p", "pytest_agentreplay.plugin"]
    command = [sys.executable, "-m", "pytest", "-W", "error", *loaded, *(word for word in words if word != AUTOLOAD)]
    return subprocess.run(
        command, cwd=folder, env=kept, capture_output=True, encoding="utf-8", timeout=300, check=False
    )


def three(folder: Path, agent: str, test: str, words: list[str], offline: list[str]) -> dict[str, object]:
    """The marks: record, replay with the server gone, and the report on a changed prompt."""
    (folder / "test_shop.py").write_text(TESTS[test], encoding="utf-8")
    (folder / "pytest.ini").write_text(INI, encoding="utf-8")
    source, ledger = folder / "agent.py", folder / "ledger.txt"
    source.write_text(TOOLS + AGENTS[agent] + WAYS, encoding="utf-8")

    def lines() -> list[str]:
        return ledger.read_text(encoding="utf-8").split() if ledger.exists() else []

    runs = 2 if test == "anyio" else 1
    with ModelServer(script) as server:
        url = server.url
        done = pytest_in(folder, url, "--agentreplay-mode=record", *words)
    ran = lines()
    said = {"record": ((done.returncode, done.stdout.count("   replays"), ran) == (0, runs, ["A-17"] * runs), done)}
    done = pytest_in(folder, url, "--agentreplay-mode=model", *words, *offline)
    said["replay"] = done.returncode == 0 and f"replayed {runs} test" in done.stdout and lines() == ran, done
    source.write_text(
        source.read_text(encoding="utf-8").replace("help customers", "help good friends"), encoding="utf-8"
    )
    done = pytest_in(folder, url, "--agentreplay-mode=model", *words, *offline)
    told = done.stdout.count("[AR-PROMPT] turn 1/2: model m-1: system")  # in the report, and in the short summary
    said["divergence"] = (done.returncode, told, lines()) == (1, 2 * runs, ran), done
    wrong = {name: done.stdout + done.stderr for name, (good, done) in said.items() if not good}
    return {name: good for name, (good, _) in said.items()} | {"wrong": wrong}


def main() -> None:
    """Read the words, check, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent", choices=AGENTS, default="openai")
    parser.add_argument("--test", choices=TESTS, default="sync")
    parser.add_argument("--offline", action="append", default=[], help="a word for pytest, in replays only")
    parser.add_argument("--facts", action="store_true", help="print the versions alone")
    parser.add_argument("words", nargs="*")
    given = parser.parse_args()
    found: dict[str, object] = {"python": platform.python_version(), "system": platform.system()}
    if not given.facts:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            found |= three(Path(folder), given.agent, given.test, given.words, given.offline)
    found["versions"] = {d.metadata["Name"].lower(): d.version for d in importlib.metadata.distributions()}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
