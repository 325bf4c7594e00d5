"""What a run shows, as the document that the paths of tolerances lead into."""

from pytest_agentreplay.backends.budget import observe
from pytest_agentreplay.providers import READER
from tests.support.chat_runs import ask, run, say, tool

USE = ("lookup_order", {"order_id": "A-17"})


def test_a_run_is_shown_by_turns_tools_final_answer_and_usage():
    ran = tool("lookup_order", {"status": "shipped"}, order_id="A-17")
    seen = observe(run((ask(), say(None, USE)), ran, (ask(), say("It is shipped."))), READER, {"status": "passed"})
    assert seen["tools"] == [
        {"name": "lookup_order", "arguments": {"order_id": "A-17"}, "result": {"status": "shipped"}}
    ]
    assert seen["final"] == "It is shipped."
    assert seen["outcome"] == {"status": "passed", "type": None, "message": None}
    assert seen["usage"] == {"calls": 2, "input_tokens": 20, "output_tokens": 4, "seconds": 2.0, "cost": None}
    costs = [
        observe(run((ask(), say("Yes."))), READER, {}, [(name, (1.0, 5.0))])["usage"]["cost"] for name in ("gpt-*", "m")
    ]
    assert costs == [20e-6, None], "10 tokens read and 2 written"
    assert seen["turns"][0] == {
        "lane": "main",
        "agent": "",
        "model": "gpt-5-2026",
        "fingerprint": "",
        "text": "",
        "tool_uses": [{"name": "lookup_order", "arguments": {"order_id": "A-17"}}],
        "finish_reasons": ["tool_calls"],
        "input_tokens": 10,
        "output_tokens": 2,
    }


def test_what_no_boundary_saw_is_what_the_model_asked_for_and_what_nobody_counts_is_none():
    seen = observe(run((ask(), say(None, USE, usage=False))), READER, {})
    assert seen["tools"] == [{"name": "lookup_order", "arguments": {"order_id": "A-17"}, "result": None}]
    assert seen["final"] is None, "a reply that asks for tools is not the end"
    assert seen["usage"]["output_tokens"] is None


def test_a_run_without_a_model_call_is_shown_too():
    seen = observe(run(tool("refund", raises="no")), READER, {"status": "failed"})
    assert (seen["turns"], seen["final"]) == ([], None)
    assert seen["tools"] == [{"name": "refund", "arguments": {}, "result": {"raised": "RuntimeError: no"}}]


def test_what_ran_beside_each_other_is_shown_in_one_order_whichever_came_first():
    first = [tool("look_up", order="A"), (ask(), say("A is here."))]
    second = [tool("look_up", order="B"), (ask(), say("B is here."))]
    lanes = {0: "main.2", 1: "main.2", 2: "main.10", 3: "main.10"}
    swapped = {0: "main.10", 1: "main.10", 2: "main.2", 3: "main.2"}
    seen = observe(run(*first, *second, lanes=lanes), READER, {})
    other = observe(run(*second, *first, lanes=swapped), READER, {})
    assert seen["tools"] == other["tools"]
    assert [call["arguments"]["order"] for call in seen["tools"]] == ["A", "B"]
    assert [turn["text"] for turn in seen["turns"]] == [turn["text"] for turn in other["turns"]]
    assert seen["final"] is None, "no strand of theirs is the first one"
