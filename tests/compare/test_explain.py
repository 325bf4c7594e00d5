from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pytest_agentreplay.backends.backend import Moment, Refused
from pytest_agentreplay.backends.replay import ReplayPolicy
from pytest_agentreplay.compare import diagnose
from pytest_agentreplay.compare.diagnose import results
from pytest_agentreplay.compare.diagnose.progress import ReplayProgress
from pytest_agentreplay.compare.matching import Matching
from pytest_agentreplay.compare.tolerance import TolerancePolicy
from pytest_agentreplay.model.divergence import Kind
from pytest_agentreplay.model.exchanges import Body, Failure, Header, HttpCall, HttpReply, ToolCall, ToolReply
from pytest_agentreplay.model.rules import Rule
from pytest_agentreplay.providers import READER, RULES
from tests.support.backends import replayer
from tests.support.written_runs import JSON, Book, chat, completion

ASK = {"role": "user", "content": "Where is order 7?"}


class Shop:
    """Turn 1 asks for two tools, turn 2 answers: model, lookup, stock, model."""

    def __init__(self, writing):
        self.writing = writing
        self.system = {"role": "system", "content": writing.SYSTEM}
        self.uses = [("call_0001", "lookup", {"id": 7}), ("call_0002", "stock", {"sku": "A-1"})]
        self.said = json.loads(writing.completion("", self.uses).body.data)["choices"][0]["message"]
        book = writing.Book()
        self.first = book.model(self.opening(), writing.completion("", self.uses))
        self.lookup = book.tool("lookup", {"status": "in transit", "eta": "Tuesday"}, id=7)
        self.stock = book.tool("stock", 3, sku="A-1")
        self.second = book.model(self.closing(), writing.completion("It is in transit."))
        self.run = book.run()

    def opening(self, text="Where is order 7?", system=None):
        return [{"role": "system", "content": system or self.system["content"]}, {"role": "user", "content": text}]

    def closing(self, lookup='{"status": "in transit", "eta": "Tuesday"}', stock="3", said=None):
        results = [("call_0001", lookup), ("call_0002", stock)]
        tools = [{"role": "tool", "tool_call_id": i, "content": text} for i, text in results if text is not None]
        return [*self.opening(), said or self.said, *tools]

    def miss(self, call, *served, lane="main", **options):
        return diagnose.explain_miss(ReplayProgress(self.run, READER, {x.start for x in served}), call, lane, **options)


@pytest.fixture
def shop(writing):
    return Shop(writing)


def missed(call, *recorded, served=(), **options):
    """What is told of a call, behind calls or pairs of call and outcome of which `served` have been made."""
    book = Book()
    for one in recorded:
        asked, outcome = one if isinstance(one, tuple) else (one, None)
        book.add(asked, outcome or (ToolReply(1) if isinstance(asked, ToolCall) else completion("ok")))
    return diagnose.explain_miss(
        ReplayProgress(book.run(), READER, {2 * number for number in served}), call, "main", **options
    )


def get(url):
    return HttpCall("GET", url, (), Body(b""))


def posted(url, **body):
    return HttpCall("POST", url, JSON, Body(json.dumps(body).encode()))


def asking(text):
    return chat([{"role": "user", "content": text}])


def paths(divergence):
    return [one.path for one in divergence.differences]


# A model call that differs.


GUARD = {"role": "system", "content": "You are a guard. Answer yes or no."}
SAFE = {"role": "user", "content": "Is this safe? Where is order 7?"}
SUMMARY = {"role": "assistant", "content": "Summary: one order"}
HM = {"role": "assistant", "content": "Hm"}
PIRATE = "Speak like a pirate."
OTHER_URL = "https://api.other.test/v1/chat/completions"
BETA = (*JSON, ("openai-beta", "x"))
DELAYED = '{"status": "delayed", "eta": "Tuesday"}'
OTHER_WORDS = "the agent reports a tool result in other words"
EXTRA = "called, which is not recorded here"


def credit(shop):
    return shop.system["content"].replace("refund", "credit")


def with_currency(tools):
    changed = json.loads(json.dumps(tools))
    changed[1]["function"]["parameters"]["properties"]["currency"] = {"type": "string"}
    return changed


def history(edit):
    return lambda shop, chat: chat(edit(shop.closing()))


def tool(name, **arguments):
    return lambda shop, chat: ToolCall(name, arguments)


