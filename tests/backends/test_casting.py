"""The gate of a case: what an agent gets that asks otherwise than it did."""

from __future__ import annotations

import json
import threading
from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.backends.backend import Moment, PassThrough, Refused, Replayed
from pytest_agentreplay.backends.case_backend import AnswerPolicy, CaseBackend
from pytest_agentreplay.compare.matching import Matching
from pytest_agentreplay.model.divergence import Kind
from pytest_agentreplay.model.exchanges import Body, Failure, HttpCall, HttpReply, ToolCall, ToolReply
from pytest_agentreplay.providers import READER, RULES, json_rpc
from tests.support.written_runs import JSON, Book, chat, completion

FREE = AnswerPolicy(model="position", tools="arguments")
BY_POSITION = AnswerPolicy(model="position", tools="position", other="position")


def ask(text):
    return chat([{"role": "user", "content": text}])


def casting(run, policy):
    return CaseBackend(run, Matching(READER, RULES), READER, policy)


def at(lane="main", **more):
    return Moment(lane, 0, **more)


def said(verdict):
    assert isinstance(verdict, Replayed), verdict
    outcome = verdict.exchange.outcome
    return READER.read_reply(ask(""), outcome).text if isinstance(outcome, HttpReply) else outcome.value


class Written:
    """Fixtures by tool and the value of one argument; what begins with "!" was written by hand."""

    def __init__(self, answers):
        self.answers = answers

    def answer(self, tool, arguments):
        given = self.answers.get((tool, *sorted(arguments.items())))
        return None if given is None else (ToolReply(given), str(given).startswith("!"))

    def advice(self, tool, arguments):
        return (f"write fixtures/{tool}-2.yaml with {arguments}",)


@pytest.fixture
def shop():
    book = Book()
    book.model([{"role": "user", "content": "Where is it?"}], completion("", [("c1", "lookup", {"id": 7})]))
    book.tool("lookup", "late", id=7)
    book.model([{"role": "user", "content": "Where is it? late"}], completion("It is late."))
    return book.run()


def test_all_strict_is_a_replay(shop):
    backend = casting(shop, AnswerPolicy())
    for x in shop.exchanges:
        assert isinstance(backend.decide(x.call, at()), Replayed)
    assert backend.finish() is None
    assert [x.call for x in backend.list_made()] == [x.call for x in shop.exchanges]
    assert backend.summary == "model 2 strict, tools 1 strict"
    backend = casting(shop, AnswerPolicy())
    assert backend.decide(ask("Where is my parcel?"), at()).divergence.kind in {Kind.PROMPT, Kind.HISTORY}
    backend = casting(shop, AnswerPolicy())
    backend.decide(shop.exchanges[0].call, at())
    assert backend.finish().kind is Kind.MISSING


def test_by_position_the_next_reply_comes_whatever_is_asked_and_then_no_more(shop):
    backend = casting(shop, FREE)
    backend.decide(ask("Something else"), at())
    assert backend.finish() is None, "calls that are no longer made are no failure"
    assert [x.start for x in backend.list_made()] == [1]
    assert said(backend.decide(ask("Anything"), at())) == "It is late."
    refused = backend.decide(ask("And now?"), at()).divergence
    assert refused.kind is Kind.EXTRA
    assert "more often" in refused.summary
    assert "2 replies" in refused.cause
    assert any("--live" in hint for hint in refused.hints)
    assert backend.finish() is None, "nobody has latched it, and what was not asked for is no failure"


def test_a_tool_is_served_by_name_where_position_counts(shop):
    backend = casting(shop, BY_POSITION)
    assert said(backend.decide(ToolCall("lookup", {"id": 8, "user": "u-7"}), at())) == "late"
    refused = backend.decide(ToolCall("refund", {"id": 8}), at()).divergence
    assert refused.summary == "the case has no reply of tool refund"
    kept = backend.latch(refused, "agent.py:1 in f")
    assert backend.decide(ToolCall("lookup", {"id": 1}), at()).divergence is kept, "a refusal is for good"
    assert backend.finish() is kept


def deep(number):
    return ToolCall("lookup", {"id": number, "deep": False}, defaults=frozenset({"deep"}))


def test_a_tool_is_served_by_its_arguments_from_fixtures(shop):
    fixtures = Written({("lookup", ("id", 7)): "late", ("lookup", ("id", 7), ("user", "u-7")): "!mine"})
    backend = casting(shop, AnswerPolicy(model="position", tools="arguments", fixtures=fixtures))
    assert said(backend.decide(ToolCall("lookup", {"id": 7, "user": "u-7"}), at())) == "!mine"
    assert said(backend.decide(ToolCall("lookup", {"id": 7}), at())) == "late"
    assert said(backend.decide(deep(7), at())) == "late"
    refused = backend.decide(ToolCall("lookup", {"id": 9}), at()).divergence
    assert refused.kind in {Kind.ARGS, Kind.TOOL}
    assert refused.hints == ("write fixtures/lookup-2.yaml with {'id': 9}",)
    assert backend.summary == "tools 2 arguments (recorded), tools 1 arguments (written)"


