"""A server that a fixture starts as a Python child: what it does for a recorded request belongs to that request."""

import pytest

from tests.support.small_projects import furnished, passed, recorded, runs, summary

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

TOOLS = """
import json, os, pathlib, urllib.request

LEDGER = pathlib.Path(__file__).with_name("ledger.txt")

def lookup_order(order):
    with LEDGER.open("a") as ledger:
        ledger.write(f"{order}\\n")
    return f"{order} has shipped"

def ask(words, url=None):
    body = json.dumps({"model": "m-1", "messages": [{"role": "user", "content": words}]}).encode()
    headers = {"content-type": "application/json"}
    url = (url or os.environ["MODEL_URL"]) + "/v1/chat/completions"
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=20) as reply:
        return json.load(reply)["choices"][0]["message"]["content"]
"""

SERVER = """
import http.server, os, pathlib, sys, threading
import shop_tools

class Orders(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        known = [shop_tools.ask("which order?"), shop_tools.lookup_order("A-1"), shop_tools.ask("say it")]
        data = "; ".join(known).encode() if self.path == "/orders" else b"up"
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass

server = getattr(http.server, sys.argv[1])(("127.0.0.1", 0), Orders)
if os.environ.get("LAZY") != "1":
    shop_tools.ask("good morning")
print(server.server_port, flush=True)
server.serve_forever()
"""

TESTS = """
import contextlib, subprocess, sys, urllib.request
import pytest
import shop_tools

@contextlib.contextmanager
def running(kind):
    with subprocess.Popen([sys.executable, "shop_server.py", kind], stdout=subprocess.PIPE) as process:
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/orders"
        finally:
            process.terminate()

def fixture(scope, kind):
    @pytest.fixture(scope=scope)
    def server():
        with running(kind) as url:
            yield url
    return server

of_test, of_module = fixture("function", "HTTPServer"), fixture("module", "ThreadingHTTPServer")

def answer(url):
    with urllib.request.urlopen(url, timeout=20) as reply:
        known = reply.read().decode()
    assert "A-1 has shipped" in known
    shop_tools.ask(known)

def test_own(agentreplay, of_test):
    answer(of_test)
    assert "lookup_order" in [call.name for call in agentreplay.run.tool_calls]

def test_shared(agentreplay, of_module):
    answer(of_module)

def test_shared_again(agentreplay, of_module):
    answer(of_module)
"""


CONFTEST = """
import os

if os.environ.get("IMPATIENT"):
    # Nothing comes: how long it is waited for is not the subject.
    from pytest_agentreplay.intercept.process import child_server
    child_server.PATIENCE = 0.5
"""


@pytest.fixture(scope="module")
def project(shared_project):
    made = shared_project(lambda body, number: f"answer {number}")
    files = {"shop_tools": TOOLS, "shop_server": SERVER, "test_shop": TESTS, "conftest": CONFTEST}
    furnished(made, "agentreplay_tools = shop_tools.lookup_order\n", **files)
    made.environ |= {"MODEL_URL": made.server.url, "COLUMNS": "200"}
    recorded(made)
    return made


def test_a_replay_asks_no_server_runs_none_of_its_tools_and_expects_none_of_its_calls(project):
    before = project.server.hits, project.ledger
    passed(project.replay())
    assert (project.server.hits, project.ledger) == before


def test_the_recording_says_which_request_each_call_of_the_server_was_for(project):
    run = runs(project)["own"]
    request = next(x for x in run.exchanges if getattr(x.call, "url", "").endswith("/orders"))
    theirs = [x for x in run.exchanges if x.lane != "main"]
    assert [getattr(x.call, "name", "model") for x in theirs] == ["model", "model", "lookup_order", "model"]
    assert run.header.kit["served"] == {str(x.start): request.start for x in theirs[1:]}


def test_what_the_server_does_by_itself_is_expected(project):
    found = summary(project.replay(LAZY="1", IMPATIENT="1"))
    assert len(found) == 3
    assert all("[AR-MISSING]" in text and "model m-1 was not called" in text for text in found.values())
