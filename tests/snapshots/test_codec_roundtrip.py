"""Whatever a Run holds comes back from its text."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pytest_agentreplay.model import exchanges as model
from pytest_agentreplay.model.exchanges import Body, Exchange, Failure, Header, HttpCall, HttpReply, Run, ToolCall
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.codec.dedup_reader import apply_edits
from pytest_agentreplay.snapshots.codec.differences import list_edits, list_parts
from pytest_agentreplay.snapshots.codec.journal import JournalWriter, read_journal
from pytest_agentreplay.snapshots.codec.styles import BlobReader, BlobWriter
from tests.support.stored_runs import bodies, comes_back, post, reply, run_of

CALM = settings(derandomize=True, deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))

ODD = ["", "$text", "$", "$$", "a: b", ":", "x" * 5000, "data:image/png;base64," + "QUJD" * 2000, "\ud800", "None"]
text = (
    st.text(max_size=20)
    | st.text(st.characters(exclude_categories=()), max_size=8)
    | st.lists(st.text('ab ,;"\\\n\r\u2028é', max_size=60), max_size=8).map("\n".join)
    | st.sampled_from(ODD)
)
whole_numbers = st.integers() | st.integers(min_value=10**4200, max_value=10**4300)
scalar = st.none() | st.booleans() | whole_numbers | st.floats(allow_nan=False) | text
value = st.recursive(
    scalar, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4), max_leaves=12
)
mapping = st.dictionaries(text, value, max_size=4)


def dumped(tree: object, style: int) -> bytes:
    separators = [(",", ":"), None, None, (",", ":"), (", ", ":")][style]
    indent = [None, None, 2, "\t", None][style]
    try:
        return json.dumps(tree, separators=separators, indent=indent, ensure_ascii=style % 2 == 1).encode()
    except (UnicodeEncodeError, ValueError):
        return b"{}"


message = st.fixed_dictionaries({"role": st.just("user"), "content": text | st.lists(mapping, max_size=2)})
lists = {"messages": st.lists(message, max_size=4), "tools": st.lists(mapping, max_size=2), "stop": st.lists(text)}
request_json = st.fixed_dictionaries(
    {}, optional={**lists, "system": text, "input": value, "$odd": value, "schema": mapping}
)
EVENTS = [
    *("data: [DONE]", ": ping", "event: x\ndata: {}", "data: one\ndata: two", 'data: {"a":1.0}', 'data: {"a": "é"}'),
    *("id: 7", "", 'data: {"d":{"t":"tok\\ud800"}}', 'data: {"\\ud800":1}'),
]
stream = st.lists(st.sampled_from(EVENTS), max_size=9).map(lambda blocks: "\n\n".join(blocks).encode())
LINES = [b"line one of a log\n" * 9, b"and another, longer line\n" * 5, b"x"]
data = (
    st.just(b"")
    | st.binary(max_size=40)
    | st.builds(dumped, request_json | value, st.integers(0, 4))
    | stream
    | stream.map(lambda blocks: blocks.replace(b"\n", b"\r\n"))
    | text.map(lambda t: t.encode("utf-8", "surrogatepass"))
    | st.lists(st.sampled_from(LINES), max_size=6).map(b"".join)
)
failure = st.builds(Failure, text, text, st.lists(value, max_size=2).map(tuple), st.lists(text, max_size=2).map(tuple))
whole = st.integers(1 - 2**63, 2**63 - 1)
one_line = text.map(lambda words: re.sub(r"[\r\n\0]", " ", words))
headers = st.lists(st.tuples(one_line, one_line), max_size=3).map(tuple)
http_call = st.builds(HttpCall, text, text, headers, data.map(Body))
versions, cuts = st.sampled_from(["HTTP/1.1", "HTTP/2", ""]), st.lists(st.integers(0, 50), max_size=5).map(tuple)
broken, items = st.none() | failure, st.none() | st.lists(value, max_size=3).map(tuple)
status = st.integers(100, 599)
http_reply = st.builds(HttpReply, status, text, versions, headers, data.map(Body), cuts, broken, st.booleans())
tool_reply = st.builds(model.ToolReply, value, items, broken, st.booleans())
reading = st.none() | whole
exchange = st.builds(
    Exchange,
    http_call | st.builds(ToolCall, text, mapping),
    st.none() | http_reply | tool_reply | failure,
    st.sampled_from([1, 10, 2**62]),
    st.none() | st.just(2**62 + 7),
    st.sampled_from(["main", "main.1"]) | text,
    whole,
    st.booleans(),
    st.none() | st.just(0),
    st.builds(model.Timing, st.integers(0, 2**63 - 1), reading, reading),
)
dates = st.just("") | st.datetimes().map(datetime.isoformat)
header = st.builds(Header, text, dates, whole, whole, mapping, mapping)


def numbered(exchanges: list[Exchange]) -> tuple[Exchange, ...]:
    """No two exchanges begin at once, and a run has them in the order in which they began."""
    in_order = sorted(exchanges, key=lambda x: x.start)
    return tuple(replace(x, start=x.start + n) for n, x in enumerate(in_order))


runs = st.builds(Run, header, st.lists(exchange, max_size=7).map(numbered))


@CALM
@given(runs, st.randoms(use_true_random=False))
def test_every_run_comes_back_from_its_text_and_from_its_journal_in_whatever_order_it_settled(run, rng):
    stored = comes_back(run)
    assert stored == codec.dumps(codec.loads(stored, file="f").run)
    settled, journal = list(run.exchanges), JournalWriter()
    rng.shuffle(settled)
    found, dropped = read_journal(journal.begin(run.header) + b"".join(map(journal.exchange, settled)))
    ordered = replace(run, exchanges=tuple(sorted(settled, key=lambda one: one.start)))
    assert (found, dropped) == (ordered, 0)
    assert bodies(found) == bodies(ordered)


unit = st.sampled_from(["the", "}", "order 7 of a customer", "x" * 30, "", "[0, 1]", "\ud800"]) | st.text(max_size=9)
units = st.lists(unit, max_size=40)
changing_text = st.lists(units.map(" ".join), min_size=1, max_size=6).map("\n".join)


@settings(CALM, max_examples=150)
@given(units, units)
@example(["x" * 30, "the", "a", "y" * 30, "the", "z" * 30], ["new", "x" * 30, "the", "z" * 30, "new"])
def test_the_parts_of_a_list_make_it_again(old, new):
    made = []
    for is_kept, begin, end in list_parts(old, new):
        assert begin < end
        made += (old if is_kept else new)[begin:end]
    assert made == new


@settings(CALM, max_examples=150)
@given(changing_text, changing_text)
def test_the_edits_of_a_text_make_it_again(old, new):
    edits = [*list_edits(old, new, BlobWriter())]
    assert apply_edits(old, json.loads(json.dumps(edits)), BlobReader()) == new


def test_numbers_that_json_cannot_hold_and_what_is_nested_too_deep_come_back():
    odd = {"nan": math.nan, "inf": [math.inf, -math.inf], "big": -(7**6000), "zero": -0.0}
    kit = codec.loads(codec.dumps(run_of(kit=odd)), file="f").run.header.kit
    assert math.isnan(kit["nan"])
    assert kit["inf"] == [math.inf, -math.inf]
    assert kit["big"] == odd["big"]
    assert str(kit["zero"]) == "-0.0"
    deep: object = "bottom"
    for _ in range(150):
        deep = [deep, {"k": 1}]
    assert "$json" in comes_back(run_of(kit={"deep": deep}))


def test_what_is_not_json_is_refused_by_name():
    with pytest.raises(TypeError, match="tuple"):
        codec.dumps(run_of(kit={"when": (1, 2)}))


def test_defaults_are_left_out_and_times_are_exact_milliseconds():
    run = run_of((HttpCall("GET", "http://a/"), HttpReply(204, body=model.EMPTY)))
    doc = json.loads(codec.dumps(run))
    assert doc["exchanges"] == [{"request": {"method": "GET", "url": "http://a/"}, "response": {"status": 204}}]
    assert doc["volatile"] == [{"order": [1, 2]}]
    assert "cuts" not in codec.dumps(run_of((post(), reply(b"abc")))), "it came in one piece"
    run = Run(Header("t"), (Exchange(ToolCall("f"), None, 1, None, timing=model.Timing(1_500_000, None, 3_000_001)),))
    assert '"ms":[1.5,null,3.000001]' in comes_back(run)
