"""What a tool gave is told in the request that follows: joined by id, by name, by order, and never made up."""

from __future__ import annotations

import pytest

from pytest_agentreplay.traces import chains
from pytest_agentreplay.traces.assembling import assemble_steps, conversations, rewritten, whole
from pytest_agentreplay.traces.chains import merge_duplicates
from pytest_agentreplay.traces.trace import UNKNOWN, ModelCall, Source, ToolRun, Trace, TraceFault
from tests.traces.neutral import asks, gives, text


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
        steps, missing = assemble_steps([call(USER, reply=asked), call(USER, asked, answer, reply=DONE)])
        assert told(steps) == [(*OSLO, 9), (*KRAKOW, 18)]
        assert [type(step).__name__ for step in steps] == ["ModelCall", "ToolRun", "ToolRun", "ModelCall"]
        assert missing == ()
    asked = asks(("", "look", {}), ("", "pay", {}))
    log = [call(USER, reply=asked), call(USER, asked, gives(("pay", 2), ("look", 1)), reply=DONE)]
    assert told(assemble_steps(log)[0]) == [("look", {}, 1), ("pay", {}, 2)], "different tools, in another order"
    again, later = asks(("a", "weather", {"city": "Rome"})), gives(("a", "25"))
    log = [call(USER, reply=TWICE), call(USER, TWICE, BOTH, reply=again)]
    steps, _ = assemble_steps([*log, call(USER, TWICE, BOTH, again, later, reply=DONE)])
    assert [seen for _, _, seen in told(steps)] == [9, 18, 25], "an id that comes again belongs to its turn"


def test_what_nobody_answered_was_not_executed_and_is_missing_and_a_marked_error_is_a_fault():
    log = [call(USER, reply=TWICE), call(USER, TWICE, gives(("a", "9")), reply=asks(("c", "pay", {})))]
    steps, missing = assemble_steps(log)
    ran = [(run.call_id, run.executed, run.seen) for run in steps if isinstance(run, ToolRun)]
    assert ran == [("a", True, 9), ("b", False, UNKNOWN), ("c", False, UNKNOWN)]
    assert missing == ("result of weather, call 2", "result of pay, call 1")
    answer = gives(("a", "no such city"), is_error=True)
    steps, _ = assemble_steps([call(USER, reply=TWICE), call(USER, TWICE, answer, reply=DONE)])
    assert (steps[1].fault, steps[1].seen) == (TraceFault(message="no such city"), "no such city")


def test_records_get_what_they_lack_and_keep_what_they_have():
    records = [ToolRun(name="weather", result=18, arguments=KRAKOW[1])]
    records += [ToolRun(name="weather", call_id="a", fault=TraceFault("E"))]
    answers = gives(("a", "no"), ("b", "18°"))
    steps, missing = assemble_steps([call(USER, reply=TWICE), *records, call(USER, TWICE, answers, reply=DONE)])
    ran = [(run.call_id, run.arguments, run.seen, run.result) for run in steps if isinstance(run, ToolRun)]
    assert ran == [("b", KRAKOW[1], "18°", 18), ("a", OSLO[1], "no", UNKNOWN)]
    assert missing == ()
    record = ToolRun(name="clock", result=1)
    assert assemble_steps([record, call(USER, reply=DONE)])[0][0] is record, "nobody asked for it"


def test_the_reply_is_the_authority_and_a_changed_history_is_told():
    changed = asks(("a", "weather", {"city": "Bergen"}))
    log = [call(USER, reply=asks(("a", *OSLO))), call(USER, changed, gives(("a", "9")), reply=DONE)]
    done, _ = assemble_steps(log)
    assert told(done) == [(*OSLO, 9)]
    assert rewritten(done) == ("model call 2 resends another history than what was said before it; both are kept",)
    assert done[2].messages == log[1].messages
    thought = {"type": "reasoning", "content": "hm"}
    reply = {"role": "assistant", "parts": [thought, *asks(("a", "w", {"x": 1, "y": 2}))["parts"]]}
    resent = asks(("a", "w", '{"y": 2, "x": 1}'))
    assert rewritten([call(USER, reply=reply), call(USER, resent, gives(("a", "9")), reply=DONE)]) == ()


