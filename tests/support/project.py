"""A project of a user's in a folder of its own, run by pytest in a process of its own, beside a live model server."""

import json
import os
import re
from pathlib import Path

from pytest_agentreplay.snapshots import codec
from tests.support import forking
from tests.support.model_server import Ask, ModelServer

AGENT = """
import json, os, pathlib
import httpx2

LEDGER = pathlib.Path(__file__).with_name("ledger.txt")

def note(line):
    with LEDGER.open("a") as ledger:
        ledger.write(line + "\\n")

def lookup_order(order_id: str) -> dict:
    note(f"lookup {order_id}")
    return {"order": order_id, "status": "late"}

def refund(order_id: str, amount: float) -> str:
    note(f"refund {order_id} {amount}")
    return f"refunded {amount}"

TOOLS = {"lookup_order": lookup_order, "refund": refund}
PROMPT = "You help customers.\\nBe brief.\\nBe kind."
SCHEMAS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}} for name in TOOLS
]

def ask(messages, **more):
    reply = httpx2.post(
        os.environ["MODEL_URL"] + "/v1/chat/completions",
        json={"model": "m-1", "messages": messages, "tools": SCHEMAS, **more},
        headers={"authorization": "Bearer " + os.environ.get("MODEL_API_KEY", "")},
    )
    return reply.json()["choices"][0]["message"]

def answer(question, **more):
    messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": question}]
    while True:
        reply = ask(messages, **more)
        if not reply.get("tool_calls"):
            return reply["content"]
        messages.append(reply)
        for call in reply["tool_calls"]:
            result = TOOLS[call["function"]["name"]](**json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)})
"""

TEST = """
import agent

def test_refund(agentreplay):
    assert "refund" in agent.answer("Where is A-17?")
    agentreplay.run.assert_tool_calls(["lookup_order", "refund"])
"""

INI = """
[pytest]
pythonpath = .
agentreplay_tools =
    agent.lookup_order = read
    agent.refund
"""