# name: the call, made behind so many of the recorded ones; kind, turn and counterpart; words of what is told
DIFFER = {
    "system prompt": (lambda s, chat: chat(s.opening(system=credit(s))), 0, Kind.PROMPT, 1, 0,
        "model gpt-x: system text $.messages[0].content changed, line 3: refund -> credit"),
    "user message": (lambda s, chat: chat(s.opening("Where is it?")), 0, Kind.PROMPT, 1, 0,
        "model gpt-x: user text $.messages[1]"),
    "one more message": (lambda s, chat: chat([*s.opening(), SAFE]), 0, Kind.PROMPT, 1, 0, "user text messages[2] added"),
    "model": (lambda s, chat: chat(s.opening(), model="gpt-y"), 0, Kind.MODEL, 1, 0, "$.model changed, gpt-x -> gpt-y"),
    "parameter": (lambda s, chat: chat(s.opening(), temperature=0.7), 0, Kind.MODEL, 1, 0, "$.temperature added"),
    "url": (lambda s, chat: chat(s.opening(), url=OTHER_URL), 0, Kind.MODEL, 1, 0,
        "url changed, ...ps://api.openai.com/v1/cha... -> ...ps://api.other.test/v1/cha..."),
    "field of an SDK": (lambda s, chat: chat(s.opening(), prompt_cache_retention="24h"), 0, Kind.SDK, 1, 0,
        "$.prompt_cache_retention added"),
    "header of an SDK": (lambda s, chat: chat(s.opening(), headers=BETA), 0, Kind.SDK, 1, 0, "headers.openai-beta added"),
    "tool schema": (lambda s, chat: chat(s.opening(), tools=with_currency(s.writing.TOOLS)), 0, Kind.SCHEMA, 1, 0,
        "model gpt-x: tool refund: $.tools[1].function.parameters.properties.currency added"),
    "order of tools": (lambda s, chat: chat(s.opening(), tools=s.writing.TOOLS[::-1]), 0, Kind.SCHEMA, 1, 0,
        "model gpt-x: $.tools came in another order", "Sort them before they are sent", "PYTHONHASHSEED=0"),
    "no tools": (lambda s, chat: chat(s.opening(), tools=...), 0, Kind.SCHEMA, 1, 0, "$.tools"),
    "no tools, other words": (lambda s, chat: chat(s.opening("Else"), tools=...), 0, Kind.SCHEMA, 1, 0, "$.tools"),
    "prompt, fewer tools": (lambda s, chat: chat(s.opening(system=PIRATE), tools=s.writing.TOOLS[:1]), 0, Kind.SCHEMA, 1, 0,
        "$.tools"),
    "another prompt": (lambda s, chat: chat(s.opening(system=PIRATE)), 0, Kind.PROMPT, 1, 0, "$.messages[0].content"),
    "no prompt": (lambda s, chat: chat(s.opening()[1:]), 0, Kind.HISTORY, 1, 0, "messages[0] dropped"),
    "three sections": (lambda s, chat: chat(s.opening("else"), store=True, temperature=0), 0, Kind.MODEL, 1, 0,
        "$.temperature: ", "$.messages[1].content: ", "$.store: "),
    "tool result": (history(lambda m: [*m[:3], m[3] | {"content": DELAYED}, m[4]]), 3, Kind.HISTORY, 2, 3, OTHER_WORDS,
        'the recorded text "in transit" came from tool lookup (turn 1, call 2)'),
    "JSON of a tool result": (lambda s, chat: chat(s.closing('{"eta":"Tuesday","status":"in transit"}')), 3, Kind.HISTORY, 2, 3,
        "the same JSON, written otherwise"),
    "fewer messages": (history(lambda m: m[:1] + m[3:]), 3, Kind.HISTORY, 2, 3, "messages[1..2] dropped", "fewer"),
    "a summary": (history(lambda m: [m[0], SUMMARY, *m[3:]]), 3, Kind.HISTORY, 2, 3, "messages[1] dropped", "gave way"),
    "more messages": (history(lambda m: [*m, HM]), 3, Kind.HISTORY, 2, 3, "messages[5] added", "does not have"),
    "own words": (history(lambda m: [*m[:2], m[2] | {"content": "Let me see"}, *m[3:]]), 3, Kind.HISTORY, 2, 3,
        "assistant message $.messages[2].content", "rewrites"),
    "moved": (history(lambda m: [*m[:3], m[4], m[3]]), 3, Kind.HISTORY, 2, 3, "reordered [1, 2, 3, 5, 4]", "another order"),
    "arguments": (tool("lookup", id=8), 1, Kind.ARGS, 1, 1, "tool lookup: $.id changed, 7 -> 8",
        "asked for the recorded arguments"),
    "arguments of the second tool": (tool("stock", sku="A-2"), 2, Kind.ARGS, 1, 2, "$.sku changed"),
    "another tool": (tool("refund", id=7), 1, Kind.TOOL, 1, 1, "tool refund called instead of tool lookup",
        "asked for lookup, stock", ': tool lookup {"id":7} -> tool refund {"id":7}'),
    "a tool too many": (tool("refund", id=7), 3, Kind.EXTRA, 1, 3, "tool refund"),
    "a tool again": (tool("lookup", id=7), 3, Kind.EXTRA, 1, 1, "answered in turn 1 already"),
    "a tool after the end": (tool("refund", id=7), 4, Kind.EXTRA, 2, None, "tool refund"),
    "a request again": (lambda s, chat: s.first.call, 3, Kind.EXTRA, 1, 0, "the very same call was answered in turn 1"),
    "a request after the end": (history(lambda m: [*m, HM, SAFE]), 4, Kind.EXTRA, 2, None, "ABSENT -> ", "Is this safe?"),
    "a tool left out": (lambda s, chat: chat(s.closing(stock=None)), 2, Kind.MISSING, 1, 2,
        "tool stock was not called before model gpt-x"),
    "two tools left out": (lambda s, chat: chat(s.closing(stock=None)), 1, Kind.MISSING, 1, 1,
        "not called either: turn 1, tool stock"),
    "guard": (lambda s, chat: chat([GUARD, SAFE], tools=...), 0, Kind.EXTRA, 0, 0, EXTRA),
    "guard in the middle": (lambda s, chat: chat([GUARD, SAFE], tools=...), 3, Kind.EXTRA, 1, 3, EXTRA),
    "guard of the same text": (lambda s, chat: chat([GUARD, s.opening()[1]], tools=...), 3, Kind.EXTRA, 1, 3, EXTRA),
    "the text alone": (lambda s, chat: chat([s.opening()[1]], tools=...), 3, Kind.EXTRA, 1, 3, EXTRA),
    "title": (lambda s, chat: chat([SAFE], tools=..., model="small"), 0, Kind.EXTRA, 0, 0, EXTRA),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFER)
def test_a_call_that_differs_is_told_by_kind_turn_counterpart_and_words(shop, writing, name):
    make, served, kind, turn, counterpart, *words = DIFFER[name]
    call = make(shop, writing.chat)
    found = shop.miss(call, *shop.run.exchanges[:served])
    assert (found.kind, found.turn, found.turns, found.positions, found.now) == (kind, turn, 2, 4, call)
    assert found.recorded == (None if counterpart is None else shop.run.exchanges[counterpart])
    assert kind is Kind.EXTRA or found.position == counterpart + 1
    told = [found.summary, found.cause, *found.detail]
    told += [f"{one.path}: {one.recorded} -> {one.now}" for one in found.differences]
    assert [word for word in words if not any(word in line for line in told)] == []
    if kind in {Kind.MODEL, Kind.SDK}:
        assert bool(found.hints) == (kind is Kind.SDK)


def test_a_tool_result_of_a_tool_that_was_not_frozen(shop, writing):
    run = replace(shop.run, exchanges=(shop.first, shop.second))
    call = writing.chat(shop.closing(lookup='{"status": "delayed", "eta": "Tuesday"}'))
    found = diagnose.explain_miss(ReplayProgress(run, READER, {shop.first.start}), call, "main")
    assert found.kind is Kind.RESULT
    assert "agentreplay_tools" in found.hints[0]


