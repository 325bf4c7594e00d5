from __future__ import annotations

import base64
import importlib
import importlib.util
import json
import re
import sys
import zlib
from dataclasses import replace
from urllib.parse import quote

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretBytes, SecretStr

from pytest_agentreplay.model import content_coding
from pytest_agentreplay.model.exchanges import (
    Body,
    Exchange,
    Failure,
    Header,
    HttpCall,
    HttpReply,
    Run,
    ToolCall,
    ToolReply,
)
from pytest_agentreplay.redaction.encodings import as_bytes, secret_guises
from pytest_agentreplay.redaction.places import Places
from pytest_agentreplay.redaction.redaction import Redaction
from pytest_agentreplay.redaction.secret_names import allowed_environment, looks_secret, secret_environment
from pytest_agentreplay.values import freeze, freeze_arguments, load

standard_zstd = importlib.import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")


KEY = "sk-demo-" + "Q7w/E+r9_T-y2Zx4"
POST = HttpCall("POST", "https://api.test/v1/x")
TEXT = (("Content-Type", "application/json"),)
SSE = (("Content-Type", "text/event-stream; charset=utf-8"),)


def knowing(*values, places=None, **options):
    redaction = Redaction(Places(places or {}), **options)
    for value in values or (KEY,):
        assert redaction.learn("key", value)
    return redaction


def reply(data, headers=TEXT, cuts=None):
    return HttpReply(200, headers=headers, body=Body(data), cuts=(len(data),) if cuts is None else cuts)


def stored(redaction, data, headers=TEXT, cuts=None):
    return redaction.redact_outcome(POST, reply(data, headers, cuts))


# --- what is found ----------------------------------------------------------------------------------------------


@given(st.text(st.sampled_from("abXY9/+=&\\\"' \né€%-_]["), min_size=8, max_size=24), st.data())
def test_no_guise_of_a_secret_comes_through_and_twice_is_once(value, data):
    redaction = Redaction(Places({}))
    if not redaction.learn("key", value):
        return
    needles = [as_bytes(value.strip()), *(needle for guise in secret_guises(value.strip()) for needle in guise.needles)]
    text = b"".join(
        piece
        for needle in data.draw(st.lists(st.sampled_from(needles), min_size=1, max_size=4))
        for piece in (data.draw(st.binary(max_size=3)), needle)
    )
    once = stored(redaction, text).body.data
    again = stored(redaction, once).body.data
    assert once == again
    assert redaction.text.leaks(once) == ()
    assert not [needle for needle in needles if needle in re.sub(rb"\[\[redacted:key:\d+\]\]", b"\0", once)]
    assert set(re.findall(rb"\[\[redacted:[^]]*\]\]", once)) == {b"[[redacted:key:1]]"}


def test_what_is_known_and_how_it_is_numbered():
    redaction = knowing("first-learned", "second-learned")
    assert stored(redaction, b"second-learned first-learned second-learned").body.data == (
        b"[[redacted:key:1]] [[redacted:key:2]] [[redacted:key:1]]"
    ), "by first appearance, not by when they were learned"
    redaction = knowing("abcdefghijkl", "ghijklmnopqr", "cdefghij")
    assert stored(redaction, b"<abcdefghijklmnopqr>").body.data == b"<[[redacted:key:1]]>", "an overlap is one"
    for prefix in (b"", b"x", b"xy"):
        assert knowing().text.leaks(base64.b64encode(prefix + KEY.encode() + b"tail of the file")) == ("key",), prefix
    for value in ("", "short", "localhost", "Password", "        ", "00000000"):
        assert not Redaction(Places({})).learn("key", value)
    redaction = Redaction(Places({}))
    redaction.headers.redact_request((("Authorization", "Basic " + base64.b64encode(b"ada:correct-horse").decode()),))
    assert redaction.text.leaks(b"pw=correct-horse") == ("key",), "the password of basic credentials"


