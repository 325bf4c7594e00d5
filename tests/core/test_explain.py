from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pytest_agentreplay.core import diagnose
from pytest_agentreplay.core.backends.backend import Moment, Refused
from pytest_agentreplay.core.backends.replay import ReplayBackend
from pytest_agentreplay.core.diagnose import results
from pytest_agentreplay.core.divergence import ABSENT, Kind
from pytest_agentreplay.core.matching import Matching
from pytest_agentreplay.core.model import Body, Failure, HttpCall, HttpReply, ToolCall, ToolReply
from pytest_agentreplay.core.rules import Rule
from pytest_agentreplay.core.tolerance import Tolerances
from pytest_agentreplay.dialects import READER, RULES

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
        return diagnose.miss(self.run, READER, {x.start for x in served}, call, lane, **options)


@pytest.fixture
def shop(writing):
    return Shop(writing)


def paths(divergence):
    return [one.path for one in divergence.differences]


# A model call that differs.


def test_an_edited_system_prompt(shop, writing):
    call = writing.chat(shop.opening(system=writing.SYSTEM.replace("refund", "credit")))
    found = shop.miss(call)
    assert (found.kind, found.turn, found.turns, found.position, found.positions) == (Kind.PROMPT, 1, 2, 1, 4)
    assert found.summary == "model gpt-x: system text $.messages[0].content changed, line 3: refund -> credit"
    assert found.recorded == shop.first
    assert found.now == call


def test_an_edited_user_message_and_one_more(shop, writing):
    assert shop.miss(writing.chat(shop.opening("Where is it?"))).summary.startswith(
        "model gpt-x: user text $.messages[1]"
    )
    more = shop.miss(writing.chat([*shop.opening(), {"role": "user", "content": "Hurry."}]))
    assert (more.kind, more.summary) == (Kind.PROMPT, "model gpt-x: user text messages[2] added")


@pytest.mark.parametrize(
    ("fields", "kind", "words"),
    [
        ({"model": "gpt-y"}, Kind.MODEL, "$.model changed, gpt-x -> gpt-y"),
        ({"temperature": 0.7}, Kind.MODEL, "$.temperature added"),
        (
            {"url": "https://api.other.test/v1/chat/completions"},
            Kind.MODEL,
            "url changed, https://api.openai.com/v1/",
        ),
        ({"prompt_cache_retention": "24h"}, Kind.SDK, "$.prompt_cache_retention added"),
        (
            {"headers": (("content-type", "application/json"), ("openai-beta", "x"))},
            Kind.SDK,
            "headers.openai-beta added",
        ),
    ],
)
def test_what_stands_beside_the_messages(shop, writing, fields, kind, words):
    found = shop.miss(writing.chat(shop.opening(), **fields))
    assert found.kind is kind
    assert words in found.summary
    assert bool(found.hints) == (kind is Kind.SDK)


def test_a_tool_schema(shop, writing):
    tools = json.loads(json.dumps(writing.TOOLS))
    tools[1]["function"]["parameters"]["properties"]["currency"] = {"type": "string"}
    found = shop.miss(writing.chat(shop.opening(), tools=tools))
    assert found.kind is Kind.SCHEMA
    assert found.summary.startswith(
        "model gpt-x: tool refund: $.tools[1].function.parameters.properties.currency added"
    )
    assert shop.miss(writing.chat(shop.opening(), tools=tools[::-1])).kind is Kind.SCHEMA
    assert shop.miss(writing.chat(shop.opening(), tools=...)).kind is Kind.SCHEMA


def test_the_most_telling_section_gives_the_kind_and_all_differences_are_kept(shop, writing):
    found = shop.miss(writing.chat(shop.opening("else"), store=True, temperature=0))
    assert found.kind is Kind.MODEL
    assert paths(found) == ["$.temperature", "$.messages[1].content", "$.store"]


def test_a_tool_result_that_the_agent_words_otherwise(shop, writing):
    call = writing.chat(shop.closing(lookup='{"status": "delayed", "eta": "Tuesday"}'))
    found = shop.miss(call, shop.first, shop.lookup, shop.stock)
    assert (found.kind, found.turn) == (Kind.HISTORY, 2)
    assert "the agent tells a tool result otherwise" in found.summary
    assert found.detail == ('the recorded text "in transit" came from tool lookup (turn 1, call 2)',)