def test_a_result_is_that_of_a_frozen_function_under_another_name_where_the_arguments_are_those_of_the_model(shop):
    now = chat(shop.closing('Result: {"status": "in transit", "eta": "Tuesday"}'))
    for arguments, kind in (
        ({"id": 7}, Kind.HISTORY),
        ({"number": 7, "deep": False}, Kind.HISTORY),
        ({"id": 8}, Kind.RESULT),
    ):
        exchanges = [
            replace(x, call=ToolCall("_find", arguments)) if x.start == shop.lookup.start else x
            for x in shop.run.exchanges
        ]
        served = {x.start for x in (shop.first, shop.lookup, shop.stock)}
        found = diagnose.explain_miss(
            ReplayProgress(replace(shop.run, exchanges=tuple(exchanges)), READER, served), now, "main"
        )
        assert found.kind is kind, arguments


NOISE = [
    ("It is 2026-11-02T10:00:00Z.", "It is 2026-11-20T18:01:07.5Z.", "a clock"),
    ("Today is Monday, 2 November 2026", "Today is Friday, 20 November 2026", "a clock"),
    ("at 1762077600", "at 1763661600", "a clock"),
    ("run 0b9f3c1e-0000-4000-8000-000000000001", "run 7c9f3c1e-1111-4000-8000-00000000000f", "a uuid"),
    ("see /tmp/abc1/out.txt", "see /tmp/xyz9/out.txt", "a place"),
    ("http://localhost:43121/x", "http://localhost:39001/x", "a port"),
    ("object at 0x7f00aa11bb22", "object at 0x7f99aa11bb33", "a random id"),
    ("session sess_a8Kd92jfLs01", "session sess_Qp02kd83Ls9x", "a random id"),
    ("call pyd_ai_2155ddd4a1b24c6f", "call pyd_ai_48354cfba1b24c6e", "a random id"),
    ("tags {'new', 'eu'} here", "tags {'eu', 'new'} here", "the order of a set"),
    ("tags: new; eu; vip.", "tags: vip; new; eu.", "the order of a set"),
    ("tags:\n- new\n- eu\nThat is all.", "tags:\n- eu\n- new\nThat is all.", "the order of a set"),
    ("I am {{user}} on {{host}}.", "I am root on {{host}}.", "a place"),
    ("I am root on {{host}}.", "I am {{user}} on {{host}}.", "a place"),
    ("see {{tempdir}}/tmpab1cd/x", "see {{tempdir}}/tmp_zz9/x", "a place"),
    ("/tmp/a1 at 10:00:01", "/tmp/b2 at 10:00:02", "a place and a clock"),
    ("Look the order up.\nThen refund it.", "Then refund it.\nLook the order up.", ""),
    ("{{user}}", "a whole other text", ""),
    ("I am {{user}}.", "You are root.", ""),
    ("see {{root}}/a.md", "see {{root}}/b.md", ""),
    ("first one then two", "first two then one", ""),
    ("rows:  a,  b,  c", "rows:\n\na,\n\nb,\n\nc", ""),
]


CAUSES = {
    "edited": ("You are brief.", "You are short.", "the prompt was edited"),
    "chunks": ("Context:\n[0] Bikes have wheels.\n[1] Bells are loud.", "Context:\n[0] Bells are loud.\n[1] Bikes have wheels.",
        "the same words in another order"),
    "on one line": ("Read blue. Read red.", "Read red. Read blue.", "the same words in another order"),
    "numbers": ("Rows: 17 and 4", "Rows: 4 and 17", "the same words in another order"),
    "fewer items": ("3 mails: rent, tax, gym", "2 mails: rent, tax", "the prompt was edited, or the same items came in other"),
    "more items": ("17\n18", "17\n18\n19", "the prompt was edited, or the same items came in other batches"),
}  # fmt: skip
"""A text as recorded and now, and how the likely cause of the difference begins."""


@pytest.mark.parametrize("name", CAUSES)
def test_the_cause_of_another_prompt_is_no_edit_where_it_may_be_the_order_or_the_batch_of_its_parts(name):
    recorded, now, cause = CAUSES[name]
    found = missed(asking(now), asking(recorded))
    assert (found.kind, found.cause[: len(cause)]) == (Kind.PROMPT, cause)


def test_what_follows_a_frozen_tool_may_be_state_that_the_tool_changes():
    recorded, now = asking("It ran 1 times, seen ['Bern']"), asking("It ran 0 times, seen []")
    behind_a_tool = missed(now, ToolCall("look", {}), recorded, served=(0,))
    assert behind_a_tool.cause.startswith(
        "state that a frozen tool changes, whose code does not run in a replay; or else"
    )
    assert "state" not in missed(now, asking("Hi"), recorded, served=(0,)).cause
    # What a reply holds and no tool was given is the same in a replay.
    reply = asking("Hi"), completion("Bern is the seat of the government")
    recorded, now = asking("It is: Bern is the seat of the government"), asking("It is: Bern")
    assert "state" not in missed(now, reply, ToolCall("look", {}), recorded, served=(0, 1)).cause
    keep = ToolCall("keep", {"text": "Bern is the seat of the government"})
    assert "state" in missed(now, reply, keep, recorded, served=(0, 1)).cause


def test_what_changes_in_every_run_is_called_noise_and_what_an_author_changed_is_not():
    for recorded, now, name in NOISE:
        found = missed(asking(now), asking(recorded))
        assert found.kind is (Kind.NOISE if name else Kind.PROMPT), now
        assert not name or (f"look like {name}:" in found.cause and found.hints == ()), now


def test_noise_in_arguments_is_told_as_such():
    log = ToolCall("log", {"at": 1762077600.5, "tags": ["b", "a"]})
    found = missed(ToolCall("log", {"at": 1763661600.25, "tags": ["a", "b"]}), log)
    assert found.kind is Kind.NOISE
    assert "a clock and the order of a set" in found.cause
    assert found.hints[0] == "or do not compare it: agentreplay_ignore = $.at = a clock and the order of a set"
    real = missed(ToolCall("log", {"at": 1763661600.25, "tags": ["c"]}), log)
    assert (real.kind, paths(real)[0]) == (Kind.ARGS, "$.tags[0]")


UUIDS = ANN, BOB, EVE = [f"{digit * 8}-0000-4000-8000-00000000000{digit}" for digit in "abe"]
COMMITS = "3f2a9c1d" * 5, "9d1c2f3a" * 5
AZURE = "https://x.openai.azure.com/openai/deployments"


