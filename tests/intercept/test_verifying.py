"""The one way to a tool's body in a replay: a read tool, asked to be verified, once for each answered call."""

import pytest

from pytest_agentreplay.backends.replay import ReplayBackend
from pytest_agentreplay.backends.verify import VerifyBackend
from pytest_agentreplay.compare.matching import Matching
from pytest_agentreplay.compare.tolerance import TolerancePolicy
from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.intercept.session import patching
from pytest_agentreplay.intercept.session.interceptions import Interception
from pytest_agentreplay.model.exchanges import (
    Exchange,
    Failure,
    Header,
    HttpCall,
    HttpReply,
    RawCall,
    Run,
    ToolCall,
    ToolReply,
)
from pytest_agentreplay.providers import READER
from tests.support.tapes import Plain

LOOK, REFUND, GIVEN_UP = ToolCall("look_up", {"id": 7}), ToolCall("refund"), ToolCall("slow")
INNER = HttpCall("GET", "http://db.test/rows")
RUN = Run(
    Header("test_it"),
    (
        Exchange(LOOK, ToolReply("late"), 1, 6),
        Exchange(INNER, HttpReply(200), 2, 3, parent=1),
        Exchange(REFUND, ToolReply("done"), 4, 5, parent=1),
        Exchange(REFUND, ToolReply("done"), 7, 8),
        Exchange(GIVEN_UP, Failure("asyncio.CancelledError"), 9, 10),
    ),
)


@pytest.fixture(autouse=True)
def body():
    def function():
        return "ran"

    patching.keep(-1, function, function.__code__)
    yield
    patching.empty(-1)


def interception_of(kind=VerifyBackend):
    more = (TolerancePolicy(),) if kind is VerifyBackend else ()
    return Interception(kind(RUN, Matching(READER), READER, *more), Plain())


def lends(intercepted):
    try:
        return patching.lend(-1, intercepted)() == "ran"
    except ReplayDiverged:
        return False


def test_a_read_tool_is_lent_until_its_outcome_is_there():
    interception = interception_of()
    intercepted = interception.enter(RawCall(LOOK), reads=True)
    assert lends(intercepted)
    intercepted.compare_outcome(ToolReply("late"))
    assert not lends(intercepted)
    assert interception.backend.changed == []
    assert interception.backend.verified == 1


@pytest.mark.parametrize(
    ("kind", "call", "reads"),
    [
        (ReplayBackend, LOOK, True),
        (ReplayBackend, LOOK, False),
        (VerifyBackend, LOOK, False),
        (VerifyBackend, GIVEN_UP, True),
    ],
    ids=["replaying", "replaying a write tool", "verifying a write tool", "given up when recorded"],
)
def test_nothing_else_is(kind, call, reads):
    interception = interception_of(kind)
    if call is GIVEN_UP:
        interception.enter(RawCall(LOOK))
        interception.enter(RawCall(REFUND))
    intercepted = interception.enter(RawCall(call), reads=reads)
    assert not intercepted.forward
    assert not lends(intercepted)


def test_a_tool_reads_when_its_shown_name_is_declared():
    interception = interception_of()
    interception.tools.read_tools = ("look_*",)
    assert lends(interception.enter(RawCall(LOOK)))
    assert not lends(interception.enter(RawCall(REFUND)))


def test_inside_a_running_tool_the_wire_is_open_and_write_tools_are_answered_once():
    interception = interception_of()
    outer = interception.enter(RawCall(LOOK), reads=True)
    with outer.inside():
        live = interception.enter(RawCall(HttpCall("GET", "http://db.test/other")))
        assert live.forward
        live.settle(HttpReply(200))
        inner = interception.enter(RawCall(REFUND))
        assert not inner.open
        assert inner.outcome == ToolReply("done")
        with pytest.raises(ReplayDiverged, match="tool refund called inside tool look_up"):
            interception.enter(RawCall(REFUND))
        with pytest.raises(ReplayDiverged):
            interception.enter(RawCall(HttpCall("GET", "http://db.test/third")))
    assert interception.backend.divergence is not None


def test_outside_of_a_running_tool_the_wire_is_closed():
    interception = interception_of()
    with interception.enter(RawCall(LOOK), reads=True).inside():
        pass
    for call in (INNER, LOOK):
        with pytest.raises(ReplayDiverged):
            interception.enter(RawCall(call), reads=True)


def test_a_changed_result_is_no_refusal_and_comes_before_what_is_refused():
    interception = interception_of()
    interception.enter(RawCall(LOOK), reads=True).compare_outcome(ToolReply("lost"))
    assert interception.backend.divergence is None
    interception.enter(RawCall(REFUND))
    with pytest.raises(ReplayDiverged) as refused:
        interception.enter(RawCall(REFUND))
    first = interception.backend.first(refused.value.divergence)
    assert first.kind.code == "AR-RESULT"
    assert first.summary == "tool look_up: result changed, $ late -> lost"
    assert first.detail[-1].startswith("then: [AR-EXTRA]")