def test_a_tool_result_of_a_tool_that_was_not_frozen(shop, writing):
    run = replace(shop.run, exchanges=(shop.first, shop.second))
    call = writing.chat(shop.closing(lookup='{"status": "delayed", "eta": "Tuesday"}'))
    found = diagnose.miss(run, READER, {shop.first.start}, call, "main")
    assert found.kind is Kind.RESULT
    assert "agentreplay_tools" in found.hints[0]


def test_the_same_json_written_otherwise(shop, writing):
    call = writing.chat(shop.closing(lookup='{"eta":"Tuesday","status":"in transit"}'))
    found = shop.miss(call, shop.first, shop.lookup, shop.stock)
    assert found.kind is Kind.HISTORY
    assert "the same JSON, written otherwise" in found.summary


@pytest.mark.parametrize(
    ("edit", "words", "cause"),
    [
        (lambda m: m[:1] + m[3:], "messages[1..2] dropped", "fewer"),
        (
            lambda m: [m[0], {"role": "assistant", "content": "Summary: one order"}, *m[3:]],
            "messages[1] dropped",
            "gave way",
        ),
        (lambda m: [*m, {"role": "assistant", "content": "Hm"}], "messages[5] added", "does not have"),
        (
            lambda m: [*m[:2], m[2] | {"content": "Let me see"}, *m[3:]],
            "assistant message $.messages[2].content",
            "rewrites",
        ),
        (lambda m: [*m[:3], m[4], m[3]], "reordered [1, 2, 3, 5, 4]", "another order"),
    ],
)
def test_a_rewritten_history(shop, writing, edit, words, cause):
    found = shop.miss(writing.chat(edit(shop.closing())), shop.first, shop.lookup, shop.stock)
    assert found.kind is Kind.HISTORY
    assert words in found.summary
    assert cause in found.cause


# Noise.


@pytest.mark.parametrize(
    ("recorded", "now", "name"),
    [
        ("It is 2026-11-02T10:00:00Z.", "It is 2026-11-20T18:01:07.5Z.", "a clock"),
        ("Today is Monday, 2 November 2026", "Today is Friday, 20 November 2026", "a clock"),
        ("at 1762077600", "at 1763661600", "a clock"),
        ("run 0b9f3c1e-0000-4000-8000-000000000001", "run 7c9f3c1e-1111-4000-8000-00000000000f", "a uuid"),
        ("see /tmp/abc1/out.txt", "see /tmp/xyz9/out.txt", "a place"),
        ("http://localhost:43121/x", "http://localhost:39001/x", "a port"),
        ("object at 0x7f00aa11bb22", "object at 0x7f99aa11bb33", "a random id"),
        ("session sess_a8Kd92jfLs01", "session sess_Qp02kd83Ls9x", "a random id"),
        ("tags {'new', 'eu'} here", "tags {'eu', 'new'} here", "the order of a set"),
        ("tags: new; eu; vip.", "tags: vip; new; eu.", "the order of a set"),
        ("tags:\n- new\n- eu\nThat is all.", "tags:\n- eu\n- new\nThat is all.", "the order of a set"),
        ("I am {{user}} on {{host}}.", "I am root on {{host}}.", "a place"),
        ("I am root on {{host}}.", "I am {{user}} on {{host}}.", "a place"),
        ("see {{tempdir}}/tmpab1cd/x", "see {{tempdir}}/tmp_zz9/x", "a place"),
        ("/tmp/a1 at 10:00:01", "/tmp/b2 at 10:00:02", "a place and a clock"),
    ],
)
def test_what_changes_in_every_run_is_called_noise(writing, recorded, now, name):
    book = writing.Book()
    book.model([{"role": "user", "content": recorded}])
    found = diagnose.miss(book.run(), READER, (), writing.chat([{"role": "user", "content": now}]), "main")
    assert found.kind is Kind.NOISE
    assert f"look like {name}:" in found.cause
    assert found.hints == ()


@pytest.mark.parametrize(
    ("recorded", "now"),
    [
        ("Look the order up.\nThen refund it.", "Then refund it.\nLook the order up."),
        ("{{user}}", "a whole other text"),
        ("I am {{user}}.", "You are root."),
        ("see {{root}}/a.md", "see {{root}}/b.md"),
        ("first one then two", "first two then one"),
    ],
)
def test_what_an_author_changed_is_not_called_noise(writing, recorded, now):
    book = writing.Book()
    book.model([{"role": "user", "content": recorded}])
    found = diagnose.miss(book.run(), READER, (), writing.chat([{"role": "user", "content": now}]), "main")
    assert found.kind is Kind.PROMPT


