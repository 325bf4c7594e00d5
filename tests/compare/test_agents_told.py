"""Agents with names: whose answer a call gets, how their turns are counted and told, what parts in lanes side by side."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from pytest_agentreplay.backends.backend import Moment
from pytest_agentreplay.compare import diagnose
from pytest_agentreplay.compare.diagnose.progress import ReplayProgress
from pytest_agentreplay.model.divergence import Kind
from pytest_agentreplay.model.exchanges import Exchange, Header, Run, ToolCall, ToolReply
from pytest_agentreplay.model.turns import turns
from pytest_agentreplay.providers import READER
from pytest_agentreplay.report import findings
from tests.support.backends import replayer

LOOK = ToolCall("look")


def given(recorded, *asked):
    """Lane and agent of what equal calls that overlap get, each of a lane and an agent."""
    made = [
        Exchange(LOOK, ToolReply(agent), start, 99 - start, lane, agent=agent)
        for start, (lane, agent) in enumerate(recorded)
    ]
    backend = replayer(Run(Header("t::x"), tuple(made)))
    served = [backend.decide(LOOK, Moment(lane, 0, agent=agent)).exchange for lane, agent in asked]
    return [(x.lane, x.agent) for x in served]


def test_of_twins_the_one_of_the_lane_goes_before_that_of_the_agent_and_then_any():
    twins = [("main", "r"), ("main.1", "w"), ("main", "w")]
    assert given(twins, ("main", "w"), ("main", "w"), ("main", "r")) == [twins[2], twins[0], twins[1]]
    twins = [("main.1", "r"), ("main.2", "w"), ("main.3", "r"), ("main.4", "w")]
    assert given(twins, ("main.1", "w"), ("main.9", "w"), ("main.9", "")) == twins[:3], (
        "who has no name takes the first"
    )


def test_no_name_ever_fails_a_run(writing):
    book, lanes = writing.Book(), writing.Book()
    for agent in ("r", "w", "r"):
        book.add(LOOK, ToolReply(agent), agent=agent)
        lanes.add(LOOK, ToolReply(agent), lane="main.1", agent=agent)
    for names in product(["", "r", "w", "x"], repeat=3):
        for run, lane in ((book.run(), "main"), (lanes.run(), "main.1"), (lanes.run(), "main.7")):
            backend = replayer(run)
            served = [backend.decide(LOOK, Moment(lane, 0, agent=agent)) for agent in names]
            assert [one.exchange.outcome.value for one in served] == ["r", "w", "r"], names
            assert backend.finish() is None


def named(book, agent, *, said="hi", lane="main"):
    made = book.model([{"role": "user", "content": f"{agent} {said}"}], lane=lane)
    book.exchanges[-1] = replace(made, agent=agent)
    return book.exchanges[-1]


def team(writing, first="researcher", second="writer"):
    """Two agents side by side, each of two turns; the second one begins while the first one is asked."""
    book = writing.Book()
    names = [(first, "main.1", "a"), (second, "main.2", "b"), (first, "main.1", "c"), (second, "main.2", "d")]
    for start, (agent, lane, said) in enumerate(names):
        book.exchanges[-1] = replace(named(book, agent, lane=lane, said=said), start=2 * start, finish=2 * start + 3)
    return book.run()


def test_a_handoff_in_one_lane_counts_each_agent(writing):
    book = writing.Book()
    book.add(ToolCall("before"), ToolReply(1))
    for agent in ("triage", "billing"):
        named(book, agent)
        book.tool("look")
    named(book, "billing", said="then")
    named(book, "triage", said="again")
    told = [(turn.agent, turn.number, len(turn.exchanges), turn.title) for turn in turns(book.run(), READER)]
    assert told == [
        ("triage", 0, 1, "triage turn 0"),
        ("triage", 1, 2, "triage turn 1"),
        ("billing", 1, 2, "billing turn 1"),
        ("billing", 2, 1, "billing turn 2"),
        ("triage", 2, 1, "triage turn 2"),
    ]


def test_a_handoff_stays_in_order_and_one_agent_alone_is_counted_as_ever(writing):
    book = writing.Book()
    named(book, "triage")
    named(book, "billing")
    run = book.run()
    found = replayer(run).decide(run.exchanges[1].call, Moment("main", 0, agent="billing")).divergence
    assert (found.kind, findings.format_place(found)) == (Kind.MISSING, "triage turn 1 (call 1 of 2)")
    book = writing.Book()
    named(book, "researcher")
    named(book, "researcher", said="then")
    assert [turn.title for turn in turns(book.run(), READER)] == ["turn 1", "turn 2"]


def test_one_name_in_two_lanes_is_told_with_the_lane(writing):
    told = [turn.title for turn in turns(team(writing, "worker", "worker"), READER)]
    assert told == ["worker main.1 turn 1", "worker main.1 turn 2", "worker main.2 turn 1", "worker main.2 turn 2"]
    told = [turn.title for turn in turns(team(writing, "", ""), READER)]
    assert told[:3] == ["turn 1 of lane main.1", "turn 2 of lane main.1", "turn 1 of lane main.2"]


def test_a_task_around_each_call_of_an_agent_is_no_lane_of_its_own(writing):
    run = team(writing)
    later = [replace(x, lane=f"main.{at + 1}") for at, x in enumerate(run.exchanges)]
    told = [turn.title for turn in turns(replace(run, exchanges=tuple(later)), READER)]
    assert told == ["researcher turn 1", "researcher turn 2", "writer turn 1", "writer turn 2"]
    later[3] = replace(later[3], start=5, finish=8, agent="researcher")
    told = [turn.title for turn in turns(replace(run, exchanges=tuple(later)), READER)]
    assert "researcher main.3 turn 1" in told, "two of one name that overlap are two"


def missed(writing, said, lane, agent, served=0):
    run = team(writing)
    call = writing.chat([{"role": "user", "content": said}])
    return diagnose.explain_miss(
        ReplayProgress(run, READER, {x.start for x in run.exchanges[:served]}), call, lane, agent=agent
    )


def test_a_divergence_is_told_by_the_agent_and_the_call_of_the_run(writing):
    found = missed(writing, "writer D", "main.2", "writer", served=3)
    assert (found.turn, found.turns, found.agent) == (2, 2, "writer")
    assert findings.format_place(found) == "writer turn 2 (call 4 of 4)"
    found = missed(writing, "writer B", "main.1", "writer")
    assert found.recorded == team(writing).exchanges[1], "a lane of another number is known by its agent"
    assert findings.format_place(found) == "writer turn 1 (call 2 of 4)"
    found = missed(writing, "editor a", "main.1", "editor")
    assert found.detail[-1] == "editor makes this call; the recording has researcher here"
    same = missed(writing, "editor a", "main.1", "researcher")
    assert not any("makes this call" in one for one in same.detail)


def test_what_two_lanes_leave_out_is_told_together(writing):
    run = team(writing)
    found = diagnose.explain_missing(ReplayProgress(run, READER, {run.exchanges[0].start, run.exchanges[1].start}))
    assert findings.format_place(found) == "researcher turn 2 (call 3 of 4)"
    assert found.detail == ("also, independently, in writer: AR-MISSING the test ended, model gpt-x was not called",)


def test_what_follows_from_a_missing_call_is_no_place_of_its_own(writing):
    book = writing.Book()
    named(book, "boss")
    run = team(writing)
    after = [replace(x, start=x.start + 10, finish=x.finish + 10) for x in run.exchanges]
    whole = replace(run, exchanges=(book.exchanges[0], *after))
    found = diagnose.explain_missing(ReplayProgress(whole, READER, ()))
    assert findings.format_place(found) == "boss turn 1 (call 1 of 5)"
    assert found.summary == "the test ended, model gpt-x was not called, and 4 more"
    assert not [one for one in found.detail if "independently" in one]
    assert "not called either: writer turn 2, model gpt-x" in found.detail


@pytest.mark.parametrize("order", [("researcher", "writer"), ("writer", "researcher")])
def test_lanes_that_part_side_by_side_have_one_headline(writing, order):
    backend = replayer(team(writing))
    lanes = {"researcher": "main.1", "writer": "main.2"}
    for agent in order:
        call = writing.chat([{"role": "user", "content": f"{agent} else"}])
        backend.latch(backend.decide(call, Moment(lanes[agent], 0, agent=agent)).divergence, "")
    found = backend.finish()
    assert findings.format_place(found) == "researcher turn 1 (call 1 of 4)"
    (also,) = found.detail
    assert also.startswith("also, independently, in writer: AR-PROMPT model gpt-x: ")


def test_what_comes_after_a_refusal_in_its_own_lane_or_above_is_no_place_of_its_own(writing):
    backend = replayer(team(writing))
    for lane, agent in (("main.1", "researcher"), ("main.1", "researcher"), ("main", ""), ("main.1.1", "researcher")):
        call = writing.chat([{"role": "user", "content": f"sorry, {lane}"}])
        backend.latch(backend.decide(call, Moment(lane, 0, agent=agent)).divergence, "")
    assert not backend.finish().detail
