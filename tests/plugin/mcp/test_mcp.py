"""MCP servers over stdio, streamable HTTP and SSE, both SDK majors: recorded once, replayed when they are gone."""

import json
import subprocess
import sys

import pytest

from pytest_agentreplay.demo.server import Ask

pytestmark = pytest.mark.env("frameworks", "lastyear")

SERVER = '''
import os, random, socket, sys, threading, warnings
import anyio
from mcp.types import SamplingMessage, TextContent
from pydantic import BaseModel

try:
    from mcp.server.mcpserver import Context, MCPServer as Server
except ImportError:
    from mcp.server.fastmcp import Context, FastMCP as Server

warnings.simplefilter("ignore")
app = Server("orders")

def note(line):
    with open(os.environ["LEDGER"], "a", encoding="utf-8") as ledger:
        ledger.write(line + "\\n")

class Choice(BaseModel):
    sure: bool

@app.tool()
async def lookup_order(order_id: str, ctx: Context, seconds: float = 0) -> str:
    note(f"lookup {order_id}")
    await ctx.report_progress(1, 2, f"asking for {order_id}")
    await ctx.info(f"looking at {order_id}")
    await anyio.sleep(seconds)
    return f"{order_id} is late ({random.randrange(10**9)})"

@app.tool()
async def refund(order_id: str, amount: float) -> str:
    note(f"refund {order_id} {amount}")
    if amount > 100:
        raise ValueError("that is too much")
    return f"refunded {amount} ({random.randrange(10**9)})"

@app.tool()
async def settle(order_id: str, ctx: Context) -> str:
    note(f"settle {order_id}")
    said = await ctx.elicit(f"Settle {order_id}?", Choice)
    thought = await ctx.session.create_message(
        [SamplingMessage(role="user", content=TextContent(type="text", text="Say it kindly."))], max_tokens=20
    )
    roots = await ctx.session.list_roots()
    return f"{said.action}, {thought.content.text}, {len(roots.roots)} roots ({random.randrange(10**9)})"

@app.tool()
async def die() -> str:
    note("die")
    os._exit(3)

def noted(served):
    """The application, with the id of each session that it issues noted down."""

    async def call(scope, receive, send):
        async def sent(message):
            for name, value in message.get("headers") or ():
                if name.lower() == b"mcp-session-id":
                    note(f"session {value.decode()}")
            await send(message)

        await served(scope, receive, sent)

    return call

def serve(kind):
    import uvicorn

    made = app.sse_app() if kind == "sse" else noted(app.streamable_http_app())
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    uvicorn.Server(uvicorn.Config(made, log_level="error")).run(sockets=[listening])

if __name__ == "__main__":
    note("a server was started")
    app.run() if len(sys.argv) == 1 else serve(sys.argv[1])
'''

AGENT = """
import asyncio, contextlib, json, os, pathlib, sys
import mcp.types
import openai
from mcp import ClientSession, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client import streamable_http

HERE = pathlib.Path(__file__).parent
http_client = getattr(streamable_http, "streamable_http_client", None) or streamable_http.streamablehttp_client
PROMPT = "You help customers. Be brief."

def server():
    here = {"LEDGER": str(HERE / "ledger.txt"), "PATH": os.environ["PATH"]}
    return StdioServerParameters(command=sys.executable, args=[str(HERE / "orders.py")], env=here)

TRANSPORTS = {
    "stdio": lambda: stdio_client(server()),
    "http": lambda: http_client(os.environ["HTTP_URL"] + "/mcp"),
    "sse": lambda: sse_client(os.environ["SSE_URL"] + "/sse"),
}

@contextlib.asynccontextmanager
async def connected(kind, **callbacks):
    async with TRANSPORTS[kind]() as (read, write, *_), ClientSession(read, write, **callbacks) as session:
        await session.initialize()
        yield session

def failed(result):
    return getattr(result, "isError", getattr(result, "is_error", None))

def text(result):
    return " ".join(block.text for block in result.content)

async def answer(kind, question):
    async with connected(kind) as session, openai.AsyncOpenAI(
        base_url=os.environ["MODEL_URL"] + "/v1", api_key="sk-live-0123456789abcdef", max_retries=0
    ) as client:
        offered = (await session.list_tools()).tools
        tools = [
            {"type": "function", "function": {"name": tool.name, "parameters": {"type": "object", "properties": {}}}}
            for tool in offered
        ]
        messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": question}]
        while True:
            reply = (await client.chat.completions.create(model="m-1", messages=messages, tools=tools)).choices[0].message
            if not reply.tool_calls:
                return reply.content
            messages.append(reply.model_dump(exclude_none=True))
            for call in reply.tool_calls:
                result = await session.call_tool(call.function.name, json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": text(result)})
"""