def test_lines_of_a_private_key_and_digits_in_json_are_known():
    line = "MIIEvQIBADANBgkqhkiG9w0B"
    redaction = knowing(f"-----BEGIN PRIVATE KEY-----\n{line}\nAoGBAKj34GkxFhD90vcNLYLI\n-----END PRIVATE KEY-----\n")
    assert redaction.text.leaks(f'["x", "{line}"]'.encode()) == ("key",)
    assert b"BEGIN" in stored(redaction, b"-----BEGIN PRIVATE KEY-----").body.data
    redaction = knowing("4421998877")
    out = stored(redaction, b'{"pin": 4421998877, "text": "4421998877"}').body.data
    assert json.loads(out) == {"pin": "[[redacted:key:1]]", "text": "[[redacted:key:1]]"}
    assert redaction.redact_content(ToolCall("t", {"pin": 4421998877})).arguments == {"pin": "[[redacted:key:1]]"}


# --- calls ------------------------------------------------------------------------------------------------------


def test_request_headers_are_kept_by_list_and_teach_their_credentials():
    redaction = Redaction(Places({}), allow_headers=["X-Feature"])
    kept = redaction.headers.redact_request(
        (
            ("Host", "api.test"), ("Content-Type", "application/json"), ("Authorization", "Bearer " + KEY),
            ("OpenAI-Beta", "assistants=v2"), ("X-Feature", "on"), ("x-api-key", "another-long-key"),
            ("Cookie", "theme=dark; sid=0123456789abcdef0123"), ("User-Agent", "OpenAI/Python"),
            ("X-Vendor-Access-Token", "third-long-key"),
        )
    )  # fmt: skip
    assert kept == (
        ("Content-Type", "application/json"), ("Authorization", "[[redacted:credential:1]]"),
        ("OpenAI-Beta", "assistants=v2"), ("X-Feature", "on"), ("x-api-key", "[[redacted:credential:2]]"),
        ("X-Vendor-Access-Token", "[[redacted:credential:3]]"),
    )  # fmt: skip
    body = f"{KEY} another-long-key 0123456789abcdef0123 third-long-key dark"
    out = redaction.redact_content(replace(POST, body=Body(body.encode()))).body.data
    keys = [f"[[redacted:credential:{nth}]]".encode() for nth in (1, 2, 3)]
    assert out == b"%b %b [[redacted:cookie:1]] %b dark" % tuple(keys)


def test_credentials_of_a_url_go_and_its_placeholders_stay():
    redaction = knowing()
    query = "key=ABC%2Fdef123456&limit=5&max_tokens=3&page_token=p2&sig=x"
    url = f"https://ada:sw0rdfish9@api.test/v1?{query}#access_token={quote(KEY)}"
    out = redaction.redact_content(replace(POST, url=url, body=Body(b"ABC/def123456 sw0rdfish9"))).url
    assert out == (
        "https://ada:[[redacted:key:1]]@api.test/v1?key=[[redacted:key:2]]&limit=5&max_tokens=3&page_token=p2"
        "&sig=[[redacted:key:3]]#access_token=[[redacted:key:4]]"
    )
    assert redaction.redact_content(replace(POST, url=out)).url == out
    assert redaction.text.leaks(b"ABC/def123456") == ("key",)
    back = "https://api.test/v1?next={}"
    sent = replace(POST, url=back.format(quote("[[redacted:key:1]]", safe="")))
    assert Redaction(Places({})).redact_content(sent).url == back.format("[[redacted:key:1]]")