def test_noise_in_arguments(writing):
    book = writing.Book()
    book.tool("log", at=1762077600.5, tags=["b", "a"])
    call = ToolCall("log", {"at": 1763661600.25, "tags": ["a", "b"]})
    found = diagnose.miss(book.run(), READER, (), call, "main")
    assert found.kind is Kind.NOISE
    assert "a clock and the order of a set" in found.cause
    assert found.hints[0] == 'or do not compare it: agentreplay_ignore = ["$.at = a clock and the order of a set"]'
    real = diagnose.miss(book.run(), READER, (), ToolCall("log", {"at": 1763661600.25, "tags": ["c"]}), "main")
    assert (real.kind, paths(real)[0]) == (Kind.ARGS, "$.tags[0]")


# Tools.


def test_changed_arguments(shop):
    found = shop.miss(ToolCall("lookup", {"id": 8}), shop.first)
    assert (found.kind, found.turn, found.position) == (Kind.ARGS, 1, 2)
    assert found.summary == "tool lookup: $.id changed, 7 -> 8"
    assert "asked for the recorded arguments" in found.cause
    assert shop.miss(ToolCall("stock", {"sku": "A-2"}), shop.first, shop.lookup).recorded == shop.stock


def test_the_nearest_call_of_that_name_is_the_counterpart(writing):
    book = writing.Book()
    book.tool("put", a=1, b=2, c=3)
    near = book.tool("put", a=5, b=6, c=7)
    assert diagnose.miss(book.run(), READER, (), ToolCall("put", {"a": 5, "b": 6, "c": 8}), "main").recorded == near


def test_arguments_that_nobody_asked_for(writing):
    book = writing.Book()
    book.tool("put", a=1)
    found = diagnose.miss(book.run(), READER, (), ToolCall("put", {"a": 2}), "main")
    assert "your code makes other arguments" in found.cause


def test_another_tool(shop):
    found = shop.miss(ToolCall("refund", {"id": 7}), shop.first)
    assert (found.kind, found.summary) == (Kind.TOOL, "tool refund called instead of tool lookup")
    assert [(x.recorded, x.now) for x in found.differences] == [('tool lookup {"id":7}', 'tool refund {"id":7}')]
    assert "asked for lookup, stock" in found.cause


def test_a_tool_too_many(shop):
    found = shop.miss(ToolCall("refund", {"id": 7}), shop.first, shop.lookup, shop.stock)
    assert (found.kind, found.turn, found.recorded) == (Kind.EXTRA, 1, shop.second)
    again = shop.miss(ToolCall("lookup", {"id": 7}), shop.first, shop.lookup, shop.stock)
    assert again.kind is Kind.EXTRA
    assert "answered in turn 1 already" in again.cause


def test_a_tool_after_the_end(shop):
    found = shop.miss(ToolCall("refund", {"id": 7}), *shop.run.exchanges)
    assert (found.kind, found.turn, found.recorded) == (Kind.EXTRA, 2, None)


def test_children_never_count(writing):
    book = writing.Book()
    outer = book.tool("outer", 1)
    book.tool("inner", 2)
    book.exchanges[-1] = replace(book.exchanges[-1], parent=outer.start)
    found = diagnose.miss(book.run(), READER, {outer.start}, ToolCall("inner", {"x": 1}), "main")
    assert found.kind is Kind.EXTRA
    assert diagnose.unused(book.run(), READER, {outer.start}) is None


# Calls left out, calls too many, calls in another order.


def test_a_dropped_tool_call(shop, writing):
    found = shop.miss(writing.chat(shop.closing(stock=None)), shop.first, shop.lookup)
    assert (found.kind, found.recorded, found.turn) == (Kind.MISSING, shop.stock, 1)
    assert found.summary == "tool stock was not called before model gpt-x"
    both = shop.miss(writing.chat(shop.closing(stock=None)), shop.first)
    assert both.detail == ("not called either: turn 1, tool stock",)


