from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_agentreplay.core.model import HttpCall, ToolCall
from pytest_agentreplay.core.turns import home, homes, label, place, turns
from pytest_agentreplay.dialects import READER

HI = [{"role": "user", "content": "hi"}]


def shape(run):
    return [(turn.lane, turn.number, len(turn.exchanges)) for turn in turns(run, READER)]


def test_a_turn_is_a_model_call_and_what_it_set_off(writing):
    book = writing.Book()
    early = book.tool("clock")
    first = book.model(HI)
    book.tool("a")
    late = book.tool("b")
    second = book.model(HI)
    run = book.run()
    assert [(t.number, t.model) for t in turns(run, READER)] == [(0, None), (1, first), (2, second)]
    assert shape(run) == [("main", 0, 1), ("main", 1, 3), ("main", 2, 1)]
    assert place(run, READER, early) == (0, 2, 1, 5)
    assert place(run, READER, late) == (1, 2, 4, 5)


def test_no_turn_zero_when_the_model_comes_first_and_only_it_without_a_model(writing):
    book = writing.Book()
    book.model(HI)
    assert shape(book.run()) == [("main", 1, 1)]
    book = writing.Book()
    book.tool("a")
    assert shape(book.run()) == [("main", 0, 1)]
    assert turns(writing.Book().run(), READER) == ()


def test_what_happens_inside_a_tool_belongs_to_it(writing):
    book = writing.Book()
    book.model(HI)
    outer = book.tool("outer")
    inner = book.model(HI)
    deeper = book.tool("deeper")
    book.exchanges[2] = inner = replace(inner, parent=outer.start)
    book.exchanges[3] = deeper = replace(deeper, parent=inner.start)
    run = book.run()
    assert shape(run) == [("main", 1, 2)]
    assert place(run, READER, deeper) == place(run, READER, outer) == (1, 1, 2, 2)


def test_the_retries_of_an_sdk_are_one_turn(writing):
    book = writing.Book()
    for attempt in (1, 2, 3):
        book.add(writing.chat(HI), writing.completion(), attempt=attempt)
    book.add(writing.chat(HI), writing.completion(), attempt=1)
    run = book.run()
    assert shape(run) == [("main", 1, 3), ("main", 2, 1)]
    assert turns(run, READER)[0].model.attempt == 3


def test_tasks_around_tools_count_where_they_were_started(writing):
    book = writing.Book()
    book.model(HI)
    book.together((ToolCall("a"), None), (ToolCall("b"), None))
    book.model(HI)
    run = book.run()
    assert shape(run) == [("main", 1, 3), ("main", 2, 1)]
    assert homes(run, READER) == {"main": "main", "main.1": "main", "main.2": "main"}


def test_a_task_around_each_model_call_is_no_lane_of_its_own(writing):
    book = writing.Book()
    for number in range(1, 5):
        book.model(HI, lane=f"main.{number}")
        book.tool("a")
    assert shape(book.run()) == [("main", number, 2) for number in range(1, 5)]


def overlapping(writing, *lanes):
    book = writing.Book()
    for number, lane in enumerate(lanes):
        book.exchanges.append(replace(book.model(HI, lane=lane), start=number, finish=90 + number))
        book.exchanges.pop(-2)
    return book


def test_agents_that_talk_at_the_same_time_are_lanes(writing):
    book = overlapping(writing, "main.1", "main.2")
    book.clock = 100
    book.model(HI)
    assert shape(book.run()) == [("main.1", 1, 1), ("main.2", 1, 1), ("main", 1, 1)]


def test_an_agent_that_talks_while_its_parent_does_is_a_lane(writing):
    assert shape(overlapping(writing, "main", "main.1").run()) == [("main", 1, 1), ("main.1", 1, 1)]
    assert shape(overlapping(writing, "main.1", "main").run()) == [("main.1", 1, 1), ("main", 1, 1)]


def test_the_lane_of_a_task_that_was_never_seen(writing):
    told = {"main": "main", "main.1": "main", "main.2": "main.2"}
    assert [home(told, lane) for lane in ("main.1", "main.2.7", "main.9.1", "other")] == [
        "main",
        "main.2",
        "main",
        "other",
    ]


def test_an_exchange_of_another_run(writing):
    book = writing.Book()
    book.tool("a")
    with pytest.raises(ValueError, match="not of this run"):
        place(book.run(), READER, replace(book.exchanges[0], start=99))
    orphan = replace(book.exchanges[0], parent=77)
    with pytest.raises(ValueError, match="not of this run"):
        place(replace(book.run(), exchanges=()), READER, orphan)


def test_how_calls_are_told(writing):
    assert label(writing.chat(HI), READER) == "model gpt-x"
    assert label(ToolCall("refund"), READER) == "tool refund"
    assert label(HttpCall("GET", "https://api.test/v1?x=1"), READER) == "GET api.test/v1"
