"""urllib3, and requests and botocore on it: recorded once a wire call, replayed with no server."""

from __future__ import annotations

import io

import boto3
import pytest
import requests
import urllib3
from botocore import UNSIGNED
from botocore.config import Config

from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.intercept import registry
from pytest_agentreplay.intercept.http import urllib3 as http_urllib3
from tests.support.exhaustive import rare
from tests.support.model_server import ModelServer, Raw
from tests.support.tapes import both, recording
from tests.support.wire import (
    REPLIES,
    early_close_comes_back,
    refused_connection,
    reply_comes_back,
    request_is_kept,
)

pytestmark = pytest.mark.env("clients", "lastyear")

READS = {
    "preload": ({}, lambda r: [r.data]),
    "preload undecoded": ({"decode_content": False}, lambda r: [r.data]),
    "stream": ({"preload_content": False}, lambda r: list(r.stream(None))),
    "stream in pieces": ({"preload_content": False}, lambda r: list(r.stream(2, decode_content=False))),
    "read1": ({"preload_content": False}, lambda r: list(iter(r.read1, b""))),
}
ALIKE = {"latin-1 header", "no reason", "cut in a character", "half json", "length", "up to the end", "gone in a chunk"}
"""Replies that are nothing special to urllib3, which has them from `http.client`."""


def told(error):
    """The error and what it is about, without the names of objects and ports."""
    reason = getattr(error, "reason", None)
    return type(error), str(error), type(reason), getattr(getattr(error, "pool", None), "host", None)


def get(url, timeout=5.0, *, how="preload", retries=False):
    """One call by a pool of its own: status line, headers, reads."""
    options, read = READS[how]
    with urllib3.PoolManager() as http:
        try:
            response = http.request("GET", url + "/p", timeout=timeout, retries=retries, **options)
            head = response.status, response.reason, response.version, list(response.headers.items())
        except urllib3.exceptions.HTTPError as error:
            return told(error)
        try:
            return *head, read(response)
        except urllib3.exceptions.HTTPError as error:
            return *head, told(error)
        finally:
            response.close()


NAMES = sorted(REPLIES.keys() - ALIKE)
FIRST = [(name, how) for name in NAMES for how in READS if how == "preload" or name in {"gzip", "gone in the body"}]


@pytest.mark.parametrize(
    ("name", "how"), FIRST + rare(*((name, how) for name in NAMES for how in READS if (name, how) not in FIRST))
)
def test_the_wire_comes_back_as_it_was(name, how):
    reply_comes_back(name, lambda url, timeout: get(url, timeout, how=how))


def test_the_body_is_kept_as_it_came():
    with ModelServer([REPLIES["gzip"], REPLIES["chunks"]]) as server:
        live, exchanges = both(server, lambda: [get(server.url), get(server.url)])
    assert live[0][-1] == [b"hello " * 50]
    assert [x.outcome.body.data[:2] for x in exchanges] == [b"\x1f\x8b", b"on"]
    assert exchanges[1].outcome.cuts == (3, 90, 5)
    assert exchanges[0].call.url == server.url + "/p"


def test_retries_and_redirects_are_urllib3s_own():
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
        live, exchanges = both(server, act)
    assert live[1]
    assert [x.call.url.rpartition("/")[2] for x in exchanges] == ["here", "here", "here", "there"]


def test_connection_refused_is_told_as_ever():
    live, exchanges = refused_connection(lambda url: get(url, retries=1))
    assert live[0] is urllib3.exceptions.MaxRetryError
    assert live[2] is urllib3.exceptions.NewConnectionError
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
def test_request_bodies_are_kept_and_sent_as_ever(kind):
    def send(url):
        with urllib3.PoolManager() as http:
            return http.request("POST", url, **BODIES[kind]()).data

    request_is_kept(send)


def test_a_pool_that_is_kept_serves_live_calls_before_and_after():
    with ModelServer() as server, requests.Session() as session:

        def one(path):
            return session.get(server.url + path).json()["id"]

        first = one("/before")
        live, exchanges = both(server, lambda: [one("/a"), one("/b")])
        assert len({first, *live, one("/after")}) == 4
        assert len(exchanges) == 2


def test_requests_streams_and_reads_on_only_as_far_as_it_did():
    def read(url, count):
        with requests.get(url, stream=True) as response:
            chunks = response.iter_content(None)
            return [next(chunks) for _ in range(count)]

    early_close_comes_back(read)


def test_requests_tells_failures_as_ever():
    def act():
        got = []
        for _ in range(3):
            try:
                requests.get(server.url, timeout=0.3)
            except requests.RequestException as error:
                got.append((type(error), str(error)))
        return got

    with ModelServer([REPLIES["silent"], REPLIES["stalled"], REPLIES["gone before the answer"]]) as server:
        live, exchanges = both(server, act)
    assert [kind.__name__ for kind, _ in live] == ["ReadTimeout", "ConnectionError", "ConnectionError"]
    assert exchanges[1].outcome.failure.type == "builtins.TimeoutError"


def test_botocore_puts_an_object_that_waits_to_go_on():
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

    script = [Raw(headers=[("Content-Length", "0")]), Raw(headers=[("Content-Length", "3")], chunks=(b"abc",))]
    with ModelServer(script) as server:
        live, exchanges = both(server, act)
    assert live == (200, b"abc")
    assert [x.call.method for x in exchanges] == ["PUT", "GET"]
    assert b"abc" in exchanges[0].call.body.data


def test_a_proxy_is_asked_for_the_whole_url_and_a_tunnel_that_fails_is_a_recorded_outcome():
    def act():
        with urllib3.ProxyManager(server.url) as http:
            path = http.request("GET", "http://far.test/p?a=1").json()["path"]
            with pytest.raises(urllib3.exceptions.MaxRetryError) as raised:
                http.request("GET", "https://far.test/", retries=0)
        return path, str(raised.value.reason)

    with ModelServer(["plain", Raw(403, reason="No", headers=[("Content-Length", "0")])]) as server:
        live, exchanges = both(server, act)
    assert live[0] == "http://far.test/p?a=1"
    assert "403" in live[1]
    assert [x.call.url for x in exchanges] == ["http://far.test/p?a=1", "https://far.test/"]


def test_install_twice_wraps_once():
    registry.install()
    kept = vars(urllib3.connectionpool.HTTPConnectionPool)["_make_request"]
    http_urllib3.patch(urllib3.connectionpool)
    assert vars(urllib3.connectionpool.HTTPConnectionPool)["_make_request"] is kept


def converse(url, **settings):
    """One call of Bedrock, without retries."""
    config = Config(retries={"max_attempts": 0}, **settings)
    keys = {"aws_access_key_id": "AKIA0123456789ABCDEF", "aws_secret_access_key": "y" * 40}
    client = boto3.client("bedrock-runtime", region_name="eu-west-1", endpoint_url=url, config=config, **keys)
    return client.converse(modelId="m-1", messages=[{"role": "user", "content": [{"text": "hi"}]}])


def test_what_a_live_run_changes_is_sent_to_bedrock_unless_it_is_signed():
    with ModelServer() as server, recording() as tape:
        tape.interception.scope.changes = {"model": "eu.m-2:0", "temperature": 0.5}
        assert converse(server.url, signature_version=UNSIGNED)["output"]
        with pytest.raises(ReplayDiverged, match=r"--replay-set model, temperature: the request is signed"):
            converse(server.url)
    (request,) = server.requests
    assert request.path == "/model/eu.m-2%3A0/converse"
    assert request.json["inferenceConfig"] == {"temperature": 0.5}