def test_tool_arguments_their_keys_failures_and_replies():
    redaction, mark = knowing(), "[[redacted:key:1]]"
    call = ToolCall("t", {"cmd": f"curl -H {KEY}", "deep": [{KEY: 1}, None, True, 2.5, 7]})
    assert redaction.redact_content(call).arguments == {
        "cmd": f"curl -H {mark}",
        "deep": [{mark: 1}, None, True, 2.5, 7],
    }
    failure = Failure("httpx.ReadError", f"401 for {KEY}", (f"x {KEY}", 3))
    assert redaction.redact_outcome(POST, failure) == Failure("httpx.ReadError", f"401 for {mark}", (f"x {mark}", 3))
    kept = redaction.redact_outcome(ToolCall("t"), ToolReply([KEY], items=(KEY, "b"), failure=failure))
    assert KEY not in repr((kept.value, kept.items, kept.failure.message, kept.failure.args))


def test_what_holds_nothing_is_the_same_object():
    redaction = knowing(places={"tmp": "/tmp/x"})
    outcome = reply(b'{"a":1}')
    for call in (replace(POST, headers=TEXT, body=Body(b'{"a":1}')), ToolCall("t", {"a": [1, "b"]})):
        assert redaction.redact_content(call) is call
    assert redaction.redact_outcome(POST, outcome) == outcome
    assert redaction.reveal(outcome) is outcome
    for same in (ToolReply({"a": ["b"]}), ToolReply(None, items=("a", "b")), Failure("x.E", "m", ("a", 1))):
        assert redaction.redact_outcome(POST, same) is same


# --- outcomes ---------------------------------------------------------------------------------------------------


def test_reply_headers_keep_name_case_and_place():
    redaction = knowing()
    headers = (
        ("Content-Type", "application/json"), ("X-Internal-Trace", "abc"),
        ("Set-Cookie", "sid=0123456789abcdef; Path=/"), ("x-ratelimit-remaining-tokens", "99"),
        ("OpenAI-Processing-Ms", "12"), ("X-Other", "abc"), ("Location", f"/next?token={quote(KEY, safe='')}"),
        ("ETag", '"e1"'),
    )  # fmt: skip
    kept = stored(redaction, b"0123456789abcdef", headers)
    assert kept.headers == (
        ("Content-Type", "application/json"),
        ("X-Internal-Trace", "[[redacted:header:1]]"),
        ("Set-Cookie", "sid=[[redacted:cookie:1]]; Path=/"),
        ("x-ratelimit-remaining-tokens", "99"),
        ("OpenAI-Processing-Ms", "12"),
        ("X-Other", "[[redacted:header:1]]"),
        ("Location", "/next?token=[[redacted:key:1]]"),
    )  # the digest of a body that changed is out
    assert kept.body.data == b"[[redacted:cookie:1]]"
    assert redaction.redact_outcome(POST, kept) == kept


def test_content_length_and_cuts_follow_the_body():
    data = b'{"x":"' + KEY.encode() + b'"}'
    kept = stored(knowing(), data, (*TEXT, ("content-length", str(len(data)))), (8, 4, len(data) - 12))
    assert kept.body.data == b'{"x":"[[redacted:key:1]]"}'
    assert dict(kept.headers)["content-length"] == str(len(kept.body.data))
    assert list(kept.chunks()) == [b'{"x":"[[redacted:key:1]]', b"", b'"}']


def packed(coding, texts, complete):
    """Each text packed so that its reader has it at once, and the end of the body where it is `complete`."""
    if coding == "br":
        brotli_ = brotli.Compressor()
        chunks = [brotli_.process(text) + brotli_.flush() for text in texts]
        return [*chunks, brotli_.finish()] if complete else chunks
    if coding == "zstd":
        frame = zstandard.ZstdCompressor().compressobj()
        chunks = [frame.compress(text) + frame.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) for text in texts]
        return [*chunks, frame.flush()] if complete else chunks
    writer = zlib.compressobj(wbits=31 if coding == "gzip" else 15)
    chunks = [writer.compress(text) + writer.flush(zlib.Z_SYNC_FLUSH) for text in texts]
    return [*chunks, writer.flush()] if complete else chunks