def header(name, value):
    return HttpCall("GET", "https://notes.test/v1/pages", ((name, value),), Body(b""))


# name: both calls, and the kind of what differs between them
SETTINGS = {
    "model": (chat([ASK], model="gpt-4o-2024-08-06"), chat([ASK], model="gpt-4o-2024-05-13"), Kind.MODEL),
    "deployment": (*(chat([ASK], url=f"{AZURE}/{uuid}/chat/completions") for uuid in UUIDS[:2]), Kind.MODEL),
    "version in the query": (*(chat([ASK], url=f"{AZURE}/x/chat/completions?api-version={day}")
        for day in ("2024-10-21", "2025-01-01-preview")), Kind.MODEL),
    "version of an unknown endpoint": (*(posted(f"https://x.openai.azure.com/openai/x?n=1&api-version={day}")
        for day in ("2024-10-21", "2025-01-01-preview")), Kind.MODEL),
    "version of another service": (*(posted(f"https://management.azure.com/x?api-version={day}")
        for day in ("2024-10-21", "2025-01-01")), Kind.REQUEST),
    "port of a host": (*(chat([ASK], url=f"https://m.test:{port}/v1/chat/completions") for port in (8443, 9443)), Kind.MODEL),
    "version in the path": (*(posted(f"https://lambda.test/{day}/functions/f", n=1) for day in ("2015-03-31", "2014-11-11")),
        Kind.REQUEST),
    "version in a header": (header("openai-version", "2025-09-03"), header("openai-version", "2022-06-28"), Kind.REQUEST),
    "version of a model's API": (*(chat([ASK], headers=(*JSON, ("anthropic-version", day)))
        for day in ("2023-06-01", "2023-01-01")), Kind.MODEL),
    "version in the body": (*(chat([ASK], anthropic_version=f"bedrock-{day}") for day in ("2023-05-31", "2024-05-31")),
        Kind.MODEL),
    "version in JSON in a text": (*(asking(f'{{"apiVersion": "{day}"}}') for day in ("2023-05-31", "2024-05-31")), Kind.PROMPT),
    "a model's name in a text": (*(asking(f"Ask gpt-4o-{day}") for day in ("2024-08-06", "2024-05-13")), Kind.PROMPT),
    "model of a tool": (*(ToolCall("ask", {"judge": {"model": f"ep-{name}"}}) for name in ("a1b2c3d4e5f6g7", "h1b2c3d4e5f6g7")),
        Kind.ARGS),
    "commit": (*(ToolCall("checkout", {"ref": commit}) for commit in COMMITS), Kind.ARGS),
    "short commit": (*(asking(f"Review commit {commit[:8]}") for commit in COMMITS), Kind.PROMPT),
}  # fmt: skip


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_is_no_noise(name):
    recorded, now, kind = SETTINGS[name]
    matching = Matching(READER, RULES, also={"openai-version", "anthropic-version"})
    book = Book()
    book.add(recorded, completion("ok"))
    found = diagnose.explain_miss(ReplayProgress(book.run(), READER, (), matching), now, "main")
    assert (found.kind, [hint for hint in found.hints if "ignore" in hint]) == (kind, [])


def test_two_long_addresses_are_cut_around_what_differs():
    recorded, now, _ = SETTINGS["version of an unknown endpoint"]
    book = Book()
    book.add(recorded, completion("ok"))
    summary = diagnose.explain_miss(
        ReplayProgress(book.run(), READER, (), Matching(READER, RULES)), now, "main"
    ).summary
    assert summary.endswith("url changed, ...ersion=2024-10-21&n=1 -> ...ersion=2025-01-01-preview&n=1")


def refund(customer):
    return posted("https://shop.test/refund", customer=customer)


# name: what was recorded before, the recorded call and that of now; kind, and a word of the cause
IN_THE_RUN = {
    "both in a request": (asking(f"{ANN} or {BOB}"), refund(ANN), refund(BOB), Kind.REQUEST, "another value of this run"),
    "both in a reply": ((asking("Who?"), completion(f"{ANN} or {BOB}")), refund(ANN), refund(BOB), Kind.REQUEST, "of this run"),
    "both in a tool's result": ((ToolCall("list"), ToolReply([{"id": ANN}, {"id": BOB}])), refund(ANN), refund(BOB),
        Kind.REQUEST, "of this run"),
    "only the recorded one": (asking(f"{ANN}"), refund(ANN), refund(EVE), Kind.REQUEST, "occurs earlier in this run"),
    "in a prompt": (asking(f"{ANN} or {BOB}"), asking(f"Refund {ANN}"), asking(f"Refund {BOB}"), Kind.PROMPT, "of this run"),
    "an id that a reply minted": ((asking("Who?"), completion("", [("call_a1b2c3d4e5f6", "a", {}), ("call_f6e5d4c3b2a1", "b", {})])),
        refund("call_a1b2c3d4e5f6"), refund("call_f6e5d4c3b2a1"), Kind.REQUEST, "of this run"),
    "dates": (asking("From 2025-01-10 to 2025-01-12"), ToolCall("book", {"on": "2025-01-10"}),
        ToolCall("book", {"on": "2025-01-12"}), Kind.ARGS, "your code"),
    "none": (asking("Hi"), refund(ANN), refund(BOB), Kind.NOISE, "a uuid"),
    "the recorded one later": (asking("Hi"), asking(f"run {ANN}"), asking(f"run {BOB}"), Kind.NOISE, "a uuid"),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_THE_RUN)
def test_a_value_that_occurred_before_in_the_run_is_no_noise(name):
    before, recorded, now, kind, cause = IN_THE_RUN[name]
    found = missed(now, before, recorded, (asking("bye"), completion(ANN)), served=(0,))
    assert (found.kind, cause in found.cause) == (kind, True), found.cause
    assert any("ignore" in hint for hint in found.hints) == (kind is Kind.NOISE and recorded == refund(ANN))