def test_a_history_that_was_cut_or_that_the_provider_keeps_is_joined():
    steps, missing = assemble_steps([call(USER, reply=TWICE), call(TWICE, BOTH, reply=DONE)])
    assert ([seen for _, _, seen in told(steps)], missing) == ([9, 18], ())
    assert rewritten(steps)
    onward = call(BOTH, reply=DONE, parameters={"previous_response_id": "resp_1"})
    steps, _ = assemble_steps([call(USER, reply=TWICE, response_id="resp_1"), onward])
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
        return assemble_steps([*asked, ToolRun(name="weather", arguments=arguments, result=9)])[0][-1].arguments

    by_name, by_order = {"args": [], "kwargs": {"city": "Oslo"}}, {"args": ["Oslo"], "kwargs": {}}
    for wanted in (None, OSLO[1]):
        assert given(by_name, wanted) == given({"kwargs": {"city": "Oslo"}}, wanted) == OSLO[1]
    assert (given(by_order, OSLO[1]), given(by_order)) == (OSLO[1], by_order), "the model's names; else what there is"
    for own in ({"args": ["-v"]}, {"kwargs": {"x": 1}}, {"args": [], "kwargs": {}, "x": 1}):
        assert given(own, own) == own, "parameters of these names"


def test_a_result_whose_call_no_message_holds_is_missing():
    lost = "the tool call b: its result is in the request of model call 2, and no message asks for it"
    first = asks(("a", *OSLO))
    assert assemble_steps([call(USER, reply=first), call(USER, first, BOTH, reply=DONE)])[1] == (lost,)
    resumed = call(USER, TWICE, BOTH, text("user", "again"), reply=asks(("c", *OSLO)))
    added = asks(("d", *KRAKOW))
    for run in (
        [resumed, call(*resumed.messages, resumed.reply, gives(("c", "9")), reply=DONE)],
        [call(USER, reply=first), call(USER, first, gives(("a", "9")), added, gives(("d", "8")), reply=DONE)],
        [call(BOTH, reply=DONE)],
    ):
        assert assemble_steps(run)[1] == (), "calls of an earlier run, and calls that the program itself put in"


ASKED = {"messages": (USER,), "reply": DONE}
OTHER = {"messages": (text("user", "translate"),), "reply": text("assistant", "no")}
SILENT: dict = {}
FAILED = {"messages": (USER,), "fault": TraceFault("E")}
SECOND = 1_000_000_000


def record(name, started, ended, held, parent="", **more):
    times = {"started": int(started * SECOND), "ended": int(ended * SECOND)}
    return ModelCall(id=name, parent=parent, model="m", **times, **held, **more)


