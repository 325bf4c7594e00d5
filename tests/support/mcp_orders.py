"""An MCP server of orders, over stdio, HTTP and SSE, and the agent that asks it: what the tests of MCP share."""

import json
import subprocess
import sys

from tests.support.model_server import Ask

SERVER = '''
import json, os, pathlib, random, socket, sys, threading, warnings
import anyio
from mcp.types import SamplingMessage, TextContent
from pydantic import BaseModel

try:
    from mcp.server.mcpserver import Context, MCPServer as Server
except ImportError:
    from mcp.server.fastmcp import Context, FastMCP as Server

warnings.simplefilter("ignore")
app = Server("orders")
HERE = pathlib.Path(__file__).parent

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
async def look_up(order_id: str) -> str:
    note(f"look_up {order_id}")
    return json.loads((HERE / "world.json").read_text(encoding="utf-8"))[order_id]

@app.tool()
async def cancel(order_id: str) -> str:
    note(f"cancel {order_id}")
    return "cancelled"

@app.tool()
async def sure(order_id: str, ctx: Context) -> str:
    note(f"sure {order_id}")
    return (await ctx.elicit("Sure?", Choice)).action

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
    if (HERE / "broken").exists():
        sys.exit(3)
    note("a server was started")
    app.run() if len(sys.argv) == 1 else serve(sys.argv[1])
'''

ASKING = """
import contextlib, json, os, pathlib, sys
import openai

HERE = pathlib.Path(__file__).parent
PROMPT = "You help customers. Be brief."
os.environ.setdefault("LEDGER", str(HERE / "ledger.txt"))

def words():
    here = {"LEDGER": str(HERE / "ledger.txt"), "PATH": os.environ["PATH"]}
    return {"command": sys.executable, "args": [str(HERE / "orders.py")], "env": here}

def model():
    return openai.AsyncOpenAI(base_url=os.environ["MODEL_URL"] + "/v1", api_key="sk-live-0123456789abcdef", max_retries=0)

def failed(result):
    return result.is_error if hasattr(result, "is_error") else result.isError

def text(result):
    return " ".join(block.text for block in result.content)

def tell(name, *told):
    with (HERE / f"{name}.told").open("a", encoding="utf-8") as file:
        file.write(json.dumps(told) + "\\n")

async def answered(session, question):
    async with model() as client:
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

AGENT = (
    ASKING
    + """
import mcp.types
from mcp import ClientSession, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client import streamable_http

http_client = getattr(streamable_http, "streamable_http_client", None) or streamable_http.streamablehttp_client

TRANSPORTS = {
    "stdio": lambda: stdio_client(StdioServerParameters(**words())),
    "http": lambda: http_client(os.environ["HTTP_URL"] + "/mcp"),
    "sse": lambda: sse_client(os.environ["SSE_URL"] + "/sse"),
}

async def elicit(context, params):
    return mcp.types.ElicitResult(action="accept", content={"sure": True})

@contextlib.asynccontextmanager
async def connected(kind, **callbacks):
    callbacks = {"elicitation_callback": elicit} | callbacks
    async with TRANSPORTS[kind]() as (read, write, *_), ClientSession(read, write, **callbacks) as session:
        await session.initialize()
        yield session
"""
)

OPENAI_AGENTS = """
from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from agents.mcp import MCPServerStdio

set_tracing_disabled(True)

async def openai_agents(question="Where is A-17?"):
    async with MCPServerStdio(params=words(), client_session_timeout_seconds=60) as server, model() as client:
        agent = Agent(
            name="orders", instructions=PROMPT, model=OpenAIChatCompletionsModel("m-1", client), mcp_servers=[server]
        )
        return (await Runner.run(agent, question)).final_output
"""

INI = """filterwarnings =
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


def told(project):
    """What the tests of a project have told, by name: one line for each run."""
    return {
        file.stem: [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        for file in project.root.glob("*.told")
    }


def assert_each_run_told_the_same(project, runs=2):
    """As many runs, and each was told what the first was."""
    for name, lines in told(project).items():
        assert lines == [lines[0]] * runs, name
