"""Agents resend their history; the file grows with what is new, and a turn is a short diff."""

from __future__ import annotations

import difflib
import hashlib
import json
import random
from dataclasses import replace

import pytest

from pytest_agentreplay.model.exchanges import Exchange, Header, HttpCall, Run, Timing, ToolCall, ToolReply
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.codec.journal import JournalWriter, read_journal
from tests.support import exchanges
from tests.support.stored_runs import comes_back, longest_line, post, posts, reply, run_of, text_of_exchanges

WORDS = """order customer refund warehouse parcel carrier delay invoice broken shipped delivered pending support agent
policy window amount total currency address pickup courier status return label voucher stock shelf batch review""".split()  # noqa: SIM905  reads better


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def prose(rng, size):
    words = []
    while sum(map(len, words)) + len(words) < size:
        words.append(rng.choice(WORDS) + "." * (rng.random() < 0.08))
    return " ".join(words)


def schema(rng, name):
    fields = {key: {"type": "string", "description": prose(rng, 60)} for key in ("id", "note", "day")}
    told = {"name": name, "description": prose(rng, 160)}
    return {"type": "function", "function": {**told, "parameters": {"type": "object", "properties": fields}}}


def reply_of(turn, message):
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls"}
    usage = {"prompt_tokens": 100 * turn, "completion_tokens": 30, "total_tokens": 100 * turn + 30}
    kind = {"object": "chat.completion", "created": 1763650000 + turn, "model": "gpt-5-2026-01-01"}
    body = {"id": f"chatcmpl-{turn:012d}", **kind, "choices": [choice], "usage": usage, "system_fingerprint": "fp_447"}
    headers = (*exchanges.JSON_TYPE, ("x-request-id", f"req_{turn:024x}"), ("openai-version", "2020-10-01"))
    return exchanges.reply(compact(body), headers)


def conversation(turns, *, change=lambda turn, messages: messages, dump=compact, seed=7, tools=True):
    """An openai chat agent that calls one tool a turn; `change` is what the framework does to the history it sends."""
    rng = random.Random(seed)
    rules = "\n".join(f"{n}. {prose(rng, 120)}" for n in range(1, 40))
    system = f"You are the support agent of Acme.\n\nRules:\n{rules}\n\nBe brief."
    messages = [{"role": "system", "content": system}, {"role": "user", "content": prose(rng, 200)}]
    schemas, made = [schema(rng, f"tool_{n}") for n in range(8)], []
    for turn in range(1, turns + 1):
        sent = change(turn, [dict(message) for message in messages])
        body = {"messages": sent, "model": "gpt-5", "temperature": 0.2, "tools": schemas, "seed": 7}
        arguments = {"id": f"A-{turn}", "note": prose(rng, 40)}
        use = exchanges.chat_use(f"call_{rng.randrange(16**24):024x}", "tool_1", json.dumps(arguments))
        message = {"role": "assistant", "content": prose(rng, 80), "tool_calls": [use]}
        result = {"id": f"A-{turn}", "rows": [prose(rng, 100) for _ in range(4)], "total": rng.randrange(10**6) / 100}
        made += [
            (exchanges.call(dump(body)), reply_of(turn, message)),
            (ToolCall("tool_1", arguments), ToolReply(result)),
        ]
        messages += [message, {"role": "tool", "tool_call_id": use["id"], "content": json.dumps(result)}]
    run = run_of(*made, recorded="2026-11-20T10:00:00Z", clock=1_763_632_800_000_000_000, seed=42)
    told = (replace(x, timing=Timing(x.start * 10**6, None, x.start * 10**6 + 812_345)) for x in run.exchanges)
    return replace(run, exchanges=tuple(x for x in told if tools or isinstance(x.call, HttpCall)))


def requests(stored):
    found = [x["request"]["body"] for x in json.loads(stored)["exchanges"] if "request" in x]
    assert all("json" in body for body in found)
    return [body["json"] for body in found]


def first_keys(entries):
    return [next(iter(entry)) for entry in entries]