ON_CI = {"CI", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE"}
"""Variables by which the plugin knows that a CI service runs it."""
NOBODY = "http://127.0.0.1:9"
"""Where no server listens; the port of a loopback host is not compared."""


class Project:
    """Files, and pytest over them. `replay` and `run` give the finished process; `snapshots` what was written.

    `plugins` are words of `-p`; with `autoload` every plugin of the environment comes by itself. New recordings are not
    proved, which would double their cost, but in modules and tests that are marked `proves`; processes are forks of a
    warm interpreter, but where the mark is `real_process`. Proofs are forks where it is `proves(forked=True)`: there
    neither their hash seed nor their start is the subject.
    """

    forked_proofs = False

    def __init__(self, root: Path, server: ModelServer, *, proves: bool = False, forks: bool = True):
        self.root = root
        self.server = server
        self.environ = {"MODEL_API_KEY": "sk-live-0123456789abcdef", "COLUMNS": "80"}
        self.plugins = ("pytest_agentreplay.plugin", "no:cacheprovider")
        self.autoload = False
        self.proves = proves
        self.forks = forks

    def write(self, **files):
        for name, text in files.items():
            file = self.root / f"{name.replace('__', '/')}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            self.put(file, text)

    @staticmethod
    def put(file, text):
        """Write a file, and drop its byte code: Python takes that for current if second and size are the same."""
        file.write_text(text, encoding="utf-8")
        for stale in file.parent.glob(f"__pycache__/{file.stem}.*.pyc"):
            stale.unlink()

    def furnish(self, tests=TEST, ini=""):
        """The refund agent, tests of it and its ini, over a script of three replies."""
        self.server._replies = refunds
        self.write(agent=AGENT, test_shop=tests)
        (self.root / "pytest.ini").write_text(INI + ini, encoding="utf-8")

    def edit(self, name, old, new):
        file = self.root / name
        text = file.read_text(encoding="utf-8")
        assert old in text, f"{old!r} is not in {name}"
        self.put(file, text.replace(old, new))

    def run(self, *words, **environ):
        return self.child("pytest", *self.options, *words, **environ)

    def command(self, *words, **environ):
        """The command `agentreplay`; the pytest that it starts loads what `run` loads."""
        environ = {"PYTEST_ADDOPTS": " ".join(self.options)} | environ
        return self.child("pytest_agentreplay", *words, **environ)

    @property
    def options(self):
        loaded = [word for name in self.plugins for word in ("-p", name)]
        return ["-W", "error", *loaded, *([] if self.proves else ["--agentreplay-checks=unproved=ignore"])]

    def child(self, module, *words, cwd=None, given=None, **environ):
        """The finished process of `python -m module`; `given` is what somebody typed."""
        env = self.surroundings(**environ)
        where = {"cwd": cwd or self.root, "env": env, "given": given}
        if self.forks:
            return forking.run(module, *map(str, words), **where, forked_proofs=self.forked_proofs)
        return forking.run_process(module, *map(str, words), **where)

    def surroundings(self, **environ):
        """The environment of a child: nothing of ours but what is said."""
        ours = ("PYTEST", "AGENTREPLAY", "COV", "SSL_CERT_FILE")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(ours) and k not in ON_CI}
        kept |= {} if self.autoload else {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        # Byte code knows its source by size and second, and a test may edit a line twice in one.
        kept |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONIOENCODING": "utf-8", "MODEL_URL": self.server.url}
        # All servers are on loopback, and each client of HTTP that is made would parse the authorities of the system.
        kept |= {"SSL_CERT_DIR": os.devnull}
        return kept | self.environ | environ

    def record(self, *words, **environ):
        return self.run("--snapshot-record", *words, **environ)

    def replay(self, *words, **environ):
        return self.run("--replay=model", *words, **environ)

    def offline(self, *words, **environ):
        """A replay that must stand on its own: there is no server at the model's address, and no tool runs."""
        before = self.ledger, self.server.hits
        done = self.replay(*words, **{"MODEL_URL": NOBODY} | environ)
        assert (self.ledger, self.server.hits) == before
        return done

    def diverged(self, *words, code=1, **environ):
        """A replay under a prompt with another word; what the short summary says of each test, and the process."""
        self.edit("agent.py", "Be brief.", "Be short.")
        try:
            done = self.offline(*words, **environ)
        finally:
            self.edit("agent.py", "Be short.", "Be brief.")
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stdout + done.stderr
        summary = done.stdout.partition("short test summary info")[2]
        told = re.findall(r"^([A-Z]{5,})(?:\(.*\))? \S+?::(.+?) - (.*)$", summary, re.MULTILINE)
        reports = done.stdout.count("  likely cause") + done.stdout.count("] the same change as in ")
        assert reports == len(told), "a report for each test, and no other"
        return {test: f"{word} {said}" for word, test, said in told}, done

    @property
    def files(self):
        """The snapshots; pending runs lie below a folder of their own, by the same names."""
        found = sorted(self.root.rglob("__agent_snapshots__/**/*.snapshot.json"))
        return [file for file in found if ".pytest_agentreplay" not in file.parts]

    @property
    def snapshots(self):
        return [codec.loads(file.read_bytes(), file=str(file)) for file in self.files]

    @property
    def ledger(self):
        file = self.root / "ledger.txt"
        return file.read_text(encoding="utf-8").splitlines() if file.exists() else []

    def document(self, number=0):
        return json.loads(self.files[number].read_text(encoding="utf-8"))


def refunds(body, number):
    """The model of the refund agent: looks up, refunds, answers."""
    match sum(message["role"] == "tool" for message in body["messages"]):
        case 0:
            return Ask("lookup_order", {"order_id": "A-17"})
        case 1:
            return Ask("refund", {"order_id": "A-17", "amount": 18.5})
    return f"Here is your refund (answer {number})."
