"""Clients in C and Rust, which no boundary meets: listed by name while recording, refused by name in a replay."""

import pytest

from tests.support.small_projects import edited, furnished, passed, recorded, runs, sections

pytestmark = pytest.mark.env("clients")

AGENT = """
import os, pathlib
import asyncio
import confluent_kafka, curl_cffi, grpc, httpx, primp, psycopg, psycopg2, pycares, pycurl, pynng, rloop, tls_client, zmq
from pycurl import Curl, CurlMulti
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

def by_pycurl_multi():
    multi, curl = CurlMulti(), Curl()
    curl.setopt(curl.URL, URL + "/pycurl")
    curl.setopt(curl.WRITEFUNCTION, lambda data: None)
    multi.add_handle(curl)
    running = 1
    while running:
        _, running = multi.perform()
        multi.select(0.1)
    multi.close()

def by_confluent_kafka():
    confluent_kafka.Producer({"bootstrap.servers": "127.0.0.1:9"}).flush(0.1)

def by_psycopg():
    psycopg.connect("host=127.0.0.1 port=9 connect_timeout=2")

def by_psycopg_async():
    asyncio.run(psycopg.AsyncConnection.connect("host=127.0.0.1 port=9 connect_timeout=2"))

def by_psycopg2():
    psycopg2.connect("host=127.0.0.1 port=9 connect_timeout=2")

def by_pycares():
    channel = pycares.Channel()
    channel.query("api.shop.invalid", "A", callback=lambda result, error: None)
    channel.close()

def by_pynng():
    with pynng.Pair0() as pair:
        pair.dial("tcp://127.0.0.1:9", block=False)

def by_tls_client():
    tls_client.Session().get(URL + "/tls_client")

def by_zmq():
    with zmq.Context() as context, context.socket(zmq.REQ) as sock:
        sock.connect("tcp://127.0.0.1:9")

def by_zmq_in_the_process():
    with zmq.Context() as context, context.socket(zmq.PAIR) as one, context.socket(zmq.PAIR) as other:
        one.bind("inproc://here")
        other.connect("inproc://here")

def by_rloop():
    async def connect():
        transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, "127.0.0.1", int(URL[17:]))
        transport.close()
    loop = rloop.new_event_loop()
    loop.run_until_complete(connect())
    loop.close()

def by_curl_cffi():
    curl_cffi.get(URL + "/curl_cffi")

def by_grpc():
    with grpc.insecure_channel(URL.removeprefix("http://")) as channel:
        channel.unary_unary("/shop/Find")(b"", timeout=0.5)

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

BY_NAME = ["confluent_kafka", "curl_cffi", "grpc", "primp", "psycopg", "psycopg2", "pycares", "pycurl", "pynng"]
BY_NAME += ["pyreqwest", "tls_client", "zmq"]
UNMET = {name: name for name in BY_NAME} | {
    "psycopg_async": "psycopg",
    "pycurl_multi": "pycurl",
}
"""How a way is called, and the library that is told."""

LEFT_OPEN = ("-W", "ignore::pytest.PytestUnraisableExceptionWarning")
"""rloop leaves two sockets of its own."""


@pytest.fixture(scope="module")
def ways(shared_project):
    return recorded(furnished(shared_project(), agent=AGENT, test_ways=TESTS), *LEFT_OPEN)


def test_a_recording_lists_them_by_name(ways):
    kept = runs(ways)
    gaps = {name: str(run.header.kit.get("gaps", "")) for name, run in kept.items()}
    unlisted = {
        way for way, library in UNMET.items() if f"the library {library} from agent.py:" not in gaps[name_of(way)]
    }
    assert not unlisted
    assert "1 connect to 127.0.0.1:" in gaps[name_of("rloop")]
    assert not gaps[name_of("zmq_in_the_process")]
    assert not gaps[name_of("httpx_over_curl")]
    assert len(kept[name_of("httpx_over_curl")].exchanges) == 2


def name_of(way):
    return f"way[by_{way}]"


def test_a_replay_refuses_them_by_name_and_says_what_to_do(ways):
    hits = ways.server.hits
    done = ways.replay(*LEFT_OPEN)
    assert ways.server.hits == hits, "nothing came through"
    assert f"{len(UNMET) + 1} failed, 2 passed" in done.stdout, done.stdout
    said = sections(done)
    assert "1 connect to 127.0.0.1:" in said[name_of("rloop")]
    for way, library in UNMET.items():
        refused = f"[AR-NET] refused in a closed replay: 1 call by the library {library} from agent.py:"
        for words in (refused, f"{library} is not met", "agentreplay_tools"):
            assert words in said[name_of(way)]


def test_one_that_is_allowed_passes(ways):
    with edited(ways, "pytest.ini", "pythonpath = .\n", "pythonpath = .\nagentreplay_allow = host:pycurl\n"):
        passed(ways.replay("-k", "by_pycurl"))
