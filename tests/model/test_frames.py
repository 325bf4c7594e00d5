"""Lasting connections: which frames may come when, which messages are the recorded ones, and what is said otherwise."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.backends.backend import Moment, Replayed
from pytest_agentreplay.compare.align import first_divergence
from pytest_agentreplay.model.divergence import Kind
from pytest_agentreplay.model.exchanges import (
    Body,
    Closed,
    Exchange,
    Failure,
    Frame,
    FrameCall,
    FramesReply,
    Header,
    Run,
)
from pytest_agentreplay.model.frames import Release, connections
from pytest_agentreplay.providers import READER
from tests.support.backends import replayer

URL = "wss://voice.example.com/v1/talk"


def frames(*values, inner=False):
    return FramesReply.from_frames(Frame(json.dumps(value).encode(), inner=inner) for value in values)


def message(value, connection=1):
    return FrameCall(URL, connection, body=Body(json.dumps(value).encode()))


def recorded(*said, parents=(), lanes=()):
    """An opening and one message each, with what came back: (message, frames)."""
    exchanges = [Exchange(FrameCall(URL), frames({"hello": 1}), 1, 2)]
    for nth, (value, reply) in enumerate(said):
        start, inner = 2 * nth + 3, nth in parents
        reply = frames(*reply, inner=inner)
        where = {"lane": lanes[nth] if lanes else "main", "parent": 99 if inner else None}
        exchanges.append(Exchange(message(value), reply, start, start + 1, **where))
    return Run(Header("t::t"), tuple(exchanges))


def moved(run, by, **changes):
    """The same run later, over a connection of another number."""
    for x in run.exchanges:
        call = replace(x.call, connection=x.call.connection and 1 + by)
        yield replace(x, start=x.start + by, finish=x.finish + by, call=call, **changes)


def ask(backend, call, lane="main"):
    return backend.decide(call, Moment(lane, 0))


def opened(run):
    backend = replayer(run)
    ask(backend, FrameCall(URL))
    return backend


def released(run, order, about=None):
    """The frames in the order in which they are released when the messages are made in `order` of their starts."""
    release = Release(connections(run)[1], about)
    told = [
        [json.loads(f.data) for x in release.mark_made(start) for f in release.frames(x.outcome)] for start in order
    ]
    assert release.complete
    return told


def with_order(inner):
    starts = [2 * n + 3 for n, is_inner in enumerate(inner) if not is_inner]
    return st.tuples(st.just(inner), st.permutations(starts))


@given(st.lists(st.booleans(), max_size=12).flatmap(with_order))
def test_no_frame_comes_before_all_messages_that_it_followed(case):
    inner, order = case
    said = (({"q": n}, [{"a": n}]) for n in range(len(inner)))
    run = recorded(*said, parents={n for n, is_inner in enumerate(inner) if is_inner})
    made, seen = set(), []
    for start, came in zip([1, *order], released(run, [1, *order]), strict=True):
        made.add(start)
        for frame in came:
            answered = 2 * frame["a"] + 3 if "a" in frame else 1
            assert {n for n in range(3, answered + 1, 2) if not inner[(n - 3) // 2]} <= made
            seen.append(frame)
    assert seen == [{"hello": 1}, *({"a": n} for n, is_inner in enumerate(inner) if not is_inner)]


def test_what_answers_an_inner_message_is_kept_and_nothing_else():
    said = [
        ({"id": 1}, []),
        ({"id": 2}, [{"id": 1, "result": "outer"}, {"id": 2, "result": "inner"}]),
        ({"id": 3}, [{"id": 3, "result": 3}, {"id": 2, "result": "again"}, {"method": "note"}]),
    ]
    told = released(recorded(*said, parents={1}), [1, 3, 7], lambda data, *, by_agent: json.loads(data).get("id"))
    kept = [{"hello": 1}, {"id": 1, "result": "outer"}, {"id": 3, "result": 3}, {"method": "note"}]
    assert [frame for came in told for frame in came] == kept


@given(st.lists(st.tuples(st.binary(max_size=12), st.booleans()), max_size=8))
def test_a_reply_gives_back_the_frames_that_it_is_made_of(parts):
    given_frames = tuple(Frame(data, binary) for data, binary in parts)
    reply = FramesReply.from_frames(given_frames)
    assert tuple(reply.frames()) == given_frames
    assert sum(reply.sizes) == len(reply.body)


def test_messages_are_answered_in_their_own_connection():
    first = moved(recorded(({"q": 1}, [{"a": "one"}])), 0, lane="main.2")
    second = moved(recorded(({"q": 1}, [{"a": "two"}])), 10, lane="main.1")
    backend = replayer(Run(Header("t::t"), (*first, *second)))
    assert [ask(backend, FrameCall(URL), lane).exchange.start for lane in ("main.2", "main.1")] == [1, 11]
    assert [ask(backend, message({"q": 1}, number)).exchange.start for number in (11, 1)] == [13, 3]
    assert [x.start for x in backend.connection(11)] == [11, 13]


def test_a_changed_message_is_a_divergence_at_that_message_and_one_that_is_not_sent_is_missing():
    backend = opened(recorded(({"say": "Where is my order?", "n": 1}, []), ({"say": "Thanks."}, [])))
    found = ask(backend, message({"say": "Where is my parcel?", "n": 1})).divergence
    assert (found.kind, found.position, found.positions, found.recorded.start) == (Kind.REQUEST, 2, 3, 3)
    assert [one.path for one in found.differences] == ["$.say"]
    assert "SEND voice.example.com/v1/talk" in found.summary
    found = opened(recorded(({"q": 1}, []))).finish()
    assert (found.kind, found.recorded.start) == (Kind.MISSING, 3)
    for text in (True, False):
        verdict = ask(opened(recorded(({"q": 1}, []))), replace(message({"q": 1}), binary=not text))
        assert isinstance(verdict, Replayed) is text, "text is no bytes"


def test_messages_of_one_strand_stay_in_order_and_those_of_two_need_not():
    said = [({"q": 1}, [{"a": 1}]), ({"q": 2}, [{"a": 2}])]
    assert ask(opened(recorded(*said)), message({"q": 2})).divergence.kind is Kind.ORDER
    backend = opened(recorded(*said, lanes=("main.1", "main.2")))
    assert [ask(backend, message({"q": n}), f"main.{n}").exchange.start for n in (2, 1)] == [5, 3]


def test_a_connection_that_broke_off_says_so():
    ends = (
        ({"closed": Closed(1011, "overloaded")}, "closed (1011): overloaded"),
        ({"closed": Closed(1000)}, ""),
        ({"failure": Failure("builtins.OSError", "gone")}, "builtins.OSError: gone"),
    )
    for end, error in ends:
        assert READER.read_reply(message({}), FramesReply(**end)).error == error


def test_two_recordings_of_one_behaviour_do_not_part_by_the_numbers_of_their_connections():
    said = [({"type": "hi", "say": "one"}, [{"heard": 1}]), ({"type": "hi", "say": "two"}, [{"heard": 2}])]
    first = recorded(*said)
    assert first_divergence(first, replace(first, exchanges=tuple(moved(first, 40))), READER) is None
    changed = recorded(said[0], ({"type": "hi", "say": "three"}, [{"heard": 2}]))
    assert [one.path for one in first_divergence(first, changed, READER).differences] == ["$.say"]
    other = recorded(said[0], (said[1][0], [{"heard": 3}]))
    assert first_divergence(first, other, READER).differences[0].path.startswith("$.frames")
