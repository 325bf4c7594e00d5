"""Runs of plain calls, and that they come back from a file, to the byte of each body."""

from __future__ import annotations

import json

from pytest_agentreplay.model.canonical_json import canonical, parse
from pytest_agentreplay.model.exchanges import Body, Exchange, Header, HttpCall, HttpReply, Run, ToolCall, ToolReply
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.codec.styles import join_pieces


def run_of(*pairs, test="t", lane="main", **header):
    """A run of (call, outcome) pairs, one after the other."""
    made = (Exchange(call, outcome, 2 * n + 1, 2 * n + 2, lane) for n, (call, outcome) in enumerate(pairs))
    return Run(Header(test, **header), tuple(made))


def tool_run(test, *results):
    """A run of calls of one tool that gave these results."""
    return run_of(*((ToolCall("lookup", {}), ToolReply(result)) for result in results), test=test)


def post(data=b"", url="http://a/"):
    return HttpCall("POST", url, body=Body(data))


def posts(*bodies):
    """A run of requests that were not answered."""
    return run_of(*((post(data), None) for data in bodies))


def reply(data=b"", cuts=None, **more):
    whole = (len(data),) if data else ()
    return HttpReply(200, body=Body(data), cuts=whole if cuts is None else cuts, **more)


def bodies(run):
    parts = (part for x in run.exchanges for part in (x.call, x.outcome))
    return [part.body.data for part in parts if isinstance(part, HttpCall | HttpReply)]


def comes_back(run):
    """The text of a run, which is read back equal, sealed and without a note."""
    text = codec.dumps(run)
    snapshot = codec.loads(text.encode(), file="f")
    assert snapshot.run == run
    assert bodies(snapshot.run) == bodies(run)
    assert_shared_bodies_are_their_bytes(snapshot.run)
    assert snapshot.sealed
    assert snapshot.notes == ()
    return text


def assert_shared_bodies_are_their_bytes(run):
    """What is read without restoring a body is what its bytes say."""
    for body in (x.call.body for x in run.exchanges if isinstance(x.call, HttpCall)):
        if body.shared is not None:
            assert canonical(body.shared.tree()) == canonical(parse(body.data, exact=True))
            assert join_pieces(body.shared.pieces()).encode() == body.data


def first_stored(run):
    """The first exchange as the file of such a run holds it."""
    return json.loads(comes_back(run))["exchanges"][0]


def text_of_exchanges(text):
    """The lines of a file above those that are of each recording: times, sizes, digests, ids."""
    return text.partition('\n "volatile"')[0].splitlines()


def longest_line(text):
    return max(map(len, text_of_exchanges(text)))
