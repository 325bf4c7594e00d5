"""A backend that records, one that answers, and the body of a test around them: what a boundary is tried with."""

import json
import threading
from contextlib import contextmanager
from dataclasses import replace

from pytest_agentreplay.backends.backend import PassThrough, Refused, Replayed
from pytest_agentreplay.intercept import registry
from pytest_agentreplay.intercept.session import interceptions, lanes, pending_call
from pytest_agentreplay.model.divergence import Divergence, Kind
from pytest_agentreplay.model.exchanges import Exchange, Failure, Timing, ToolCall, ToolReply
from pytest_agentreplay.values.fitting import fit_call


class Plain:
    """Redacts nothing."""

    def redact_call(self, raw, is_recorded=None):
        return raw.native

    def redact_outcome(self, call, outcome):
        return outcome

    redact_content = reveal = hide = redact_text = staticmethod(lambda shown: shown)


class Tape:
    """Records; results of tools are kept as a file would give them back."""

    def __init__(self):
        self.count = 0
        self.lock = threading.Lock()
        self.exchanges = {}
        self.latched = None

    def recognise(self, call):
        return True

    def decide(self, call, moment):
        with self.lock:
            self.count += 1
            self.exchanges[self.count] = Exchange(
                call,
                None,
                self.count,
                None,
                lane=moment.lane,
                attempt=moment.attempt,
                parent=moment.parent,
                timing=Timing(start=moment.at),
            )
            return PassThrough(self.count, self)

    def settle(self, ticket, outcome, *, at, first, suspended):
        with self.lock:
            self.count += 1
            begun = self.exchanges[ticket]
            assert begun.outcome is None, "settled twice"
            outcome = stored(outcome) if isinstance(begun.call, ToolCall) else outcome
            timing = replace(begun.timing, first=first, end=at)
            self.exchanges[ticket] = replace(
                begun, outcome=outcome, finish=self.count, suspended=suspended, timing=timing
            )

    def latch(self, divergence, origin):
        self.latched = self.latched or replace(divergence, origin=origin)
        return self.latched


class Player(Tape):
    """Answers in order what the same call was answered outside of others; `left` is what nobody has asked for yet."""

    def __init__(self, recorded=()):
        super().__init__()
        self.left = list(recorded)

    def decide(self, call, moment):
        with self.lock:
            self.count += 1
            for number, exchange in enumerate(self.left):
                if exchange.parent is None and is_same(exchange.call, call):
                    return Replayed(self.left.pop(number), self.count)
            none = Divergence(Kind.EXTRA, f"nothing for {pending_call.describe(call)}", now=call)
            return Refused(self.latched or none)


def is_same(recorded, call):
    if isinstance(recorded, ToolCall) and isinstance(call, ToolCall):
        return fit_call(recorded, call) == recorded
    return identity(recorded) == identity(call)


def identity(call):
    return call if isinstance(call, ToolCall) else (call.method, call.url, call.body)


def stored(outcome):
    def failure(f):
        return f and Failure(f.type, f.message, tuple(json.loads(json.dumps(f.args))), f.bases)

    if isinstance(outcome, Failure):
        return failure(outcome)
    items = outcome.items if outcome.items is None else tuple(json.loads(json.dumps(outcome.items)))
    value = json.loads(json.dumps(outcome.value, allow_nan=False))
    return ToolReply(value, items, failure(outcome.failure), outcome.closed)


class Steps:
    """Counts the crossings."""

    def __init__(self):
        self.times = []

    def step(self, at, lane, count):
        self.times.append(at)


@contextmanager
def body(interception):
    """The body of a test whose calls go through `interception`."""
    interceptions.open_for(interception)
    token = lanes.CALL_CONTEXT.set(interception.main())
    try:
        yield interception
    finally:
        lanes.CALL_CONTEXT.reset(token)
        interception.end_body()
        interception.end()
        interceptions.open_for(None)


@contextmanager
def running(backend, root="", steps=None):
    backend.interception = interceptions.Interception(backend, Plain(), steps=steps or Steps(), root=root)
    registry.install()
    with body(backend.interception):
        yield backend


@contextmanager
def recording(problems=0, root=""):
    with running(Tape(), root) as tape:
        yield tape
    assert len(tape.interception.observed.problems) == problems, tape.interception.observed.problems


def replaying(tape, root=""):
    return running(Player(tape.exchanges.values()), root)


def both(server, act):
    """Record `act`, replay it, which gives the same and does not reach the server; what it gave, and the exchanges."""
    with recording() as tape:
        live = act()
    hits = server.hits
    with replaying(tape) as player:
        replayed = act()
    assert replayed == live
    assert server.hits == hits
    assert player.latched is None
    assert not player.left, "not all was asked for"
    assert len(player.interception.clock.steps.times) == len(tape.exchanges), "each crossing moves the clock once"
    return live, list(tape.exchanges.values())