def unpacked(coding, chunks):
    """What a client reads of each chunk, and whether it has seen the end."""
    if coding == "br":
        brotli_ = brotli.Decompressor()
        return [brotli_.process(chunk) for chunk in chunks], brotli_.is_finished()
    if coding == "zstd":
        frame = zstandard.ZstdDecompressor().decompressobj()
        return [frame.decompress(chunk) for chunk in chunks], frame.eof
    reader = zlib.decompressobj(wbits=47)
    return [reader.decompress(chunk) for chunk in chunks], reader.eof


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_a_coded_body_stays_coded_chunk_by_chunk(coding):
    texts = [b'{"a":"', KEY.encode()[:9], KEY.encode()[9:], b'","b":"', b"tail"]
    for complete in (True, False):
        chunks = packed(coding, texts, complete)
        data = b"".join(chunks)
        headers = (*TEXT, ("Content-Encoding", coding), ("Content-Length", str(len(data))))
        kept = stored(knowing(), data, headers, tuple(map(len, chunks)))
        seen, ended = unpacked(coding, kept.chunks())
        assert seen[:5] == [b'{"a":"', b"[[redacted:key:1]]", b"", b'","b":"', b"tail"]
        assert ended is complete
        assert dict(kept.headers)["Content-Length"] == str(len(kept.body.data))
    untouched = reply(b"".join(packed(coding, [b"nothing"], True)), (("Content-Encoding", coding),))
    assert knowing().redact_outcome(POST, untouched) == untouched


OPAQUE = b"[[redacted:opaque:1]]"


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_a_body_that_cannot_be_read_to_its_end_is_replaced(coding, monkeypatch):
    end = b"".join(packed(coding, [b"text"], True))
    behind = [] if coding == "deflate" else [end + b"more"]
    for data in (b"\x28\xb5\x2f\xfd\x00\xa8" + bytes(32), b"neither of them", *behind):
        redaction = knowing()
        kept = stored(redaction, data, (*TEXT, ("Content-Encoding", coding), ("Content-Length", str(len(data)))))
        assert (kept.body.data, kept.headers) == (OPAQUE, (*TEXT, ("Content-Length", "21")))
        assert redaction.record["placeholders"] == {"opaque": 1}
        assert redaction.reveal(kept) is kept
    monkeypatch.setattr("pytest_agentreplay.model.content_coding.LIMIT", 1000)
    bomb = b"".join(packed(coding, [b"\0" * 100_000], True))
    assert stored(knowing(), bomb, (("Content-Encoding", coding),)).body.data == OPAQUE
    assert content_coding.bomb(coding, bomb)


@pytest.mark.parametrize("coding", ["br", "zstd", "compress", "aws-chunked"])
def test_a_coding_that_nothing_here_reads_is_replaced(coding, monkeypatch):
    monkeypatch.setattr(content_coding, "_brotli", lambda: None)
    monkeypatch.setattr(content_coding, "_zstd", lambda: None)
    kept = stored(knowing(), b"".join(packed(coding, [b"text"], True)), (("Content-Encoding", coding),))
    assert (kept.body.data, kept.headers) == (OPAQUE, ())


def framed(parts, signature="", trailers=()):
    chunks = [b"%x%b\r\n%b\r\n" % (len(part), signature.encode(), part) for part in parts]
    return b"".join([*chunks, b"0%b\r\n" % signature.encode(), *(b"%b\r\n" % line for line in trailers), b"\r\n"])


SIGNATURE = ";chunk-signature=" + "ad80c730a21e5b8d" * 4
CHECKSUM = b"x-amz-checksum-crc32:yXTVFQ=="
parts = st.lists(st.binary(min_size=1, max_size=40), max_size=4)


def sent(data, coding, redaction=None):
    headers = (*TEXT, ("Content-Encoding", coding), ("Content-Length", str(len(data))))
    return (redaction or knowing()).redact_content(replace(POST, headers=headers, body=Body(data)))