TESTS = """
import asyncio, json, pathlib
import anyio
import mcp.types
import pytest
import agent

def tell(name, *told):
    with (agent.HERE / f"{name}.told").open("a", encoding="utf-8") as file:
        file.write(json.dumps(told) + "\\n")

@pytest.mark.parametrize("kind", agent.TRANSPORTS)
def test_order_status(agentreplay, kind):
    tell(f"order-{kind}", asyncio.run(agent.answer(kind, "Where is A-17?")))
    agentreplay.run.assert_tool_calls(
        [("lookup_order", {"order_id": "A-17"}), ("refund", {"order_id": "A-17", "amount": 18.5})]
    )
    looked, refunded = agentreplay.run.tool_calls
    assert (looked.turn, refunded.turn) == (1, 2)
    assert looked.result["content"][0]["text"].startswith("A-17 is late") and not looked.failed

@pytest.mark.parametrize("kind", agent.TRANSPORTS)
def test_talk(agentreplay, kind):
    heard = []

    async def log(params):
        heard.append(["log", params.data])

    async def progress(done, total, message):
        heard.append(["progress", done, message])

    async def elicit(context, params):
        heard.append(["elicit", params.message])
        return mcp.types.ElicitResult(action="accept", content={"sure": True})

    async def sample(context, params):
        heard.append(["sample", params.messages[0].content.text])
        content = mcp.types.TextContent(type="text", text="with kind regards")
        return mcp.types.CreateMessageResult(role="assistant", content=content, model="m")

    async def roots(context):
        heard.append(["roots"])
        return mcp.types.ListRootsResult(roots=[])

    async def main():
        async with agent.connected(
            kind, logging_callback=log, elicitation_callback=elicit, sampling_callback=sample, list_roots_callback=roots
        ) as session:
            await session.call_tool("lookup_order", {"order_id": "A-1"}, progress_callback=progress)
            order = []

            async def look(order_id, seconds):
                result = await session.call_tool("lookup_order", {"order_id": order_id, "seconds": seconds})
                order.append(agent.text(result))

            await asyncio.gather(look("slow", 0.4), look("quick", 0))
            assert order[0].startswith("quick")
            settled = agent.text(await session.call_tool("settle", {"order_id": "A-1"}))
            wrong = await session.call_tool("refund", {"order_id": "A-1", "amount": 500})
            assert agent.failed(wrong) is True
            tell(f"talk-{kind}", order, settled, agent.text(wrong), heard)

    asyncio.run(main())
    assert [name for name, *_ in heard][-3:] == ["elicit", "sample", "roots"]
    assert ["progress", 1.0, "asking for A-1"] in heard  # over HTTP it comes by another stream than the log does
    calls = agentreplay.run.tool_calls
    assert [(call.name, call.failed) for call in calls] == [
        ("lookup_order", False), ("lookup_order", False), ("lookup_order", False), ("settle", False), ("refund", True)
    ]
    assert calls[1].arguments["order_id"] in calls[1].result["content"][0]["text"]
    assert "with kind regards" in calls[3].result["content"][0]["text"]

def test_died(agentreplay):
    async def main():
        async with agent.connected("stdio") as session:
            with pytest.raises(Exception, match="Connection closed") as caught:
                await session.call_tool("die", {})
            tell("died", type(caught.value).__name__, str(caught.value))

    asyncio.run(main())
    (call,) = agentreplay.run.tool_calls
    assert call.failed and call.name == "die"

def test_no_such_server(agentreplay):
    async def main():
        params = mcp.StdioServerParameters(command="no-such-program-anywhere")
        with pytest.raises(FileNotFoundError) as caught:
            async with agent.stdio_client(params):
                pass
        tell("missing", caught.value.errno)

    asyncio.run(main())

def test_given_up(agentreplay):
    async def main():
        async with agent.connected("stdio") as session:
            with anyio.move_on_after(1.5) as scope:
                await session.call_tool("lookup_order", {"order_id": "never", "seconds": 60})
            tell("given-up", scope.cancelled_caught)

    asyncio.run(main())
"""