RECORDS = {
    "a wrapper and the SDK": ([record("a", 0, 9, ASKED), record("b", 1, 8, ASKED, "a")], 1),
    "a wrapper without content": ([record("a", 0, 9, SILENT), record("b", 1, 8, ASKED, "a")], 1),
    "an SDK without content": ([record("a", 0, 9, ASKED), record("b", 1, 8, SILENT, "a")], 1),
    "three deep, children first": (
        [record("c", 0, 9, ASKED, "b"), record("b", 0, 9, SILENT, "a"), record("a", 0, 9, ASKED)],
        1,
    ),
    "a clock of milliseconds": ([record("a", 0, 9, ASKED), record("b", 1, 9.0009, ASKED, "a")], 1),
    "a wrapper of two": ([record("a", 0, 9, SILENT), record("b", 1, 2, ASKED, "a"), record("c", 3, 4, OTHER, "a")], 2),
    "a wrapper of two tries": ([record("a", 0, 9, ASKED), record("b", 1, 2, FAILED, "a"), record("c", 3, 4, ASKED, "a")], 2),
    "one after the other": ([record("a", 0, 1, ASKED), record("b", 2, 3, OTHER, "a"), record("c", 4, 5, ASKED, "b")], 3),
    "the same again, one after the other": ([record("a", 0, 1, ASKED), record("b", 2, 3, ASKED, "a")], 2),
    "one response id for all": ([record(name, at, at + 0.5, held, response_id="r") for name, at, held in [("a", 0, ASKED), ("b", 1, OTHER)]], 2),
    "another call within the time": ([record("a", 0, 9, ASKED), record("b", 1, 8, OTHER, "a")], 2),
    "a call within one without content within another": (
        [record("a", 0, 9, ASKED), record("b", 1, 8, SILENT, "a"), record("c", 2, 7, OTHER, "b")],
        2,
    ),
    "the same user, other instructions": (
        [record("a", 0, 9, ASKED), record("b", 1, 8, {"messages": (text("system", "Is it safe?"), USER), "reply": text("assistant", "yes")}, "a")],
        2,
    ),
    "beside each other, one response": (
        [record("a", 0, 9, ASKED, "w", response_id="r"), record("b", 1, 8, SILENT, "w", response_id="r")],
        1,
    ),
    "beside each other, no response": ([record("a", 0, 9, FAILED, "w"), record("b", 1, 8, SILENT, "w")], 1),
    "beside each other, another response": (
        [record("a", 0, 9, ASKED, "w", response_id="r"), record("b", 1, 8, SILENT, "w", response_id="s")],
        2,
    ),
    "beside each other, another time": ([record("a", 0, 1, ASKED, "w"), record("b", 2, 3, SILENT, "w")], 2),
    "beside each other, two alike": ([record("a", 0, 9, ASKED, "w"), record("b", 1, 8, ASKED, "w")], 2),
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDS)
def test_records_are_one_call_only_where_they_show_it(name):
    records, calls = RECORDS[name]
    for order in (records, records[::-1]):
        kept, merged = merge_duplicates(order, {step.id: step.parent for step in order})
        assert len(kept) == calls
        left = len(records) - calls
        assert merged == (
            [f"{left} records repeat calls that other records hold: each call is kept once"] if left else []
        )
        assert not any(step.messages and step.reply and step.fault for step in kept)
    if calls == 1:
        assert kept[0].messages == (USER,)


def test_records_of_tools_are_one_run_by_id_or_by_name_and_arguments():
    def runs(outer, inner, ended=9):
        steps = [ToolRun(name="weather", id=name, started=at, ended=end, **held) for name, at, end, held in [
            ("a", 0, ended, outer), ("b", 10 * SECOND, 11 * SECOND, inner)]]  # fmt: skip
        return len(merge_duplicates(steps, {"b": "a"})[0])

    long = 99 * SECOND
    envelope = {"arguments": {"args": [], "kwargs": OSLO[1]}}
    assert runs({"arguments": OSLO[1]}, envelope, long) == runs({"call_id": "c"}, {"call_id": "c"}, long) == 1
    assert runs({"arguments": OSLO[1]}, {"arguments": KRAKOW[1]}, long) == 2
    assert runs({"call_id": "c"}, {"call_id": "d"}, long) == 2
    assert runs({"arguments": OSLO[1]}, envelope) == 2, "one after the other"
    outer, tool = record("a", 0, 9, ASKED), ToolRun(name="look", id="b", started=0, ended=long)
    inside = record("c", 1, 8, ASKED, "b")
    assert len(merge_duplicates([outer, tool, inside], {"b": "a", "c": "b"})[0]) == 3, "never across a tool"


def test_a_long_run_costs_what_it_says(monkeypatch):
    """Each call is looked up by what it says, not compared with all before it, and what it resends is known."""
    keyed = []
    monkeypatch.setattr(chains, "part_key", lambda role, part, key=chains.part_key: keyed.append(1) or key(role, part))
    messages, log = [USER], []
    for number in range(300):
        asked = asks((f"c{number}", "w", {"n": number}))
        log.append(call(*messages, reply=asked))
        messages += [asked, gives((f"c{number}", str(number)))]
    steps, missing = assemble_steps(log)
    assert [seen for _, _, seen in told(steps)] == [*range(299), UNKNOWN]
    assert missing == ("result of w, call 300",)
    assert len(keyed) < 4 * 300
