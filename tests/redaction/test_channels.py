"""Text that arrives in pieces: whatever carries the pieces, a secret that was cut stands nowhere, joined or apart.

The forms are what the servers and frameworks named here send (their public documentation and SDKs); a form that nobody
has named is found by the same shape.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agentreplay.model.exchanges import (
    Body,
    Closed,
    FrameCall,
    FramesReply,
    HttpCall,
    HttpReply,
    ToolCall,
    ToolReply,
)
from pytest_agentreplay.model.exchanges import Frame as Message
from pytest_agentreplay.redaction.placeholders import PLACEHOLDER_TEXT
from pytest_agentreplay.redaction.places import Places
from pytest_agentreplay.redaction.redaction import Redaction
from pytest_agentreplay.redaction.vendors import VENDORS
from tests.redaction.test_vendor_shapes import Sampler

KEY = "Tr0ub4dor" + "-Kq7Zx9Lm2"
VENDOR = "sk-" + "proj-" + "aB3dE6gH9jK2mN5pQ8rT1vW4"
POST = HttpCall("POST", "https://api.test/v1/x")
TOOL = ToolCall("shop.stream")
PLACEHOLDER = re.compile(r"\[\[redacted:[a-z-]+:[0-9]+\]\]")


def sse(*values, name=""):
    event = f"event: {name}\n" if name else ""
    return "".join(f"{event}data: {value if isinstance(value, str) else json.dumps(value)}\n\n" for value in values)


def ndjson(*values):
    return "".join(json.dumps(value) + "\n" for value in values)


def token(piece):
    top = [{"token": piece, "bytes": [*piece.encode()]}, {"token": "zz", "bytes": [122, 122]}]
    return {"token": piece, "logprob": -0.1, "bytes": [*piece.encode()], "top_logprobs": top}


def gemini(piece):
    return {"candidates": [{"content": {"parts": [{"text": piece}], "role": "model"}}]}


EVENTS = {
    "openai-logprobs": lambda p: {"choices": [{"logprobs": {"content": [token(p)]}}]},
    "audio-transcript": lambda p: {"type": "response.audio_transcript.delta", "item_id": "i", "transcript": p},
    "gemini-code-output": lambda p: {"candidates": [{"content": {"parts": [{"codeExecutionResult": {"output": p}}]}}]},
    "anthropic-completion": lambda p: {"type": "completion", "completion": p},
    "anthropic-citations": lambda p: {"index": 0, "delta": {"type": "citations_delta", "citation": {"cited_text": p}}},
    "assistants": lambda p: {"delta": {"content": [{"index": 0, "type": "text", "text": {"value": p}}]}},
    "progress-of-tools": lambda p: {"method": "notifications/progress", "params": {"progressToken": 1, "message": p}},
    "json-in-json": lambda p: {"data": json.dumps({"token": p})},
    "two-in-one-event": lambda p: {"choices": [{"text": p}, {"text": "other"}]},
}
FORMS = {
    **{name: lambda pieces, make=make: sse(*map(make, pieces)) for name, make in EVENTS.items()},
    "gemini-array": lambda pieces: "[" + ",\r\n".join(json.dumps(gemini(p), indent=2) for p in pieces) + "\n]",
    "gemini-array-cut-off": lambda pieces: "[" + ",\r\n".join(json.dumps(gemini(p), indent=2) for p in pieces)[:-20],
    "bedrock-llama": lambda pieces: ndjson(*({"generation": p, "prompt_token_count": None} for p in pieces)),
    "bedrock-titan": lambda pieces: "".join(json.dumps({"outputText": p, "index": 0}) for p in pieces),
    "tgi": lambda pieces: sse(
        *({"token": {"id": n, "text": p, "special": False}, "generated_text": None} for n, p in enumerate(pieces))
    ).replace("data: ", "data:"),
    "replicate": lambda pieces: "".join(f"event: output\nid: {n}\ndata: {p}\n\n" for n, p in enumerate(pieces)),
    "dify": lambda pieces: sse(*({"event": "message", "answer": p, "at": n} for n, p in enumerate(pieces))),
    "flowise": lambda pieces: "".join(f"message:\ndata:{json.dumps({'event': 't', 'data': p})}\n\n" for p in pieces),
    "langserve": lambda pieces: sse(*map(json.dumps, pieces), name="data"),
    "vercel": lambda pieces: "".join(f"0:{json.dumps(p)}\n" for p in pieces) + 'd:{"finishReason":"stop"}\n',
    "json-seq": lambda pieces: "".join(f"\x1e{json.dumps({'t': p})}\n" for p in pieces),
    "pretty-lines": lambda pieces: "".join(json.dumps({"a": {"b": p}}, indent=1) + "\n" for p in pieces),
    "data-in-lines": lambda pieces: "".join(f'data: {{\ndata:  "t": {json.dumps(p)}\ndata: }}\n\n' for p in pieces),
    "events-in-json": lambda pieces: ndjson(*({"chunk": sse({"token": p})} for p in pieces)),
    "taking-turns-by-index": lambda pieces: sse(
        *({"choices": [{"index": n, "text": p if n else "other "}]} for p in pieces for n in (0, 1))
    ),
    "taking-turns-by-id": lambda pieces: sse(
        *({"run": run, "text": p if run == "b" else "other "} for p in pieces for run in "ab")
    ),
    "carriage-returns": lambda pieces: sse(*({"t": p} for p in pieces)).replace("\n", "\r\n"),
}

WHOLE = {
    "openai-logprobs-whole": lambda pieces: json.dumps({"choices": [{"logprobs": {"content": [*map(token, pieces)]}}]}),
    "completions-logprobs": lambda pieces: json.dumps(
        {"logprobs": {"tokens": pieces, "top_logprobs": [{p: -0.1, "zz": -2.5} for p in pieces]}}
    ),
    "content-parts": lambda pieces: json.dumps({"content": [{"type": "text", "text": p} for p in pieces]}),
    "list-of-strings": lambda pieces: json.dumps({"chunks": pieces}),
}
"""Lists of one JSON value: an agent keeps the parts of a stream so."""


def redaction(known=True):
    made = Redaction(Places({}))
    if known:
        assert made.learn("key", KEY)
    return made


def cut(secret, at):
    """The secret in pieces, each but the last ending at one of these places."""
    ends = [*sorted({place % (len(secret) - 1) + 1 for place in at}), len(secret)]
    return [secret[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def stored(made, body, content_type="text/plain"):
    cuts = tuple(len(body[at : at + 7]) for at in range(0, len(body), 7))
    headers = (("Content-Type", content_type),) if content_type else ()
    reply = made.redact_outcome(POST, HttpReply(200, headers=headers, body=Body(body), cuts=cuts))
    assert len(reply.cuts) == len(cuts)
    assert sum(reply.cuts) == len(reply.body.data)
    return reply.body.data.decode()


def spelled(text):
    """All texts of a body, and the bytes that it lists, one behind the other."""
    lists = re.findall(r"\[((?:[0-9]+, )*[0-9]+)\]", text)
    return "".join(bytes(map(int, numbers.split(", "))).decode("latin-1") for numbers in lists)


def pieces_left(pieces, text):
    return [piece for piece in pieces if len(piece) > 4 and (piece in text or piece in spelled(text))]


WORDS = "I ", "use ", "one ", "of ", "my "
PLACES = st.lists(st.integers(0, 999), min_size=1, max_size=4)
CONTENT_TYPES = st.sampled_from(["text/event-stream", "application/json", "text/plain", ""])


@settings(max_examples=20)
@given(content_type=CONTENT_TYPES, at=PLACES, known=st.booleans())
@pytest.mark.parametrize("form", FORMS)
def test_a_secret_that_was_cut_anywhere_is_gone_in_every_form(form, content_type, at, known):
    secret = KEY if known else VENDOR
    pieces = cut(secret, at)
    body = FORMS[form]([*WORDS, *pieces, " today"])
    made = redaction(known)
    after = stored(made, body.encode(), content_type)
    assert PLACEHOLDER.search(after) or PLACEHOLDER.search(spelled(after))
    assert pieces_left(pieces, after) == []
    assert body.count("data:") == after.count("data:")
    assert body.count("\n") == after.count("\n")
    assert stored(made, after.encode(), content_type) == after


@settings(max_examples=20)
@given(at=PLACES)
@pytest.mark.parametrize("form", WHOLE)
def test_a_known_value_that_a_list_holds_in_parts_is_gone(form, at):
    pieces = cut(KEY, at)
    made = redaction()
    after = stored(made, WHOLE[form]([*WORDS, *pieces, " today"]).encode())
    assert PLACEHOLDER.search(after) or PLACEHOLDER.search(spelled(after))
    assert pieces_left(pieces, after) == []
    assert stored(made, after.encode()) == after


def test_what_holds_no_secret_is_not_touched():
    pieces = ["The order ", "ORD-2025-", "0004711 of 2025-", "11-20", " was shipped", ": token ", "count 12"]
    bodies = {name: form(pieces) for name, form in (FORMS | WHOLE).items()}
    assert [name for name, body in bodies.items() if stored(redaction(), body.encode()) != body] == []


def test_a_name_in_one_piece_tells_of_the_value_in_the_next():
    body = sse(*({"t": piece} for piece in ("Here", " the pass", "word: ", "hunter2-Xk29", "-zz81 is", " set")))
    after = stored(Redaction(Places({})), body.encode())
    assert pieces_left(["hunter2-Xk29", "-zz81"], after) == []
    whole = sse(*({"t": piece} for piece in ("password: ", "hunter2-Xk29", " is set")))
    assert "hunter2" not in stored(Redaction(Places({})), whole.encode())


ITEMS = {
    "strings": lambda pieces: pieces,
    "dicts": lambda pieces: [{"type": "delta", "text": piece} for piece in pieces],
    "chunks": lambda pieces: [{"choices": [{"delta": {"content": piece}}]} for piece in pieces],
    "objects": lambda pieces: [{"$object": "lib.Chunk", "state": {"content": piece, "id": 1}} for piece in pieces],
    "events": lambda pieces: [sse({"t": piece}) for piece in pieces],
    "tuples": lambda pieces: [{"$tuple": [piece, {"node": "agent"}]} for piece in pieces],
    "bytes": lambda pieces: [{"$bytes": piece} for piece in pieces],
}


@settings(max_examples=20)
@given(at=PLACES, known=st.booleans())
@pytest.mark.parametrize("form", ITEMS)
def test_a_secret_that_a_generator_yields_in_pieces_is_gone(form, at, known):
    pieces = cut(KEY if known else VENDOR, at)
    items = ITEMS[form]([*WORDS, *pieces, " today"])
    made = redaction(known)
    after = made.redact_outcome(TOOL, ToolReply(items=tuple(items)))
    assert len(after.items) == len(items)
    text = json.dumps(after.items)
    assert PLACEHOLDER.search(text)
    assert pieces_left(pieces, text) == []
    assert made.redact_outcome(TOOL, after) == after
    listed, asked = (
        made.redact_outcome(TOOL, ToolReply(value=items)),
        made.redact_content(ToolCall("t", {"parts": items})),
    )
    if known and form != "events":
        assert pieces_left(pieces, json.dumps([listed.value, asked.arguments])) == []


def message(text):
    return {"role": "user", "content": text}


def delta(text, index=0):
    return {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}}


def choice(text, index):
    return {"choices": [{"index": index, "delta": {"content": text}}]}


def asked(texts, write):
    call = HttpCall("POST", "https://api.test/v1/x", body=Body(write(texts).encode()))
    return Redaction(Places({})).redact_content(call).body.data.decode()


def answered(texts, write):
    return stored(Redaction(Places({})), write(texts).encode())


def given_to_tool(texts, write):
    call = Redaction(Places({})).redact_content(ToolCall("t", {"all": json.loads(write(texts))}))
    return json.dumps(call.arguments["all"])


def returned(texts, write):
    value = json.loads(write(texts))
    outcome = Redaction(Places({})).redact_outcome(TOOL, ToolReply(value))
    return json.dumps(outcome.value)


def yielded(texts, write):
    outcome = Redaction(Places({})).redact_outcome(TOOL, ToolReply(items=tuple(json.loads(write(texts)))))
    return json.dumps(outcome.items)


def pushed(texts, write):
    frames = [Message(json.dumps(item).encode(), binary=False) for item in json.loads(write(texts))]
    reply = Redaction(Places({})).redact_outcome(FrameCall("wss://api.test/", 1), FramesReply.from_frames(frames))
    return json.dumps([json.loads(frame.data) for frame in reply.frames()])


LISTS = {
    "strings": json.dumps,
    "messages": lambda texts: json.dumps([message(text) for text in texts]),
    "rows": lambda texts: json.dumps([{"id": nth, "note": text} for nth, text in enumerate(texts)]),
    "parts": lambda texts: json.dumps([{"content": [{"type": "text", "text": text} for text in texts]}]),
}
STREAMS = {
    "blocks": lambda texts: sse(*(delta(part, nth) for nth, text in enumerate(texts) for part in ("So: ", text))),
    "blocks-of-one-delta": lambda texts: sse(*(delta(text, nth) for nth, text in enumerate(texts))),
    "choices": lambda texts: sse(*(choice(text, nth) for nth, text in enumerate(texts))),
    "choices-in-turns": lambda texts: sse(
        *(choice(part, nth) for parts in (["So: "] * len(texts), texts) for nth, part in enumerate(parts))
    ),
    "two-in-one-event": lambda texts: sse({"choices": [choice(text, 0)["choices"][0] for text in texts]}),
    "messages": lambda texts: sse(*map(message, texts), name="message"),
    "lines": lambda texts: ndjson(*map(message, texts)),
    "batch": lambda texts: ndjson(
        *({"custom_id": f"id-{nth}", "body": {"messages": [message(text)]}} for nth, text in enumerate(texts))
    ),
}
WAYS = [
    *(
        (way, name, LISTS[name])
        for way in (asked, answered, given_to_tool, returned, yielded, pushed)
        for name in LISTS
    ),
    *((way, name, STREAMS[name]) for way in (asked, answered) for name in STREAMS),
]
NEXT = st.one_of(
    st.sampled_from(["please refund Q100", "2 refunds", "a1B2c3D4e5", "-", "_x", "="]), st.text(min_size=1)
)


@settings(max_examples=30)
@given(vendor=st.sampled_from(VENDORS), seed=st.integers(0, 99), before=st.sampled_from(["", "Use "]), after=NEXT)
@pytest.mark.parametrize("place", WAYS, ids=lambda place: f"{place[0].__name__}-{place[1]}")
def test_of_whole_texts_only_the_key_goes(place, vendor, seed, before, after):
    way, _, write = place
    key = Sampler(seed).key(vendor).decode()
    kept = way([before + key, after], write)
    assert key not in kept
    expected = write([before + "KEY", after])
    assert PLACEHOLDER_TEXT.sub("KEY", kept) == expected


@pytest.mark.parametrize("sign", ["\x1b[0m", "\u200b", "\ufeff"])
def test_no_word_behind_a_colour_code_or_a_sign_of_no_width_goes_with_a_key(sign):
    texts = [f"\x1b[32m{Sampler(1).key(vendor).decode()}{sign}please refund Q100" for vendor in VENDORS]
    for way in (asked, returned):
        kept = way(texts, json.dumps)
        assert kept.count(json.dumps(f"{sign}please refund Q100")[1:-1]) == len(texts), kept


def test_rows_of_which_some_begin_or_end_with_a_space_are_no_stream():
    texts = [f"The token is {Sampler(1).key(VENDORS[0]).decode()}", "please refund Q100", "thanks ", "bye ", "ok"]
    assert [asked(texts, STREAMS[form]).count("please refund") for form in ("lines", "batch")] == [1, 1]


def test_a_name_at_the_end_of_a_text_tells_nothing_of_the_next_record():
    texts = ["Enter your password:", "please refund Q100", "export API_KEY=", "2 refunds"]
    assert [asked(texts, STREAMS[form]) for form in ("lines", "batch")] == [
        STREAMS["lines"](texts),
        STREAMS["batch"](texts),
    ]
    pretty = json.dumps([{"more": [message(text)]} for text in texts], indent=4)
    assert asked(texts, lambda _: pretty) == pretty


WRAPPED = [str, lambda piece: json.dumps({"delta": piece}), lambda piece: json.dumps([piece, 1], indent=1)]


@pytest.mark.parametrize("wrapped", WRAPPED)
@pytest.mark.parametrize("binary", [True, False])
def test_a_secret_in_the_messages_of_a_connection_is_gone(wrapped, binary):
    pieces = cut(KEY, [3, 9])
    frames = [Message(wrapped(piece).encode(), binary) for piece in ("I use ", *pieces, " today")]
    made = redaction()
    asked = made.redact_content(FrameCall("wss://api.test/", 1, body=Body(wrapped(KEY).encode())))
    assert "[[redacted:key:1]]" in asked.body.data.decode()
    after = made.redact_outcome(asked, replace(FramesReply.from_frames(frames), closed=Closed(1000, f"bye {KEY}")))
    assert after.closed.reason == "bye [[redacted:key:1]]"
    kept = [frame.data.decode() for frame in after.frames()]
    assert len(kept) == len(frames)
    assert "[[redacted:key:1]]" in kept[1]
    assert pieces_left(pieces, "".join(kept)) == []


def test_a_body_without_end_costs_no_more_than_its_length():
    """Openings that nothing closes, and lines that are almost JSON, are read once."""
    for body in (b"[1,\n" * 20_000, b'data: {"a\n\n' * 20_000, b'{"a": ' * 20_000, b'"' * 40_001, b"0:[\n" * 20_000):
        made = redaction()
        made.redact_outcome(POST, HttpReply(200, body=Body(body), cuts=(len(body),)))
