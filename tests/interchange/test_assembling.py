"""What a tool gave is told in the request that follows: joined by id, by name, by order, and never made up."""

from __future__ import annotations

import pytest

from pytest_agentreplay.interchange import chains
from pytest_agentreplay.interchange.assembling import assembled, conversations, rewritten, whole
from pytest_agentreplay.interchange.trace import UNKNOWN, ModelCall, Source, ToolRun, Trace, TraceFault
from pytest_agentreplay.interchange.wire import json_call


def text(role, content):
    return {"role": role, "parts": [{"type": "text", "content": content}]}


def asks(*calls):
    return {
        "role": "assistant",
        "parts": [{"type": "tool_call", "id": known, "name": name, "arguments": given} for known, name, given in calls],
    }


def gives(*results, **more):
    return {
        "role": "tool",
        "parts": [{"type": "tool_call_response", "id": known, "response": told} | more for known, told in results],
    }


def call(*messages, reply=None, **more):
    return ModelCall(messages=messages, reply=reply, **more)


USER = text("user", "compare")
TWICE = asks(("a", "weather", {"city": "Oslo"}), ("b", "weather", {"city": "Kraków"}))
DONE = text("assistant", "Kraków")


def told(steps):
    return [(run.name, run.arguments, run.seen) for run in steps if isinstance(run, ToolRun)]


def test_two_calls_of_one_tool_in_one_turn_keep_their_own_results():
    steps, missing = assembled([call(USER, reply=TWICE), call(USER, TWICE, gives(("b", "18"), ("a", "9")), reply=DONE)])
    assert told(steps) == [("weather", {"city": "Oslo"}, 9), ("weather", {"city": "Kraków"}, 18)]
    assert [type(step).__name__ for step in steps] == ["ModelCall", "ToolRun", "ToolRun", "ModelCall"]
    assert missing == ()


@pytest.mark.parametrize("known", ["weather", ""], ids=["by name", "by order"])
def test_results_without_ids_are_joined(known):
    asked = asks(("", "weather", {"city": "Oslo"}), ("", "weather", {"city": "Kraków"}))
    answer = {"role": "tool", "parts": [part for one in (9, 18) for part in gives((known, one))["parts"]]}
    steps, _ = assembled([call(USER, reply=asked), call(USER, asked, answer, reply=DONE)])
    assert told(steps) == [("weather", {"city": "Oslo"}, 9), ("weather", {"city": "Kraków"}, 18)]


def test_results_of_different_tools_without_ids_are_joined_by_name():
    asked = asks(("", "look", {}), ("", "pay", {}))
    answer = {"role": "tool", "parts": [*gives(("pay", 2))["parts"], *gives(("look", 1))["parts"]]}
    steps, _ = assembled([call(USER, reply=asked), call(USER, asked, answer, reply=DONE)])
    assert told(steps) == [("look", {}, 1), ("pay", {}, 2)]


def test_results_of_one_tool_of_gemini_are_joined_by_order():
    def part(**held):
        return {"parts": [held], "role": "user"}

    calls = [{"functionCall": {"name": "weather", "args": {"city": city}}} for city in ("Oslo", "Kraków")]
    results = [{"functionResponse": {"name": "weather", "response": {"c": one}}} for one in (9, 18)]
    asked = {"contents": [part(text="compare")]}
    onward = {"contents": [part(text="compare"), {"role": "model", "parts": calls}, {"role": "user", "parts": results}]}

    def answer(*parts):
        return {"candidates": [{"content": {"role": "model", "parts": [*parts]}, "finishReason": "STOP"}]}

    log = [json_call("gemini", asked, answer(*calls)), json_call("gemini", onward, answer({"text": "Kraków"}))]
    steps, missing = assembled(log)
    assert told(steps) == [("weather", {"city": "Oslo"}, {"c": 9}), ("weather", {"city": "Kraków"}, {"c": 18})]
    assert missing == ()
    assert rewritten(steps) == ()


def test_what_nobody_answered_was_not_executed_and_is_missing():
    steps, missing = assembled(
        [call(USER, reply=TWICE), call(USER, TWICE, gives(("a", "9")), reply=asks(("c", "pay", {})))]
    )
    assert [(run.call_id, run.executed, run.seen) for run in steps if isinstance(run, ToolRun)] == [
        ("a", True, 9),
        ("b", False, UNKNOWN),
        ("c", False, UNKNOWN),
    ]
    assert missing == ("result of weather, call 2", "result of pay, call 1")


def test_records_get_what_they_lack_and_keep_what_they_have():
    records = [
        ToolRun(name="weather", result=18, arguments={"city": "Kraków"}),
        ToolRun(name="weather", call_id="a", fault=TraceFault("E")),
    ]
    steps, missing = assembled(
        [call(USER, reply=TWICE), *records, call(USER, TWICE, gives(("a", "no"), ("b", "18°")), reply=DONE)]
    )
    assert [(run.call_id, run.arguments, run.seen, run.result) for run in steps if isinstance(run, ToolRun)] == [
        ("b", {"city": "Kraków"}, "18°", 18),
        ("a", {"city": "Oslo"}, "no", UNKNOWN),
    ]
    assert missing == ()


def test_records_that_nobody_asked_for_stay():
    record = ToolRun(name="clock", result=1)
    steps, _ = assembled([record, call(USER, reply=DONE)])
    assert steps[0] is record


