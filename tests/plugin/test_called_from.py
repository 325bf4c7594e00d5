"""`called from` names the agent's line, also where a framework makes the call in a task or a thread of its own."""

import os
import re
import sys
from pathlib import Path

import pytest

from pytest_agentreplay.intercept.session.callers import is_agents

FRAMEWORK = """
import asyncio, os
import anyio

async def create(made):
    word = "short" if os.environ.get("CHANGED") else "brief"
    messages = [{"role": "user", "content": f"Be {word}."}]
    return await made.chat.completions.create(model="m-1", messages=messages)

async def ask(made):
    return await create(made)

async def gathered(made):
    return await asyncio.gather(create(made))

async def nested(made):
    return await asyncio.create_task(gathered(made))

async def grouped(made):
    send, receive = anyio.create_memory_object_stream(1)
    async def work():
        async with send:
            await send.send(await create(made))
    async with receive, anyio.create_task_group() as group:
        group.start_soon(work)
        return await receive.receive()

async def waited(made):
    return await asyncio.wait_for(gathered(made), 60)
"""
SHOP = """
import asyncio, os
import openai
import framework

def client():
    return openai.AsyncOpenAI(base_url=os.environ["MODEL_URL"] + "/v1", api_key="k", max_retries=0)

async def run(how):
    async with client() as made:
        return await getattr(framework, how)(made)  # the line
"""
TESTS = """
import asyncio
import pytest, shop

HOW = ["ask", "gathered", "nested", "grouped", "waited"]

@pytest.mark.parametrize("how", HOW)
def test_plain(how, agentreplay):
    asyncio.run(shop.run(how))

@pytest.mark.asyncio
@pytest.mark.parametrize("how", HOW)
async def test_async(how, agentreplay):
    await shop.run(how)
"""


@pytest.fixture
def told(project, tmp_path_factory):
    """The line that each report names (-vv: reports with one cause in full); the framework is an installed package."""
    installed = tmp_path_factory.mktemp("env") / "site-packages"
    installed.mkdir()
    (installed / "framework.py").write_text(FRAMEWORK, encoding="utf-8")
    (project.root / "test_shop.py").unlink()
    project.plugins += ("pytest_asyncio.plugin",)
    project.server._replies = lambda body, number: "Fine."
    project.write(shop=SHOP, test_calls=TESTS)
    project.environ |= {"COLUMNS": "160", "PYTHONPATH": str(installed)}
    with (project.root / "pytest.ini").open("a", encoding="utf-8") as ini:
        ini.write("\nasyncio_default_fixture_loop_scope = function\n")
    recorded = project.record("--agentreplay-no-prove")
    assert recorded.returncode == 0, recorded.stdout + recorded.stderr
    project.server.stop()
    return re.findall(r"^  called from +(.*)$", project.replay("-vv", CHANGED="yes").stdout, re.MULTILINE)


def test_the_line_of_the_agent_is_named_in_whatever_task_a_library_calls(told):
    line = SHOP.splitlines().index("        return await getattr(framework, how)(made)  # the line") + 1
    assert told == [f"shop.py:{line} in run"] * 10


def test_the_command_that_runs_pytest_is_nobodys_agent():
    script = Path(sys.prefix) / ("Scripts" if os.name == "nt" else "bin") / "pytest"
    assert not is_agents(compile("", str(script), "exec"))
    assert is_agents(compile("", str(Path(__file__)), "exec"))
