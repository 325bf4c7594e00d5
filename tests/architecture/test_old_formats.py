"""A released format stays readable for ever: one frozen sample per version, never written again."""

from __future__ import annotations

import hashlib
import json

import pytest

from pytest_agentreplay.model.exchanges import Failure, HttpCall, Timing, ToolCall, ToolReply
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.codec.styles import SMALLEST
from tests.support.package_sources import ROOT

SAMPLES = ROOT / "tests" / "snapshots" / "samples"
NEW = "v1.0.snapshot.json"
FORMER = "v1.0-c2.snapshot.json"
"""As it was written before what each recording has anew stood apart; not released."""
LONGER = "v1.0-words.snapshot.json"
"""As it was written with whole digests of bodies, defaults in the kit, and words between spaces; not released."""

FROZEN = {
    NEW: "d041a86d0d060751bf86153fe726eba7f12c1a4ed8b17a7ca4ba09428761d787",
    FORMER: "2c958cfc9fb914ed5c6b727814f148bb6772a5facceb39f50602fe8be3dcf5e5",
    LONGER: "5c20020e34ca1f4baf668fb92038f8d1d465ab1f1d01bccac10b991760ff1ff7",
}


def sample(name: str) -> codec.Snapshot:
    return codec.loads((SAMPLES / name).read_bytes(), file=name)


def test_every_format_that_is_written_has_its_sample():
    newest = json.loads(codec.dumps(sample(NEW).run))["schemaVersion"]
    assert {path.name for path in SAMPLES.iterdir()} == set(FROZEN)
    assert f"v{newest}.snapshot.json" in FROZEN


@pytest.mark.parametrize("name", FROZEN)
def test_a_sample_is_never_touched_and_comes_back_in_the_newest_format(name):
    data = (SAMPLES / name).read_bytes().replace(b"\r\n", b"\n")
    assert hashlib.sha256(data).hexdigest() == FROZEN[name], "a frozen sample was changed: restore it"
    old = sample(name)
    assert old.sealed
    assert codec.list_edits(data.decode(), file=name) == []
    again = codec.loads(codec.dumps(old.run), file="new")
    assert (again.run, again.version) == (old.run, "1.0")


def test_a_sample_with_words_between_spaces_is_read_to_the_last_byte():
    first, second = sample(LONGER).run.exchanges
    system, _, answer, _ = json.loads(second.call.body.data)["messages"]
    before = json.loads(first.call.body.data)["messages"][0]["content"]
    assert system["content"] == before.replace("10:00:01", "10:00:02")
    assert answer == json.loads(first.outcome.body.data)["choices"][0]["message"]


def test_the_sample_of_1_0_is_read_to_the_last_byte():
    snapshot = sample(NEW)
    limited, asked, lookup, scan, lost, pages, streamed, waiting, empty, odd = snapshot.run.exchanges
    assert (snapshot.version, snapshot.notes, snapshot.revisions) == ("1.0", (), ())
    header = snapshot.run.header
    assert (header.clock, header.seed, header.outcome["type"]) == (1763632800 * 10**9, 42, "AssertionError")
    assert header.test == "tests/test_shop.py::test_where_is_my_order[de]"
    assert (header.kit["$note"], header.kit["huge"]) == ("a key with a dollar", 10**30)

    assert limited.call.body == asked.call.body
    assert limited.outcome.status == 429
    assert list(limited.outcome.chunks()) == [b'{"error":{"message":', b'"Rate limit reached']
    assert limited.outcome.headers == (("retry-after", "1"), ("X-Odd:", ": a"), ("", ""))
    bases = ("httpx2.ProtocolError", "builtins.Exception")
    assert limited.outcome.failure == Failure("httpx2.RemoteProtocolError", "peer closed", ("peer closed",), bases)
    assert (asked.attempt, asked.suspended, asked.timing) == (2, True, Timing(1_000_001, 2_500_000, 3_000_000))
    assert lookup.outcome.value["note"] == "left the depot\n" * 4
    assert (scan.parent, scan.outcome.body.data, scan.outcome.closed) == (5, b"\x00\xff\xfe", True)
    assert lost.call.body.data == scan.call.body.data + b"<event n='12'>delivered</event>\n"
    assert lost.outcome == Failure("httpx2.ReadTimeout", "timed out")
    assert pages.outcome == ToolReply(None, (1, "two", {"three": 3}), Failure("shop.OutOfPages"), closed=True)
    sent = json.loads(streamed.call.body.data)["messages"]
    assert "Now: 2026-11-20T10:00:02" in sent[0]["content"]
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool"]
    chunks = list(streamed.outcome.chunks())
    assert (len(chunks), chunks[-1]) == (11, b"data: [DONE]\n\n")
    assert " Zoë" in chunks[-2].decode()
    image = json.loads(waiting.call.body.data)["messages"][4]["content"][0]["image_url"]["url"]
    assert image.startswith("data:image/png;base64,iVBORw0KGgo")
    assert len(image) > SMALLEST
    assert waiting.outcome is None
    assert (empty.call.body.data, empty.outcome.body.data) == (b"", b"")
    assert odd.call.body.data == b'{"messages":[{"n":1E+2}],"list":["a","b"],"t":"\\u00e9"}\n'
    assert (odd.outcome.body.data, odd.outcome.cuts) == (b"[1, 2]", ())
    assert all(isinstance(exchange.call, HttpCall | ToolCall) for exchange in snapshot.run.exchanges)
