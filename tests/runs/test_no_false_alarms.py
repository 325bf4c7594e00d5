"""What is no secret stays, and what holds one can still be written, read and replayed."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
import uuid
from itertools import product

import pytest

from pytest_agentreplay.errors import Leak
from pytest_agentreplay.model.exchanges import Body, Exchange, Header, HttpCall, HttpReply, Run, ToolCall, ToolReply
from pytest_agentreplay.redaction.places import Places
from pytest_agentreplay.redaction.redaction import Redaction
from pytest_agentreplay.redaction.text_search import TextSearch
from pytest_agentreplay.runs.redact import final_scan
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.values import freeze, load

KEY = "Tr0ub4dor" + "-Kq7Zx9Lm2"
POST = HttpCall("POST", "https://api.test/v1/x")
COLUMNS = 108


def redaction(key=KEY):
    made = Redaction(Places({}))
    assert made.learn("key", key)
    return made


def reply(data):
    return HttpReply(200, body=Body(data), cuts=(len(data),))


def sealed(made, call, outcome):
    """The outcome as it comes back from the file that is written of it."""
    run = made.rescan(
        Run(Header("test_x.py::test"), (Exchange(made.redact_content(call), made.redact_outcome(call, outcome), 1, 2),))
    )
    return codec.loads(final_scan.scan_run(made, run, "a.snapshot.json"), file="a").run.exchanges[0].outcome


def test_a_line_of_base64_that_begins_like_a_key_of_a_vendor_blocks_nothing():
    for length, prefix in product((1200, 6000), ("cio", "EAAA", "AKIA", "sk/live/", "ghp/")):
        letters = (prefix + "aB3dE6gH9jK2mN5pQ8rT1vW4xY7zA0cD3fG6hJ9kL2nP5qS8tV1wX4yZ7bC0") * 2
        data = base64.b64decode(("QUJD" * 27 + letters[:COLUMNS] + "x9Z0" * 2000)[:length])
        assert sealed(redaction(), POST, reply(data)).body.data == data
        body = json.dumps({"data": [{"b64_json": base64.b64encode(data).decode()}]}).encode()
        assert sealed(redaction(), POST, reply(body)).body.data == body


@pytest.mark.parametrize(
    "period",
    [b"\0", b"\x80", b"\xff", b"\x01", b" ", b"\\", b'"', b"\0\0\x10'", bytes(range(256)), b"\0" * 999 + b"\xff"],
)
def test_equal_or_periodic_bytes_block_nothing(period):
    sound = (period * 8_000)[:8_000]
    for data in (sound, sound + b"\1" + sound, b"RIFF\x24\xf0\0\0WAVEfmt \x10\0\0\0" + sound):
        text = base64.b64encode(data).decode()
        form = b"--B\r\nContent-Disposition: form-data; name=f; filename=a.wav\r\n\r\n" + data + b"\r\n--B--\r\n"
        for body in (
            data,
            form,
            json.dumps({"audio": text}).encode(),
            json.dumps({"raw": data.decode("latin-1")}).encode(),
        ):
            call = HttpCall("POST", "https://api.test/v1/x", body=Body(body))
            assert redaction().redact_content(call) == call
            assert sealed(redaction(), call, reply(body)) == reply(body)
        result = ToolReply({"$bytes": [text]})
        assert sealed(redaction(), ToolCall("t"), result) == result


def test_what_is_escaped_too_often_to_be_read_blocks_a_file():
    text = json.dumps({"k": "a key"})
    for _ in range(9):
        text = json.dumps([text])
    assert redaction().text.leaks(text.encode()) == ("opaque",)
    assert redaction().text.leaks(json.dumps("\\" * 5000).encode()) == ()


def test_a_known_value_that_the_lines_of_a_blob_would_cut_is_found():
    data = b"\xff" * (COLUMNS * 3 // 4 - 6) + KEY.encode() + b"\xfe" * 4000
    raw = Run(Header("t"), (Exchange(POST, reply(data), 1, 2),))
    with pytest.raises(Leak, match="key"):
        final_scan.scan_run(redaction(), raw, "a.snapshot.json")
    assert b"[[redacted:key:1]]" in sealed(redaction(), POST, reply(data)).body.data


KEPT = {
    "x-amzn-bedrock-input-token-count": "12",
    "X-Amzn-Bedrock-Output-Token-Count": "345",
    "x-amzn-bedrock-performanceconfig-latency": "standard",
    "x-amzn-errortype": "ThrottlingException",
    "x-amz-id-2": "eftixk72aD6Ap51TnqcoF8eFidJG9Z2mkiDFu8yU9AS1ed4OpIszj7UDNEHGran",
    "x-goog-upload-status": "active",
    "x-goog-upload-chunk-granularity": "262144",
    "x-request-id": "req_0123456789abcdef0123456789abcdef",
    "operation-location": "https://x.cognitiveservices.azure.com/operations/0e1b7e9c-2a4e-4d2f-9b50-7d4a1a2f3c4d?v=1",
    "x-ms-region": "Sweden Central",
    "x-ms-client-request-id": "0e1b7e9c-2a4e-4d2f-9b50-7d4a1a2f3c4d",
    "azureml-model-session": "d123-20250101",
    "retry-after": "7",
    "x-ratelimit-remaining-tokens": "149984",
    "upload-offset": "1024",
    "x-linked-size": "12345678",
    "x-anything-count": "42",
}


def test_reply_headers_that_sdks_read_are_kept_and_one_named_like_a_secret_is_not():
    headers = tuple(KEPT.items())
    assert redaction().redact_outcome(POST, HttpReply(200, headers=headers)).headers == headers
    for name in ("x-amz-security-token", "x-ms-access-token", "x-goog-iam-authorization-token", "x-pin"):
        kept = redaction().redact_outcome(POST, HttpReply(200, headers=((name, "abcdef123456"),)))
        assert "abcdef123456" not in kept.headers[0][1], name


def test_the_ticket_of_an_upload_goes_and_the_upload_goes_on():
    names = ("x-goog-upload-url", "X-Goog-Upload-Control-URL", "Location")
    for name, ticket in product(names, ("ABPtcPoX3kZ9_aQ2mN5pQ8rT1vW4xY7zA0cD3", "session-17-of-ada")):
        made, replay = redaction(), Redaction(Places({}))
        url = f"https://upload.test/files?upload_id={ticket}&upload_protocol=resumable"
        kept = made.redact_outcome(POST, HttpReply(200, headers=((name, url),))).headers[0][1]
        assert kept == "https://upload.test/files?upload_id=[[redacted:key:1]]&upload_protocol=resumable"
        assert made.redact_content(HttpCall("POST", url)).url == kept
        assert replay.redact_content(HttpCall("POST", kept.replace("[", "%5B").replace("]", "%5D"))).url == kept


def test_the_session_of_a_server_of_tools_is_a_placeholder_both_ways():
    made, replay = redaction(), Redaction(Places({}))
    identity = "1868a90c-9f2a-4b37-8a55-0c1f"
    told = made.redact_outcome(POST, HttpReply(200, headers=(("Mcp-Session-Id", identity),)))
    assert told.headers == (("Mcp-Session-Id", "[[redacted:session:1]]"),)
    stored = (("mcp-session-id", "[[redacted:session:1]]"),)
    assert made.headers.redact_request((("mcp-session-id", identity),)) == stored
    assert made.redact_text(f"session {identity} ended") == "session [[redacted:session:1]] ended"
    assert replay.headers.redact_request(stored) == stored


def test_bytes_and_the_reason_of_a_status_with_a_secret_are_redacted_and_can_be_read():
    assert sealed(redaction(), POST, HttpReply(401, reason=f"Bad key {KEY}")).reason == "Bad key [[redacted:key:1]]"
    secret = KEY.encode()
    nested = [b"\x89PNG" + secret * 3, {"deep": (b"\xff" + secret,)}]
    for value in (b"\xff\xfe" + secret + b"\x00\x81", bytearray(b"\x80" + secret), nested, secret):
        thawed = load(sealed(redaction(), ToolCall("t"), ToolReply(freeze(value))).value)
        assert KEY not in repr(thawed)
        assert "[[redacted:key:1]]" in repr(thawed)
        assert type(thawed) is type(value)
        items = sealed(redaction(), ToolCall("t"), ToolReply(items=(freeze(value),) * 2)).items
        assert [load(item) for item in items] == [thawed, thawed]


def test_a_value_that_is_a_secret_itself_is_read_as_its_placeholder():
    when = dt.datetime(2031, 5, 6, 7, 8, 9, tzinfo=dt.UTC)
    for value in (uuid.UUID("12345678-9abc-4def-8123-456789abcdef"), decimal.Decimal("4421998877.25"), when, 2**70):
        frozen = freeze({"v": value})
        payload = next(iter(frozen["v"].values()))
        made = redaction(payload if isinstance(payload, str) else payload[0])
        assert load(sealed(made, ToolCall("t"), ToolReply(frozen)).value) == {"v": "[[redacted:key:1]]"}


@pytest.mark.parametrize("way", ["request", "reply", "arguments", "result"])
def test_a_recording_in_which_redaction_takes_more_than_it_has_found_is_refused_and_kept(way, monkeypatch):
    tree = {"messages": [{"content": f"use {KEY}"}, {"content": "please refund Q100"}]}
    body = json.dumps(tree).encode()
    calls = {
        "request": (HttpCall("POST", "https://api.test/v1/x", body=Body(body)), HttpReply(204)),
        "reply": (POST, reply(body)),
        "arguments": (ToolCall("shop.ask", tree), ToolReply(None)),
        "result": (ToolCall("shop.ask"), ToolReply(tree)),
    }
    assert sealed(redaction(), *calls[way]) is not None

    def taken(_, data, __):
        at = data.find(b"please")
        return [(at, at + 6, b"")] if at >= 0 else []

    monkeypatch.setattr(TextSearch, "_find_scattered", taken)
    made = redaction()
    with pytest.raises(
        Leak, match=r"redaction has changed more than the secrets in the (request|reply|arguments) (to|of)"
    ):
        sealed(made, *calls[way])
    assert json.loads(final_scan.rest(made, Run(Header("test_x.py::test"), (Exchange(POST, None, 1, None),))))
