"""urllib3, and requests and botocore on it: recorded once a wire call, replayed with no server."""

from __future__ import annotations

import gzip
import io
import json

import boto3
import pytest
import requests
import urllib3
from botocore.config import Config

from pytest_agentreplay.core.model import Body
from pytest_agentreplay.demo.server import ModelServer, Raw
from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.intercept.http import urllib3 as http_urllib3

pytestmark = pytest.mark.env("clients", "lastyear")

READS = {
    "preload": ({}, lambda r: [r.data]),
    "preload undecoded": ({"decode_content": False}, lambda r: [r.data]),
    "stream": ({"preload_content": False}, lambda r: list(r.stream(None))),
    "stream in pieces": ({"preload_content": False}, lambda r: list(r.stream(2, decode_content=False))),
    "read1": ({"preload_content": False}, lambda r: list(iter(r.read1, b""))),
}


def told(error):
    """The error and what it is about, without the names of objects and ports."""
    reason = getattr(error, "reason", None)
    return type(error), str(error), type(reason), getattr(getattr(error, "pool", None), "host", None)


def get(server, how, *, timeout=5.0, retries=False):
    """One call by a pool of its own: status line, headers, reads."""
    options, read = READS[how]
    with urllib3.PoolManager() as http:
        try:
            response = http.request("GET", server.url + "/p", timeout=timeout, retries=retries, **options)
            head = response.status, response.reason, response.version, list(response.headers.items())
        except urllib3.exceptions.HTTPError as error:
            return told(error)
        try:
            return *head, read(response)
        except urllib3.exceptions.HTTPError as error:
            return *head, told(error)
        finally:
            response.close()


REPLIES = {
    "odd headers": Raw(headers=[("SET-Cookie", "a=1"), ("x-Odd", "1"), ("Set-cookie", "b=2"), ("X-ODD", "2")]),
    "own reason": Raw(503, reason="Gone Fishing", chunks=(b"x",)),
    "chunks": Raw(chunks=(b"one", b"two" * 30, b"three")),
    "gzip": Raw(headers=[("Content-Encoding", "gzip")], chunks=(gzip.compress(b"hello " * 50, mtime=0),)),
    "gzip of a length": Raw(
        headers=[("Content-Encoding", "gzip"), ("Content-Length", str(len(gzip.compress(b"a" * 50, mtime=0))))],
        chunks=(gzip.compress(b"a" * 50, mtime=0),),
    ),
    "broken gzip": Raw(headers=[("Content-Encoding", "gzip")], chunks=(b"no gzip", b"at all")),
    "too short": Raw(headers=[("Content-Length", "9")], chunks=(b"abcd",), break_after=1),
    "no body": Raw(204, headers=[("Content-Length", "0")], reason="No Content"),
    "gone before the answer": Raw(status=0, break_after=0),
    "gone in the body": Raw(chunks=(b"a", b"b", b"c"), break_after=2),
    "reset in the body": Raw(chunks=(b"a",), break_after=1, reset=True, delay=0.1),
    "not http": Raw(head=b"NONSENSE\r\n\r\n"),
    "silent": Raw(status=0, hang=True),
    "stalled": Raw(chunks=(b"a", b"b"), hang=True),
    "malformed chunk": Raw(headers=[("Transfer-Encoding", "chunked")], chunks=(b"1\r\na\r\n", b"zz\r\n")),
}


@pytest.mark.parametrize("how", READS)
@pytest.mark.parametrize("name", REPLIES)
def test_the_wire_comes_back_as_it_was(name, how, both):
    timeout = 0.3 if REPLIES[name].hang else 5.0
    with ModelServer([REPLIES[name]] * 2) as server:
        bare = get(server, how, timeout=timeout)
        live, replayed, exchanges = both(server, lambda: get(server, how, timeout=timeout))
    assert live == bare
    assert replayed == live
    assert len(exchanges) == 1


def test_the_body_is_kept_as_it_came(both):
    with ModelServer([REPLIES["gzip"], REPLIES["chunks"]]) as server:
        live, _, exchanges = both(server, lambda: [get(server, "preload"), get(server, "preload")])
    assert live[0][-1] == [b"hello " * 50]
    assert [x.outcome.body.data[:2] for x in exchanges] == [b"\x1f\x8b", b"on"]
    assert exchanges[1].outcome.cuts == (3, 90, 5)
    assert exchanges[0].call.url == server.url + "/p"


def test_retries_and_redirects_are_urllib3s_own(both):
    script = [
        Raw(503, headers=[("Content-Length", "0")]),
        Raw(status=0, break_after=0),
        Raw(302, headers=[("Location", "/there"), ("Content-Length", "0")]),
        "done",
    ]

    def act():
        with urllib3.PoolManager() as http:
            retries = urllib3.Retry(4, status_forcelist=[503], backoff_factor=0)
            response = http.request("GET", server.url + "/here", retries=retries)
            history = [(type(was.error), was.status, was.redirect_location) for was in response.retries.history]
            return response.json(), history

    with ModelServer(script) as server:
        live, replayed, exchanges = both(server, act)
    assert live == replayed
    assert live[1]
    assert [x.call.url.rpartition("/")[2] for x in exchanges] == ["here", "here", "here", "there"]


def test_connection_refused_is_told_as_ever(both):
    with ModelServer() as server:
        pass

    def act():
        with urllib3.PoolManager() as http, pytest.raises(urllib3.exceptions.MaxRetryError) as raised:
            http.request("GET", server.url, retries=1)
        return str(raised.value), type(raised.value.reason), raised.value.pool.host

    live, replayed, exchanges = both(server, act)
    assert live == replayed
    assert live[1] is urllib3.exceptions.NewConnectionError
    assert len(exchanges) == 2