def test_a_left_out_model_call(writing):
    run = writing.conversation(6, recorded=False)
    models = list(run.exchanges)
    body = json.loads(models[3].call.body.data)
    call = writing.chat([*body["messages"], {"role": "user", "content": "!"}])
    found = diagnose.miss(run, READER, {models[0].start, models[1].start}, call, "main")
    assert (found.kind, found.recorded) == (Kind.MISSING, models[2])


def test_a_model_call_after_the_end(shop, writing):
    more = [
        *shop.closing(),
        {"role": "assistant", "content": "It is."},
        {"role": "user", "content": "Could you clarify?"},
    ]
    found = shop.miss(writing.chat(more), *shop.run.exchanges)
    assert (found.kind, found.turn, found.turns, found.recorded) == (Kind.EXTRA, 2, 2, None)
    assert "Could you clarify?" in found.differences[0].now
    assert found.differences[0].recorded is ABSENT


def test_a_new_helper_call_in_the_middle(shop, writing):
    guard = writing.chat([{"role": "user", "content": "Is this safe?"}], tools=...)
    found = shop.miss(guard, shop.first, shop.lookup, shop.stock)
    assert (found.kind, found.recorded) == (Kind.EXTRA, shop.second)


def test_the_same_request_again(shop):
    found = shop.miss(shop.first.call, shop.first, shop.lookup, shop.stock)
    assert found.kind is Kind.EXTRA
    assert "the very same call was answered in turn 1" in found.cause


def test_other_http(writing):
    def call(amount, host="rates.test"):
        return HttpCall("POST", f"https://{host}/v1", writing.JSON, Body(json.dumps({"n": amount}).encode()))

    book = writing.Book()
    rates = book.add(call(1), HttpReply(200))
    book.add(HttpCall("GET", "https://files.test/a", (), Body(b"\xff\x00")), HttpReply(200))
    found = diagnose.miss(book.run(), READER, (), call(2), "main")
    assert (found.kind, found.recorded, found.turn, found.position) == (Kind.REQUEST, rates, 0, 1)
    assert "$.n changed, 1 -> 2" in found.summary
    assert diagnose.miss(book.run(), READER, (), call(2, "else.test"), "main").kind is Kind.REQUEST
    binary = HttpCall("GET", "https://files.test/a", (), Body(b"\xff\x01"))
    assert "sha256" in diagnose.miss(book.run(), READER, (), binary, "main").differences[0].recorded
    nowhere = HttpCall("GET", "https://new.test/z", (), Body(b""))
    assert diagnose.miss(book.run(), READER, (), nowhere, "main").kind is Kind.EXTRA


def test_other_words_that_are_embedded_are_another_request_and_no_prompt(writing):
    def call(words):
        body = {"model": "e", "input": [words]}
        return HttpCall("POST", "https://a.test/v1/embeddings", writing.JSON, Body(json.dumps(body).encode()))

    book = writing.Book()
    book.add(call("late orders"), HttpReply(200))
    found = diagnose.miss(book.run(), READER, (), call("old orders"), "main")
    assert (found.kind, paths(found)) == (Kind.REQUEST, ["$.input[0]"])
    assert found.summary.startswith("embeddings e: ")


def test_ids_that_a_client_makes_are_no_differences(writing):
    def call(number, tool):
        body = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": tool}}
        return HttpCall("POST", "https://mcp.test/mcp", writing.JSON, Body(json.dumps(body).encode()))

    book = writing.Book()
    book.add(call(1, "a"), HttpReply(200))
    assert paths(diagnose.miss(book.run(), READER, (), call(9, "b"), "main")) == ["call"]


def test_what_is_not_compared_is_no_difference(shop, writing):
    matching = Matching(READER, [*RULES, Rule("http", "body", "$.metadata.trace", "drop", "changes")])
    run = replace(shop.run, exchanges=(replace(shop.first, call=writing.chat(shop.opening(), metadata={"trace": 1})),))
    call = writing.chat(shop.opening("else"), metadata={"trace": 2})
    assert paths(diagnose.miss(run, READER, (), call, "main", matching=matching)) == ["$.messages[1].content"]


def test_an_empty_recording(writing):
    found = diagnose.miss(writing.Book().run(), READER, (), writing.chat([ASK]), "main")
    assert (found.kind, found.turns, found.positions, found.lane) == (Kind.EXTRA, 0, 0, "main")


