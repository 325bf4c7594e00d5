"""Backends of runs that tests wrote down, without a session around them."""

from pytest_agentreplay.backends.backend import Moment, PassThrough, RecordBackend
from pytest_agentreplay.backends.replay import ReplayBackend
from pytest_agentreplay.compare.matching import Matching
from pytest_agentreplay.model.exchanges import Body, Header, HttpReply, Run, ToolCall, ToolReply
from pytest_agentreplay.providers import READER, RULES


def replayer(run):
    """What replays a run under the shipped rules."""
    return ReplayBackend(run, Matching(READER, RULES), READER)


def recorded(steps, answer=None):
    """A run of (lane, call) in order, each over before the next begins; `answer(number, call)` makes the outcomes."""
    backend = RecordBackend()
    for number, (lane, call) in enumerate(steps):
        verdict = backend.decide(call, Moment(lane, number))
        assert isinstance(verdict, PassThrough)
        reply = HttpReply(200, body=Body(b"%d" % number), cuts=(1,))
        outcome = answer(number, call) if answer else ToolReply(number) if isinstance(call, ToolCall) else reply
        backend.settle(verdict.ticket, outcome, at=number, first=None, suspended=False)
    return Run(Header("t::x"), backend.list_exchanges())