@pytest.mark.parametrize(("day", "kind"), [("2026-11-28", Kind.NOISE), ("1990-03-04", Kind.REQUEST)])
def test_a_date_is_noise_only_around_the_day_of_the_recording(day, kind):
    book = Book()
    book.add(refund(day), completion("ok"))
    run = replace(book.run(), header=Header("t.py::t", recorded="2026-11-28T09:00:00+00:00"))
    found = diagnose.explain_miss(ReplayProgress(run, READER, set(), Matching(READER)), refund("2026-11-29"), "main")
    assert found.kind is kind, found


def test_what_is_not_compared_makes_no_value_known():
    matching = Matching(READER, [*RULES, Rule("http", "body", "$.metadata.run", "drop", "changes")])
    book = Book()
    first = book.add(chat([ASK], metadata={"run": ANN}), completion("ok"))
    book.add(asking(f"run {ANN}"), completion("ok"))
    found = diagnose.explain_miss(
        ReplayProgress(book.run(), READER, {first.start}, matching), asking(f"run {BOB}"), "main"
    )
    assert found.kind is Kind.NOISE


def test_the_nearest_call_of_that_name_is_the_counterpart_and_nobody_asked_for_it():
    far, near, now = (ToolCall("put", dict(zip("abc", values, strict=True))) for values in ("123", "567", "568"))
    found = missed(now, far, near)
    assert found.recorded.call == near
    assert "your code makes other arguments" in found.cause


def test_children_never_count(writing):
    book = writing.Book()
    outer = book.tool("outer", 1)
    book.tool("inner", 2)
    book.exchanges[-1] = replace(book.exchanges[-1], parent=outer.start)
    found = diagnose.explain_miss(
        ReplayProgress(book.run(), READER, {outer.start}), ToolCall("inner", {"x": 1}), "main"
    )
    assert found.kind is Kind.EXTRA
    assert diagnose.explain_missing(ReplayProgress(book.run(), READER, {outer.start})) is None


# Calls left out, calls too many, calls in another order.


ANY_AWS = "in CI set any AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
ASKED_FOR_CREDENTIALS = {
    "http://169.254.169.254/latest/api/token": ANY_AWS,
    "http://169.254.169.254:80/latest/meta-data/iam/security-credentials/": ANY_AWS,
    "http://[fd00:ec2::254]/latest/api/token": ANY_AWS,
    "http://169.254.170.2/v2/credentials/1": ANY_AWS,
    "http://169.254.170.23/v1/credentials": ANY_AWS,
    "http://169.254.169.254/": "in CI set GOOGLE_APPLICATION_CREDENTIALS",
    "http://metadata.google.internal/computeMetadata/v1/instance/": "in CI set GOOGLE_APPLICATION_CREDENTIALS",
    "http://169.254.169.254/metadata/identity/oauth2/token?resource=a": "record with AZURE_CLIENT_ID, AZURE_TENANT_ID",
    "http://169.254.1.1/latest/api/token": "",
    "http://metadata.shop.test/": "",
    "http://shop.test/?to=http://169.254.169.254/latest/": "",
}


@pytest.mark.parametrize(("url", "advice"), ASKED_FOR_CREDENTIALS.items())
def test_a_request_to_the_service_that_hands_out_credentials_says_that_there_are_none(url, advice):
    found = missed(get(url), asking("Hi"))
    assert (found.kind is Kind.CREDENTIALS) is bool(advice)
    assert found.summary.startswith(f"no credentials here: {advice}") is bool(advice)
    recorded = (get("https://portal.sso.eu-west-1.amazonaws.com/federation/credentials?role_name=a"), HttpReply(200))
    if advice == ANY_AWS and "latest" in url:  # any key would leave out the recorded request
        assert "AWS_SESSION_TOKEN, and record" in missed(get(url), recorded).summary


def test_a_left_out_model_call(writing):
    run = writing.conversation(6, recorded=False)
    models = list(run.exchanges)
    body = json.loads(models[3].call.body.data)
    call = writing.chat([*body["messages"], {"role": "user", "content": "!"}])
    found = diagnose.explain_miss(ReplayProgress(run, READER, {models[0].start, models[1].start}), call, "main")
    assert (found.kind, found.recorded) == (Kind.MISSING, models[2])


def test_requests_to_no_model_are_told_by_what_differs_and_by_its_hash_where_it_is_binary():
    rates, files = posted("https://rates.test/v1", n=1), HttpCall("GET", "https://files.test/a", (), Body(b"\xff\x00"))
    embedded = posted("https://a.test/v1/embeddings", model="e", input=["late orders"])
    recorded = [(call, HttpReply(200)) for call in (rates, files, embedded)]
    found = missed(posted("https://rates.test/v1", n=2), *recorded)
    assert (found.kind, found.recorded.call, found.turn, found.position) == (Kind.REQUEST, rates, 0, 1)
    assert "$.n changed, 1 -> 2" in found.summary
    assert missed(posted("https://else.test/v1", n=2), *recorded).kind is Kind.REQUEST
    assert "sha256" in missed(replace(files, body=Body(b"\xff\x01")), *recorded).differences[0].recorded
    assert missed(HttpCall("GET", "https://new.test/z", (), Body(b"")), *recorded).kind is Kind.EXTRA
    words = missed(posted("https://a.test/v1/embeddings", model="e", input=["old orders"]), *recorded)
    assert (words.kind, paths(words)) == (Kind.REQUEST, ["$.input[0]"]), "words that are embedded are no prompt"
    assert words.summary.startswith("embeddings e: ")


API, SHOP = "https://api.openai.com/v1", "https://shop.test/v1"
INSERTED = {
    "moderation": posted(f"{API}/moderations", model="omni", input="q"),
    "embeddings": posted(f"{API}/embeddings", model="e", input=["q"]),
    "file": posted(f"{API}/files", purpose="batch"),
    "tokens": posted(f"{API}/chat/completions/count", model="gpt-x", messages=[ASK]),
    "models": get(f"{API}/models"),
    "health": get("https://api.openai.com/health"),
}


@pytest.mark.parametrize("name", INSERTED)
def test_a_request_of_another_kind_before_a_model_call_was_put_in(name):
    call, more = INSERTED[name], chat([ASK, HM, SAFE])
    first, middle, last = (missed(call, chat([ASK]), more, served=served) for served in ((), (0,), (0, 1)))
    assert [(each.kind, each.turn) for each in (first, middle, last)] == [
        (Kind.EXTRA, 0),
        (Kind.EXTRA, 1),
        (Kind.EXTRA, 2),
    ]
    assert [EXTRA in each.summary for each in (first, middle, last)] == [True, True, False]
    assert missed(call, chat([ASK]), replace(call, body=Body(b'{"input": "a"}')), served=()).kind is Kind.EXTRA


