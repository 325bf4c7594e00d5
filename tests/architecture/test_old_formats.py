"""A released format stays readable for ever: one frozen sample per version, never written again."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from pytest_agentreplay import codec
from pytest_agentreplay.codec.styles import SMALLEST
from pytest_agentreplay.core.model import Failure, HttpCall, HttpReply, Timing, ToolCall, ToolReply
from pytest_agentreplay.errors import SnapshotUnreadable

SAMPLES = Path(__file__).parents[1] / "codec" / "samples"

FROZEN = {
    "v0.9.snapshot.json": "643588a5b2e6a4f63b3a0be469e03d7d29741699d2826b2fe535ba03f1152b14",
    "v1.0.snapshot.json": "da4e83209c5a5b942362ba60941881297be9098e1a19b5362bdd64c0c8a77af3",
}


def sample(name: str) -> codec.Snapshot:
    return codec.loads((SAMPLES / name).read_bytes(), file=name)


def test_every_format_that_is_written_has_its_sample():
    newest = json.loads(codec.dumps(sample("v1.0.snapshot.json").run))["schemaVersion"]
    assert {path.name for path in SAMPLES.iterdir()} == set(FROZEN)
    assert f"v{newest}.snapshot.json" in FROZEN


@pytest.mark.parametrize("name", FROZEN)
def test_samples_are_never_touched(name):
    text = (SAMPLES / name).read_bytes().replace(b"\r\n", b"\n")
    assert hashlib.sha256(text).hexdigest() == FROZEN[name], "a frozen sample was changed: restore it"


@pytest.mark.parametrize("name", FROZEN)
def test_samples_are_sealed_and_come_back_in_the_newest_format(name):
    old = sample(name)
    assert old.sealed
    assert codec.edited((SAMPLES / name).read_text("utf-8"), file=name) == []
    new = codec.loads(codec.dumps(old.run), file="new")
    assert new.run == old.run
    assert new.version == "1.0"


def test_the_sample_of_0_9_is_migrated_in_memory():
    snapshot = sample("v0.9.snapshot.json")
    assert snapshot.version == "0.9"
    assert "0.9" in snapshot.notes[0]
    ask, lookup, notify, upload, waiting = snapshot.run.exchanges
    assert snapshot.run.header.test == "tests/test_shop.py::test_where_is_my_order"
    assert json.loads(ask.call.body.data)["messages"][0]["content"] == "Where is my order?"
    assert ask.outcome.status == 200
    assert ask.outcome.headers == (("Content-Type", "application/json"),)
    assert sum(ask.outcome.cuts) == len(ask.outcome.body)
    assert (lookup.call, lookup.outcome, lookup.lane) == (
        ToolCall("lookup_order"),
        ToolReply({"status": "shipped"}),
        "main.1",
    )
    assert notify.outcome == Failure("builtins.TimeoutError", "no answer")
    assert upload.call.body.data == b"\x89PNG\r\n\x1a\n\x00\xff"
    assert (upload.outcome.status, upload.outcome.body.data, upload.outcome.cuts) == (204, b"", ())
    assert (waiting.outcome, waiting.finish) == (None, None)


def test_a_damaged_0_9_is_refused_with_its_exchange():
    doc = json.loads((SAMPLES / "v0.9.snapshot.json").read_text("utf-8"))
    for path, value in [("kind", None), ("call", {"name": 5}), ("start", "x"), ("answer", {"value": {"$blob": "x"}})]:
        bad = {**doc, "exchanges": [doc["exchanges"][0], {**doc["exchanges"][1], path: value}]}
        with pytest.raises(SnapshotUnreadable) as caught:
            codec.loads(json.dumps(bad), file="f")
        assert caught.value.place == "exchange 2"
    for body in (5, {"base64": "%"}, {"hex": "00"}):
        bad = {
            **doc,
            "exchanges": [{**doc["exchanges"][3], "call": {"method": "PUT", "url": "http://a/", "body": body}}],
        }
        with pytest.raises(SnapshotUnreadable):
            codec.loads(json.dumps(bad), file="f")
    with pytest.raises(SnapshotUnreadable) as caught:
        codec.loads(json.dumps({**doc, "test": 5}), file="f")
    assert caught.value.place == "header"


def test_an_edited_0_9_is_known_and_resealed_as_1_0():
    text = (SAMPLES / "v0.9.snapshot.json").read_text("utf-8").replace("shipped", "lost")
    assert not codec.loads(text, file="f").sealed
    assert codec.edited(text, file="f") == ["the file"]
    again = codec.loads(codec.reseal(text, "why", file="f"), file="f")
    assert (again.version, again.sealed) == ("1.0", True)
    assert again.run.exchanges[1].outcome == ToolReply({"status": "lost"})


def test_the_sample_of_1_0_is_read_to_the_last_byte():
    snapshot = sample("v1.0.snapshot.json")
    limited, asked, lookup, scan, lost, pages, streamed, waiting, empty, odd = snapshot.run.exchanges
    assert (snapshot.version, snapshot.notes, snapshot.revisions) == ("1.0", (), ())
    header = snapshot.run.header
    assert (header.test, header.clock, header.seed) == (
        "tests/test_shop.py::test_where_is_my_order[de]",
        1763632800 * 10**9,
        42,
    )
    assert header.outcome["type"] == "AssertionError"
    assert header.kit["$note"] == "a key with a dollar"
    assert header.kit["huge"] == 10**30

    assert limited.call.body == asked.call.body
    assert limited.outcome.status == 429
    assert list(limited.outcome.chunks()) == [b'{"error":{"message":', b'"Rate limit reached']
    assert limited.outcome.headers == (("retry-after", "1"), ("X-Odd:", ": a"), ("", ""))
    assert limited.outcome.failure == Failure(
        "httpx2.RemoteProtocolError", "peer closed", ("peer closed",), ("httpx2.ProtocolError", "builtins.Exception")
    )
    assert (asked.attempt, asked.suspended, asked.timing) == (2, True, Timing(1_000_001, 2_500_000, 3_000_000))
    assert lookup.outcome.value["note"] == "left the depot\n" * 4
    assert (scan.parent, scan.outcome.body.data, scan.outcome.closed) == (5, b"\x00\xff\xfe", True)
    assert lost.call.body.data == scan.call.body.data + b"<event n='12'>delivered</event>\n"
    assert lost.outcome == Failure("httpx2.ReadTimeout", "timed out")
    assert pages.outcome == ToolReply(None, (1, "two", {"three": 3}), Failure("shop.OutOfPages"), closed=True)
    sent = json.loads(streamed.call.body.data)
    assert "Now: 2026-11-20T10:00:02" in sent["messages"][0]["content"]
    assert [m["role"] for m in sent["messages"]] == ["system", "user", "assistant", "tool"]
    chunks = list(streamed.outcome.chunks())
    assert chunks[-1] == b"data: [DONE]\n\n"
    assert len(chunks) == 11
    assert " Zoë" in chunks[-2].decode()
    image = json.loads(waiting.call.body.data)["messages"][4]["content"][0]["image_url"]["url"]
    assert image.startswith("data:image/png;base64,iVBORw0KGgo")
    assert len(image) > SMALLEST
    assert waiting.outcome is None
    assert (empty.call.body.data, empty.outcome.body.data) == (b"", b"")
    assert odd.call.body.data == b'{"messages":[{"n":1E+2}],"list":["a","b"],"t":"\\u00e9"}\n'
    assert (odd.outcome.body.data, odd.outcome.cuts) == (b"[1, 2]", ())
    assert all(isinstance(x.call, HttpCall | ToolCall) for x in snapshot.run.exchanges)
    assert isinstance(asked.outcome, HttpReply)
