"""An IDE's debugger at work in a closed replay: debugpy, and pydevd inside it, spoken to as VS Code does."""

import itertools
import json
import socket
import subprocess
import sys
import time
from contextlib import closing

import pytest

from tests.support.small_projects import recorded

pytestmark = [pytest.mark.env("main"), pytest.mark.process]

THINKING = 1.2
"""Seconds at a breakpoint: more than the stepped clock waits for a crossing."""

CONFTEST = """
import debugpy
debugpy.configure(subProcess=False)
print("listening", flush=True)
debugpy.listen(("127.0.0.1", {port}))
debugpy.wait_for_client()
"""


class Editor:
    """A client of the Debug Adapter Protocol, as far as an editor needs it to stop at a line."""

    def __init__(self, port):
        self._numbers = itertools.count(1)
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self._stream = self._socket.makefile("rb")
        self._seen = []

    def send(self, command, **arguments):
        number = next(self._numbers)
        body = json.dumps({"seq": number, "type": "request", "command": command, "arguments": arguments}).encode()
        self._socket.sendall(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        return number

    def answer(self, number):
        reply = self.wait_for(type="response", request_seq=number)
        assert reply["success"], reply
        return reply.get("body") or {}

    def ask(self, command, **arguments):
        return self.answer(self.send(command, **arguments))

    def event(self, name):
        return self.wait_for(type="event", event=name).get("body")

    def wait_for(self, **wanted):
        while True:
            for said in self._seen:
                if wanted.items() <= said.items():
                    self._seen.remove(said)
                    return said
            self._seen.append(self._read())

    def _read(self):
        length = 0
        while (line := self._stream.readline()) not in {b"\r\n", b""}:
            length = int(line.partition(b":")[2])
        assert length, f"debugpy hung up; it had said {self._seen}"
        return json.loads(self._stream.read(length))

    def attach(self, file, line):
        """Attach, and stop at `line` of `file`."""
        self.ask("initialize", adapterID="debugpy", linesStartAt1=True, columnsStartAt1=True, pathFormat="path")
        attaching = self.send("attach", justMyCode=True)
        self.event("initialized")
        set_ = self.ask("setBreakpoints", source={"path": str(file)}, breakpoints=[{"line": line}])
        assert set_["breakpoints"][0]["verified"], set_
        self.ask("configurationDone")
        self.answer(attaching)

    def stopped(self):
        """The thread and innermost frame where the process has stopped."""
        thread = self.event("stopped")["threadId"]
        return thread, self.ask("stackTrace", threadId=thread)["stackFrames"][0]

    def value(self, expression, frame):
        return self.ask("evaluate", expression=expression, frameId=frame["id"], context="repl")["result"]

    def close(self):
        self._stream.close()
        self._socket.close()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def editor_at(port):
    for _ in range(300):
        try:
            return Editor(port)
        except ConnectionRefusedError:
            time.sleep(0.1)
    raise AssertionError("debugpy does not listen")


def test_a_breakpoint_stops_in_the_agent_inside_a_closed_replay(project):
    project.edit("agent.py", '"model": "m-1",', '"model": "m-1", "now": time.time(),')
    project.edit("agent.py", "import json,", "import time, json,")
    recorded(project)
    port, agent, written = free_port(), project.root / "agent.py", project.root / "written.txt"
    project.write(conftest=CONFTEST.format(port=port))
    command = [sys.executable, "-X", "frozen_modules=off", "-m", "pytest", "-s", *project.options, "--replay=model"]
    env = project.surroundings(PYDEVD_DISABLE_FILE_VALIDATION="1")
    with written.open("w", encoding="utf-8") as out:  # a file, which debugpy's adapter may outlive
        process = subprocess.Popen(command, cwd=project.root, env=env, stdout=out, stderr=subprocess.STDOUT)
    try:
        with closing(editor_at(port)) as editor:
            rows = agent.read_text(encoding="utf-8").splitlines()
            editor.attach(agent, next(number for number, row in enumerate(rows, 1) if "result = TOOLS" in row))
            for tool, messages in (("lookup_order", "3"), ("refund", "5")):
                thread, frame = editor.stopped()
                assert (frame["name"], frame["source"]["path"]) == ("answer", str(agent))
                assert tool in editor.value("call['function']['name']", frame)
                assert editor.value("len(messages)", frame) == messages
                if tool == "refund":
                    time.sleep(THINKING)
                editor.ask("continue", threadId=thread)
            editor.event("terminated")
            status = process.wait(timeout=60)
    finally:
        process.kill()
        process.wait()
        print(said := written.read_text(encoding="utf-8"))
    assert status == 0
    assert "replayed 1 test (3 turns, 5 calls served, 0 live)" in said
    assert "AR-" not in said