ENDPOINTS = {
    "another API": (chat([ASK]), posted(f"{API}/responses", model="gpt-x", input=[ASK]), Kind.MODEL),
    "another base path": (chat([ASK]), chat([ASK], url="https://proxy.test/openai/chat/completions"), Kind.MODEL),
    "a path that nobody reads": (*(posted(f"https://m.test/{path}", model="m", messages=[ASK]) for path in ("api/chat", "chat")),
        Kind.MODEL),
    "another id": (get(f"{SHOP}/orders/7"), get(f"{SHOP}/orders/8"), Kind.REQUEST),
    "another version": (get(f"{SHOP}/orders"), get("https://shop.test/v2/orders"), Kind.REQUEST),
    "another host": (get(f"{SHOP}/orders"), get("https://other.test/v1/orders"), Kind.REQUEST),
    "another method": (posted(f"{SHOP}/orders", n=1), replace(posted(f"{SHOP}/orders", n=1), method="PUT"), Kind.REQUEST),
    "a tool's health check": (get(f"{SHOP}/orders/7"), get(f"{SHOP}/health"), Kind.EXTRA),
    "a tool's list": (posted(f"{SHOP}/orders", n=1), get(f"{SHOP}/orders"), Kind.EXTRA),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDPOINTS)
def test_an_address_that_changed_is_no_request_that_was_put_in(name):
    recorded, now, kind = ENDPOINTS[name]
    assert missed(now, recorded).kind is kind


def test_ids_that_a_client_makes_are_no_differences(writing):
    def call(number, tool):
        return posted("https://mcp.test/mcp", jsonrpc="2.0", id=number, method="tools/call", params={"name": tool})

    assert paths(missed(call(9, "b"), (call(1, "a"), HttpReply(200)))) == ["call"]
    first, again = (posted("https://mcp.test/mcp", jsonrpc="2.0", id=number, method="tools/list") for number in (1, 2))
    found = missed(again, (first, HttpReply(200)))
    assert (found.kind, found.summary) == (Kind.REQUEST, "mcp tools/list: the same request, written otherwise")
    fragment = chat([ASK], url=writing.URL + "#x")
    assert "the same call, written otherwise" in missed(fragment, chat([ASK])).summary


def test_what_is_not_compared_is_no_difference(shop, writing):
    matching = Matching(READER, [*RULES, Rule("http", "body", "$.metadata.trace", "drop", "changes")])
    run = replace(shop.run, exchanges=(replace(shop.first, call=writing.chat(shop.opening(), metadata={"trace": 1})),))
    call = writing.chat(shop.opening("else"), metadata={"trace": 2})
    assert paths(diagnose.explain_miss(ReplayProgress(run, READER, (), matching), call, "main")) == [
        "$.messages[1].content"
    ]


def test_an_empty_recording_and_a_lane_that_it_does_not_know(shop, writing):
    found = missed(chat([ASK]))
    assert (found.kind, found.turns, found.positions, found.lane) == (Kind.EXTRA, 0, 0, "main")
    found = shop.miss(writing.chat(shop.opening("else")), lane="main.4")
    assert (found.kind, found.lane, found.who) == (Kind.PROMPT, "main", "")


def test_a_long_prompt_of_a_call_that_was_given_up_is_told_in_few_words(shop, writing):
    system = "\n".join(f"rule {i}: " + "be kind " * 20 for i in range(300))
    asked = replace(shop.first, call=writing.chat(shop.opening(system=system)), outcome=GIVEN_UP)
    call = writing.chat(shop.opening(system=system.replace("rule 200: be kind", "rule 200: be stern")))
    found = diagnose.explain_miss(ReplayProgress(replace(shop.run, exchanges=(asked,)), READER, ()), call, "main")
    assert found.kind is Kind.PROMPT
    assert found.summary.endswith("line 201: kind -> stern")


def test_what_comes_before_a_recorded_tool_is_told_as_another_order_or_as_missing(shop):
    found = diagnose.explain_order(ReplayProgress(shop.run, READER, {shop.first.start}), shop.stock.call, shop.stock)
    assert (found.kind, found.recorded) == (Kind.ORDER, shop.lookup)
    assert found.summary == "tool stock came before tool lookup, which is recorded first"
    assert "the other way round" in found.cause
    found = diagnose.explain_order(ReplayProgress(shop.run, READER, {shop.first.start}), shop.second.call, shop.second)
    assert (found.kind, found.recorded) == (Kind.MISSING, shop.lookup)
    assert found.detail == ("not called either: turn 1, tool stock",)


def test_a_call_of_another_lane_that_should_have_come_first(writing):
    book = writing.Book()
    for lane in ("main.1", "main.2"):
        book.model([{"role": "user", "content": lane}], lane=lane)
    book.exchanges = [replace(x, finish=x.start + 9 if x.lane == "main.1" else x.finish) for x in book.exchanges]
    late = book.model([{"role": "user", "content": "both"}])
    late = book.exchanges[-1] = replace(late, start=40, finish=41)
    found = diagnose.explain_order(ReplayProgress(book.run(), READER, ()), late.call, late)
    assert (found.kind, found.who) == (Kind.ORDER, "lane main")


GIVEN_UP = Failure("asyncio.CancelledError")


def test_calls_that_never_came_are_told_but_for_those_that_were_given_up(shop):
    found = diagnose.explain_missing(ReplayProgress(shop.run, READER, {shop.first.start, shop.lookup.start}))
    assert (found.kind, found.turn, found.turns) == (Kind.MISSING, 1, 2)
    assert found.summary == "the test ended, tool stock was not called, and 1 more"
    assert found.detail == ("not called either: turn 2, model gpt-x",)
    assert diagnose.explain_missing(ReplayProgress(shop.run, READER, {x.start for x in shop.run.exchanges})) is None
    gave_up = [replace(shop.lookup, outcome=GIVEN_UP), replace(shop.stock, outcome=None, finish=None)]
    assert (
        diagnose.explain_missing(
            ReplayProgress(replace(shop.run, exchanges=(shop.first, *gave_up)), READER, {shop.first.start})
        )
        is None
    )


