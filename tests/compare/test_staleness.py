"""What makes a recording stale, by its facts, a day, and what is there today."""

from datetime import date

import pytest

from pytest_agentreplay.compare.staleness import RETIRED, RecordedFacts, find_retirement, find_stale, major, read_facts
from pytest_agentreplay.model.exchanges import Header

TODAY = date(2026, 11, 27)


def kinds(facts, *, today=TODAY, days=180, **there):
    there = {"installed": {}, "signatures": {}} | there
    return [fact.kind for fact in find_stale(facts, today=today, days=days, **there)]


def test_each_reason_and_nothing_without_one():
    facts = RecordedFacts("2026-05-30", ("gpt-4-32k", "gpt-5.5"), {"openai": "2.9.0"}, {"refund": "order"})
    assert kinds(facts) == ["old", "model"]
    assert kinds(facts, days=0) == ["model"]
    assert kinds(facts, today=date(2025, 6, 5)) == []
    assert kinds(facts, installed={"openai": "3.0.1", "httpx": "1"}, signatures={"refund": "order, amount"}) == [
        "old",
        "model",
        "sdk",
        "signature",
    ]
    assert kinds(facts, installed={"openai": "2.99"}, signatures={"refund": "order", "other": "x"}) == ["old", "model"]
    assert kinds(RecordedFacts()) == []


def test_an_exact_id_goes_before_a_beginning_and_a_longer_one_before_a_shorter():
    table = {"claude-*": "2020-01-01", "claude-9*": "2021-01-01", "claude-9-x": "2022-01-01"}
    found = [find_retirement(name, table) for name in ("claude-1", "claude-9", "claude-9-x", "gpt")]
    assert found == ["2020-01-01", "2021-01-01", "2022-01-01", ""]
    assert {name for name in RETIRED if name.endswith("-")} == set(), (
        "an id that goes on in the next line is cut in two"
    )
    assert {"text-davinci-003", "gpt-5.1-chat-latest"} <= RETIRED.keys()
    for day in RETIRED.values():
        date.fromisoformat(day)


@pytest.mark.parametrize(("version", "part"), [("3.52.0", "3"), ("0.27.2", "0.27"), ("1", "1"), ("0", "0.")])
def test_which_part_of_a_version_counts(version, part):
    assert major(version) == part


def test_facts_are_read_from_any_header():
    kit = {"models": [{"model": "m"}, {"model": "m"}, 7], "packages": {"openai": "3", "x": 1}, "signatures": []}
    facts = read_facts(Header("test", "2026-01-02T03:04:05+00:00", kit=kit))
    assert facts == RecordedFacts("2026-01-02", ("m",), {"openai": "3"}, {})
