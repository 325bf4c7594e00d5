"""The Claude Agent SDK: its program is recorded line by line, and is not started in a replay.

The program itself needs its vendor; one of ours stands in for it, which speaks the same lines and answers differently
each time. The SDK is the real one.
"""

import sys

import pytest

from tests.support.small_projects import edited, furnished, passed, recorded

pytestmark = [
    pytest.mark.env("frameworks"),
    pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is started by its first line"),
]

PROGRAM = """
import json, os, pathlib, random, sys

HERE = pathlib.Path(__file__).parent

def note(line):
    with open(HERE / "ledger.txt", "a", encoding="utf-8") as ledger:
        ledger.write(line + "\\n")

def say(**line):
    sys.stdout.write(json.dumps(line) + "\\n")
    sys.stdout.flush()

def hear():
    line = sys.stdin.readline()
    return json.loads(line) if line else None

hooks = {}

def heard():
    while (line := hear()) is not None:
        if line["type"] == "control_request":
            asked = line["request"]
            if asked["subtype"] == "initialize":
                hooks.update(asked.get("hooks") or {})
            say(type="control_response", response={
                "subtype": "success", "request_id": line["request_id"], "response": {"commands": [], "nonce": random.random()}
            })
        else:
            return line
    return None

def ask(**request):
    identity = f"ask-{random.randrange(10**9)}"
    say(type="control_request", request_id=identity, request=request)
    answer = hear()
    assert answer["response"]["request_id"] == identity, answer
    return answer["response"].get("response")

def message(session, *content):
    say(type="assistant", session_id=session, parent_tool_use_id=None, message={
        "id": f"msg-{random.randrange(10**9)}", "type": "message", "role": "assistant", "model": "claude-stand-in",
        "content": list(content), "usage": {"input_tokens": 5, "output_tokens": 7},
    })

def main():
    note("the program was started")
    session = f"session-{random.randrange(10**9)}"
    while (line := heard()) is not None:
        prompt = line["message"]["content"]
        say(type="system", subtype="init", session_id=session, model="claude-stand-in", tools=[], cwd="/")
        result = "nothing"
        if "order" in prompt:
            use = f"use-{random.randrange(10**9)}"
            message(session, {"type": "tool_use", "id": use, "name": "mcp__shop__lookup_order", "input": {"order_id": "A-17"}})
            for event, matchers in hooks.items():
                for identity in [one for matcher in matchers for one in matcher["hookCallbackIds"]]:
                    given = {"hook_event_name": event, "tool_name": "mcp__shop__lookup_order", "tool_input": {"order_id": "A-17"}}
                    ask(subtype="hook_callback", callback_id=identity, input=given, tool_use_id=use)
            def rpc(identity, method, **params):
                said = {"jsonrpc": "2.0", "method": method, "params": params} | ({} if identity is None else {"id": identity})
                return ask(subtype="mcp_message", server_name="shop", message=said)["mcp_response"]
            rpc(0, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "stand-in", "version": "1"})
            rpc(None, "notifications/initialized")
            found = rpc(1, "tools/call", name="lookup_order", arguments={"order_id": "A-17"})
            result = found["result"]["content"][0]["text"]
        message(session, {"type": "text", "text": f"You asked {prompt!r}: {result} ({random.randrange(10**9)})"})
        say(type="result", subtype="success", duration_ms=1, duration_api_ms=1, is_error=False, num_turns=1,
            session_id=session, total_cost_usd=0.01, usage={}, result=result)

main()
"""

AGENT = """
import json, pathlib, random
from claude_agent_sdk import (
    AssistantMessage, ClaudeAgentOptions, ClaudeSDKClient, HookMatcher, TextBlock, create_sdk_mcp_server, query, tool
)

HERE = pathlib.Path(__file__).parent
PROMPT = "You help customers. Be brief."
HOOKED = []

@tool("lookup_order", "Looks an order up", {"order_id": str})
async def lookup_order(args):
    with (HERE / "ledger.txt").open("a", encoding="utf-8") as ledger:
        ledger.write(f"lookup {args['order_id']}\\n")
    return {"content": [{"type": "text", "text": f"{args['order_id']} is late ({random.SystemRandom().randrange(10**9)})"}]}

async def hook(given, tool_use_id, context):
    HOOKED.append(given["tool_name"])
    return {}

def options(**more):
    return ClaudeAgentOptions(cli_path=str(HERE / "claude"), system_prompt=PROMPT, **more)

def texts(message):
    return [block.text for block in message.content if isinstance(block, TextBlock)] if isinstance(message, AssistantMessage) else []

async def ask(question):
    return [text async for message in query(prompt=question, options=options()) for text in texts(message)]

async def talk(*questions):
    shop = create_sdk_mcp_server("shop", tools=[lookup_order])
    hooks = {"PreToolUse": [HookMatcher(hooks=[hook])]}
    said = []
    async with ClaudeSDKClient(options(mcp_servers={"shop": shop}, hooks=hooks)) as client:
        for question in questions:
            await client.query(question)
            async for message in client.receive_response():
                said += texts(message)
    return said
"""

TESTS = """
import asyncio, json
import claude_agent_sdk
import pytest
import agent

def tell(name, *told):
    with (agent.HERE / f"{name}.told").open("a", encoding="utf-8") as file:
        file.write(json.dumps(told) + "\\n")

def test_query(agentreplay):
    said = asyncio.run(agent.ask("How are you?"))
    assert len(said) == 1
    tell("query", said)

def test_client(agentreplay):
    agent.HOOKED.clear()
    said = asyncio.run(agent.talk("Where is my order?", "Thanks."))
    assert agent.HOOKED == ["mcp__shop__lookup_order"]
    assert "A-17 is late" in said[0] and "Thanks." in said[1]
    agentreplay.run.assert_tool_calls([("lookup_order", {"order_id": "A-17"})])
    tell("client", said)

def test_no_program(agentreplay):
    async def main():
        options = claude_agent_sdk.ClaudeAgentOptions(cli_path=str(agent.HERE / "nowhere" / "claude"))
        with pytest.raises(claude_agent_sdk.CLINotFoundError) as caught:
            async for message in claude_agent_sdk.query(prompt="Hello", options=options):
                pass
        tell("missing", type(caught.value).__name__)

    asyncio.run(main())
"""


@pytest.fixture(scope="module")
def project(shared_project):
    made = furnished(shared_project(), agent=AGENT, test_shop=TESTS)
    program = made.root / "claude"
    program.write_text(f"#!{sys.executable}\n{PROGRAM}", encoding="utf-8")
    program.chmod(0o755)
    recorded(made, "-q")
    assert made.ledger == ["the program was started", "the program was started", "lookup A-17"]
    return made


def test_a_replay_says_the_same_and_starts_nothing(project):
    (project.root / "claude").rename(project.root / "gone")
    try:
        passed(project.offline("-q"))
    finally:
        (project.root / "gone").rename(project.root / "claude")
    for name in ("query", "client", "missing"):
        first, again = (project.root / f"{name}.told").read_text(encoding="utf-8").splitlines()
        assert first == again, name


def test_another_question_or_system_prompt_is_a_divergence(project):
    with edited(project, "test_shop.py", '"Thanks."', '"Thank you."'):
        done = project.offline("-q", "-k", "client")
    assert "[AR-REQUEST] call 9/9: SEND claude user: $.message.content changed" in done.stdout, done.stdout
    with edited(project, "agent.py", "Be brief.", "Be short."):
        done = project.offline("-q", "-k", "query")
    assert done.returncode == 1
    assert "Be short." in done.stdout, done.stdout