def test_a_tool_reply_of_items_is_a_source():
    asked = chat([ASK]), completion("", [("call_0001", "rows", {})])
    rows = ToolCall("rows"), ToolReply(items=("alpha centauri", "vega"))
    told = {"role": "tool", "tool_call_id": "call_0001", "content": "alpha centauri, vega"}
    now = chat([ASK, told | {"content": "proxima, vega"}])
    found = missed(now, asked, rows, chat([ASK, told]), served=(0, 1))
    assert "came from tool rows (turn 1, call 2)" in found.detail[0]


# Other providers' shapes.


def anthropic(messages, *, system="Be kind.\nBe brief."):
    body = {"model": "claude-x", "max_tokens": 9, "system": system, "messages": messages}
    return posted("https://api.anthropic.com/v1/messages", **body)


def claude(*content):
    body = {"id": "msg_000001", "type": "message", "role": "assistant", "model": "claude-x", "content": list(content)}
    return HttpReply(200, headers=JSON, body=Body(json.dumps(body).encode()))


def test_texts_and_tool_results_of_anthropic_are_found_in_their_shape(writing):
    use = {"type": "tool_use", "id": "toolu_0001", "name": "lookup", "input": {"id": 7}}
    result = {"type": "tool_result", "tool_use_id": "toolu_0001", "content": "it was shipped today"}
    history = [ASK, {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    book = writing.Book()
    first = book.add(anthropic([ASK]), claude(use))
    lookup = book.tool("lookup", "it was shipped today", id=7)
    book.add(anthropic(history), claude({"type": "text", "text": "ok"}))
    run = book.run()

    found = diagnose.explain_miss(
        ReplayProgress(run, READER, ()), anthropic([ASK], system="Be kind.\nBe long."), "main"
    )
    assert found.kind is Kind.PROMPT
    assert found.summary == "model claude-x: system text $.system changed, line 2: brief -> long"
    other = [*history[:2], {"role": "user", "content": [result | {"content": "it was shipped on Monday"}]}]
    found = diagnose.explain_miss(ReplayProgress(run, READER, {first.start, lookup.start}), anthropic(other), "main")
    assert (found.kind, found.turn) == (Kind.HISTORY, 2)
    assert OTHER_WORDS in found.summary
    found = diagnose.explain_miss(ReplayProgress(run, READER, {first.start}), ToolCall("lookup", {"id": 8}), "main")
    assert "asked for the recorded arguments" in found.cause


FUNCTION = {"type": "function_call", "call_id": "call_0001", "name": "a", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "call_0001"}


@pytest.mark.parametrize(
    ("now", "kind", "summary"),
    [
        ({"input": "Where is it?"}, Kind.PROMPT, 'prompt text $.input changed, "my order" -> it'),
        ({"instructions": "Be brief."}, Kind.PROMPT, "system text $.instructions changed, kind -> brief"),
        ({"input": [ASK, FUNCTION, OUTPUT | {"output": "new"}]}, Kind.RESULT, "$.input[2].output"),
    ],
)
def test_texts_and_tool_results_of_openai_responses_are_found_in_their_shape(now, kind, summary):
    before = {"model": "gpt-x", "input": "Where is my order?", "instructions": "Be kind."}
    before |= {"input": [ASK, FUNCTION, OUTPUT | {"output": "old"}]} if kind is Kind.RESULT else {}
    url = "https://api.openai.com/v1/responses"
    found = missed(posted(url, **before | now), (posted(url, **before), HttpReply(200)))
    assert found.kind is kind
    assert found.summary.startswith("model gpt-x: ")
    assert summary in found.summary


def test_where_a_text_came_from(writing):
    book = writing.Book()
    book.model([ASK], writing.completion("The parcel left Hamburg at noon", [("call_0001", "rows", {"q": "left"})]))
    book.tool("rows", ["Hamburg harbour", {"at": "noon"}], q="left")
    history = [ASK, {"role": "assistant", "content": "The parcel left Hamburg at noon"}]
    book.model([*history, {"role": "user", "content": "see Hamburg harbour, 7"}])
    run = book.run()

    def told(*messages):
        return diagnose.explain_miss(ReplayProgress(run, READER, {0, 2}), writing.chat([*messages]), "main").detail

    bremen = history[1] | {"content": "The parcel left Bremen at noon"}
    (line,) = told(ASK, bremen, {"role": "user", "content": "see Hamburg harbour, 7"})
    assert line == 'the recorded text "Hamburg" came from model gpt-x (turn 1, call 1)'
    # A short word of a prompt may stand anywhere.
    assert told(*history, {"role": "user", "content": "see Bremen harbour, 7"}) == ()
    assert told(*history, {"role": "user", "content": "see Hamburg harbour, 8"}) == ()
    before, changed = (writing.chat([ASK, history[1] | {"content": f"from the {x}"}]) for x in ("harbour", "station"))
    book.exchanges[2] = replace(run.exchanges[2], call=before)
    found = diagnose.explain_miss(ReplayProgress(book.run(), READER, {0, 2}), changed, "main")
    assert found.detail == ('the recorded text "harbour" came from tool rows (turn 1, call 2)',)
    assert (
        diagnose.explain_miss(ReplayProgress(run, READER, {0}), ToolCall("rows", {"q": "right"}), "main").detail == ()
    )


# A test that an error of its own has ended.


def test_how_far_a_run_came_names_the_turn_and_the_call_that_was_next(shop, writing):
    def stopped(served, run=shop.run):
        found = diagnose.explain_stop(ReplayProgress(run, READER, {x.start for x in run.exchanges[:served]}))
        return None if found is None else (found.kind, found.summary, *found.detail)

    ahead = "would have been: model gpt-x, last message:"
    first = f"stopped before turn 1 of 2; turn 1 {ahead} Where is order 7?"
    within = 'stopped in turn 1 of 2; the next call would have been: tool stock {"sku":"A-1"}'
    assert stopped(0) == (Kind.MISSING, first, "3 more recorded calls not made")
    assert stopped(2) == (Kind.MISSING, within, "1 more recorded call not made")
    assert stopped(3) == (Kind.MISSING, f"stopped after turn 1 of 2; turn 2 {ahead} 3")
    assert stopped(4) is None
    book = writing.Book()
    for number in (1, 2):
        book.tool("lookup", number, id=number)
    told = 'stopped after call 1 of 2; call 2 would have been: tool lookup {"id":2}'
    assert stopped(1, book.run()) == (Kind.MISSING, told)


# Calls of one shape that were put in, left out, moved or changed.


def three(writing):
    """Three model calls that do not know of each other, and a replayer that looks ahead."""
    book = writing.Book()
    calls = {word: book.model([{"role": "user", "content": word}]).call for word in ("alpha", "beta", "gamma")}
    backend = replayer(book.run())
    backend.policy = ReplayPolicy(looks_ahead=True)
    return backend, calls


def asked(replay, *words):
    """Ask in this order until a call is refused; what the run says then."""
    backend, calls = replay
    for number, word in enumerate(words):
        verdict = backend.decide(calls[word], Moment("main", number))
        if isinstance(verdict, Refused):
            backend.latch(verdict.divergence, f"agent.py:{number}")
            break
        if verdict.early is not None:
            verdict.early(f"agent.py:{number}")
        verdict.handed()
    found = backend.finish()
    return found and (found.kind, found.turn, found.summary, found.origin)


def said(word):
    return f"model gpt-x, last message: {word}"


CAME = f"{said('beta')} came before {said('alpha')}, which is recorded first"
LEFT = f"{said('alpha')} was not called before {said('beta')}"
LEFT_LATER = f"{said('beta')} was not called before {said('gamma')}"


ASKED = {
    "alpha beta gamma": None,
    "beta alpha gamma": (Kind.ORDER, 2, CAME, "agent.py:0"),
    "beta gamma alpha": (Kind.ORDER, 2, CAME, "agent.py:0"),
    "beta gamma": (Kind.MISSING, 1, LEFT, "agent.py:0"),
    "beta": (Kind.MISSING, 1, LEFT, "agent.py:0"),
    "alpha gamma": (Kind.MISSING, 2, LEFT_LATER, "agent.py:1"),
}


def test_calls_of_one_shape_are_moved_or_left_out_by_what_comes_after(writing):
    assert {words: asked(three(writing), *words.split()) for words in ASKED} == ASKED


def test_a_call_that_differs_ends_the_look_ahead(writing):
    backend, calls = three(writing)
    assert backend.decide(calls["beta"], Moment("main", 0)).early is not None
    verdict = backend.decide(writing.chat([{"role": "user", "content": "delta"}]), Moment("main", 1))
    assert (verdict.divergence.kind, verdict.divergence.summary) == (Kind.MISSING, LEFT)


def test_two_calls_that_differ_far_behind_their_beginning_are_told_by_what_differs():
    book, long = Book(), "Sort this letter into one of the known folders, please, and say why: " * 3
    first, second = (book.model([{"role": "user", "content": f"{long}{word} {long}"}]) for word in ("rent", "tax"))
    found = diagnose.explain_order(ReplayProgress(book.run(), READER, ()), second.call, second, came=first)
    assert found.summary == "model gpt-x (...tax...) came before model gpt-x (...rent...), which is recorded first"


def headline(recorded, now):
    """The summary of two recorded calls of which the second came first."""
    book = Book()
    first, second = (book.add(call, completion("ok")) for call in (recorded, now))
    return diagnose.explain_order(ReplayProgress(book.run(), READER, ()), second.call, second, came=first).summary


def test_two_calls_of_one_name_are_told_by_the_first_place_that_differs():
    assert headline(get("http://h.test/echo?q=1"), get("http://h.test/echo?q=2")) == (
        'GET h.test/echo, url: "http://h.test/echo?q=2" came before '
        'GET h.test/echo, url: "http://h.test/echo?q=1", which is recorded first'
    )
    user = {"role": "user", "content": "Go"}
    plan, draft = (chat([{"role": "system", "content": f"{word} it"}, user]) for word in ("Plan", "Draft"))
    assert headline(plan, draft) == (
        'model gpt-x, $.messages[0].content: "Draft it" came before '
        'model gpt-x, $.messages[0].content: "Plan it", which is recorded first'
    )


def test_two_calls_too_long_for_a_headline_are_told_by_whole_words():
    told = headline(*(asking(f"Do the step {step} for the mail, please") for step in ("draft", "critique")))
    assert told == "model gpt-x (...critique...) came before model gpt-x (...draft...), which is recorded first"


def test_two_calls_of_which_one_has_words_that_the_other_leaves_out_are_told_by_the_words_there():
    head, tail = "Sort this letter into one of the known folders, please", ". Say why" * 9
    assert headline(asking(head + tail), asking(f"{head} soon{tail}")) == (
        "model gpt-x (... folders, please soon. Say why. Say why. Say...) came before "
        "model gpt-x (... folders, please. Say why. Say why. Say why....), which is recorded first"
    )


def test_a_call_that_is_put_first_is_told_by_what_tells_it_from_the_recorded_one():
    user = {"role": "user", "content": "Where is order 7?"}
    title = chat([{"role": "system", "content": "Give a title"}, user])
    found = missed(title, chat([{"role": "system", "content": "You are a shop"}, user], tools=...))
    (one,) = found.differences
    assert (found.kind, one.recorded, one.now) == (
        Kind.EXTRA,
        'model gpt-x, $.messages[0].content: "You are a shop"',
        'model gpt-x, $.messages[0].content: "Give a title"',
    )


def test_a_recorded_call_that_was_left_out_before_a_changed_one_is_missing(writing):
    guard = chat([GUARD, {"role": "user", "content": "Is this safe?"}], tools=...)
    asked, now = (
        chat([{"role": "system", "content": writing.SYSTEM}, {"role": "user", "content": text}])
        for text in ("Where is it?", "Now?")
    )
    found = missed(now, guard, asked)
    assert (found.kind, found.recorded.call) == (Kind.MISSING, guard)


def test_a_result_of_the_same_elements_in_another_order_is_told_as_such():
    book = Book()
    rows, now = book.tool("rows", ["new", "old", "lost"]), ToolReply(["old", "new", "lost"])
    found = results.explain_result(
        ReplayProgress(book.run(), READER, ()), rows, rows.call, now, tolerances=TolerancePolicy(())
    )
    assert found.summary == "tool rows: result: $ came in another order"