def test_a_lane_that_the_recording_does_not_know(shop, writing):
    found = shop.miss(writing.chat(shop.opening("else")), lane="main.4")
    assert (found.kind, found.lane, found.who) == (Kind.PROMPT, "main", "")


def test_tools_in_another_order(shop):
    found = diagnose.order(shop.run, READER, {shop.first.start}, shop.stock.call, shop.stock)
    assert (found.kind, found.recorded) == (Kind.ORDER, shop.lookup)
    assert found.summary == "tool stock came before tool lookup, which is recorded first"
    assert "the other way round" in found.cause


def test_a_recorded_request_that_comes_without_its_tools(shop):
    found = diagnose.order(shop.run, READER, {shop.first.start}, shop.second.call, shop.second)
    assert (found.kind, found.recorded) == (Kind.MISSING, shop.lookup)
    assert found.detail == ("not called either: turn 1, tool stock",)


def test_a_call_of_another_lane_that_should_have_come_first(writing):
    book = writing.Book()
    for lane in ("main.1", "main.2"):
        book.model([{"role": "user", "content": lane}], lane=lane)
    book.exchanges = [replace(x, finish=x.start + 9 if x.lane == "main.1" else x.finish) for x in book.exchanges]
    late = book.model([{"role": "user", "content": "both"}])
    late = book.exchanges[-1] = replace(late, start=40, finish=41)
    found = diagnose.order(book.run(), READER, (), late.call, late)
    assert (found.kind, found.who) == (Kind.ORDER, "lane main")


def test_calls_that_never_came(shop):
    found = diagnose.unused(shop.run, READER, {shop.first.start, shop.lookup.start})
    assert (found.kind, found.turn, found.turns) == (Kind.MISSING, 1, 2)
    assert found.summary == "the test ended, tool stock was not called, and 1 more"
    assert found.detail == ("not called either: turn 2, model gpt-x",)
    assert diagnose.unused(shop.run, READER, {x.start for x in shop.run.exchanges}) is None


def test_calls_that_were_given_up_need_not_come(shop):
    gave_up = [
        replace(shop.lookup, outcome=Failure("asyncio.CancelledError")),
        replace(shop.stock, outcome=None, finish=None),
    ]
    run = replace(shop.run, exchanges=(shop.first, *gave_up))
    assert diagnose.unused(run, READER, {shop.first.start}) is None


def test_a_call_that_was_given_up_is_still_its_counterpart(shop, writing):
    run = replace(shop.run, exchanges=(replace(shop.first, outcome=Failure("asyncio.CancelledError")),))
    assert diagnose.miss(run, READER, (), writing.chat(shop.opening("else")), "main").kind is Kind.PROMPT


def test_a_long_value_is_told_in_few_words(shop, writing):
    system = "\n".join(f"rule {i}: " + "be kind " * 20 for i in range(300))
    run = replace(shop.run, exchanges=(replace(shop.first, call=writing.chat(shop.opening(system=system))),))
    call = writing.chat(shop.opening(system=system.replace("rule 200: be kind", "rule 200: be stern")))
    assert diagnose.miss(run, READER, (), call, "main").summary.endswith("line 201: kind -> stern")


def test_a_tool_reply_of_items_is_a_source(writing):
    book = writing.Book()
    book.model([ASK], writing.completion("", [("call_0001", "rows", {})]))
    book.add(ToolCall("rows"), ToolReply(items=("alpha centauri", "vega")))
    messages = [ASK, {"role": "tool", "tool_call_id": "call_0001", "content": "alpha centauri, vega"}]
    book.model(messages)
    call = writing.chat([ASK, messages[1] | {"content": "proxima, vega"}])
    found = diagnose.miss(book.run(), READER, {0, 2}, call, "main")
    assert "came from tool rows (turn 1, call 2)" in found.detail[0]


# Other providers' shapes.


def anthropic(messages, *, system="Be kind.\nBe brief."):
    body = {"model": "claude-x", "max_tokens": 9, "system": system, "messages": messages}
    return HttpCall("POST", "https://api.anthropic.com/v1/messages", (), Body(json.dumps(body).encode()))


def claude(*content):
    body = {"id": "msg_000001", "type": "message", "role": "assistant", "model": "claude-x", "content": list(content)}
    headers = (("content-type", "application/json"),)
    return HttpReply(200, headers=headers, body=Body(json.dumps(body).encode()))


