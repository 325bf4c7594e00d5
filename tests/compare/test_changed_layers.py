"""The line-up between two recordings: one planted change in each layer, and the layer that is named."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pytest_agentreplay.backends.lineup import changed_layers, kit_changes
from pytest_agentreplay.compare.matching import Matching
from pytest_agentreplay.model.exchanges import Header, Run, ToolCall, ToolReply
from pytest_agentreplay.providers import READER, RULES

MATCHING = Matching(READER, RULES)
USE = ("call_000001", "search", {"q": "boots"})


def agent_run(
    writing, *, system="Be kind.", now="noon", temperature=0, status="late", chunk="30 days", amount=5,
    served="gpt-x-1", words="It is late.", order=(0, 1), kit=None,
):  # fmt: skip
    """A run in which an agent looks something up, asks a model, calls the tool that it asks for, and answers."""
    book = writing.Book()
    book.add(ToolCall("policy", {"q": "returns"}, "retrieval"), ToolReply([chunk]))
    messages = [{"role": "system", "content": f"{system}\nIt is {now}."}, {"role": "user", "content": "Where?"}]
    first = writing.completion("", [USE], model=served)
    book.model(messages, first, temperature=temperature)
    tools = [("search", status, {"q": "boots"}), ("pay", "paid", {"amount": amount})]
    for name, value, arguments in (tools[at] for at in order):
        book.tool(name, value, **arguments)
    messages += [json.loads(first.body.data)["choices"][0]["message"]]
    messages += [{"role": "tool", "tool_call_id": USE[0], "content": status}]
    book.model(messages, writing.completion(words, model=served), temperature=temperature)
    return Run(replace(Header("tests/test_a.py::test_b"), kit=kit or {}), book.run().exchanges)


@pytest.mark.parametrize(
    ("layer", "change"),
    [
        ("prompt", {"system": "Be brief.", "words": "Late."}),
        ("tool search", {"status": "lost", "words": "It is lost."}),
        ("retrieval policy", {"chunk": "14 days", "words": "14 days."}),
        ("model", {"served": "gpt-x-2", "words": "It is delayed."}),
        ("model sampling", {"words": "It is delayed."}),
        ("parameters", {"temperature": 1, "words": "Oh my."}),
        ("clock or random numbers", {"now": "2026-01-02T03:04:05Z"}),
        ("loop code", {"amount": 6}),
        ("loop code", {"order": (0,)}),
        ("loop code", {"order": (1, 0)}),
    ],
)
def test_the_layer_of_a_planted_change_is_named_first(writing, layer, change):
    """Whatever follows from it comes behind it."""
    before = agent_run(writing, **({"now": "2026-01-01T03:04:05Z"} if "now" in change else {}))
    changed = changed_layers(before, agent_run(writing, **change), READER, MATCHING)
    assert changed[0][:2] == (layer, True)


def test_a_change_that_follows_from_the_first_is_not_independent(writing):
    """The reply to another prompt may be another one for that reason; another result of the same call may not."""
    change = {"system": "Be brief.", "status": "lost", "words": "Lost."}
    changed = changed_layers(agent_run(writing), agent_run(writing, **change), READER, MATCHING)
    assert [each[:2] for each in changed] == [
        ("prompt", True),
        ("tool search", True),
        ("model sampling", False),
    ]


def test_a_served_model_that_changed_is_evidence_and_no_difference(writing):
    """The runs are the same in all that crossed their boundaries, and so is each with itself."""
    before, after = agent_run(writing, kit={"python": "3.11"}), agent_run(writing, served="gpt-x-2")
    assert changed_layers(before, after, READER, MATCHING) == []
    around = kit_changes(before, after, READER)
    assert (around["model served"], around["python"]) == (("gpt-x-1", "gpt-x-2"), ("3.11", ""))
    assert kit_changes(before, before, READER) == {}


def test_a_run_that_asked_no_model_beside_one_that_did(writing):
    """The kit of one side has fields that the other lacks."""
    before = agent_run(writing)
    after = Run(before.header, before.exchanges[:1])
    assert changed_layers(before, after, READER, MATCHING)[0][0] == "loop code"
    assert kit_changes(before, after, READER)["model served"] == ("gpt-x-1", "")