def test_ids_that_come_again_in_later_turns_belong_to_their_turn():
    again = asks(("a", "weather", {"city": "Rome"}))
    first, second = gives(("a", "9"), ("b", "18")), gives(("a", "25"))
    steps, _ = assembled(
        [
            call(USER, reply=TWICE),
            call(USER, TWICE, first, reply=again),
            call(USER, TWICE, first, again, second, reply=DONE),
        ]
    )
    assert [seen for _, _, seen in told(steps)] == [9, 18, 25]


def test_a_marked_error_is_a_fault():
    steps, _ = assembled(
        [call(USER, reply=TWICE), call(USER, TWICE, gives(("a", "no such city"), is_error=True), reply=DONE)]
    )
    assert steps[1].fault == TraceFault(message="no such city")
    assert steps[1].seen == "no such city"


def test_the_reply_is_the_authority_and_a_changed_history_is_told():
    changed = asks(("a", "weather", {"city": "Bergen"}))
    steps = [
        call(USER, reply=asks(("a", "weather", {"city": "Oslo"}))),
        call(USER, changed, gives(("a", "9")), reply=DONE),
    ]
    done, _ = assembled(steps)
    assert told(done) == [("weather", {"city": "Oslo"}, 9)]
    assert rewritten(done) == ("model call 2 resends another history than what was said before it; both are kept",)
    assert done[2].messages == steps[1].messages


def test_a_history_that_was_cut_is_joined_by_the_ids():
    steps, missing = assembled([call(USER, reply=TWICE), call(TWICE, gives(("a", "9"), ("b", "18")), reply=DONE)])
    assert [seen for _, _, seen in told(steps)] == [9, 18]
    assert missing == ()
    assert rewritten(steps)


def test_a_history_that_the_provider_keeps_is_joined_by_the_response():
    steps, _ = assembled(
        [
            call(USER, reply=TWICE, response_id="resp_1"),
            call(gives(("a", "9"), ("b", "18")), reply=DONE, parameters={"previous_response_id": "resp_1"}),
        ]
    )
    assert [seen for _, _, seen in told(steps)] == [9, 18]
    assert rewritten(steps) == ()


def test_thoughts_and_forms_of_json_are_no_change():
    reply = {
        "role": "assistant",
        "parts": [{"type": "reasoning", "content": "hm"}, *asks(("a", "w", {"x": 1, "y": 2}))["parts"]],
    }
    resent = asks(("a", "w", '{"y": 2, "x": 1}'))
    assert rewritten([call(USER, reply=reply), call(USER, resent, gives(("a", "9")), reply=DONE)]) == ()


def test_conversations_are_split_by_their_beginnings():
    other = text("user", "other")
    log = [
        call(USER, reply=TWICE),
        call(other, reply=DONE),
        call(USER, TWICE, gives(("a", "9"), ("b", "18")), reply=DONE),
        call(other, DONE, USER, reply=DONE),
        call(USER, reply=TWICE),
    ]
    assert conversations(log) == ((log[0], log[2]), (log[1], log[3]), (log[4],))


def test_the_same_request_after_a_failure_is_another_try():
    tried, answered = call(USER, fault=TraceFault("Timeout")), call(USER, reply=DONE)
    assert conversations([tried, answered]) == ((tried, answered),)
    assert conversations([answered, answered]) == ((answered,), (answered,))


def test_the_same_words_in_two_dialects_are_two_conversations():
    calls = [call(USER, reply=TWICE, dialect=one) for one in ("openai_chat", "anthropic")]
    onward = [call(USER, TWICE, gives(("a", "9")), reply=DONE, dialect=one) for one in ("anthropic", "openai_chat")]
    assert conversations([*calls, *onward]) == ((calls[0], onward[1]), (calls[1], onward[0]))


def test_a_trace_gets_its_input_and_output_from_its_calls():
    asked = call(text("system", "be kind"), USER, reply=TWICE)
    trace = whole(Trace(source=Source(format="x"), steps=(asked, call(USER, TWICE, gives(("a", "9")), reply=DONE))))
    assert (trace.input, trace.output) == ("compare", "Kraków")
    open_end = whole(Trace(source=Source(format="x"), steps=(asked,)))
    assert open_end.output is None
    several = whole(Trace(source=Source(format="x"), steps=(call(USER, DONE, USER, reply=DONE),)))
    assert several.input == [USER, DONE, USER]


def test_what_the_source_says_itself_wins():
    trace = whole(Trace(source=Source(format="x"), input={"q": 1}, output="A", steps=(call(USER, reply=DONE),)))
    assert (trace.input, trace.output) == ({"q": 1}, "A")


def test_a_long_run_costs_what_it_says(monkeypatch):
    """Each call is looked up by what it says, not compared with all before it, and what it resends is known."""
    keyed = []
    monkeypatch.setattr(chains, "_key", lambda role, part, key=chains._key: keyed.append(1) or key(role, part))
    messages, log = [USER], []
    for number in range(300):
        asked = asks((f"c{number}", "w", {"n": number}))
        log.append(call(*messages, reply=asked))
        messages += [asked, gives((f"c{number}", str(number)))]
    steps, missing = assembled(log)
    assert [seen for _, _, seen in told(steps)] == [*range(299), UNKNOWN]
    assert missing == ("result of w, call 300",)
    assert len(keyed) < 4 * 300
