"""Every row of the corpus through the redaction of a run, as what its context says it is.

A value that must come off is gone whole, and what stood around it stands as before; a hard negative comes out byte for
byte. `AGENTREPLAY_CORPUS` names the folder of a larger corpus of the same form.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import zlib
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_agentreplay.model.exchanges import Body, Exchange, Header, HttpCall, HttpReply, Run, ToolCall, ToolReply
from pytest_agentreplay.redaction.places import Places
from pytest_agentreplay.redaction.policy import Policy
from pytest_agentreplay.redaction.redaction import Redaction

SHIPPED = Path(__file__).resolve().parents[1] / "corpus"
CORPUS = Path(os.environ.get("AGENTREPLAY_CORPUS", SHIPPED))
URL = "https://api.example.test/v1/chat"
JSON = ("Content-Type", "application/json")
STANDS = (
    rb"(?:\"?\[\[redacted:[a-z][a-z0-9-]*:[0-9]+\]\]\"?|%5B%5Bredacted%3A[a-z0-9-]+%3A[0-9]+%5D%5D"
    rb"|user[0-9]+(?:@|%40)redacted\.invalid|eyJ[\w-]+\.[\w-]+\.[\w-]*)"
)
KEEPS_AROUND = {
    "raw", "json-string", "json-in-json", "json-in-json-in-json", "percent", "percent2", "percent-all",
    "percent-all-upper", "hex", "json-uXXXX", "lower",
}  # fmt: skip


def corpus():
    spec = importlib.util.spec_from_file_location("corpus_render_of_issue_6", CORPUS / "corpus_render.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


render = corpus()
ROWS = [json.loads(line) for line in (CORPUS / "redaction_corpus.jsonl").read_text(encoding="utf-8").splitlines()]
POSITIVE = [row for row in ROWS if row["should_redact"]]
NEGATIVE = [row for row in ROWS if not row["should_redact"]]
DECISIONS = [row for row in POSITIVE if row["needs"] == "policy"]


@dataclass(frozen=True)
class Seen:
    """One way in: what crossed, what is stored of it, and how the value stands in what crossed."""

    way: str
    before: bytes
    after: bytes
    value: str


def redaction_for(row):
    """The redaction of a run under the policy that the row is about, with the row's value known if it has to be."""
    redaction = Redaction(Places({}), policy=Policy(pii=True, strict=row.get("needs") == "opt-in"))
    if row.get("needs") in {"known-value", "policy"}:
        redaction.learn("key", render.value(row))
    return redaction


def escaped(text):
    return json.dumps(text, ensure_ascii=False)[1:-1]


def written(row):
    """The value as it stands in what the row renders."""
    text = render.ENC[row.get("encoding", "raw")](render.value(row))
    inside = row["context"] == "json-member-name" or (row["context"] == "json" and row.get("encoding", "raw") == "raw")
    text = escaped(text) if inside else text
    return escaped(text) if row["context"] == "tool-args" else text


# --- the ways in ------------------------------------------------------------------------------------------------


def seen(row, redaction):
    """Every way in that the row's context stands for."""
    parts = render.render(row)
    match row["context"]:
        case "header":
            return as_header(redaction, parts[0].decode(), row)
        case "url":
            return [as_url(redaction, parts[0].decode(), row), *as_text(redaction, parts[0].decode(), row)]
        case "json" | "tool-args" | "json-member-name":
            return as_json(redaction, parts[0], row)
        case "sse-chunk-split" | "tcp-chunk-split":
            return as_stream(redaction, parts, row)
        case "gzip-body" | "deflate-body":
            return as_coded(redaction, parts[0], row)
        case "http1-chunked":
            chunks = [part.split(b"\r\n", 1)[1][:-2] for part in parts[:-1]]
            return as_body(redaction, chunks, (JSON, ("Transfer-Encoding", "chunked")), row)
        case "http1-body":
            head, _, body = parts[0].partition(b"\r\n\r\n")
            headers = tuple(tuple(line.split(": ", 1)) for line in head.decode().split("\r\n")[1:])
            return as_body(redaction, [body], headers, row)
        case "multipart":
            return as_body(redaction, parts, (("Content-Type", "multipart/form-data; boundary=BOUND"),), row)
    if row.get("encoding") == "utf16le":
        return as_body(redaction, parts, (("Content-Type", "text/plain; charset=utf-16le"),), row)
    return as_text(redaction, parts[0].decode(), row)


def as_header(redaction, line, row):
    """A request's header, a reply's, and the line in a text."""
    name, _, value = line.partition(": ")
    asked = () if name.lower() == "set-cookie" else redaction.headers.redact_request(((name, value),))
    reply = redaction.redact_outcome(HttpCall("GET", URL), HttpReply(200, headers=((name, value),)))
    yield Seen("request", line.encode(), "".join(kept for _, kept in asked).encode(), written(row))
    yield Seen("reply", line.encode(), "".join(kept for _, kept in reply.headers).encode(), written(row))
    yield from as_text(redaction, line, row)


def as_url(redaction, url, row):
    call = redaction.redact_content(HttpCall("GET", url))
    return Seen("url", url.encode(), call.url.encode(), written(row))


def as_text(redaction, text, row):
    """A text of our own, a tool's result, and a message in the body of a request."""
    yield Seen("text", text.encode(), redaction.redact_text(text).encode(), written(row))
    result = redaction.redact_outcome(ToolCall("t", {}), ToolReply(text))
    yield Seen("result", text.encode(), result.value.encode(), written(row))
    body = json.dumps({"messages": [{"role": "user", "content": text}]}, ensure_ascii=False).encode()
    call = redaction.redact_content(HttpCall("POST", URL, (JSON,), Body(body)))
    yield Seen("message", body, call.body.data, escaped(written(row)))


