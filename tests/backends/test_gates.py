"""The three gates by themselves: what is recorded, what is served, what is refused and stays refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.backends.adopt import AdoptBackend
from pytest_agentreplay.backends.backend import Moment, RecordBackend, Refused, Replayed
from pytest_agentreplay.compare.matching import Matching
from pytest_agentreplay.model.divergence import Kind
from pytest_agentreplay.model.exchanges import (
    Body,
    Failure,
    FrameCall,
    Header,
    HttpCall,
    HttpReply,
    Run,
    ToolCall,
    ToolReply,
)
from pytest_agentreplay.providers import READER, RULES
from tests.support.backends import recorded, replayer

JSON_TYPE = (("content-type", "application/json"),)


def chat(text, **more):
    body = {"model": "m", "messages": [{"role": "user", "content": text}], **more}
    return HttpCall("POST", "http://h/v1/chat/completions", JSON_TYPE, Body(json.dumps(body).encode()))


def tool(n):
    return ToolCall("look", {"n": n})


def at(lane="main", moment=0, parent=None):
    return Moment(lane, moment, parent=parent)


def in_main(*calls):
    return recorded([("main", call) for call in calls])


def test_a_recorder_numbers_starts_and_finishes_by_one_counter():
    noted = []
    backend = RecordBackend(noted.append)
    first, second = backend.decide(tool(1), at("main", 10)), backend.decide(tool(2), at("main.1", 20, parent=1))
    backend.settle(second.ticket, ToolReply("b"), at=40, first=30, suspended=True)
    backend.settle(first.ticket, Failure("builtins.OSError"), at=50, first=None, suspended=False)
    told = [(x.start, x.finish, x.lane, x.parent, x.suspended) for x in backend.list_exchanges()]
    assert told == [(1, 4, "main", None, False), (2, 3, "main.1", 1, True)]
    assert [x.start for x in noted] == [2, 1]
    assert backend.count() == 4
    assert backend.list_exchanges()[1].timing.first == 30


def test_each_exchange_is_served_once_in_order_of_start():
    backend = replayer(in_main(tool(1), tool(1)))
    assert backend.recognise(tool(1))
    assert not backend.recognise(tool(2))
    served = [backend.decide(tool(1), at()) for _ in range(3)]
    assert [answer.exchange.outcome.value for answer in served[:2]] == [0, 1]
    assert served[2].divergence.kind is Kind.EXTRA


def test_a_refusal_is_for_good_and_the_first_one_is_kept():
    backend = replayer(in_main(tool(1)))
    kept = backend.latch(backend.decide(tool(9), at()).divergence, "agent.py:1 in f")
    again = backend.decide(tool(1), at())
    assert isinstance(again, Refused)
    assert backend.latch(again.divergence, "elsewhere") is kept
    assert (kept.kind, kept.origin) == (Kind.ARGS, "agent.py:1 in f")
    assert backend.finish() is kept


def test_what_was_not_made_is_told_at_the_end_and_what_came_later_is_waited_for():
    run = in_main(tool(1), tool(2))
    backend = replayer(run)
    backend.decide(tool(1), at())
    assert backend.finish(until=run.exchanges[0].finish) is None, "teardown has still to ask"
    assert backend.finish().kind is Kind.MISSING
    assert [x.start for x in backend.list_replayed()] == [1]


def test_another_key_order_is_the_same_call_and_a_watched_field_is_drift():
    backend = replayer(in_main(chat("a", prompt_cache_key="k1")))
    body = {"prompt_cache_key": "k2", "messages": [{"content": "a", "role": "user"}], "model": "m"}
    now = HttpCall("POST", "http://h/v1/chat/completions", JSON_TYPE, Body(json.dumps(body).encode()))
    assert isinstance(backend.decide(now, at()), Replayed)
    ((_, drift),) = backend.drift
    assert [d.path for d in drift] == ["$.prompt_cache_key"]
    assert [x.call for x in backend.list_made()] == [now]


def test_children_belong_to_their_parent_and_are_never_awaited():
    backend = RecordBackend()
    outer = backend.decide(tool(1), at())
    inner = backend.decide(chat("inside"), at(parent=outer.ticket))
    backend.settle(inner.ticket, HttpReply(200), at=1, first=None, suspended=False)
    backend.settle(outer.ticket, ToolReply(1), at=2, first=None, suspended=False)
    replay = replayer(Run(Header("t::x"), backend.list_exchanges()))
    assert isinstance(replay.decide(tool(1), at()), Replayed)
    assert replay.finish() is None
    assert len(replay.list_replayed()) == 2


STEPS = st.lists(st.tuples(st.sampled_from(["main.1", "main.2", "main.3"]), st.integers(0, 3)), min_size=1, max_size=12)


@given(STEPS, st.randoms(use_true_random=False))
def test_lanes_may_interleave_in_any_way_and_every_call_gets_its_own_reply(steps, dice):
    run = recorded([(lane, ToolCall("look", {"n": n, "lane": lane})) for lane, n in steps])
    waiting = {lane: [x for x in run.exchanges if x.lane == lane] for lane, _ in steps}
    backend = replayer(run)
    while any(waiting.values()):
        lane = dice.choice([lane for lane, left in waiting.items() if left])
        x = waiting[lane].pop(0)
        assert backend.decide(x.call, at(lane)).exchange.start == x.start
    assert backend.finish() is None


@given(st.lists(st.integers(0, 9), min_size=2, max_size=8, unique=True), st.data())
def test_two_calls_of_one_lane_never_change_places(numbers, data):
    run = in_main(*map(tool, numbers))
    late = data.draw(st.integers(1, len(numbers) - 1))
    backend = replayer(run)
    for x in run.exchanges[: late - 1]:
        backend.decide(x.call, at())
    assert backend.decide(run.exchanges[late].call, at()).divergence.kind in {Kind.ORDER, Kind.MISSING}


@pytest.mark.parametrize("held", [chat, lambda text: ToolCall("pay", {"with": text})])
def test_a_token_of_one_reply_is_not_taken_for_that_of_another(held):
    ada, eve, own = (f"[[redacted:key:{number}]]" for number in (2, 3, 1))

    def steps(first, second, key=own):
        return [ToolCall("login", {"key": key}), ToolCall("logout"), held(f"pay {first}"), held(f"pay {second}")]

    def refused(now, before=(ada, eve)):
        calls = [("main", call) for call in steps(*before)]
        backend = replayer(recorded(calls, lambda number, _: ToolReply([ada, eve] if number == 0 else number)))
        return any(isinstance(backend.decide(call, at()), Refused) for call in now)

    assert not refused(steps(ada, eve))
    assert not refused(steps(ada, eve, key="[[redacted:key:9]]")), "the key of another machine"
    assert refused(steps(eve, ada))
    assert refused(steps(eve, eve))
    assert refused(steps(eve, eve), before=(ada, ada)), "renamed alike throughout"


# Replies of a recording for requests that have changed.


def adopter(run):
    return AdoptBackend(run, Matching(READER, RULES), READER)


def test_changed_requests_get_the_replies_of_their_places():
    run = in_main(chat("a"), tool(1), chat("b"))
    backend = adopter(run)
    assert not backend.recognise(chat("a"))
    answers = [backend.decide(call, at()) for call in (chat("A"), tool(1), chat("b"))]
    assert [answer.exchange.start for answer in answers] == [x.start for x in run.exchanges]
    assert backend.finish() is None
    new, changed = backend.list_adopted()
    assert [(aligned.recorded, aligned.now) for aligned in changed] == [(run.exchanges[0], chat("A"))]
    assert (new.exchanges[0].call, new.exchanges[0].outcome) == (chat("A"), run.exchanges[0].outcome)


def test_a_changed_request_keeps_the_port_that_the_others_of_its_run_have():
    def asked(text, port):
        return HttpCall("POST", f"http://127.0.0.1:{port}/v1/chat", (), Body(text.encode()))

    run = in_main(asked("a", 39911), asked("b", 39911))
    backend = adopter(run)
    assert all(isinstance(backend.decide(asked(text, 1), at()), Replayed) for text in ("a", "B"))
    new, (changed,) = backend.list_adopted()
    assert [x.call for x in new.exchanges] == [asked("a", 39911), asked("B", 39911)]
    assert changed.now == asked("B", 1)


def test_a_call_more_or_less_has_no_old_reply():
    run = in_main(tool(1), tool(2))
    more, less = adopter(run), adopter(run)
    for call in (tool(1), tool(2)):
        more.decide(call, at())
    kept = more.latch(more.decide(tool(3), at()).divergence, "a.py:1 in f")
    assert kept.origin == "a.py:1 in f"
    assert more.decide(tool(1), at()).divergence is kept
    assert more.finish() is kept
    less.decide(tool(1), at())
    assert less.finish().kind is Kind.MISSING


def test_an_address_has_no_port_query_or_credentials():
    calls = HttpCall("POST", "http://127.0.0.1:8123/v1/chat?x=1"), HttpCall("GET", "https://u:p@api.test")
    addresses = [Matching(READER, RULES).address(call) for call in calls]
    assert addresses == ["http://localhost/v1/chat", "https://api.test/"]


# Local services: a port of a recording stands for one port of now, and for no other.


def get(port, path="/", host="127.0.0.1"):
    return HttpCall("GET", f"http://{host}:{port}{path}")


def replayed(before, now):
    """The URLs whose replies `now` gets, up to the first refusal, and that refusal."""
    backend, got = replayer(in_main(*before)), []
    for call in now:
        verdict = backend.decide(call, at())
        if isinstance(verdict, Refused):
            return got, verdict.divergence
        got.append(verdict.exchange.call.url)
    return got, backend.finish()


BOTH = [get(8001), get(8002)]
SAME_SERVICES = [
    (BOTH, [get(9001, host="localhost"), get(9002, host="[::1]")]),
    ([FrameCall("ws://127.0.0.1:1/"), get(2)], [FrameCall("ws://localhost:7/"), get(8)]),
]
OTHER_SERVICES = [
    (BOTH, [get(9001), get(9001)], Kind.REQUEST),
    (BOTH, [get(8002), get(8001)], Kind.ORDER),
    ([get(8001)] * 2, [get(9001), get(9002)], None),
    ([get(8001, "/a"), get(8002, "/b")], [get(8002, "/a"), get(8001, "/b")], Kind.REQUEST),
    ([get(1, "/a"), get(1, "/b"), get(2, "/a"), get(2, "/b")], [get(5, "/a"), get(6, "/b")], None),
    ([get(1, host="tenant-a.localhost")], [get(1, host="tenant-b.localhost")], None),
]


def test_new_ports_stand_for_the_recorded_ones_and_another_service_is_refused():
    for before, now in SAME_SERVICES:
        assert replayed(before, now) == ([call.url for call in before], None)
    for before, now, kind in OTHER_SERVICES:
        got, refusal = replayed(before, now)
        assert len(got) < len(now), now
        assert refusal.kind is (kind or refusal.kind), now


def test_the_report_names_both_services_and_the_address_that_the_recorded_one_does_not_have():
    refusal = replayed(BOTH, [get(9001), get(9001)])[1]
    assert "localhost:9001" in refusal.summary
    assert "localhost:8002" in refusal.summary
    assert "localhost:9001 stands for the recorded localhost:8001" in refusal.cause
    refusal = replayed([get(8001, "/a"), get(8001, "/b")], [get(9001, "/a"), get(8001, "/b")])[1]
    assert refusal.summary.endswith("goes to localhost:8001, and the calls before it went to localhost:9001 instead")
    assert refusal.cause.endswith("stands for the recorded localhost:8001, which has one address in a run")


ASKED = st.lists(st.tuples(st.integers(0, 3), st.sampled_from("ab")), min_size=1, max_size=12)


@given(ASKED, st.permutations(range(4)))
def test_a_run_on_any_new_ports_gets_its_own_replies(calls, ports):
    before = [get(8000 + service, f"/{path}") for service, path in calls]
    now = [get(9000 + ports[service], f"/{path}") for service, path in calls]
    assert replayed(before, now) == ([call.url for call in before], None)


@given(ASKED, ASKED)
def test_no_reply_of_one_service_is_given_to_two(calls, asked):
    """Whatever is asked, ports of now and recorded ports stand in a one to one relation."""
    before = [get(8000 + service, f"/{path}") for service, path in calls]
    now = [get(9000 + service, f"/{path}") for service, path in asked]
    got, _ = replayed(before, now)
    pairs = {(call.url[:21], url[:21]) for call, url in zip(now, got, strict=False)}
    assert len(pairs) == len({one for one, _ in pairs}) == len({other for _, other in pairs})
