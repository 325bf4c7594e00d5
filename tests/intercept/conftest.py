"""A gate that records, one that answers, and a test's doorstep around them: what a boundary is tried with."""

import threading
from collections import deque
from contextlib import contextmanager

import pytest

from pytest_agentreplay.core.backends.backend import PassThrough, Refused, Replayed
from pytest_agentreplay.core.divergence import Divergence, Kind
from pytest_agentreplay.core.model import Exchange, Timing
from pytest_agentreplay.intercept import registry
from pytest_agentreplay.intercept.session import interceptions, lanes


class Plain:
    """Scrubs nothing."""

    def headers(self, headers, url=""):
        return headers

    def call(self, call):
        return call

    def outcome(self, call, outcome):
        return outcome

    reveal = hide = staticmethod(lambda shown: shown)


class Tape:
    """A gate that records, and one that answers in order what the same method, url and body were answered."""

    def __init__(self, recorded=()):
        self.count = 0
        self.lock = threading.Lock()
        self.exchanges = {}
        self.latched = None
        self.queues = {}
        for x in recorded:
            self.queues.setdefault(identity(x.call), deque()).append(x)

    def recognise(self, call):
        return False

    def decide(self, call, moment):
        with self.lock:
            self.count += 1
            number = self.count
            self.exchanges[number] = Exchange(call, None, number, None, lane=moment.lane, attempt=moment.attempt)
        return PassThrough(number)

    def settle(self, ticket, outcome, *, at, first, suspended):
        begun = self.exchanges[ticket]
        assert begun.outcome is None, "settled twice"
        timing = Timing(0, first, at)
        self.exchanges[ticket] = Exchange(
            begun.call, outcome, ticket, at, lane=begun.lane, attempt=begun.attempt, suspended=suspended, timing=timing
        )

    def latch(self, divergence, origin):
        self.latched = self.latched or divergence
        return self.latched


class Player(Tape):
    def decide(self, call, moment):
        queue = self.queues.get(identity(call))
        if not queue:
            return Refused(Divergence(Kind.EXTRA, f"nothing for {interceptions.describe(call)}", now=call))
        return Replayed(queue.popleft(), 1)


def identity(call):
    return call.method, call.url, call.body.sha256


class Steps:
    def __init__(self):
        self.times = []

    def step(self, at, lane, count):
        self.times.append(at)


@contextmanager
def running(backend):
    interception = interceptions.Interception(backend, Plain(), steps=Steps())
    registry.install()
    interceptions.open_for(interception)
    token = lanes.CALL_CONTEXT.set(interception.main())
    try:
        yield interception
    finally:
        lanes.CALL_CONTEXT.reset(token)
        interceptions.open_for(None)
        interception.end()


@contextmanager
def recording():
    tape = Tape()
    with running(tape):
        yield tape


def replaying(tape):
    return running(Player(tape.exchanges.values()))


def both(server, act):
    """Record `act`, replay it, and give both results and the exchanges; the server is not reached again."""
    with recording() as tape:
        live = act()
    hits = server.hits
    with replaying(tape) as interception:
        replayed = act()
    assert server.hits == hits
    assert interception.backend.latched is None
    assert not any(interception.backend.queues.values()), "not all was asked for"
    assert len(interception.steps.times) == len(tape.exchanges), "each crossing moves the clock once"
    return live, replayed, list(tape.exchanges.values())


@pytest.fixture(name="both")
def both_fixture():
    return both


@pytest.fixture(name="recording")
def recording_fixture():
    return recording


@pytest.fixture(name="replaying")
def replaying_fixture():
    return replaying


@pytest.fixture(name="running")
def running_fixture():
    return running


@pytest.fixture(name="Player")
def player_fixture():
    return Player


@pytest.fixture(name="Plain")
def plain_fixture():
    return Plain