def as_json(redaction, data, row):
    """The body of a request, that of a reply, and a tool's arguments."""
    call = redaction.redact_content(HttpCall("POST", URL, (JSON,), Body(data)))
    yield Seen("request", data, call.body.data, written(row))
    reply = redaction.redact_outcome(HttpCall("GET", URL), HttpReply(200, headers=(JSON,), body=Body(data)))
    yield Seen("reply", data, reply.body.data, written(row))
    tree = json.loads(data)
    tool = redaction.redact_content(ToolCall("t", tree))
    lean = {"ensure_ascii": False, "separators": (",", ":")}
    plain = json.dumps(tree, **lean).encode()
    if escaped(render.value(row)).encode() in plain:
        yield Seen("arguments", plain, json.dumps(tool.arguments, **lean).encode(), escaped(render.value(row)))


def as_body(redaction, parts, headers, row, way="body"):
    data = b"".join(parts)
    reply = HttpReply(200, headers=headers, body=Body(data), cuts=tuple(map(len, parts)))
    kept = redaction.redact_outcome(HttpCall("GET", URL), reply)
    assert len(kept.cuts) == len(parts)
    assert sum(kept.cuts) == len(kept.body.data)
    for name, value in kept.headers:
        assert name.lower() != "content-length" or int(value) == len(kept.body.data)
    yield Seen(way, data, kept.body.data, written(row))


def as_stream(redaction, parts, row):
    return as_body(redaction, parts, (("Content-Type", "text/event-stream; charset=utf-8"),), row, "stream")


def as_coded(redaction, data, row):
    coding = row["context"].partition("-")[0]
    (kept,) = as_body(redaction, [data], (JSON, ("Content-Encoding", coding)), row)
    yield Seen(coding, zlib.decompress(data, 47), zlib.decompress(kept.after, 47), kept.value)


# --- what must be true of each -----------------------------------------------------------------------------------


def joined(data, row):
    """The text of a stream, its fragments joined."""
    if row["context"] != "sse-chunk-split":
        return data
    fragments = re.findall(rb'"(?:content|delta|text|arguments|partial_json)": "((?:[^"\\]|\\.)*)"', data)
    return b"".join(fragments)


def failures(row):
    """What is wrong with what is stored of a row, way by way; empty when all is well."""
    ways = seen(row, redaction_for(row))
    return [f"{one.way}: {fault}: {one.after!r}" for one in ways for fault in faults(row, one)]


def faults(row, one):
    value, after = one.value.encode(), joined(one.after, row)
    if row["context"] == "sse-chunk-split":
        value = escaped(render.value(row)).encode()
    if value in after or render.value(row).encode() in after:
        yield "the value is there"
    if one.way in {"request", "reply"} and row["context"] == "header":
        return
    if not re.search(STANDS, after):
        yield "nothing stands in its place"
    if one.before[:1] in b"{[" and row["context"] != "sse-chunk-split":
        json.loads(one.after)
    if row["context"] == "sse-chunk-split":
        if not re.fullmatch(STANDS, after):
            yield "a piece is left"
        if one.before.count(b"data: ") != one.after.count(b"data: "):
            yield "an event is gone"
    elif row.get("encoding", "raw") in KEEPS_AROUND and not around_is_kept(row, one):
        yield "what stood around it has changed"


def around_is_kept(row, one):
    """Whether the text is the same but for the value, and for the row's other secrets with what belongs to them."""
    secrets = [re.escape(one.value.encode())]
    after = one.after
    for parts in row.get("extra", {}).values():
        secrets.append(re.escape("".join(parts).encode()) + rb"[^,\s]*")
        after = re.sub(rb"(?<=\]\])/[^,\s]*", b"", after)
    pieces = re.split(b"|".join(secrets), one.before)
    return re.fullmatch(STANDS.join(map(re.escape, pieces)), after) is not None


def rows(chosen):
    return pytest.mark.parametrize("row", chosen, ids=[row["id"] for row in chosen])


@rows([row for row in POSITIVE if row not in DECISIONS])
def test_the_value_comes_off_whole_and_no_more_and_twice_is_once(row):
    assert failures(row) == []
    redaction = redaction_for(row)
    call = HttpCall("POST", URL, (JSON,), Body(b"".join(render.render(row))))
    if row["context"] in {"gzip-body", "deflate-body"}:
        call = HttpCall("POST", URL, (("Content-Encoding", row["context"].partition("-")[0]),), call.body)
    once = redaction.redact_content(call)
    assert redaction.redact_content(once) == once
    assert redaction.rescan(Run(Header("t"), (Exchange(once, None, 1, None),))).exchanges[0].call == once
    plain = once.body.data if "Content-Encoding" not in dict(once.headers) else zlib.decompress(once.body.data, 47)
    assert redaction.text.leaks(plain) == ()


def changes(row):
    """The ways in by which a hard negative does not come out as it went in."""
    for one in seen(row, redaction_for({"needs": "opt-in"})):
        same = one.after == one.before
        if one.way in {"request", "reply"} and row["context"] == "header":
            # Headers are kept by a list of names: one that is not on it is left out, which is no finding.
            same = one.after in (b"", one.before.partition(b": ")[2]) or re.fullmatch(STANDS, one.after)
        if not same:
            yield f"{one.way}: {one.after!r}"


@rows(NEGATIVE)
def test_a_hard_negative_comes_out_byte_for_byte(row):
    assert [*changes(row)] == []
