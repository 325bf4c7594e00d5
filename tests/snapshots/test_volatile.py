"""What each recording has anew stands apart: two recordings that say the same differ at the end of the file alone."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_agentreplay.errors import SnapshotUnreadable
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.exchanges import (
    Body,
    Exchange,
    Header,
    HttpCall,
    HttpReply,
    Run,
    Timing,
    ToolCall,
    ToolReply,
)
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.codec.styles import guess
from pytest_agentreplay.snapshots.codec.v1 import bodies_of
from tests.support.stored_runs import comes_back, run_of, text_of_exchanges

ANSWER = "Your order A-1001 is on its way to you, and the carrier will call before it comes."
JSON_TYPE = ("content-type", "application/json")


def ask(body, host="http://127.0.0.1:8000"):
    return HttpCall("POST", f"{host}/v1/chat", (("host", host[7:]),), Body(json.dumps(body).encode()))


def reply(draw, data):
    headers = (
        JSON_TYPE,
        ("Date", f"Sun, {draw.randrange(29)} Nov 2026"),
        ("x-request-id", f"req_{draw.getrandbits(64):x}"),
    )
    return HttpReply(200, "OK", headers=headers, body=Body(data), cuts=(10, len(data) - 10))


def chat_turns(draw, lane, port):
    """A model call that asks for a tool, the tool, and a model call that streams the answer."""
    call = f"call_{draw.getrandbits(90):x}"
    usage = {"prompt_tokens": draw.randrange(100), "details": {"cached": draw.randrange(9)}}
    message = {"role": "assistant", "tool_calls": [{"id": call, "function": {"name": "look", "arguments": "{}"}}]}
    asked = {"role": "user", "content": f"Where is my order, {lane}?"}
    first = {
        "id": f"chatcmpl-{draw.getrandbits(90):x}",
        "created": draw.randrange(10**9),
        "choices": [{"message": message}],
        "usage": usage,
        "system_fingerprint": f"fp_{draw.getrandbits(40):x}",
    }
    result = {"role": "tool", "tool_call_id": call, "content": f"order of {call}: shipped"}
    stream = f"chatcmpl-{draw.getrandbits(90):x}"
    events = [
        {"id": stream, "delta": {"content": word}, "obfuscation": f"{draw.getrandbits(draw.randrange(8, 60)):x}"}
        for word in ANSWER.split(" ")
    ]
    data = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    said = {"role": "assistant", "content": "".join(event["delta"]["content"] for event in events)}
    url = f"http://127.0.0.1:{port}"
    return [
        (ask({"model": "m", "messages": [asked]}, url), reply(draw, json.dumps(first, indent=2).encode())),
        (ToolCall("look", {"call": call}), ToolReply({"status": "shipped"})),
        (ask({"model": "m", "messages": [asked, message, result]}, url), reply(draw, data.encode())),
        (
            ask({"model": "m", "messages": [asked, message, result, said, asked]}, url),
            reply(draw, b'{"text": "Bye, now"}'),
        ),
    ]


def recording(seed, *lanes):
    """A recording of agents in lanes: what they say is the same for each seed, nothing else is."""
    draw = random.Random(seed)
    port = draw.randrange(20_000, 60_000)
    left = {lane: chat_turns(random.Random(f"{seed}{lane}"), lane, port) for lane in lanes}
    exchanges, reading = [], 0
    while any(left.values()):
        lane = draw.choice([lane for lane in lanes if left[lane]])
        call, outcome = left[lane].pop(0)
        timing = Timing(draw.randrange(10**9), None, draw.randrange(10**9))
        exchanges.append(
            Exchange(call, outcome, reading, reading + 1, lane, timing=timing, suspended=draw.random() < 0.5)
        )
        reading += 2
    kit = {"git": {"commit": f"{draw.getrandbits(160):x}"}, "python": "3.12"}
    return Run(
        Header("t", f"2026-11-{draw.randrange(10, 30)}", draw.randrange(2**60), 7, {"status": "passed"}, kit),
        tuple(exchanges),
    )


@pytest.mark.parametrize("lanes", [("main",), ("main", "main.1", "main.2", "main.10")])
def test_two_recordings_that_say_the_same_differ_by_a_line_for_each_exchange(lanes):
    texts = [comes_back(recording(seed, *lanes)) for seed in (1, 2, 3)]
    first, second, third = (text_of_exchanges(text) for text in texts)
    assert first == second == third
    crlf = texts[0].replace("\n", "\r\n")
    assert codec.cut_volatile(crlf) == codec.cut_volatile(texts[1]), "as a checkout on Windows has it"
    run = recording(1, *lanes)
    assert len(texts[0].splitlines()) - len(first) == len(run.exchanges) + 5
    assert codec.loads(texts[0], file="f").run.exchanges == run.exchanges, "they come back in the order of their starts"


def test_a_reference_leads_to_the_same_text_after_an_edit_that_made_it_short():
    texts = [f"{word} text that is long enough to be told by its number, whoever sends it" for word in ("One", "Two")]
    call = ask({"model": "m", "messages": []})
    replies = [
        (call, HttpReply(200, body=Body(json.dumps({"text": texts[0]}).encode()))),
        (ToolCall("look"), ToolReply(texts[1])),
        (
            ask({"model": "m", "messages": [{"a": texts[0]}, {"b": texts[1]}]}),
            reply(random.Random(1), b'{"text": "Bye, now"}'),
        ),
    ]
    text = codec.dumps(run_of(*replies))
    assert '{"a": {"$reply_text": 1}}' in text
    assert '{"b": {"$result": 1}}' in text
    for recorded, edited in zip(texts, ("No.", "Gone."), strict=True):
        text = text.replace(recorded, edited)
    sent = json.loads(codec.loads(text, file="f").run.exchanges[2].call.body.data)
    assert sent["messages"] == [{"a": "No."}, {"b": "Gone."}]


def test_a_reference_to_nothing_is_refused_with_what_to_write():
    text = codec.dumps(recording(1, "main")).replace('{"$reply_text": 1}', '{"$reply_text": 99}', 1)
    with pytest.raises(
        SnapshotUnreadable, match=r"exchange 4, .*`\$reply_text` 99 refers to nothing, of \d+ above: write"
    ):
        codec.loads(text, file="f")


def test_an_id_has_one_short_name_wherever_it_comes_back_and_a_reply_that_is_sent_back_stands_once():
    text = comes_back(recording(1, "main"))
    values = json.loads(text)["volatile"][0]["values"]
    assert values["call:1"].startswith("call_")
    above = "\n".join(text_of_exchanges(text))
    assert values["call:1"] not in above
    assert above.count("⟦call:1⟧") == 5
    assert '"content": "order of ⟦call:1⟧: shipped"' in above
    assert '"tool_call_id": "⟦call:1⟧"' in above
    assert '"url": "http://127.0.0.1:⟦port⟧/v1/chat"' in above
    assert above.count('"Date: ⟦⟧"') == 1, "the same headers stand once"
    assert above.count('"content": {"$reply_text": 1}') == 1, "the texts of a stream are its words"
    assert '{"$hole": "⟦obfuscation⟧"}' in above
    assert '"Your", "order", "A-1001"' in above, "of each event its word is left"


ROWS = {"rows": [{"order": f"A-{n}", "at": "Zürich", "paid": 1.5} for n in range(4)], "$next": None}
DUMPS = {
    "default": {},
    "letters": {"ensure_ascii": False},
    "tall": {"indent": 2},
    "compact": {"separators": (",", ":")},
}


@pytest.mark.parametrize("how", DUMPS.values(), ids=DUMPS)
def test_json_text_of_what_a_tool_returned_stands_once(how):
    sent = [{"role": "tool", "content": json.dumps(value, **how)} for value in (ROWS, [ROWS])]
    looked = [(ToolCall("look", {}), ToolReply(value)) for value in ([ROWS], ROWS)]
    text = comes_back(run_of(*looked, (ask({"model": "m", "messages": sent}), None)))
    assert [reference for message in messages_of(text) for reference in message["content"].items()] == [
        ("$result", [1, guess(sent[0]["content"]).code]),
        ("$result", [2, guess(sent[1]["content"]).code]),
    ]
    assert text.count("A-3") == 2
    again = codec.reseal(text.replace("A-3", "A-4"), "the order was another one", file="f")
    assert b"A-4" in codec.loads(again, file="f").run.exchanges[-1].call.body.data, "an edit goes along"
    for wrong in ("[9,", '["1",', "[1, 2,", "["):
        with pytest.raises(SnapshotUnreadable, match="exchange 3"):
            codec.loads(text.replace('{"$result": [1,', f'{{"$result": {wrong}', 1), file="f")


def test_a_text_that_a_tool_returned_and_the_agent_sends_back_stands_once():
    sent = [{"role": "tool", "content": ANSWER}, {"role": "tool", "content": json.dumps(ROWS)}]
    looked = [(ToolCall("look", {}), ToolReply(value)) for value in (json.dumps(ROWS), ANSWER)]
    text = comes_back(run_of(*looked, (ask({"model": "m", "messages": sent}), None)))
    assert [message["content"] for message in messages_of(text)] == [{"$result": 1}, {"$result": 2}]


def messages_of(text):
    entries = json.loads(text)["exchanges"][-1]["request"]["body"]["json"]["messages"]
    return [message for entry in entries for message in entry.values()]


def test_other_json_text_than_that_of_a_result_stands_in_full():
    near = json.dumps(ROWS).replace('", "', '",  "', 1)
    blob = {"image": "iVBORw0KGgo" * 400, **ROWS}
    looked = [(ToolCall("look", {}), ToolReply(value)) for value in (ROWS, blob)]
    sent = [{"role": "tool", "content": text} for text in (near, json.dumps(blob))]
    assert "$result" not in comes_back(run_of(*looked, (ask({"model": "m", "messages": sent}), None)))


def test_what_a_tool_or_another_service_says_stays_where_it_is():
    order = {"id": "ord_100234", "customer_id": "cus_881722", "created": 1763632800, "usage": {"calls": 3}}
    service = HttpCall("POST", "https://shop.example/orders", (), Body(b'{"order": 1}'))
    answer = HttpReply(200, headers=(JSON_TYPE,), body=Body(json.dumps(order).encode()))
    tool_input = {
        "id": "toolu_7ahq12",
        "type": "tool_use",
        "input": {"order_id": "ord_100234", "created_at": "2026-11-20"},
    }
    model = (
        ask({"model": "m", "messages": []}),
        HttpReply(200, body=Body(json.dumps({"content": [tool_input]}).encode())),
    )
    text = comes_back(Run(Header("t"), (Exchange(service, answer, 1, 2), Exchange(*model, 3, 4))))
    above = "\n".join(text_of_exchanges(text))
    for value in ("ord_100234", "cus_881722", "1763632800", '"created_at": "2026-11-20"'):
        assert value in above
    assert "toolu_7ahq12" not in above


texts = st.lists(
    st.sampled_from(["⟦", "⟧", "⟦call:1⟧", "call_ab12cd", "msg_77", "msg_7712", " ", "x", "⟦⟧", "|"]), max_size=6
)
words = texts.map("".join)
keys = st.sampled_from(["id", "created", "usage", "text", "input", "signature", "item_id", "$ref", "n", "obfuscation"])
leaves = (
    words
    | st.integers(0, 3)
    | st.none()
    | st.sampled_from([1.5, True, "call_ab12cd", ANSWER, "s" * 90, json.dumps(ROWS)])
)
trees = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4), max_leaves=10
)
objects = st.dictionaries(keys, trees, max_size=5)
one_shape = st.lists(st.tuples(leaves, words, st.integers(0, 9)), min_size=3, max_size=6).flatmap(
    lambda rows: keys.map(
        lambda key: [
            {key: text, "input": {"order_id": word, key: n}, "usage": {"tokens": n}, "id": "msg_7712"}
            for text, word, n in rows
        ]
    )
)
mixed = st.lists(objects, min_size=1, max_size=3).flatmap(lambda few: st.lists(st.sampled_from(few), max_size=8))
streams = mixed | one_shape
bodies = objects.map(lambda tree: json.dumps(tree, ensure_ascii=False)) | streams.map(
    lambda events: "".join(f"data: {json.dumps(event)}\n\n" for event in events)
)
header_lines = st.lists(
    st.tuples(st.sampled_from(["date", "x-id", "mcp-session-id", "content-type"]), words), max_size=3
)
http = st.builds(
    lambda url, sent, headers, data: (
        HttpCall("POST", url, tuple(headers), Body(json.dumps({"model": "m", **sent}, ensure_ascii=False).encode())),
        HttpReply(200, headers=tuple(headers), body=Body(data.encode()), cuts=(len(data.encode()),) if data else ()),
    ),
    words.map("http://127.0.0.1:80/{}".format),
    objects,
    header_lines,
    bodies,
)
tools = st.builds(lambda given, value: (ToolCall("f", given), ToolReply(value)), objects, trees | st.just(ROWS))
lanes = st.sampled_from(["main", "main.1", "main.2"])


@settings(derandomize=True, deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(http | tools, lanes), max_size=6))
def test_whatever_is_set_apart_comes_back(pairs):
    exchanges = (Exchange(*pair, 2 * n, 2 * n + 1, lane) for n, (pair, lane) in enumerate(pairs))
    text = comes_back(Run(Header("t"), tuple(exchanges)))
    assert codec.dumps(codec.loads(text, file="f").run) == text


@pytest.mark.parametrize(("key", "drawn"), [("signature", "ab_"), ("signature", "Qx-"), ("responseId", "Qx_")])
def test_a_drawn_value_gives_no_name_that_the_next_recording_has_not(key, drawn):
    call = ask({"model": "m", "messages": []})
    texts = [
        codec.dumps(run_of((call, HttpReply(200, body=Body(json.dumps({key: value}).encode()), cuts=()))))
        for value in (f"{drawn}9f0c2b7d4e81a653", "9f0c2b7d4e81a653")
    ]
    assert codec.cut_volatile(texts[0]) == codec.cut_volatile(texts[1])
    assert f"⟦{key}:1⟧" in texts[0]


@settings(derandomize=True, deadline=None, max_examples=30, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 9), st.randoms())
def test_bodies_come_back_in_whatever_order_they_are_read(seed, draw):
    run = recording(seed, "main", "main.1")
    text = codec.dumps(run)
    assert '"body": {"text"' not in text, "each is restored by the names of its exchange"
    recorded, stored = (
        [body for x in exchanges for _, body in bodies_of(x)]
        for exchanges in (run.exchanges, codec.loads(text, file="f").run.exchanges)
    )
    for at in draw.sample(range(len(stored)), len(stored)):
        if stored[at].shared is not None and draw.random() < 0.5:
            assert canonical(stored[at].shared.tree()) == canonical(json.loads(recorded[at].data))
        else:
            assert stored[at].data == recorded[at].data


def test_a_name_in_a_message_is_of_the_exchange_that_sent_the_message_first():
    text = codec.dumps(recording(1, "main"))
    lines = json.loads(text)["volatile"]
    edited = text.replace('"Where is my order, main?"', '"⟦created⟧"')
    run = codec.loads(edited, file="f").run
    requests = [json.loads(x.call.body.data) for x in run.exchanges if isinstance(x.call, HttpCall)]
    assert [request["messages"][0]["content"] for request in requests] == [lines[0]["values"]["created"]] * 3
    assert lines[0]["values"]["created"] != lines[2]["values"].get("created")
    damaged = text.replace('"Where is my order, main?"', '"⟦obfuscation⟧"')
    with pytest.raises(
        SnapshotUnreadable, match="exchange 1, request: nothing is set apart under the name 'obfuscation'"
    ):
        codec.loads(damaged, file="f")


def test_an_edit_of_what_was_said_changes_its_line_alone():
    text = codec.dumps(recording(1, "main", "main.1"))
    again = codec.reseal(text.replace("shipped", "lost"), "the carrier lost it", file="f")
    rows = [old != new for old, new in zip(text_of_exchanges(text), text_of_exchanges(again), strict=True)]
    assert sum(rows) == 4
    lanes = recording(1, "main", "main.1")
    assert replace(codec.loads(again, file="f").run, exchanges=()) == replace(lanes, exchanges=())