def test_anthropic(writing):
    use = {"type": "tool_use", "id": "toolu_0001", "name": "lookup", "input": {"id": 7}}
    result = {"type": "tool_result", "tool_use_id": "toolu_0001", "content": "it was shipped today"}
    history = [ASK, {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    book = writing.Book()
    first = book.add(anthropic([ASK]), claude(use))
    lookup = book.tool("lookup", "it was shipped today", id=7)
    book.add(anthropic(history), claude({"type": "text", "text": "ok"}))
    run = book.run()

    found = diagnose.miss(run, READER, (), anthropic([ASK], system="Be kind.\nBe long."), "main")
    assert (found.kind, found.summary) == (
        Kind.PROMPT,
        "model claude-x: system text $.system changed, line 2: brief -> long",
    )
    other = [*history[:2], {"role": "user", "content": [result | {"content": "it was shipped on Monday"}]}]
    found = diagnose.miss(run, READER, {first.start, lookup.start}, anthropic(other), "main")
    assert (found.kind, found.turn) == (Kind.HISTORY, 2)
    assert "the agent tells a tool result otherwise" in found.summary
    found = diagnose.miss(run, READER, {first.start}, ToolCall("lookup", {"id": 8}), "main")
    assert "asked for the recorded arguments" in found.cause


def responses(said, **fields):
    body = {"model": "gpt-x", "input": said} | fields
    return HttpCall("POST", "https://api.openai.com/v1/responses", (), Body(json.dumps(body).encode()))


def test_openai_responses(writing):
    book = writing.Book()
    book.add(responses("Where is my order?", instructions="Be kind."), HttpReply(200))
    run = book.run()
    found = diagnose.miss(run, READER, (), responses("Where is it?", instructions="Be kind."), "main")
    assert found.summary == 'model gpt-x: prompt text $.input changed, "my order" -> it'
    found = diagnose.miss(run, READER, (), responses("Where is my order?", instructions="Be brief."), "main")
    assert found.summary == "model gpt-x: system text $.instructions changed, kind -> brief"
    items = [
        {"role": "user", "content": "hi"},
        {"type": "function_call", "call_id": "call_0001", "name": "a", "arguments": "{}"},
    ]
    results = [{"type": "function_call_output", "call_id": "call_0001", "output": word} for word in ("old", "new")]
    book = writing.Book()
    book.add(responses([*items, results[0]]), HttpReply(200))
    found = diagnose.miss(book.run(), READER, (), responses([*items, results[1]]), "main")
    assert (found.kind, [x.path for x in found.differences]) == (Kind.RESULT, ["$.input[2].output"])


def test_where_a_text_came_from(writing):
    book = writing.Book()
    book.model([ASK], writing.completion("The parcel left Hamburg at noon", [("call_0001", "rows", {"q": "left"})]))
    book.tool("rows", ["Hamburg harbour", {"at": "noon"}], q="left")
    history = [ASK, {"role": "assistant", "content": "The parcel left Hamburg at noon"}]
    book.model([*history, {"role": "user", "content": "see Hamburg harbour, 7"}])
    run = book.run()

    def told(*messages):
        return diagnose.miss(run, READER, {0, 2}, writing.chat([*messages]), "main").detail

    (line,) = told(
        ASK,
        history[1] | {"content": "The parcel left Bremen at noon"},
        {"role": "user", "content": "see Hamburg harbour, 7"},
    )
    assert line == 'the recorded text "Hamburg" came from model gpt-x (turn 1, call 1)'
    # A short word of a prompt may stand anywhere.
    assert told(*history, {"role": "user", "content": "see Bremen harbour, 7"}) == ()
    assert told(*history, {"role": "user", "content": "see Hamburg harbour, 8"}) == ()
    book.exchanges[2] = replace(
        run.exchanges[2], call=writing.chat([ASK, history[1] | {"content": "from the harbour"}])
    )
    changed = writing.chat([ASK, history[1] | {"content": "from the station"}])
    found = diagnose.miss(book.run(), READER, {0, 2}, changed, "main")
    assert found.detail == ('the recorded text "harbour" came from tool rows (turn 1, call 2)',)
    assert diagnose.miss(run, READER, {0}, ToolCall("rows", {"q": "right"}), "main").detail == ()


def test_a_call_that_only_ids_tell_apart(writing):
    def call(number):
        body = {"jsonrpc": "2.0", "id": number, "method": "tools/list"}
        return HttpCall("POST", "https://mcp.test/mcp", writing.JSON, Body(json.dumps(body).encode()))

    book = writing.Book()
    book.add(call(1), HttpReply(200))
    found = diagnose.miss(book.run(), READER, (), call(2), "main")
    assert (found.kind, found.summary) == (Kind.REQUEST, "mcp tools/list: the same request, written otherwise")
    book = writing.Book()
    book.model([ASK])
    fragment = writing.chat([ASK], url=writing.URL + "#x")
    assert "the same call, written otherwise" in diagnose.miss(book.run(), READER, (), fragment, "main").summary


# A test that an error of its own has ended.


def test_how_far_a_run_came_names_the_turn_and_the_call_that_was_next(shop, writing):
    def stopped(*served):
        found = diagnose.stopped(shop.run, READER, {x.start for x in served})
        return None if found is None else (found.kind, found.summary, found.detail)

    ahead = "would have been: model gpt-x, last message:"
    assert stopped() == (
        Kind.MISSING,
        f"stopped before turn 1 of 2; turn 1 {ahead} Where is order 7?",
        ("3 more recorded calls not made",),
    )
    assert stopped(shop.first, shop.lookup) == (
        Kind.MISSING,
        'stopped in turn 1 of 2; the next call would have been: tool stock {"sku":"A-1"}',
        ("1 more recorded call not made",),
    )
    assert stopped(shop.first, shop.lookup, shop.stock) == (
        Kind.MISSING,
        f"stopped after turn 1 of 2; turn 2 {ahead} 3",
        (),
    )
    assert stopped(shop.first, shop.lookup, shop.stock, shop.second) is None


def test_how_far_a_run_without_models_came_is_counted_in_calls(writing):
    book = writing.Book()
    first = book.tool("lookup", 1, id=1)
    book.tool("lookup", 2, id=2)
    found = diagnose.stopped(book.run(), READER, {first.start})
    assert found.summary == 'stopped after call 1 of 2; call 2 would have been: tool lookup {"id":2}'


# Calls of one shape that were put in, left out, moved or changed.


@pytest.fixture
def three(writing):
    """Three model calls that do not know of each other, and a replayer that looks ahead."""
    book = writing.Book()
    calls = {word: book.model([{"role": "user", "content": word}]).call for word in ("alpha", "beta", "gamma")}
    replayer = ReplayBackend(book.run(), Matching(READER, RULES), READER)
    replayer.looks_ahead = True
    return replayer, calls


def asked(three, *words):
    """Ask in this order until a call is refused; what the run says then."""
    replayer, calls = three
    for number, word in enumerate(words):
        verdict = replayer.decide(calls[word], Moment("main", number))
        if isinstance(verdict, Refused):
            replayer.latch(verdict.divergence, f"agent.py:{number}")
            break
        if verdict.early is not None:
            verdict.early(f"agent.py:{number}")
        verdict.handed()
    found = replayer.finish()
    return found and (found.kind, found.turn, found.summary, found.origin)


CAME = "model gpt-x, last message: beta came before model gpt-x, last message: alpha, which is recorded first"
LEFT = "model gpt-x, last message: alpha was not called before model gpt-x, last message: beta"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("alpha", "beta", "gamma"), None),
        (("beta", "alpha", "gamma"), (Kind.ORDER, 2, CAME, "agent.py:0")),
        (("beta", "gamma", "alpha"), (Kind.ORDER, 2, CAME, "agent.py:0")),
        (("beta", "gamma"), (Kind.MISSING, 1, LEFT, "agent.py:0")),
        (("beta",), (Kind.MISSING, 1, LEFT, "agent.py:0")),
        (
            ("alpha", "gamma"),
            (Kind.MISSING, 2, LEFT.replace("beta", "gamma").replace("alpha", "beta"), "agent.py:1"),
        ),
    ],
    ids=["as recorded", "swapped", "moved to the end", "left out", "left out, then ended", "left out later"],
)
def test_calls_of_one_shape_are_moved_or_left_out_by_what_comes_after(three, words, told):
    if told is None:
        assert asked(three, *words) is None
    else:
        assert asked(three, *words) == told