def test_without_fixtures_the_recorded_results_answer_their_arguments_once(shop):
    backend = casting(shop, FREE)
    assert said(backend.decide(ToolCall("lookup", {"id": 7}), at("main.3"))) == "late"
    assert isinstance(backend.decide(ToolCall("lookup", {"id": 7}), at()), Refused)
    backend = casting(shop, FREE)
    assert [one.path for one in backend.decide(deep(8), at()).divergence.differences] == ["$.id"]
    assert said(backend.decide(deep(7), at())) == "late", "what the function adds by itself is no difference"


def test_the_model_may_be_live_and_a_tool_never_is(shop):
    backend = casting(shop, AnswerPolicy(model="live", tools="arguments"))
    forward = backend.decide(ask("Really?"), at())
    assert isinstance(forward, PassThrough)
    inner = backend.decide(chat([], url="https://elsewhere/v1/x"), at(parent=forward.ticket))
    assert isinstance(inner, PassThrough), "what a live model does inside is its own"
    backend.settle(inner.ticket, HttpReply(200), at=3, first=None, suspended=False)
    assert said(backend.decide(ToolCall("lookup", {"id": 7}), at(parent=forward.ticket))) == "late"
    backend.settle(forward.ticket, completion("Yes."), at=5, first=4, suspended=True)
    outer, within, tool = backend.list_made()
    assert (outer.outcome, outer.timing.end, within.parent) == (completion("Yes."), 5, outer.start)
    assert tool.call == ToolCall("lookup", {"id": 7})
    assert backend.summary == "model 1 live, other 1 live, tools 1 arguments (recorded)"


def test_an_unknown_lane_is_served_from_where_it_began_and_known_lanes_from_their_own():
    book = Book()
    for n, lane in enumerate(("main.1", "main.2", "main.1", "main.2", "main")):
        book.model([{"role": "user", "content": f"{lane} {n}"}], completion(f"{lane} {n}"), lane=lane)
    backend = casting(book.run(), FREE)
    served = [said(backend.decide(ask("x"), at(lane))) for lane in ("main.2", "main.1", "main.7")]
    assert served == ["main.2 1", "main.1 0", "main 4"]
    assert isinstance(backend.decide(ask("x"), at("main.7")), Refused)


def test_what_was_given_up_has_no_reply_to_give():
    book = Book()
    book.add(ask("first"), Failure("asyncio.exceptions.CancelledError"))
    book.add(ask("second"), completion("second"))
    book.add(ask("third"), None, finish=None)
    backend = casting(book.run(), FREE)
    assert said(backend.decide(ask("x"), at())) == "second"
    assert isinstance(backend.decide(ask("x"), at()), Refused)


STEPS = st.lists(st.tuples(st.sampled_from(["main", "main.1", "main.2"]), st.sampled_from(["", "a", "b"])), max_size=12)


@given(recorded=STEPS, asked=STEPS, threads=st.integers(1, 3))
def test_each_reply_is_given_at_most_once_and_in_order_whatever_the_interleaving(recorded, asked, threads):
    book = Book()
    for number, (lane, tool) in enumerate(recorded):
        if tool:
            book.tool(tool, number, lane=lane, n=number)
        else:
            book.model([{"role": "user", "content": str(number)}], completion(str(number)), lane=lane)
    backend, served = casting(book.run(), BY_POSITION), defaultdict(list)

    def work(mine):
        for lane, tool in mine:
            verdict = backend.decide(ToolCall(tool, {"n": -1}) if tool else ask("else"), at(lane))
            if isinstance(verdict, Replayed):
                served[threading.get_ident(), verdict.exchange.lane, tool].append(verdict.exchange.start)

    workers = [threading.Thread(target=work, args=(asked[at::threads],)) for at in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    times = Counter(start for starts in served.values() for start in starts)
    assert max(times.values(), default=1) == 1
    assert all(starts == sorted(starts) for starts in served.values())
    kinds = {x.start: getattr(x.call, "name", "") for x in book.exchanges}
    assert all(kinds[start] == tool for (_, _, tool), starts in served.items() for start in starts)
    taken = defaultdict(list)
    for x in book.exchanges:
        taken[x.lane, kinds[x.start]].append(x.start in times)
    assert all(flags == sorted(flags, reverse=True) for flags in taken.values()), "a later reply before an earlier one"
    assert len(backend.list_made()) == sum(times.values())


def over_http(number, **arguments):
    body = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": "look", "arguments": arguments}}
    return HttpCall("POST", "https://mcp.example/mcp", JSON, Body(json.dumps(body).encode()))


def test_a_tool_behind_http_is_a_tool_and_its_fixture_is_told_over_the_wire():
    recorded = {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "late"}]}}
    book = Book()
    book.add(over_http(1, id=7), HttpReply(200, body=Body(json.dumps(recorded).encode())))
    fixtures = Written({("look", ("id", 8)): "!mine"})
    backend = casting(book.run(), AnswerPolicy(tools="arguments", fixtures=fixtures, spell=json_rpc.write_answer))
    told = json.loads(backend.decide(over_http(5, id=8), at()).exchange.outcome.body.data)
    assert (told["id"], told["result"]["content"][0]["text"], told["result"]["isError"]) == (5, "!mine", False)
    assert backend.summary == "tools 1 arguments (written)"
    assert casting(book.run(), AnswerPolicy(tools="position")).decide(over_http(5, id=9), at()).exchange.start == 0