def test_100_turns_stay_small_in_lines_of_a_screen():
    run = conversation(100, tools=False)
    stored = comes_back(run)
    assert sum(len(x.call.body) + len(x.outcome.body) for x in run.exchanges) > 4_500_000
    assert len(stored.encode()) < 350_000
    assert longest_line(codec.dumps(conversation(5))) <= 120


def test_one_more_turn_is_about_a_hundred_short_lines():
    """The request and reply of a model call, and the tool call that it asked for."""
    run = conversation(31)
    before, now = codec.dumps(replace(run, exchanges=run.exchanges[:-2])), codec.dumps(run)
    diff = [*difflib.unified_diff(text_of_exchanges(before), text_of_exchanges(now), n=0)][2:]
    added = [line for line in diff if line[:1] == "+"]
    removed = [line for line in diff if line[:1] == "-"]
    assert 40 < len(added) <= 130
    assert len(removed) <= 2, "ids do not shift"
    assert max(map(len, added)) <= 121


def test_a_message_stands_in_the_request_that_first_sent_it_and_later_ones_name_runs():
    first, second, third = requests(codec.dumps(conversation(3)))
    assert first_keys(first["messages"]) == ["m1", "m2"]
    assert first_keys(first["tools"]) == [f"t{n}" for n in range(1, 9)]
    assert second["messages"][0] == "m1..m2"
    assert first_keys(second["messages"][1:]) == ["m3", "m4"]
    assert third["messages"][0] == "m1..m4"
    assert third["tools"] == ["t1..t8"]
    assert first["model"] == "gpt-5"


MARK = {"cache_control": {"type": "ephemeral"}}


def mark_last(turn, messages):
    """Anthropic's prompt cache: the mark moves to the newest message, which becomes a list of blocks for it."""
    found = [{**m, "content": [{"type": "text", "text": m["content"]}]} for m in messages]
    found[-1]["content"][0] |= MARK
    return found


def mark_last_string(turn, messages):
    block = {"type": "text", "text": messages[-1]["content"], **MARK}
    return [*messages[:-1], {**messages[-1], "content": [block]}]


def clock(turn, messages):
    lines = messages[0]["content"].split("\n")
    lines.insert(1, f"Now: 2026-11-20T10:{turn // 60:02}:{turn % 60:02}")
    return [{**messages[0], "content": "\n".join(lines)}, *messages[1:]]


def window(turn, messages):
    return [messages[0], *messages[1:][-20:]]