INI = """
[pytest]
pythonpath = .
filterwarnings =
    error
    ignore:.*is deprecated as of 2026
"""


def script(body, number):
    """The model of the order agent: looks up, refunds, answers."""
    match sum(message["role"] == "tool" for message in body["messages"]):
        case 0:
            return Ask("lookup_order", {"order_id": "A-17"})
        case 1:
            return Ask("refund", {"order_id": "A-17", "amount": 18.5})
    return f"Your refund is on its way (answer {number})."


class Served:
    """A server of MCP over HTTP in a process of its own, gone after the block."""

    def __init__(self, project, kind):
        words = [sys.executable, str(project.root / "orders.py"), kind]
        self.environ = project.surroundings(LEDGER=str(project.root / "ledger.txt"))
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self.environ, encoding="utf-8"
        )

    def __enter__(self):
        return f"http://127.0.0.1:{int(self.process.stdout.readline())}"

    def __exit__(self, *error):
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


@pytest.fixture(scope="module")
def project(shared_project):
    """Recorded with three servers at hand."""
    made = shared_project(script)
    made.write(orders=SERVER, agent=AGENT, test_shop=TESTS)
    (made.root / "pytest.ini").write_text(INI, encoding="utf-8")
    with Served(made, "http") as http, Served(made, "sse") as sse:
        made.recorded = made.record("-q", HTTP_URL=http, SSE_URL=sse)
    gone = {"HTTP_URL": "http://127.0.0.1:10", "SSE_URL": "http://127.0.0.1:11"}
    made.environ |= gone
    return made


def told(project):
    return {
        file.stem: [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        for file in project.root.glob("*.told")
    }


def test_everything_is_recorded_and_proved(project):
    assert project.recorded.returncode == 0, project.recorded.stdout + project.recorded.stderr
    assert "all replay" in project.recorded.stdout, project.recorded.stdout


def test_a_replay_says_the_same_and_starts_nothing(project):
    before = project.ledger
    done = project.offline("-q")
    assert done.returncode == 0, done.stdout + done.stderr
    assert project.ledger == before
    assert len(before) > 20
    found = told(project)
    assert len(found) == 9
    for name, lines in found.items():
        assert len(lines) in (3, 4), name  # recorded, proved, replayed; the proof tries its first test again if slow
        assert all(line == lines[0] for line in lines), name


def test_the_id_of_a_session_is_in_no_file(project):
    issued = {line.split()[1] for line in project.ledger if line.startswith("session ")}
    assert len(issued) >= 2, "no streamable HTTP server has issued a session id"
    files = [file for file in project.root.rglob("*") if file.is_file() and file.name != "ledger.txt"]
    assert any(file.name.endswith(".snapshot.json") for file in files)
    for file in files:
        data = file.read_bytes()
        assert not [session for session in issued if session.encode() in data], file


def test_a_changed_prompt_is_the_first_divergent_turn(project):
    found, done = project.diverged("-k", "order_status")
    assert len(found) == 3, done.stdout
    for said in found.values():
        assert "[AR-PROMPT] turn 1/3" in said


def test_a_changed_argument_is_a_divergence_at_that_call(project):
    project.edit("test_shop.py", '{"order_id": "A-1", "amount": 500}', '{"order_id": "A-1", "amount": 501}')
    try:
        done = project.offline("-q", "-k", "talk")
    finally:
        project.edit("test_shop.py", '{"order_id": "A-1", "amount": 501}', '{"order_id": "A-1", "amount": 500}')
    assert done.returncode == 1
    assert done.stdout.count("[AR-ARGS]") >= 3, done.stdout
    assert "tool refund: $.params.arguments.amount changed, 500 -> 501" in done.stdout
