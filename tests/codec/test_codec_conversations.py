"""Agents resend their history; the file grows with what is new, and a turn is a short diff."""

from __future__ import annotations

import difflib
import json
import random
from dataclasses import replace

import pytest

from pytest_agentreplay import codec
from pytest_agentreplay.codec.journal import JournalWriter, read
from pytest_agentreplay.core.model import Body, Exchange, Header, HttpCall, HttpReply, Run, ToolCall


def restored(run: Run, stored: str) -> Run:
    snapshot = codec.loads(stored, file="f")
    assert snapshot.sealed
    assert snapshot.run == run
    for mine, theirs in zip(snapshot.run.exchanges, run.exchanges, strict=True):
        if isinstance(mine.call, HttpCall):
            assert mine.call.body.data == theirs.call.body.data
            assert mine.outcome.body.data == theirs.outcome.body.data
    return snapshot.run


def http_only(run: Run) -> Run:
    return replace(run, exchanges=tuple(x for x in run.exchanges if isinstance(x.call, HttpCall)))


def requests(stored: str) -> list[dict]:
    found = [x["request"]["body"] for x in json.loads(stored)["exchanges"] if "request" in x]
    assert all("json" in body for body in found)
    return [body["json"] for body in found]


def test_200_turns_stay_small(conversation):
    run = http_only(conversation(200))
    raw = sum(len(x.call.body) + len(x.outcome.body) for x in run.exchanges)
    stored = codec.dumps(run)
    assert raw > 19_000_000
    assert len(stored.encode()) < 700_000
    restored(run, stored)


def test_one_more_turn_is_about_a_hundred_short_lines(conversation):
    """The request and reply of a model call, and the tool call that it asked for."""
    run = conversation(31)
    before = codec.dumps(replace(run, exchanges=run.exchanges[:-2])).splitlines()
    after = codec.dumps(run).splitlines()
    diff = [line for line in difflib.unified_diff(before, after, n=0) if line[:3] not in {"---", "+++"}]
    added = [line for line in diff if line[:1] == "+"]
    removed = [line for line in diff if line[:1] == "-"]
    assert 40 < len(added) <= 130
    assert len(removed) <= 4, "ids do not shift"
    assert max(map(len, added)) <= 121


def test_no_line_of_a_conversation_is_wider_than_a_screen(conversation):
    assert max(map(len, codec.dumps(conversation(5)).splitlines())) <= 120


def test_a_message_stands_in_the_request_that_first_sent_it_and_later_ones_name_runs(conversation):
    first, second, third = requests(codec.dumps(conversation(3)))
    assert [next(iter(entry)) for entry in first["messages"]] == ["m1", "m2"]
    assert [next(iter(entry)) for entry in first["tools"]] == [f"t{n}" for n in range(1, 9)]
    assert second["messages"][0] == "m1..m2"
    assert [next(iter(entry)) for entry in second["messages"][1:]] == ["m3", "m4"]
    assert third["messages"][0] == "m1..m4"
    assert third["tools"] == ["t1..t8"]
    assert first["model"] == "gpt-5"


def mark_last(turn: int, messages: list[dict]) -> list[dict]:
    """Anthropic's prompt cache: the mark moves to the newest message, which becomes a list of blocks for it."""
    found = [{**m, "content": [{"type": "text", "text": m["content"]}]} for m in messages]
    found[-1]["content"] = [{**found[-1]["content"][0], "cache_control": {"type": "ephemeral"}}]
    return found


def mark_last_string(turn: int, messages: list[dict]) -> list[dict]:
    found = list(messages)
    last = found[-1]
    found[-1] = {**last, "content": [{"type": "text", "text": last["content"], "cache_control": {"type": "ephemeral"}}]}
    return found


def clock(turn: int, messages: list[dict]) -> list[dict]:
    lines = messages[0]["content"].split("\n")
    lines.insert(1, f"Now: 2026-11-20T10:{turn // 60:02}:{turn % 60:02}")
    return [{**messages[0], "content": "\n".join(lines)}, *messages[1:]]


def window(turn: int, messages: list[dict]) -> list[dict]:
    return [messages[0], *messages[1:][-20:]]