@given(
    parts,
    st.sampled_from(["", SIGNATURE]),
    st.sampled_from([(), (CHECKSUM,), (CHECKSUM, b"x-amz-trailer-signature:ad")]),
)
def test_of_frames_for_s3_the_payload_is_kept(parts, signature, trailers):
    data, payload = framed(parts, signature, trailers), b"".join(parts)
    assert content_coding.remove_chunks(data) == payload
    call = sent(data, "aws-chunked")
    assert (call.body.data, dict(call.headers)["Content-Length"]) == (payload, str(len(payload)))
    assert "Content-Encoding" not in dict(call.headers)
    for end in range(len(data) - len(b"".join(line + b"\r\n" for line in trailers)) - 4):
        with pytest.raises(content_coding.Opaque):
            content_coding.remove_chunks(data[:end])


@given(st.binary(max_size=60))
def test_what_is_no_frame_for_s3_is_replaced_and_never_an_error(data):
    try:
        kept = content_coding.remove_chunks(data)
    except content_coding.Opaque:
        kept = OPAQUE
    assert sent(data, "aws-chunked").body.data == (kept if data else b"")


@pytest.mark.parametrize("codings", [["gzip", "gzip"], ["deflate", "zstd", "br"], ["gzip", "aws-chunked"]])
def test_of_a_request_under_several_codings_the_text_is_kept_without_its_secrets(codings):
    data = json.dumps({"q": KEY}).encode()
    for coding in codings:
        data = framed([data]) if coding == "aws-chunked" else b"".join(packed(coding, [data], True))
    call = sent(data, ", ".join(codings))
    assert call.body.data == b'{"q": "[[redacted:key:1]]"}'
    assert "Content-Encoding" not in dict(call.headers)
    assert sent(data[:-1], ", ".join(codings)).body.data == OPAQUE


def test_of_what_only_says_that_it_is_brotli_no_more_is_kept_than_was_read():
    for text in (KEY.encode(), b"x" * 40 + KEY.encode(), json.dumps({"key": KEY}).encode(), bytes(40) + KEY.encode()):
        kept = stored(knowing(), text, (("Content-Encoding", "br"),))
        assert KEY.encode() not in kept.body.data
        assert stored(knowing(), kept.body.data, kept.headers) == kept
    broken = b"".join(packed("br", [b"a text", b" that broke off"], False))
    kept = stored(knowing(), broken, (("Content-Encoding", "br"),))
    assert unpacked("br", [kept.body.data]) == ([b"a text that broke off"], False)


def test_each_library_for_zstd_gives_the_same(monkeypatch):
    text, seen = b"one text " * 20, set()
    for library in (zstandard, standard_zstd):
        monkeypatch.setattr(content_coding, "_zstd", lambda library=library: library)
        data, cuts = content_coding.encode("zstd", text, (100, 80), complete=True)
        seen.add(content_coding.decode("zstd", data, cuts))
    assert seen == {content_coding.Decoded(text, (100, 80), True)}


# --- streams ----------------------------------------------------------------------------------------------------


def event(**fields):
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def anthropic(index, text):
    return event(type="content_block_delta", index=index, delta={"type": "text_delta", "text": text})


def test_a_place_cut_by_tokens_is_a_mark_in_each_fragment_and_is_served_in_pieces():
    def texts(reply):
        return [json.loads(chunk[6:])["delta"]["text"] for chunk in reply.chunks()]

    redaction = Redaction(Places({"tmp": "/tmp/pytest-7/x"}))
    pieces = [anthropic(0, text) for text in ("in /t", "mp/pytest", "-7/x", "/a.txt")]
    kept = stored(redaction, b"".join(pieces), SSE, tuple(map(len, pieces)))
    assert texts(kept) == ["in {{tmp#0-2}}", "{{tmp#2-11}}", "{{tmp#11-}}", "/a.txt"]
    assert redaction.reveal(kept).body.data == b"".join(pieces)
    assert redaction.record["places"] == {"tmp": 1}
    elsewhere = Redaction(Places({"tmp": "/var/folders/zz/T"}))
    assert texts(elsewhere.reveal(kept)) == ["in /v", "ar/folder", "s/zz/T", "/a.txt"]


