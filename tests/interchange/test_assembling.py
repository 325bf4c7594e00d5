"""What a tool gave is told in the request that follows: joined by id, by name, by order, and never made up."""

from __future__ import annotations

from pytest_agentreplay.interchange import chains
from pytest_agentreplay.interchange.assembling import assembled, conversations, rewritten, whole
from pytest_agentreplay.interchange.trace import UNKNOWN, ModelCall, Source, ToolRun, Trace, TraceFault
from tests.interchange.neutral import asks, gives, text


def call(*messages, reply=None, **more):
    return ModelCall(messages=messages, reply=reply, **more)


USER = text("user", "compare")
OSLO, KRAKOW = ("weather", {"city": "Oslo"}), ("weather", {"city": "Kraków"})
TWICE = asks(("a", *OSLO), ("b", *KRAKOW))
BOTH = gives(("a", "9"), ("b", "18"))
DONE = text("assistant", "Kraków")


def told(steps):
    return [(run.name, run.arguments, run.seen) for run in steps if isinstance(run, ToolRun)]


def test_two_calls_in_one_turn_keep_their_own_results_by_id_by_name_or_by_order():
    for ids in (["a", "b"], ["weather", "weather"], ["", ""]):
        named = ids == ["a", "b"]
        asked = asks((ids[0], *OSLO), (ids[1], *KRAKOW)) if named else asks(("", *OSLO), ("", *KRAKOW))
        answers = [(ids[0], 9), (ids[1], 18)]
        answer = gives(*(reversed(answers) if named else answers))
        steps, missing = assembled([call(USER, reply=asked), call(USER, asked, answer, reply=DONE)])
        assert told(steps) == [(*OSLO, 9), (*KRAKOW, 18)]
        assert [type(step).__name__ for step in steps] == ["ModelCall", "ToolRun", "ToolRun", "ModelCall"]
        assert missing == ()
    asked = asks(("", "look", {}), ("", "pay", {}))
    log = [call(USER, reply=asked), call(USER, asked, gives(("pay", 2), ("look", 1)), reply=DONE)]
    assert told(assembled(log)[0]) == [("look", {}, 1), ("pay", {}, 2)], "different tools, in another order"
    again, later = asks(("a", "weather", {"city": "Rome"})), gives(("a", "25"))
    log = [call(USER, reply=TWICE), call(USER, TWICE, BOTH, reply=again)]
    steps, _ = assembled([*log, call(USER, TWICE, BOTH, again, later, reply=DONE)])
    assert [seen for _, _, seen in told(steps)] == [9, 18, 25], "an id that comes again belongs to its turn"


def test_what_nobody_answered_was_not_executed_and_is_missing_and_a_marked_error_is_a_fault():
    log = [call(USER, reply=TWICE), call(USER, TWICE, gives(("a", "9")), reply=asks(("c", "pay", {})))]
    steps, missing = assembled(log)
    ran = [(run.call_id, run.executed, run.seen) for run in steps if isinstance(run, ToolRun)]
    assert ran == [("a", True, 9), ("b", False, UNKNOWN), ("c", False, UNKNOWN)]
    assert missing == ("result of weather, call 2", "result of pay, call 1")
    answer = gives(("a", "no such city"), is_error=True)
    steps, _ = assembled([call(USER, reply=TWICE), call(USER, TWICE, answer, reply=DONE)])
    assert (steps[1].fault, steps[1].seen) == (TraceFault(message="no such city"), "no such city")


def test_records_get_what_they_lack_and_keep_what_they_have():
    records = [ToolRun(name="weather", result=18, arguments=KRAKOW[1])]
    records += [ToolRun(name="weather", call_id="a", fault=TraceFault("E"))]
    answers = gives(("a", "no"), ("b", "18°"))
    steps, missing = assembled([call(USER, reply=TWICE), *records, call(USER, TWICE, answers, reply=DONE)])
    ran = [(run.call_id, run.arguments, run.seen, run.result) for run in steps if isinstance(run, ToolRun)]
    assert ran == [("b", KRAKOW[1], "18°", 18), ("a", OSLO[1], "no", UNKNOWN)]
    assert missing == ()
    record = ToolRun(name="clock", result=1)
    assert assembled([record, call(USER, reply=DONE)])[0][0] is record, "nobody asked for it"