def summary(turn: int, messages: list[dict]) -> list[dict]:
    begin = turn // 30 * 60
    note = {"role": "system", "content": f"Summary {turn // 30}: " + "what was said before. " * 20}
    return [messages[0], note, *messages[1 + begin :]]


def memory(turn: int, messages: list[dict]) -> list[dict]:
    block = "\n".join(f"- fact {n} holds since turn {n * 3}, noted by the agent" for n in range(turn % 40 + 1))
    return [messages[0], {"role": "system", "content": f"Memory:\n{block}\nEnd."}, *messages[1:]]


@pytest.mark.parametrize(
    ("change", "most"),
    [(mark_last, 0.8), (mark_last_string, 1.7), (clock, 0.5), (window, 0.4), (summary, 0.4), (memory, 1.1)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_history_that_is_touched_here_and_there_stays_linear(conversation, change, most):
    """`most` is in kB a turn, beyond what the untouched conversation costs."""
    plain = len(codec.dumps(http_only(conversation(80))).encode())
    run = http_only(conversation(80, change=change))
    stored = codec.dumps(run)
    restored(run, stored)
    assert len(stored.encode()) - plain < most * 1000 * 80


def test_a_changed_line_of_a_prompt_is_a_version_that_says_only_that_line(conversation):
    first, second, third = requests(codec.dumps(conversation(3, change=clock)))
    assert [next(iter(entry)) for entry in first["messages"]] == ["m1", "m2"]
    version = second["messages"][0]["m1.2"]
    assert version["$like"] == "m1"
    assert version["edits"] == [{"at": ["content"], "lines": [[0, 1], "Now: 2026-11-20T10:00:02", [2, 45]]}]
    assert third["messages"][0]["m1.3"]["$like"] == "m1"
    assert third["messages"][1] == "m2..m4"


def test_a_moving_cache_mark_leaves_short_runs_of_newest_versions(conversation):
    last = requests(codec.dumps(conversation(40, change=mark_last)))[-1]
    assert len(last["messages"]) <= 5
    assert any(entry.endswith("~") for entry in last["messages"] if isinstance(entry, str))


@pytest.mark.parametrize(
    "change", [clock, window, summary, memory, mark_last, mark_last_string], ids=lambda f: f.__name__
)
def test_the_journal_of_such_a_history_is_linear_too(conversation, change):
    run = http_only(conversation(60, change=change))
    journal = JournalWriter()
    data = journal.begin(run.header) + b"".join(map(journal.exchange, run.exchanges))
    assert read(data) == (run, 0)
    assert len(data) < 9 * len(http_only(conversation(60)).exchanges[-1].call.body)


@pytest.mark.parametrize(
    "dump",
    [
        lambda v: json.dumps(v).encode(),
        lambda v: json.dumps(v, indent=2).encode() + b"\n",
        lambda v: json.dumps(v, indent="\t", ensure_ascii=False).encode(),
        lambda v: json.dumps(v).replace("/", "\\/").encode(),
    ],
    ids=["default", "indent 2", "tabs", "escaped slashes"],
)
def test_other_serialisations_are_as_small(conversation, dump):
    run = http_only(conversation(30, dump=dump))
    stored = codec.dumps(run)
    restored(run, stored)
    assert len(stored) < 2.2 * len(codec.dumps(http_only(conversation(30))))


def test_interleaved_conversations_keep_their_own_histories(conversation):
    one, two = http_only(conversation(20)), http_only(conversation(20, seed=8))
    both = tuple(x for pair in zip(one.exchanges, two.exchanges, strict=True) for x in pair)
    stored = codec.dumps(Run(one.header, both))
    restored(Run(one.header, both), stored)
    assert len(stored) < 1.1 * (len(codec.dumps(one)) + len(codec.dumps(two)))


def test_the_same_content_in_two_styles_stands_once():
    long = {"messages": [{"role": "user", "content": "What is the matter? " * 12}], "system": "Be brief. " * 30}
    bodies = [
        json.dumps(long).encode(),
        json.dumps(long, indent=4).encode(),
        json.dumps(long, separators=(",", ":")).encode(),
    ]
    run = Run(
        Header("t"),
        tuple(Exchange(HttpCall("POST", "http://a/", body=Body(b)), None, n, None) for n, b in enumerate(bodies)),
    )
    stored = codec.dumps(run)
    assert codec.loads(stored, file="f").run == run
    assert stored.count('"role"') == 1
    assert [body["system"] for body in requests(stored)[1:]] == [{"$item": "s1"}] * 2


def posts(*bodies: bytes, lane: str = "main") -> Run:
    return Run(
        Header("t"),
        tuple(
            Exchange(HttpCall("POST", "http://a/", body=Body(b)), None, n, None, lane) for n, b in enumerate(bodies, 1)
        ),
    )


def spliced(*bodies: bytes) -> list[dict]:
    run = posts(*bodies)
    stored = codec.dumps(run)
    found = codec.loads(stored, file="f").run
    assert [x.call.body.data for x in reversed(found.exchanges)] == list(reversed(bodies))
    return [x["request"]["body"] for x in json.loads(stored)["exchanges"]]


def test_texts_of_unknown_dialects_are_spliced_against_the_request_before():
    rng = random.Random(3)
    rows = [f"<row id='{n}'>{rng.random()}</row>\n" for n in range(400)]
    bodies = ["".join(rows[: 100 + 10 * n]).encode() for n in range(30)]
    first, *others = spliced(*bodies)
    assert "text" in first
    assert [body["splice"] for body in others] == list(range(1, 30))
    assert others[0]["parts"][0] == [0, len(bodies[0])]


def test_splices_follow_changes_in_two_places():
    rows = [f"key{n}=value{n}&" for n in range(200)]
    changed = [*rows]
    changed[3], changed[150] = "key3=other&", "more=1&key150=x&"
    _, second = spliced("".join(rows).encode(), "".join(changed).encode())
    assert sum(isinstance(part, str) for part in second["parts"]) <= 3
    assert len(json.dumps(second["parts"])) < 120


def test_a_long_chain_of_splices_is_restored_without_recursion():
    bodies = [b"[" + b"1,".join([b"2"] * (200 + n)) + b"]" for n in range(1500)]
    spliced(*bodies)


def test_a_text_that_changed_altogether_is_kept_whole():
    assert "text" in spliced(b"a b c " * 100, b"d e f " * 100)[1]
    assert (
        "text"
        in spliced("".join(f"{n}," for n in range(9000)).encode(), "".join(f"{n};\n" for n in range(9000)).encode())[1]
    )


def test_big_base64_stands_once_at_the_end():
    image = "iVBORw0KGgo" * 40_000
    ask = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64," + image}}]}
    history = [
        [ask],
        [ask, {"role": "assistant", "content": "A cat."}],
        [{"role": "user", "content": "And now?"}, {**ask, "name": "eve"}],
    ]
    run = posts(*(json.dumps({"messages": messages}).encode() for messages in history))
    stored = codec.dumps(run)
    assert codec.loads(stored, file="f").run == run
    doc = json.loads(stored)
    assert list(doc)[-2:] == ["blobs", "integrity"]
    ((name, lines),) = doc["blobs"].items()
    assert "".join(lines) == image
    assert {len(line) for line in lines[:-1]} == {108}
    assert len(stored) < 1.08 * len(image)
    assert [x.call.body.data for x in codec.loads(stored, file="f").run.exchanges] == [
        x.call.body.data for x in run.exchanges
    ]
    assert stored.count(name) == 3
    assert max(map(len, stored.splitlines())) <= 120


def test_binary_bodies_are_wrapped_and_big_ones_stand_once():
    big = bytes(range(256)) * 40
    small = bytes(range(256))
    reply = HttpReply(200, body=Body(big), cuts=(len(big),))
    run = Run(
        Header("t"),
        tuple(
            Exchange(HttpCall("PUT", "http://a/", body=Body(b)), reply, n, n) for n, b in enumerate([big, small, big])
        ),
    )
    stored = codec.dumps(run)
    assert codec.loads(stored, file="f").run == run
    assert [x.call.body.data for x in codec.loads(stored, file="f").run.exchanges] == [big, small, big]
    assert len(stored) < 1.75 * len(big)


def test_the_journal_of_a_long_conversation_is_linear_and_survives_a_kill(conversation):
    run = conversation(60)
    journal = JournalWriter()
    lines = [journal.begin(run.header), *map(journal.exchange, run.exchanges)]
    data = b"".join(lines)
    assert len(data) < 8 * len(run.exchanges[-2].call.body)
    whole, dropped = read(data)
    assert (whole, dropped) == (run, 0)
    for torn in range(1, len(lines[-1]), 97):
        rest, dropped = read(data[:-torn])
        assert rest == replace(run, exchanges=run.exchanges[:-1])
        assert dropped == len(lines[-1]) - torn


def test_a_journal_without_a_header_holds_no_run(conversation):
    run = conversation(2)
    journal = JournalWriter()
    first, second = (journal.exchange(x) for x in run.exchanges[:2])
    assert read(b"") == (None, 0)
    assert read(first + second) == (None, 0)
    assert read(b"12 nonsense") == (None, 11)
    begun = journal.begin(run.header)
    assert read(begun + b"2 44136fa3 {}\n")[1] == 14
    assert read(begun + begun.replace(b"header", b"HEADER")) == (Run(run.header), len(begun))


def test_in_a_journal_the_later_record_counts():
    journal = JournalWriter()
    blob = "QUJD" * 2000
    waiting = Exchange(ToolCall("f", {"image": blob}), None, 1, None)
    done = replace(waiting, finish=2)
    data = journal.begin(Header("a")) + journal.exchange(waiting) + journal.begin(Header("b")) + journal.exchange(done)
    assert read(data) == (Run(Header("b"), (done,)), 0)
    assert data.count(blob[:108].encode()) > 1
    assert len(data) < 1.3 * len(blob)


def test_records_of_a_journal_that_say_nothing_sensible_end_it():
    import hashlib

    begun = JournalWriter().begin(Header("t"))

    def record(value: object) -> bytes:
        payload = json.dumps(value).encode()
        return b"%d %s %s\n" % (len(payload), hashlib.sha256(payload).hexdigest()[:8].encode(), payload)

    def http(body: object, **more: object) -> dict:
        return {"exchange": {"order": [1, 2], "request": {"method": "GET", "url": "http://a/", "body": body}, **more}}

    fine = record(http({"parts": ["x"]}))
    assert read(begun + fine)[1] == 0
    for bad in (
        [],
        5,
        {},
        {"exchange": 5},
        {"blobs": 5, **http({"parts": ["x"]})},
        http({"text": "x"}),
        http({"parts": 5}),
        http({"parts": [5]}),
        http({"parts": [["x", 1]]}),
        http({"parts": [{"hex": "00"}]}),
    ):
        assert read(begun + record(bad) + fine) == (Run(Header("t")), len(record(bad)) + len(fine))


def test_a_history_that_lost_its_last_block_says_what_is_gone():
    blocks = [{"type": "text", "text": f"Part {n} of what was said before, in some words."} for n in range(6)]
    bodies = [
        json.dumps({"messages": [{"role": "user", "content": part}]}).encode()
        for part in (blocks, blocks[:4], [*blocks, blocks[0]])
    ]
    run = posts(*bodies)
    stored = codec.dumps(run)
    _, shorter, longer = requests(stored)
    assert shorter["messages"][0]["m1.2"]["edits"] == [
        {"at": ["content", 5], "gone": True},
        {"at": ["content", 4], "gone": True},
    ]
    assert longer["messages"][0]["m1.3"]["edits"] == [{"at": ["content", 6], "now": blocks[0]}]
    assert [x.call.body.data for x in codec.loads(stored, file="f").run.exchanges] == bodies


def test_a_huge_text_that_changed_in_many_places_is_not_compared_line_by_line():
    rows = [f"row {n} of the table" for n in range(2000)]
    other = [f"{row}." if n % 2 else row for n, row in enumerate(rows)]
    bodies = [json.dumps({"system": "\n".join(lines)}).encode() for lines in (rows, ["head", *other, "tail"])]
    run = posts(*bodies)
    assert [x.call.body.data for x in codec.loads(codec.dumps(run), file="f").run.exchanges] == bodies


def test_crumbs_of_a_splice_join_the_text_around_them():
    old = ("alpha, beta; " * 20 + "x y z ") * 3
    new = old.replace("x y z ", "1 y 2 ")
    first, second = spliced(old.encode(), new.encode())
    assert "text" in first
    assert "1 y 2 " in second["parts"]