@pytest.mark.parametrize("coding", [None, "gzip"])
@pytest.mark.parametrize("here", ["/tmp/pytest-7/x", "/tmp/größe/x"])
def test_a_place_cut_by_chunks_is_cut_at_the_same_byte_when_it_is_served(coding, here):
    text, lengths = f"saved {here}/a.txt and {here}\n".encode(), [(9,), (7, 3, 1, 1), (10, 0), (3,)]
    for elsewhere in ("/tmp/pytest-8/x", "/t", "/var/folders/zz/T/é/and/much/longer"):
        for cuts in ((*sizes, len(text) - sum(sizes)) for sizes in lengths):
            data, sizes, headers = text, cuts, TEXT
            if coding:
                data, sizes = content_coding.encode(coding, text, cuts, complete=True)
                headers = (*TEXT, ("Content-Encoding", coding))
            redaction = Redaction(Places({"tmp": here}))
            kept = stored(redaction, data, headers, sizes)
            assert redaction.rescan(Run(Header("t"), (Exchange(POST, kept, 1, 2),))).exchanges[0].outcome == kept
            served, there = redaction.reveal(kept), Redaction(Places({"tmp": elsewhere})).reveal(kept)
            if coding:
                served, there = (content_coding.decode(coding, x.body.data, x.cuts) for x in (served, there))
            said, moved = (x.text if coding else x.body.data for x in (served, there))
            assert (said, served.cuts) == (text, cuts) or (not coding and "ö" in here)
            assert moved == text.replace(here.encode(), elsewhere.encode())
            assert len(there.cuts) == len(cuts)


# --- the whole run ----------------------------------------------------------------------------------------------


def run_of(redaction):
    asked = replace(POST, url="https://x.test/late-secret-1", body=Body(b"late-secret-1 /tmp/xyz {{tmp}}"))
    call = redaction.redact_content(asked)
    outcome = redaction.redact_outcome(call, reply(b"/tmp/xyz/late-secret-1"))
    tool = redaction.redact_content(ToolCall("t", {"a": "late-secret-1"}))
    kit = {"annotations": {"k": ["late-secret-1"]}}
    header = Header("tests/t.py::t", outcome={"message": "late-secret-1 in /tmp/xyz"}, kit=kit)
    return Run(header, (Exchange(call, outcome, 1, 2), Exchange(tool, None, 3, None)))


def test_values_known_late_come_off_the_whole_run_and_places_are_marked_once():
    redaction = Redaction(Places({"tmp": "/tmp/xyz"}))
    run = run_of(redaction)
    assert redaction.learn("secret", "late-secret-1")
    sealed = redaction.rescan(replace(run, header=redaction.redact_header(run.header)))
    assert "late-secret-1" not in repr(sealed)
    first, second = sealed.exchanges
    assert first.call.url == "https://x.test/[[redacted:secret:1]]"
    assert first.call.body.data == b"[[redacted:secret:1]] {{tmp}} {{!tmp}}"
    assert first.outcome.body.data == b"{{tmp}}/[[redacted:secret:1]]"
    assert first.outcome.cuts == (len(first.outcome.body.data),)
    assert second.call.arguments == {"a": "[[redacted:secret:1]]"}
    assert sealed.header.outcome == {"message": "[[redacted:secret:1]] in {{tmp}}"}
    assert redaction.rescan(sealed) == sealed
    assert redaction.reveal(first.outcome).body.data == b"/tmp/xyz/[[redacted:secret:1]]"