def test_a_call_that_differs_ends_the_look_ahead(three, writing):
    replayer, calls = three
    assert replayer.decide(calls["beta"], Moment("main", 0)).early is not None
    verdict = replayer.decide(writing.chat([{"role": "user", "content": "delta"}]), Moment("main", 1))
    assert (verdict.divergence.kind, verdict.divergence.summary) == (Kind.MISSING, LEFT)


def test_two_calls_that_differ_far_behind_their_beginning_are_told_by_what_differs(writing):
    book, long = writing.Book(), "Sort this letter into one of the known folders, please, and say why: " * 3
    first, second = (book.model([{"role": "user", "content": f"{long}{word} {long}"}]) for word in ("rent", "tax"))
    found = diagnose.order(book.run(), READER, (), second.call, second, came=first)
    assert found.summary == "model gpt-x (...tax...) came before model gpt-x (...rent...), which is recorded first"


GUARD = {"role": "system", "content": "You are a guard. Answer yes or no."}


@pytest.mark.parametrize(
    "put_in",
    [
        lambda shop, chat: chat([GUARD, {"role": "user", "content": "Is this safe? Where is order 7?"}], tools=...),
        lambda shop, chat: chat([GUARD, shop.opening()[1]], tools=...),
        lambda shop, chat: chat([shop.opening()[1]], tools=...),
        lambda shop, chat: chat([{"role": "user", "content": "A title for: Where is order 7?"}], tools=..., model="s"),
    ],
    ids=["guard", "guard of the same text", "the text alone", "title"],
)
def test_a_call_that_was_put_in_is_one_more_and_no_changed_one(shop, writing, put_in):
    call = put_in(shop, writing.chat)
    for served, turn in ((), 1), ((shop.first, shop.lookup, shop.stock), 1):
        found = shop.miss(call, *served)
        assert (found.kind, found.turn) == (Kind.EXTRA, turn)
        assert found.summary.endswith(" called, which is not recorded here")


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        (lambda shop, chat: chat(shop.opening(), tools=...), Kind.SCHEMA),
        (lambda shop, chat: chat(shop.opening(system="Speak like a pirate.")), Kind.PROMPT),
        (lambda shop, chat: chat(shop.opening()[1:]), Kind.HISTORY),
        (lambda shop, chat: chat(shop.opening("Something else altogether"), tools=...), Kind.SCHEMA),
        (
            lambda shop, chat: chat(shop.opening(system="Speak like a pirate."), tools=shop.writing.TOOLS[:1]),
            Kind.SCHEMA,
        ),
    ],
    ids=["no tools", "prompt", "no prompt", "no tools, other words", "prompt, fewer tools"],
)
def test_a_call_that_keeps_its_tools_or_its_prompt_is_a_changed_one(shop, writing, changed, kind):
    assert shop.miss(changed(shop, writing.chat)).kind is kind