BODIES = {
    "bytes": lambda: {"body": b"abc"},
    "text": lambda: {"body": "abc"},
    "json": lambda: {"json": {"a": 1}},
    "file": lambda: {"body": io.BytesIO(b"abc")},
    "text file": lambda: {"body": io.StringIO("abc")},
    "generator": lambda: {"body": iter([b"a", b"bc"])},
    "fields": lambda: {"fields": {"f": ("n.txt", b"data")}, "multipart_boundary": "b"},
    "nothing": dict,
}


@pytest.mark.parametrize("kind", BODIES)
def test_request_bodies_are_kept_and_sent_as_ever(kind, both):
    def act():
        with urllib3.PoolManager() as http:
            return http.request("POST", server.url, **BODIES[kind]()).data

    with ModelServer() as server:
        act()
        live, replayed, [exchange] = both(server, act)
        bare, recorded = server.requests
    assert live == replayed
    assert (recorded.body, recorded.headers) == (bare.body, bare.headers)
    assert exchange.call.body == Body(recorded.body)


def test_a_pool_that_is_kept_serves_live_calls_before_and_after(both):
    with ModelServer() as server, requests.Session() as session:

        def one(path):
            return session.get(server.url + path).json()["id"]

        first = one("/before")
        live, replayed, exchanges = both(server, lambda: [one("/a"), one("/b")])
        assert live == replayed
        assert len({first, *live, one("/after")}) == 4
        assert len(exchanges) == 2


def test_requests_streams_and_reads_on_only_as_far_as_it_did(both, running, Player):
    def act(count):
        with requests.get(server.url, stream=True) as response:
            chunks = response.iter_content(None)
            return response.status_code, dict(response.cookies), [next(chunks) for _ in range(count)]

    reply = Raw(headers=[("set-cookie", "a=1")], chunks=(b"a", b"b", b"c"), delay=0.05)
    with ModelServer([reply]) as server:
        live, replayed, exchanges = both(server, lambda: act(2))
        assert live == replayed == (200, {"a": "1"}, [b"a", b"b"])
        assert exchanges[0].outcome.closed
        with running(Player(exchanges)), pytest.raises(ReplayDiverged, match="after 2 chunks"):
            act(3)


def test_requests_tells_failures_as_ever(both):
    def act():
        got = []
        for _ in range(3):
            try:
                requests.get(server.url, timeout=0.3)
            except requests.RequestException as error:
                got.append((type(error), str(error)))
        return got

    script = [Raw(status=0, hang=True), Raw(chunks=(b"a",), hang=True), Raw(status=0, break_after=0)]
    with ModelServer(script) as server:
        live, replayed, exchanges = both(server, act)
    assert live == replayed
    assert [kind.__name__ for kind, _ in live] == ["ReadTimeout", "ConnectionError", "ConnectionError"]
    assert exchanges[1].outcome.failure.type == "builtins.TimeoutError"


def test_botocore_puts_an_object_that_waits_to_go_on(both):
    def act():
        client = boto3.client(
            "s3",
            endpoint_url=server.url,
            region_name="us-east-1",
            aws_access_key_id="id",
            aws_secret_access_key="key",
            config=Config(retries={"max_attempts": 1}, s3={"addressing_style": "path"}),
        )
        put = client.put_object(Bucket="b", Key="k", Body=io.BytesIO(b"abc"))["ResponseMetadata"]["HTTPStatusCode"]
        return put, client.get_object(Bucket="b", Key="k")["Body"].read()

    with ModelServer(
        [Raw(headers=[("Content-Length", "0")]), Raw(headers=[("Content-Length", "3")], chunks=(b"abc",))]
    ) as server:
        live, replayed, exchanges = both(server, act)
    assert live == replayed == (200, b"abc")
    assert [x.call.method for x in exchanges] == ["PUT", "GET"]
    assert b"abc" in exchanges[0].call.body.data


def test_through_a_proxy(both):
    """A proxy is asked for the whole URL; a tunnel is not dug in a replay."""

    def act():
        with urllib3.ProxyManager(server.url) as http:
            return http.request("GET", "http://far.test/p?a=1").json()["path"]

    with ModelServer() as server:
        live, replayed, [exchange] = both(server, act)
    assert live == replayed == "http://far.test/p?a=1"
    assert exchange.call.url == "http://far.test/p?a=1"


def test_a_tunnel_that_fails_is_a_recorded_outcome(both):
    def act():
        with urllib3.ProxyManager(server.url) as http, pytest.raises(urllib3.exceptions.MaxRetryError) as raised:
            http.request("GET", "https://far.test/", retries=0)
        return str(raised.value.reason)

    with ModelServer([Raw(403, reason="No", headers=[("Content-Length", "0")])]) as server:
        live, replayed, [exchange] = both(server, act)
    assert live == replayed
    assert "403" in live
    assert exchange.call.url == "https://far.test/"


def test_install_twice_wraps_once(both):
    del both
    kept = vars(urllib3.connectionpool.HTTPConnectionPool)["_make_request"]
    http_urllib3.patch(urllib3.connectionpool)
    assert vars(urllib3.connectionpool.HTTPConnectionPool)["_make_request"] is kept


def test_what_is_read_is_json_all_the_same(both):
    with ModelServer() as server:
        live, replayed, _ = both(server, lambda: json.loads(requests.post(server.url, json={"a": "ü"}).content))
    assert live == replayed