def test_the_seal_is_cheap_and_the_record_counts_what_was_done():
    redaction = knowing(places={"tmp": "/tmp/xyz"})
    redaction.redact_content(ToolCall("t", {"a": KEY, "b": f"{KEY} /tmp/xyz/1 /tmp/xyz/2"}))
    stored(redaction, b"", (("x-odd", "an odd one"),))
    assert redaction.record == {"placeholders": {"header": 1, "key": 2}, "places": {"tmp": 2}}
    knows = knowing()
    run = run_of(knows)
    assert knows.rescan(run).exchanges is run.exchanges, "nothing became known"
    with pytest.raises(ValueError, match="category") as caught:
        redaction.learn("Bad Name", KEY)
    assert KEY not in str(caught.value)


# --- names ------------------------------------------------------------------------------------------------------


SECRET_NAMES = """
OPENAI_API_KEY ANTHROPIC_API_KEY GITHUB_TOKEN HF_TOKEN DB_PASSWORD DB_PASS MYSQL_PWD AWS_SECRET_ACCESS_KEY
AWS_ACCESS_KEY_ID AWS_SESSION_TOKEN accessToken client_secret x-api-key apikey API_KEY_2 SENTRY_DSN SIGNING_KEY
SLACK_BOT_TOKEN X-Amz-Signature sig token key NPM_AUTH
"""
PLAIN_NAMES = """
max_tokens MAX_TOKEN TOKENIZERS_PARALLELISM tokenizer page_token nextPageToken token_type PWD OLDPWD PATH KEYBOARD
SSH_AUTH_SOCK XAUTHORITY GPG_KEY public_key idempotency-key TOKEN_URL SECRET_NAME KEYRING PASSENGER COMPASS LS_COLORS
PYTHONPATH secretary monkey
"""


def test_which_names_look_secret():
    assert [name for name in SECRET_NAMES.split() if not looks_secret(name)] == []
    assert [name for name in PLAIN_NAMES.split() if looks_secret(name)] == []


def test_the_environment_is_denied_by_default():
    environ = {
        "OPENAI_API_KEY": KEY,
        "TOKEN": "short",
        "DATABASE_URL": "postgres://ada:correct-horse@db/shop",
        "GOOGLE_APPLICATION_CREDENTIALS": "/home/ada/key.json",
        "MAX_TOKENS": "123456789",
        "LANG": "de_DE.UTF-8",
        "SHOP_REGION": "eu",
        "SHOP_TOKEN": "shop-token-value",
    }
    assert secret_environment(environ) == [("key", KEY), ("key", "correct-horse"), ("key", "shop-token-value")]
    assert allowed_environment(environ, []) == {}
    assert allowed_environment(environ, ["LANG", "SHOP_*", "NONE"]) == {"LANG": "de_DE.UTF-8", "SHOP_REGION": "eu"}


def test_what_the_agent_calls_secret_is_never_stored_however_short():
    redactor = Redaction(Places({}))
    hint = dict[str, SecretStr | SecretBytes | int]
    value = freeze({"pin": SecretStr("1234"), "raw": SecretBytes(b"ab\xff"), "n": 7}, hint=hint)
    kept = redactor.redact_outcome(ToolCall("t"), ToolReply(value=[value]))
    assert "1234" not in str(kept.value)
    assert "$secret" in str(kept.value)
    back = load(kept.value[0], hint=hint)
    assert back["pin"].get_secret_value() == "[[redacted:secret:1]]"
    assert back["raw"].get_secret_value() == b"[[redacted:secret:2]]"
    call = redactor.redact_content(ToolCall("t", {"key": {"$secret": "1234"}}))
    assert call.arguments == {"key": {"$secret": "[[redacted:secret:1]]"}}
    assert isinstance(load({"$secret": "x"}, hint=SecretStr), SecretStr)
    unnamed = freeze_arguments({"pin": SecretStr("1234"), "raw": SecretBytes(b"ab")})
    call = redactor.redact_content(ToolCall("t", unnamed, facts=unnamed))
    assert call.facts == call.arguments
    assert [value["$secret"][1] for value in call.arguments.values()] == [
        "[[redacted:secret:1]]",
        {"$bytes": "[[redacted:secret:3]]"},
    ], "of a class that no annotation names"