def summary(turn, messages):
    note = {"role": "system", "content": f"Summary {turn // 30}: " + "what was said before. " * 20}
    return [messages[0], note, *messages[1 + turn // 30 * 60 :]]


def memory(turn, messages):
    block = "\n".join(f"- fact {n} holds since turn {n * 3}, noted by the agent" for n in range(turn % 40 + 1))
    return [messages[0], {"role": "system", "content": f"Memory:\n{block}\nEnd."}, *messages[1:]]


def journaled(run):
    journal = JournalWriter()
    return [journal.begin(run.header), *map(journal.exchange, run.exchanges)]


@pytest.mark.parametrize(
    ("change", "most"),
    [(mark_last, 0.8), (mark_last_string, 1.7), (clock, 0.5), (window, 0.4), (summary, 0.4), (memory, 1.1)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_history_that_is_touched_here_and_there_stays_linear_in_file_and_journal(change, most):
    """`most` is in kB a turn, beyond what the untouched conversation costs."""
    plain = conversation(60, tools=False)
    run = conversation(60, change=change, tools=False)
    assert len(comes_back(run).encode()) - len(codec.dumps(plain).encode()) < most * 1000 * 60
    data = b"".join(journaled(run))
    assert read_journal(data) == (run, 0)
    assert len(data) < 9 * len(plain.exchanges[-1].call.body)


def test_a_changed_line_of_a_prompt_is_a_version_that_says_only_that_line():
    first, second, third = requests(codec.dumps(conversation(3, change=clock)))
    assert first_keys(first["messages"]) == ["m1", "m2"]
    version = second["messages"][0]["m1.2"]
    assert version["$like"] == "m1"
    assert version["edits"] == [{"at": ["content"], "lines": [[0, 1], "Now: 2026-11-20T10:00:02", [2, 45]]}]
    assert third["messages"][0]["m1.3"]["$like"] == "m1"
    assert third["messages"][1] == "m2..m4"


def long_line(turn):
    rng = random.Random(4)
    start = f"{prose(rng, 5000)} It is 10:{turn // 60:02}:{turn % 60:02} now."
    return f"{start} {prose(rng, 5000)} This is step {turn}."


def test_a_changed_word_of_a_long_line_is_a_version_that_says_only_that_word():
    bodies = [compact({"messages": [{"role": "user", "content": f"Rules:\n{long_line(n)}\n"}]}) for n in range(3)]
    first, second, third = requests(comes_back(posts(*bodies)))
    assert first_keys(first["messages"]) == ["m1"]
    ((kept, changed, end),) = (e["lines"] for e in second["messages"][0]["m1.2"]["edits"])
    assert (kept, end) == ("Rules:", "")
    (_, begin), (clock, (after, last), step) = changed["pieces"][0], changed["pieces"][1:]
    assert (changed["line"], clock, after, step) == (1, "10:00:01 ", begin + 1, "1.")
    assert last == len(long_line(0).split(" ")) - 1
    assert third["messages"][0]["m1.3"]["$like"] == "m1"


ROWS = compact({"rows": [{"order": f"A-{n}", "state": "shipped"} for n in range(40)], "at": "10:00:0N"}).decode()
JAPANESE = (
    "注文を返金する前に確認してください。合計を超える返金はできません、" * 8
    + "現在は10時00分0Nです。簡潔に答えてください。"
)


@pytest.mark.parametrize("line", [ROWS, JAPANESE], ids=["compact JSON", "Japanese"])
def test_a_line_without_spaces_is_told_by_its_words_too(line):
    prompts = ["Rules:\n" + line.replace("0N", f"0{n}") for n in range(2)]
    _, second = requests(comes_back(posts(*(compact({"system": prompt}) for prompt in prompts))))
    (edit,) = second["system"]["$item"]["s1.2"]["edits"]
    assert len(json.dumps(edit, ensure_ascii=False)) < 120


def test_300_versions_of_a_long_line_add_some_bytes_each():
    stored = comes_back(posts(*(compact({"system": long_line(n)}) for n in range(300))))
    assert len(stored) < 600 * 300


def test_interleaved_conversations_keep_their_own_histories():
    one, two = (conversation(20, seed=seed, tools=False) for seed in (7, 8))
    both = run_of(*((x.call, x.outcome) for pair in zip(one.exchanges, two.exchanges, strict=True) for x in pair))
    assert len(comes_back(both)) < 1.1 * (len(codec.dumps(one)) + len(codec.dumps(two)))


def test_the_same_content_in_two_styles_stands_once():
    long = {"messages": [{"role": "user", "content": "What is the matter? " * 12}], "system": "Be brief. " * 30}
    stored = comes_back(posts(json.dumps(long).encode(), json.dumps(long, indent=4).encode(), compact(long)))
    assert stored.count('"role"') == 1
    assert [body["system"] for body in requests(stored)[1:]] == [{"$item": "s1"}] * 2


def test_big_base64_and_big_binary_bodies_stand_once():
    image = "iVBORw0KGgo" * 40_000
    ask = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64," + image}}]}
    more = (
        [ask, {"role": "assistant", "content": "A cat."}],
        [{"role": "user", "content": "Now?"}, {**ask, "name": "e"}],
    )
    stored = comes_back(posts(*(json.dumps({"messages": messages}).encode() for messages in ([ask], *more))))
    doc = json.loads(stored)
    assert list(doc)[-4:] == ["blobs", "volatile", "recording", "integrity"]
    ((name, lines),) = doc["blobs"].items()
    assert "".join(lines) == image
    assert {len(line) for line in lines[:-1]} == {108}
    assert len(stored) < 1.08 * len(image)
    assert stored.count(name) == 3
    assert longest_line(stored) <= 120
    small = bytes(range(256))
    big = small * 40
    assert len(comes_back(run_of(*((post(data), reply(big)) for data in (big, small, big))))) < 1.75 * len(big)


def test_the_journal_survives_a_kill_at_any_byte_of_its_last_record():
    run = conversation(20)
    lines = journaled(run)
    data = b"".join(lines)
    assert read_journal(data) == (run, 0)
    for torn in range(1, len(lines[-1]), 97):
        rest, dropped = read_journal(data[:-torn])
        assert rest == replace(run, exchanges=run.exchanges[:-1])
        assert dropped == len(lines[-1]) - torn


def test_a_journal_without_a_header_holds_no_run():
    begun, first, second = journaled(conversation(1))
    header = read_journal(begun)[0].header
    assert read_journal(b"") == (None, 0)
    assert read_journal(first + second) == (None, 0)
    assert read_journal(b"12 nonsense") == (None, 11)
    assert read_journal(begun + b"2 44136fa3 {}\n")[1] == 14
    assert read_journal(begun + begun.replace(b"header", b"HEADER")) == (Run(header), len(begun))


def test_in_a_journal_the_later_record_counts():
    journal, blob = JournalWriter(), "QUJD" * 2000
    waiting = Exchange(ToolCall("f", {"image": blob}), None, 1, None)
    done = replace(waiting, finish=2)
    data = journal.begin(Header("a")) + journal.exchange(waiting) + journal.begin(Header("b")) + journal.exchange(done)
    assert read_journal(data) == (Run(Header("b"), (done,)), 0)
    assert data.count(blob[:108].encode()) > 1
    assert len(data) < 1.3 * len(blob)


def test_records_of_a_journal_that_say_nothing_sensible_end_it():
    begun = JournalWriter().begin(Header("t"))

    def record(value):
        payload = json.dumps(value).encode()
        return b"%d %s %s\n" % (len(payload), hashlib.sha256(payload).hexdigest()[:8].encode(), payload)

    def http(body):
        return {"exchange": {"order": [1, 2], "request": {"method": "GET", "url": "http://a/", "body": body}}}

    fine = record(http({"parts": ["x"]}))
    assert read_journal(begun + fine)[1] == 0
    parts = [5, [5], [["x", 1]], [{"hex": "00"}]]
    exchange = http({"parts": ["x"]})["exchange"]
    odd = [[], 5, {}, {"exchange": 5}, {"blobs": 5, "exchange": exchange}]
    for bad in (*odd, http({"text": "x"}), *(http({"parts": one}) for one in parts)):
        assert read_journal(begun + record(bad) + fine) == (Run(Header("t")), len(record(bad)) + len(fine))


def test_a_history_that_lost_its_last_block_says_what_is_gone_and_a_huge_text_is_not_compared_by_lines():
    blocks = [{"type": "text", "text": f"Part {n} of what was said before, in some words."} for n in range(6)]
    histories = (blocks, blocks[:4], [*blocks, blocks[0]])
    bodies = [json.dumps({"messages": [{"role": "user", "content": part}]}).encode() for part in histories]
    _, shorter, longer = requests(comes_back(posts(*bodies)))
    gone = [{"at": ["content", n], "gone": True} for n in (5, 4)]
    assert shorter["messages"][0]["m1.2"]["edits"] == gone
    assert longer["messages"][0]["m1.3"]["edits"] == [{"at": ["content", 6], "now": blocks[0]}]
    rows = [f"row {n} of the table" for n in range(2000)]
    other = ["head", *(f"{row}." if n % 2 else row for n, row in enumerate(rows)), "tail"]
    comes_back(posts(*(json.dumps({"system": "\n".join(lines)}).encode() for lines in (rows, other))))