def test_a_recorded_call_that_was_left_out_before_a_changed_one_is_missing(writing):
    book = writing.Book()
    guard = book.model([GUARD, {"role": "user", "content": "Is this safe?"}], tools=...)
    asked = [{"role": "system", "content": writing.SYSTEM}, {"role": "user", "content": "Where is it?"}]
    book.model(asked)
    found = diagnose.miss(book.run(), READER, (), writing.chat([asked[0], {"role": "user", "content": "Now?"}]), "main")
    assert (found.kind, found.recorded) == (Kind.MISSING, guard)


# The same elements in another order.


def test_tools_in_another_order_are_told_so_and_not_as_changed(shop, writing):
    found = shop.miss(writing.chat(shop.opening(), tools=writing.TOOLS[::-1]))
    assert (found.kind, found.summary) == (Kind.SCHEMA, "model gpt-x: $.tools came in another order")
    assert "Sort them before they are sent" in found.cause
    edited = json.loads(json.dumps(writing.TOOLS).replace("integer", "string"))
    assert "another order" not in shop.miss(writing.chat(shop.opening(), tools=edited)).summary


def test_a_result_of_the_same_elements_in_another_order(writing):
    book = writing.Book()
    rows = book.tool("rows", ["new", "old", "lost"])
    found = results.changed(
        book.run(), READER, rows, rows.call, ToolReply(["old", "new", "lost"]), tolerances=Tolerances(())
    )
    assert found.summary == "tool rows: result: $ came in another order"
