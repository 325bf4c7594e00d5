"""The three gates by themselves: what is recorded, what is served, what is refused and stays refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.core.backends.adopt import AdoptBackend, endpoint
from pytest_agentreplay.core.backends.backend import Moment, PassThrough, RecordBackend, Refused, Replayed
from pytest_agentreplay.core.backends.replay import ReplayBackend
from pytest_agentreplay.core.divergence import Kind
from pytest_agentreplay.core.matching import Matching
from pytest_agentreplay.core.model import Body, Failure, Header, HttpCall, HttpReply, Run, ToolCall, ToolReply
from pytest_agentreplay.dialects import READER, RULES

JSON_TYPE = (("content-type", "application/json"),)


def chat(text, **more):
    body = {"model": "m", "messages": [{"role": "user", "content": text}], **more}
    return HttpCall("POST", "http://h/v1/chat/completions", JSON_TYPE, Body(json.dumps(body).encode()))


def tool(n):
    return ToolCall("look", {"n": n})


def at(lane="main", moment=0, parent=None):
    return Moment(lane, moment, parent=parent)


def recorded(steps):
    """A run of (lane, call) in order, each over before the next begins."""
    backend = RecordBackend()
    for number, (lane, call) in enumerate(steps):
        verdict = backend.decide(call, at(lane, number))
        assert isinstance(verdict, PassThrough)
        outcome = (
            ToolReply(number) if isinstance(call, ToolCall) else HttpReply(200, body=Body(b"%d" % number), cuts=(1,))
        )
        backend.settle(verdict.ticket, outcome, at=number, first=None, suspended=False)
    return Run(Header("t::x"), backend.exchanges())


def replayer(run):
    return ReplayBackend(run, Matching(READER, RULES), READER)


def test_a_recorder_numbers_starts_and_finishes_by_one_counter():
    noted = []
    backend = RecordBackend(noted.append)
    first, second = backend.decide(tool(1), at("main", 10)), backend.decide(tool(2), at("main.1", 20, parent=1))
    backend.settle(second.ticket, ToolReply("b"), at=40, first=30, suspended=True)
    backend.settle(first.ticket, Failure("builtins.OSError"), at=50, first=None, suspended=False)
    assert not backend.recognise(tool(1))
    assert [(x.start, x.finish, x.lane, x.parent, x.suspended) for x in backend.exchanges()] == [
        (1, 4, "main", None, False),
        (2, 3, "main.1", 1, True),
    ]
    assert [x.start for x in noted] == [2, 1]
    assert backend.count() == 4
    assert backend.exchanges()[1].timing.first == 30


def test_each_exchange_is_served_once_in_order_of_start():
    backend = replayer(recorded([("main", tool(1)), ("main", tool(1))]))
    assert backend.recognise(tool(1))
    assert not backend.recognise(tool(2))
    served = [backend.decide(tool(1), at()) for _ in range(3)]
    assert [answer.exchange.outcome.value for answer in served[:2]] == [0, 1]
    assert isinstance(served[2], Refused)
    assert served[2].divergence.kind is Kind.EXTRA


def test_a_refusal_is_for_good_and_the_first_one_is_kept():
    backend = replayer(recorded([("main", tool(1))]))
    refused = backend.decide(tool(9), at())
    kept = backend.latch(refused.divergence, "agent.py:1 in f")
    again = backend.decide(tool(1), at())
    assert isinstance(again, Refused)
    assert backend.latch(again.divergence, "elsewhere") is kept
    assert (kept.kind, kept.origin) == (Kind.ARGS, "agent.py:1 in f")
    assert backend.finish() is kept


def test_what_was_not_made_is_told_at_the_end_and_what_came_later_is_waited_for():
    run = recorded([("main", tool(1)), ("main", tool(2))])
    backend = replayer(run)
    backend.decide(tool(1), at())
    assert backend.finish(until=run.exchanges[0].finish) is None, "teardown has still to ask"
    assert backend.finish().kind is Kind.MISSING
    assert [x.start for x in backend.replayed()] == [1]


def test_another_key_order_is_the_same_call_and_a_watched_field_is_drift():
    backend = replayer(recorded([("main", chat("a", prompt_cache_key="k1"))]))
    body = {"prompt_cache_key": "k2", "messages": [{"content": "a", "role": "user"}], "model": "m"}
    now = HttpCall("POST", "http://h/v1/chat/completions", JSON_TYPE, Body(json.dumps(body).encode()))
    assert isinstance(backend.decide(now, at()), Replayed)
    ((_, drift),) = backend.drift
    assert [d.path for d in drift] == ["$.prompt_cache_key"]
    assert [x.call for x in backend.made()] == [now]


def test_children_belong_to_their_parent_and_are_never_awaited():
    backend = RecordBackend()
    outer = backend.decide(tool(1), at())
    inner = backend.decide(chat("inside"), at(parent=outer.ticket))
    backend.settle(inner.ticket, HttpReply(200), at=1, first=None, suspended=False)
    backend.settle(outer.ticket, ToolReply(1), at=2, first=None, suspended=False)
    replay = replayer(Run(Header("t::x"), backend.exchanges()))
    assert isinstance(replay.decide(tool(1), at()), Replayed)
    assert replay.finish() is None
    assert len(replay.replayed()) == 2


def test_a_replayer_settles_nothing():
    with pytest.raises(AssertionError, match="arrival 3"):
        replayer(recorded([])).settle(3, ToolReply(), at=0, first=None, suspended=False)


STEPS = st.lists(st.tuples(st.sampled_from(["main.1", "main.2", "main.3"]), st.integers(0, 3)), min_size=1, max_size=12)


@given(STEPS, st.randoms(use_true_random=False))
def test_lanes_may_interleave_in_any_way_and_every_call_gets_its_own_reply(steps, dice):
    calls = [(lane, ToolCall("look", {"n": n, "lane": lane})) for lane, n in steps]
    run = recorded(calls)
    waiting = {lane: [x for x in run.exchanges if x.lane == lane] for lane, _ in calls}
    backend = replayer(run)
    while any(waiting.values()):
        lane = dice.choice([lane for lane, left in waiting.items() if left])
        x = waiting[lane].pop(0)
        answer = backend.decide(x.call, at(lane))
        assert isinstance(answer, Replayed)
        assert answer.exchange.start == x.start
    assert backend.finish() is None


@given(st.lists(st.integers(0, 9), min_size=2, max_size=8, unique=True), st.data())
def test_two_calls_of_one_lane_never_change_places(numbers, data):
    run = recorded([("main", tool(n)) for n in numbers])
    late = data.draw(st.integers(1, len(numbers) - 1))
    backend = replayer(run)
    for x in run.exchanges[: late - 1]:
        backend.decide(x.call, at())
    verdict = backend.decide(run.exchanges[late].call, at())
    assert isinstance(verdict, Refused)
    assert verdict.divergence.kind in {Kind.ORDER, Kind.MISSING}


@pytest.mark.parametrize("held", [chat, lambda text: ToolCall("pay", {"with": text})])
def test_a_token_of_one_reply_is_not_taken_for_that_of_another(held):
    ada, eve, own = (f"[[redacted:key:{number}]]" for number in (2, 3, 1))

    def run(first, second, key=own):
        steps = [ToolCall("login", {"key": key}), ToolCall("logout"), held(f"pay {first}"), held(f"pay {second}")]
        backend = RecordBackend()
        for number, call in enumerate(steps):
            ticket = backend.decide(call, at("main", number)).ticket
            reply = ToolReply([ada, eve]) if number == 0 else ToolReply(number)
            backend.settle(ticket, reply, at=number, first=None, suspended=False)
        return steps, Run(Header("t::x"), backend.exchanges())

    def refused(steps, recorded=(ada, eve)):
        backend = replayer(run(*recorded)[1])
        return [isinstance(backend.decide(call, at()), Refused) for call in steps]

    assert not any(refused(run(ada, eve)[0]))
    assert not any(refused(run(ada, eve, key="[[redacted:key:9]]")[0])), "the key of another machine"
    assert any(refused(run(eve, ada)[0]))
    assert any(refused(run(eve, eve)[0]))
    assert any(refused(run(eve, eve)[0], recorded=(ada, ada))), "renamed alike throughout"


def adopter(run):
    return AdoptBackend(run, Matching(READER, RULES), READER)


def test_changed_requests_get_the_replies_of_their_places():
    run = recorded([("main", chat("a")), ("main", tool(1)), ("main", chat("b"))])
    backend = adopter(run)
    assert not backend.recognise(chat("a"))
    answers = [backend.decide(call, at()) for call in (chat("A"), tool(1), chat("b"))]
    assert [answer.exchange.start for answer in answers] == [x.start for x in run.exchanges]
    assert backend.finish() is None
    new, changed = backend.adopted()
    assert [(aligned.recorded, aligned.now) for aligned in changed] == [(run.exchanges[0], chat("A"))]
    assert new.exchanges[0].call == chat("A")
    assert new.exchanges[0].outcome == run.exchanges[0].outcome


def test_a_call_more_or_less_has_no_old_reply():
    run = recorded([("main", tool(1)), ("main", tool(2))])
    more = adopter(run)
    for call in (tool(1), tool(2)):
        more.decide(call, at())
    refused = more.decide(tool(3), at())
    assert isinstance(refused, Refused)
    kept = more.latch(refused.divergence, "a.py:1 in f")
    assert kept.origin == "a.py:1 in f"
    assert more.decide(tool(1), at()).divergence is kept
    assert more.finish() is kept
    less = adopter(run)
    less.decide(tool(1), at())
    assert less.finish().kind is Kind.MISSING


@pytest.mark.parametrize(
    ("call", "is_put_to"),
    [
        (tool(1), "look"),
        (HttpCall("POST", "http://127.0.0.1:8123/v1/chat?x=1"), "POST http://localhost/v1/chat"),
        (HttpCall("GET", "https://u:p@api.test"), "GET https://api.test/"),
    ],
)
def test_an_endpoint_is_named_without_port_query_or_credentials(call, is_put_to):
    assert endpoint(call) == is_put_to