def test_the_reply_is_the_authority_and_a_changed_history_is_told():
    changed = asks(("a", "weather", {"city": "Bergen"}))
    log = [call(USER, reply=asks(("a", *OSLO))), call(USER, changed, gives(("a", "9")), reply=DONE)]
    done, _ = assembled(log)
    assert told(done) == [(*OSLO, 9)]
    assert rewritten(done) == ("model call 2 resends another history than what was said before it; both are kept",)
    assert done[2].messages == log[1].messages
    thought = {"type": "reasoning", "content": "hm"}
    reply = {"role": "assistant", "parts": [thought, *asks(("a", "w", {"x": 1, "y": 2}))["parts"]]}
    resent = asks(("a", "w", '{"y": 2, "x": 1}'))
    assert rewritten([call(USER, reply=reply), call(USER, resent, gives(("a", "9")), reply=DONE)]) == ()


def test_a_history_that_was_cut_or_that_the_provider_keeps_is_joined():
    steps, missing = assembled([call(USER, reply=TWICE), call(TWICE, BOTH, reply=DONE)])
    assert ([seen for _, _, seen in told(steps)], missing) == ([9, 18], ())
    assert rewritten(steps)
    onward = call(BOTH, reply=DONE, parameters={"previous_response_id": "resp_1"})
    steps, _ = assembled([call(USER, reply=TWICE, response_id="resp_1"), onward])
    assert [seen for _, _, seen in told(steps)] == [9, 18]
    assert rewritten(steps) == ()


def test_conversations_are_split_by_their_beginnings_and_dialects_and_another_try_is_none():
    other = text("user", "other")
    log = [call(USER, reply=TWICE), call(other, reply=DONE), call(USER, TWICE, BOTH, reply=DONE)]
    log += [call(other, DONE, USER, reply=DONE), call(USER, reply=TWICE)]
    assert conversations(log) == ((log[0], log[2]), (log[1], log[3]), (log[4],))
    calls = [call(USER, reply=TWICE, dialect=one) for one in ("openai_chat", "anthropic")]
    onward = [call(USER, TWICE, gives(("a", "9")), reply=DONE, dialect=one) for one in ("anthropic", "openai_chat")]
    assert conversations([*calls, *onward]) == ((calls[0], onward[1]), (calls[1], onward[0]))
    tried, answered = call(USER, fault=TraceFault("Timeout")), call(USER, reply=DONE)
    assert conversations([tried, answered]) == ((tried, answered),)
    assert conversations([answered, answered]) == ((answered,), (answered,))


def test_a_trace_gets_its_input_and_output_from_its_calls_unless_its_source_tells_them():
    def ends(*steps, **more):
        trace = whole(Trace(source=Source(format="x"), steps=steps, **more))
        return trace.input, trace.output

    asked = call(text("system", "be kind"), USER, reply=TWICE)
    assert ends(asked, call(USER, TWICE, BOTH, reply=DONE)) == ("compare", "Kraków")
    assert ends(asked)[1] is None
    assert ends(call(USER, DONE, USER, reply=DONE))[0] == [USER, DONE, USER]
    assert ends(call(USER, reply=DONE), input={"q": 1}, output="A") == ({"q": 1}, "A")


def test_arguments_in_the_envelope_of_a_decorator_are_those_by_name():
    def given(arguments, wanted=None):
        asked = [call(USER, reply=asks(("a", "weather", wanted)))] if wanted else []
        return assembled([*asked, ToolRun(name="weather", arguments=arguments, result=9)])[0][-1].arguments

    by_name, by_order = {"args": [], "kwargs": {"city": "Oslo"}}, {"args": ["Oslo"], "kwargs": {}}
    for wanted in (None, OSLO[1]):
        assert given(by_name, wanted) == given({"kwargs": {"city": "Oslo"}}, wanted) == OSLO[1]
    assert (given(by_order, OSLO[1]), given(by_order)) == (OSLO[1], by_order), "the model's names; else what there is"
    for own in ({"args": ["-v"]}, {"kwargs": {"x": 1}}, {"args": [], "kwargs": {}, "x": 1}):
        assert given(own, own) == own, "parameters of these names"


def test_a_result_whose_call_no_message_holds_is_missing():
    lost = "the tool call b: its result is in the request of model call 2, and no message asks for it"
    first = asks(("a", *OSLO))
    assert assembled([call(USER, reply=first), call(USER, first, BOTH, reply=DONE)])[1] == (lost,)
    resumed = call(USER, TWICE, BOTH, text("user", "again"), reply=asks(("c", *OSLO)))
    added = asks(("d", *KRAKOW))
    for run in (
        [resumed, call(*resumed.messages, resumed.reply, gives(("c", "9")), reply=DONE)],
        [call(USER, reply=first), call(USER, first, gives(("a", "9")), added, gives(("d", "8")), reply=DONE)],
        [call(BOTH, reply=DONE)],
    ):
        assert assembled(run)[1] == (), "calls of an earlier run, and calls that the program itself put in"


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
