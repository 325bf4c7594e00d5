from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_agentreplay.model.exchanges import ToolCall
from pytest_agentreplay.model.turns import home, homes, place, turns
from pytest_agentreplay.providers import READER

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
    model, tool = writing.Book(), writing.Book()
    model.model(HI)
    tool.tool("a")
    assert [shape(book.run()) for book in (model, tool, writing.Book())] == [[("main", 1, 1)], [("main", 0, 1)], []]


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


def test_a_task_around_a_call_is_no_lane_of_its_own(writing):
    book = writing.Book()
    book.model(HI)
    book.together((ToolCall("a"), None), (ToolCall("b"), None))
    book.model(HI)
    run = book.run()
    assert shape(run) == [("main", 1, 3), ("main", 2, 1)], "tasks around tools count where they were started"
    assert homes(run, READER) == {"main": "main", "main.1": "main", "main.2": "main"}
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
    for lanes in (("main", "main.1"), ("main.1", "main")):
        assert shape(overlapping(writing, *lanes).run()) == [(lane, 1, 1) for lane in lanes], "beside its parent"
    told = {"main": "main", "main.1": "main", "main.2": "main.2"}
    never_seen = [home(told, lane) for lane in ("main.1", "main.2.7", "main.9.1", "other")]
    assert never_seen == ["main", "main.2", "main", "other"]


def test_an_exchange_of_another_run_has_no_place(writing):
    book = writing.Book()
    book.tool("a")
    for run, x in (
        (book.run(), replace(book.exchanges[0], start=99)),
        (replace(book.run(), exchanges=()), replace(book.exchanges[0], parent=77)),
    ):
        with pytest.raises(ValueError, match="not of this run"):
            place(run, READER, x)
