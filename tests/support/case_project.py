"""A project whose agent promises a refund that failed, with that run kept as a case; and ways to change each of them.

The run is recorded once, with a real model server and the real tool. `AGENT` of the environment says which agent runs
today: "broken" (as recorded), "fixed" (it looks at what the tool said), "other" (it asks something else), "rewritten" (both),
"dies" (at once), "stumbles" (over what the model said), "hangs" (in Python), "stuck" (where no signal reaches it).
"""

import os
import shutil
from pathlib import Path

from tests.support.project import Project, refunds

SHOP = """
import json, os, threading, time
import httpx2

TODAY = os.environ.get("AGENT", "broken")
PROMPT = "You help customers fast." if TODAY in {"other", "rewritten"} else "You help customers."

def lookup_order(order_id: str) -> dict:
    return {"order": order_id, "status": "late"}

def refund(order_id: str, amount: float) -> str:
    raise ConnectionError("the bank does not answer")

TOOLS = {"lookup_order": lookup_order, "refund": refund}
SCHEMAS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}} for name in TOOLS]

def ask(messages):
    reply = httpx2.post(
        os.environ.get("OPENAI_BASE_URL", os.environ["MODEL_URL"] + "/v1") + "/chat/completions",
        json={"model": "m-1", "messages": messages, "tools": SCHEMAS},
    )
    reply.raise_for_status()
    return reply.json()["choices"][0]["message"]

def answer(question):
    messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": question}]
    failed = []
    while True:
        reply = ask(messages)
        if not reply.get("tool_calls"):
            return "The refund failed." if failed and TODAY in {"fixed", "rewritten"} else reply["content"]
        if TODAY == "stumbles":
            raise TypeError("what now")
        messages.append(reply)
        for call in reply["tool_calls"]:
            try:
                result = TOOLS[call["function"]["name"]](**json.loads(call["function"]["arguments"]))
            except ConnectionError as error:
                failed.append(call)
                result = {"error": str(error)}
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)})

def run(messages):
    if TODAY == "dies":
        raise KeyError("no such customer")
    if TODAY == "hangs":
        worker = threading.Thread(target=time.sleep, args=(600,), name="worker")
        worker.start()
        worker.join()
    if TODAY == "stuck":
        import ctypes
        from pytest_agentreplay.intercept.ordering import overtime
        overtime.MERCY = 0.5
        if os.name == "nt":
            ctypes.windll.kernel32.Sleep(600_000)
        mutex = ctypes.create_string_buffer(128)
        ctypes.CDLL(None).pthread_mutex_lock(mutex)
        ctypes.CDLL(None).pthread_mutex_lock(mutex)
    return answer(messages[-1]["content"])

async def run_async(messages):
    return run(messages)
"""

TEST = """
import shop

def test_refund(agentreplay):
    assert "refund" in shop.answer("Where is A-17?")
"""

INI = """
[pytest]
pythonpath = .
agentreplay_tools =
    shop.lookup_order = read
    shop.refund
agentreplay_runners =
    refunds = shop:run
    waiting = shop:run_async
"""

CASE = """\
schemaVersion: "1.0"
id: {id}
title: The agent promises a refund that failed
source: {{format: snapshot, fidelity: bytes}}
input:
  messages:
    - {{role: user, content: "Where is A-17?"}}
{runner}expect: {expect}
observed:
  - tool_failed: refund
  - output: {{contains: "Here is your refund"}}
desired:
  - output: {{not_contains: "Here is your refund"}}
  - tool_called: lookup_order
{more}"""

STRICT = "serve: {observed: {model: strict, tools: strict}, desired: {model: strict, tools: strict}}\n"


class CaseProject:
    """The project. `case` writes one; `pytest` and `replay` give the finished process, with nobody at the model's address."""

    def __init__(self, project: Project, recorded: Path):
        self.project = project
        self.root = project.root
        self.recorded = recorded

    def case(self, name="refund", *, runner="refunds", expect="reproduces", more=STRICT, edit=lambda text: text):
        """Write a case, and give its file."""
        folder = self.root / "cases" / name
        folder.mkdir(parents=True, exist_ok=True)
        line = f"runner: {runner}\n" if runner else ""
        text = edit(CASE.format(id=name, runner=line, expect=expect, more=more))
        (folder / "case.yaml").write_text(text, encoding="utf-8")
        shutil.copy(self.recorded, folder / "run.snapshot.json")
        return folder / "case.yaml"

    def clear(self):
        """No case, and nothing kept."""
        for folder in ("cases", ".agentreplay", ".pytest_cache"):
            shutil.rmtree(self.root / folder, ignore_errors=True)

    def pytest(self, *words, agent="broken", **environ):
        """pytest over the cases."""
        words = words if any("cases" in str(word) for word in words) else ("cases", *words)
        return self.project.run(*words, AGENT=agent, MODEL_URL="http://127.0.0.1:9", **environ)

    def replay(self, *words, agent="broken", **environ):
        """`agentreplay replay`."""
        return self.project.command("replay", *words, AGENT=agent, MODEL_URL="http://127.0.0.1:9", **environ)


def opened(project: Project) -> CaseProject:
    """The case project in a project, its run recorded."""
    project.server._replies = refunds
    project.write(shop=SHOP, test_shop=TEST)
    (project.root / "pytest.ini").write_text(INI, encoding="utf-8")
    done = project.record("test_shop.py", AGENT="broken")
    assert done.returncode == 0, done.stdout + done.stderr
    recorded = project.root / "recorded.json"
    os.replace(project.files[0], recorded)
    return CaseProject(project, recorded)
