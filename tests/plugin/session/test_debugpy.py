"""An IDE's debugger at work in a closed replay: debugpy, and pydevd inside it, spoken to as VS Code does."""

import itertools
import json
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

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

    def ask(self, command, **arguments):
        number = self.send(command, **arguments)
        reply = self.await_(lambda said: said["type"] == "response" and said["request_seq"] == number)
        assert reply["success"], reply
        return reply.get("body") or {}

    def event(self, name):
        return self.await_(lambda said: said["type"] == "event" and said["event"] == name).get("body")

    def await_(self, wanted):
        while True:
            for said in self._seen:
                if wanted(said):
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
        self.await_(lambda said: said["type"] == "response" and said["request_seq"] == attaching)

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


@contextmanager
def running(project, port, *command):
    """The process, an editor that is connected to it, and the file that it writes to (debugpy's adapter outlives it)."""
    written = project.root / "written.txt"
    with written.open("w", encoding="utf-8") as out:
        process = subprocess.Popen(
            [sys.executable, "-X", "frozen_modules=off", *map(str, command)],
            cwd=project.root,
            env=project.surroundings(PYDEVD_DISABLE_FILE_VALIDATION="1"),
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    editor = None
    try:
        editor = editor_at(port)
        yield process, editor, written
    except BaseException:
        print(written.read_text(encoding="utf-8"))
        raise
    finally:
        if editor is not None:
            editor.close()
        process.kill()
        process.wait()


def editor_at(port):
    for _ in range(300):
        try:
            return Editor(port)
        except ConnectionRefusedError:
            time.sleep(0.1)
    raise AssertionError("debugpy does not listen")


def line_of(file, text):
    return next(n for n, row in enumerate(file.read_text(encoding="utf-8").splitlines(), 1) if text in row)


def test_a_breakpoint_stops_in_the_agent_inside_a_closed_replay(project):
    project.edit("agent.py", '"model": "m-1",', '"model": "m-1", "now": time.time(),')
    project.edit("agent.py", "import json,", "import time, json,")
    assert project.record().returncode == 0
    port = free_port()
    agent = project.root / "agent.py"
    project.write(conftest=CONFTEST.format(port=port))
    command = ["-m", "pytest", "-s", *project.options, "--replay=model"]
    with running(project, port, *command) as (process, editor, written):
        editor.attach(agent, line_of(agent, "result = TOOLS"))
        for tool, messages in (("lookup_order", "3"), ("refund", "5")):
            thread, frame = editor.stopped()
            assert frame["name"] == "answer"
            assert frame["source"]["path"] == str(agent)
            assert tool in editor.value("call['function']['name']", frame)
            assert editor.value("len(messages)", frame) == messages
            time.sleep(THINKING)
            editor.ask("continue", threadId=thread)
        editor.event("terminated")
        status = process.wait(timeout=60)
        out = written.read_text(encoding="utf-8")
    assert status == 0, out
    assert "replayed 1 test (3 turns, 5 calls served, 0 live)" in out
    assert "AR-" not in out
