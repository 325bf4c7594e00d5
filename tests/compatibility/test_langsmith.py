"""langsmith: its plugin is idle until a test is marked, and traces are uploaded by threads that replays do not wait for."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.support.finished import ended

pytestmark = pytest.mark.env("main")

TRACED = """
import time
import agent

def test_refund(agentreplay):
    assert "refund" in agent.answer("Where is A-17?")
    time.sleep(0.3)  # the uploader's turn
"""


@pytest.fixture
def collector():
    """A server for traces; `taken` are the paths that were asked for."""

    class Take(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers.get("content-length", 0)))
            server.taken.append(self.path)
            self.send_response(202)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        do_GET = do_PATCH = do_POST

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Take) as server:
        server.taken = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_traces_are_sent_while_recording_and_by_no_replay(project, collector):
    project.plugins += ("langsmith_plugin",)
    project.edit("agent.py", "import httpx2", "import httpx2\nfrom langsmith import traceable")
    project.edit("agent.py", "def answer(", "@traceable\ndef answer(")
    project.write(test_shop=TRACED)
    project.environ |= {
        "LANGSMITH_API_KEY": "lsv2_pt_" + "0" * 32,
        "LANGSMITH_ENDPOINT": f"http://127.0.0.1:{collector.server_port}",
        "LANGSMITH_TRACING": "true",
    }
    recorded = ended(project.record())
    assert "not recorded" not in recorded.stdout
    sent = len(collector.taken)
    assert sent > 0
    replayed = ended(project.offline())
    assert "AR-" not in replayed.stdout
    assert len(collector.taken) == sent
    # What a marked test asks of langsmith is a call of the test.
    project.edit("test_shop.py", "import agent\n", "import agent, pytest\n")
    project.edit("test_shop.py", "def test", "@pytest.mark.langsmith\ndef test")
    refused = ended(project.replay(LANGSMITH_TRACING="false"), 1)
    assert "GET 127.0.0.1/" in refused.stdout
    assert project.replay(LANGSMITH_TEST_TRACKING="false").returncode == 0
