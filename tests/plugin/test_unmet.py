"""Clients in C and Rust, which no boundary meets: listed by name while recording, refused by name in a replay."""

import re

import pytest

pytestmark = pytest.mark.env("clients")

AGENT = """
import os, pathlib
import curl_cffi, grpc, httpx, primp, pycurl
from pyreqwest.client import SyncClientBuilder

URL = os.environ["MODEL_URL"]

def met():
    httpx.get(URL + "/hello")

def by_pycurl():
    curl = pycurl.Curl()
    curl.setopt(curl.URL, URL + "/pycurl")
    curl.setopt(curl.WRITEFUNCTION, lambda data: None)
    curl.perform()
    curl.close()

def by_curl_cffi():
    curl_cffi.get(URL + "/curl_cffi")

def by_grpc():
    with grpc.insecure_channel(URL.removeprefix("http://")) as channel:
        try:
            channel.unary_unary("/shop/Find")(b"", timeout=0.5)
        except grpc.RpcError:
            pass

def by_primp():
    primp.Client().get(URL + "/primp")

def by_pyreqwest():
    with SyncClientBuilder().build() as client:
        client.get(URL + "/pyreqwest").build().send()

class OverCurl(httpx.BaseTransport):
    def handle_request(self, request):
        return httpx.Response(200, content=curl_cffi.get(str(request.url)).content)

def by_httpx_over_curl():
    with httpx.Client(transport=OverCurl()) as client:
        assert client.get(URL + "/met").json()["path"] == "/met"
"""

TESTS = """
import pytest, agent

@pytest.mark.parametrize("way", [name for name in vars(agent) if name.startswith("by_")])
def test_way(way, agentreplay):
    agent.met()
    try:
        getattr(agent, way)()
    except Exception:
        pass
"""

UNMET = ["curl_cffi", "grpc", "primp", "pycurl", "pyreqwest"]


@pytest.fixture(scope="module")
def ways(shared_project):
    project = shared_project()
    project.write(agent=AGENT, test_ways=TESTS)
    (project.root / "pytest.ini").write_text("[pytest]\npythonpath = .\n", encoding="utf-8")
    project.recording = project.record("--agentreplay-no-prove")
    return project


def test_a_recording_lists_them_by_name(ways):
    said = " ".join(ways.recording.stdout.split())
    for library in UNMET:
        assert f"call by the library {library} from agent.py:" in said
    runs = {s.run.header.test.partition("[")[2].rstrip("]"): s.run for s in ways.snapshots}
    assert "gaps" not in runs["by_httpx_over_curl"].header.kit
    assert len(runs["by_httpx_over_curl"].exchanges) == 2


def test_a_replay_refuses_them_by_name_and_says_what_to_do(ways):
    hits = ways.server.hits
    done = ways.replay()
    assert ways.server.hits == hits, "nothing came through"
    assert "5 failed, 1 passed" in done.stdout, done.stdout
    sections = dict(re.findall(r"^_+ test_way\[by_(\w+)\] _+$(.*?)(?=^_{3,}|^={3,})", done.stdout, re.M | re.S))
    for library in UNMET:
        said = sections[library]
        assert f"[AR-NET] refused in a closed replay: 1 call by the library {library} from agent.py:" in " ".join(
            said.split()
        )
        assert f"{library} is not met" in said
        assert "agentreplay_tools" in said


def test_one_that_is_allowed_passes(ways):
    (ways.root / "pytest.ini").write_text(
        "[pytest]\npythonpath = .\nagentreplay_allow_hosts = pycurl\n", encoding="utf-8"
    )
    assert ways.replay("-k", "by_pycurl").returncode == 0
