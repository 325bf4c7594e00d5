"""Local services: a port of a recording stands for one port of now, and for no other."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agentreplay.core.backends.backend import Moment, PassThrough, RecordBackend, Refused, Replayed
from pytest_agentreplay.core.backends.replay import ReplayBackend
from pytest_agentreplay.core.divergence import Kind
from pytest_agentreplay.core.matching import Matching
from pytest_agentreplay.core.model import Body, FrameCall, Header, HttpCall, HttpReply, Run
from pytest_agentreplay.dialects import READER, RULES


def get(port, path="/", host="127.0.0.1"):
    return HttpCall("GET", f"http://{host}:{port}{path}")


def recorded(calls):
    backend = RecordBackend()
    for number, (lane, call) in enumerate(calls):
        verdict = backend.decide(call, Moment(lane, number))
        assert isinstance(verdict, PassThrough)
        reply = HttpReply(200, body=Body(f"{call.url}".encode()))
        backend.settle(verdict.ticket, reply, at=number, first=None, suspended=False)
    return Run(Header("t::x"), backend.exchanges())


def replayed(before, now):
    """The URLs whose replies `now` gets, up to the first refusal, and that refusal."""
    backend = ReplayBackend(recorded([("main", call) for call in before]), Matching(READER, RULES), READER)
    got = []
    for call in now:
        verdict = backend.decide(call, Moment("main", 0))
        if isinstance(verdict, Refused):
            return got, verdict.divergence
        assert isinstance(verdict, Replayed)
        got.append(verdict.exchange.call.url)
    return got, backend.finish()


BOTH = [get(8001), get(8002)]


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (BOTH, [get(9001), get(9002)]),
        (BOTH, [get(9001, host="localhost"), get(9002, host="[::1]")]),
        ([get(1, "/a"), get(2, "/b")], [get(11, "/a"), get(12, "/b")]),
        ([get(1, "/a"), get(1, "/b"), get(2, "/a")], [get(5, "/a"), get(5, "/b"), get(6, "/a")]),
        ([FrameCall("ws://127.0.0.1:1/"), get(2)], [FrameCall("ws://localhost:7/"), get(8)]),
    ],
)
def test_new_ports_stand_for_the_recorded_ones(before, now):
    got, refusal = replayed(before, now)
    assert refusal is None
    assert got == [call.url for call in before]


@pytest.mark.parametrize(
    ("before", "now", "kind"),
    [
        (BOTH, [get(9001), get(9001)], Kind.REQUEST),
        (BOTH, [get(8002), get(8001)], Kind.ORDER),
        ([get(8001)] * 2, [get(9001), get(9002)], None),
        ([get(8001, "/a"), get(8002, "/b")], [get(8002, "/a"), get(8001, "/b")], Kind.REQUEST),
        ([get(1, "/a"), get(1, "/b"), get(2, "/a"), get(2, "/b")], [get(5, "/a"), get(6, "/b")], None),
        ([get(1, host="tenant-a.localhost")], [get(1, host="tenant-b.localhost")], None),
    ],
)
def test_another_service_is_refused(before, now, kind):
    got, refusal = replayed(before, now)
    assert refusal is not None
    assert len(got) < len(now)
    assert kind is None or refusal.kind is kind


def test_the_report_names_both_services():
    refusal = replayed(BOTH, [get(9001), get(9001)])[1]
    assert "localhost:9001" in refusal.summary
    assert "localhost:8002" in refusal.summary
    assert "localhost:9001 stands for the recorded localhost:8001" in refusal.cause


def test_the_report_names_the_new_address_that_the_recorded_one_does_not_have():
    refusal = replayed([get(8001, "/a"), get(8001, "/b")], [get(9001, "/a"), get(8001, "/b")])[1]
    assert refusal.kind is Kind.REQUEST
    assert refusal.summary.endswith("goes to localhost:8001, and the calls before it went to localhost:9001 instead")
    assert refusal.cause.endswith(
        "localhost:9001 stands for the recorded localhost:8001, which has one address in a run"
    )


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from("ab")), min_size=1, max_size=12), st.permutations(range(4))
)
def test_a_run_on_any_new_ports_gets_its_own_replies(calls, ports):
    before = [get(8000 + service, f"/{path}") for service, path in calls]
    now = [get(9000 + ports[service], f"/{path}") for service, path in calls]
    assert replayed(before, now) == ([call.url for call in before], None)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from("ab")), min_size=2, max_size=10), st.data())
def test_no_reply_of_one_service_is_given_to_two(calls, data):
    """Whatever is asked, ports of now and recorded ports stand in a one to one relation."""
    before = [get(8000 + service, f"/{path}") for service, path in calls]
    asked = data.draw(st.lists(st.tuples(st.integers(0, 2), st.sampled_from("ab")), max_size=10))
    now = [get(9000 + service, f"/{path}") for service, path in asked]
    got, _ = replayed(before, now)
    pairs = {(call.url[:21], url[:21]) for call, url in zip(now, got, strict=False)}
    assert len(pairs) == len({one for one, _ in pairs}) == len({other for _, other in pairs})
