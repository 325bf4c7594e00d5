"""What looks wrong in a run: each symptom alone, true of what it was inferred from, and careful where nothing is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_agentreplay.cases.case import Case
from pytest_agentreplay.cases.check_inference import find_claim, infer_checks
from pytest_agentreplay.cases.evidence import frozen
from pytest_agentreplay.cases.judging import judge
from pytest_agentreplay.model.exchanges import Body, Failure, Header, HttpReply, Run, ToolCall, ToolReply
from pytest_agentreplay.providers import encode
from tests.support import stored_runs


def said(text="", *tools):
    """A call of a model that says a text, or asks for tools."""
    call = encode.request("openai_chat", model="m", messages=[])
    parts = [{"type": "text", "content": text}] if text else []
    parts += [{"type": "tool_call", "id": f"c-{name}", "name": name, "arguments": {}} for name in tools]
    return call, encode.reply(call, {"role": "assistant", "parts": parts, "finish_reason": "stop"})


def ran(name, outcome, /, **arguments):
    return ToolCall(name, arguments), outcome if isinstance(outcome, Failure) else ToolReply(outcome)


def run_of(*crossed, **case):
    return stored_runs.run_of(*crossed, kit={"case": case})


def checks(run):
    """What is inferred of a run, held against it: observed, desired, semantic."""
    evidence = frozen(run)
    found = infer_checks(evidence)
    assert json.dumps([check.wanted for check in (*found.observed, *found.desired)]), "plain data"
    case = Case(file="c", folder=Path(), id="c", observed=found.observed, desired=found.desired)
    assert judge(case, "observed", evidence).holds
    assert not [result for result in judge(case, "desired", evidence).results if result.holds]
    return (
        [{check.word: check.wanted} for check in found.observed],
        [{check.word: check.wanted} for check in found.desired],
        list(found.semantic),
    )


BROKEN = Failure("RefundError", "amount 45990 exceeds 4599 of A-1")


def test_a_claim_after_a_failed_tool():
    run = run_of(ran("issue_refund", BROKEN, amount=45990), said("Good news! I have refunded you."), status="ok")
    assert checks(run) == (
        [{"output": {"contains": "I have refunded"}}, {"tool_failed": "issue_refund"}],
        [{"output": {"not_contains": "I have refunded"}}],
        ["The answer tells that issue_refund failed, and claims nothing that was not done"],
    )


def test_an_answer_that_admits_it_leaves_the_arguments_in_question():
    run = run_of(ran("issue_refund", BROKEN, order="A-1", amount=45990), said("Sorry, that failed."), status="ok")
    observed, desired, _ = checks(run)
    assert observed == [{"tool_failed": "issue_refund"}]
    assert desired == [{"tool_not_called": {"name": "issue_refund", "arguments": {"$.amount": 45990}}}]


def test_a_tool_that_failed_and_was_repeated_with_success_hides_nothing():
    run = run_of(
        ran("issue_refund", BROKEN, amount=1), ran("issue_refund", "ok", amount=2), said("I have refunded you.")
    )
    assert checks(run)[0] == [{"tool_failed": "issue_refund"}]


@pytest.mark.parametrize("result", [{"error": "no such order"}, "Error: no such order", "shop.OrderError: gone"])
def test_an_error_that_only_the_result_tells(result):
    run = run_of(ran("look_up", result, order="A-1"), said("It is on its way."))
    observed, _, semantic = checks(run)
    assert [next(iter(check)) for check in observed] in (["tool_failed"], ["exchange"])
    assert semantic


def test_five_identical_calls_that_fail_and_no_answer():
    run = run_of(
        *[ran("search", Failure("TimeoutError", "down"), query="x")] * 5, said("", "search"), limits="recursion limit"
    )
    observed, desired, _ = checks(run)
    assert {"repeated_call": {"name": "search", "at_least": 5}} in observed
    assert {"repeated_call": {"name": "search", "at_most": 2}} in desired
    assert {"output": {"exists": False}} in observed
    assert {"output": {"exists": True}} in desired


def test_two_calls_that_succeed_are_no_loop():
    run = run_of(*[ran("poll", "pending", job=1)] * 2, said("Still pending."))
    assert checks(run)[0] == [{"output": {"contains": "Still pending."}}]


def test_a_limit_is_told_by_its_turns():
    run = run_of(
        *[said("", "search")] * 4, limits="max_turns", status="error", faults=[{"type": "MaxTurns", "message": "4"}]
    )
    observed, desired, _ = checks(run)
    assert {"turns": {"at_least": 4}} in observed
    assert {"turns": {"at_most": 3}} in desired
    assert {"status": "error"} in observed
    assert {"error": {"class": "MaxTurns", "text": "4"}} in observed
    assert {"status": "ok"} in desired


def test_half_a_body_with_an_error_status():
    call, _ = said("x")
    half = Body(b'{"price": 12.5, "cur')
    run = run_of(
        (call, HttpReply(429, headers=(("content-type", "application/json"),), body=half)), said("It costs 12.50.")
    )
    observed, _, semantic = checks(run)
    assert {"error": {"class": "HTTP 429"}} in observed
    assert semantic == ["What turn 1 got (429, half a JSON body) is not taken for a result"]


ORDERS = [{"order_id": "A-1001", "user_id": "u-7"}, {"order_id": "A-2002", "user_id": "u-9"}]
ORDERS = [{**order, "city": "Bergen"} for order in ORDERS]


def test_somebody_elses_record_and_ones_own_in_the_answer():
    run = run_of(ran("look_up", ORDERS, name="Zoë"), said("Your order A-2002 goes to Bergen."), user="u-7")
    observed, desired, _ = checks(run)
    assert observed == [{"output": {"contains": "A-2002"}}]
    assert {"no_identity_but": {"path": "$.user_id", "is": "u-7"}} in desired
    assert {"tool_called": {"name": "look_up", "arguments": {"$.user_id": "u-7"}, "at_least": 1}} in desired
    own = "Your order A-1001 goes to Bergen."
    assert checks(run_of(ran("look_up", ORDERS), said(own), user="u-7"))[0] == [{"output": {"contains": own}}]


def test_somebody_elses_row_of_a_table_in_the_answer():
    table = "order_id,user_id,status\nA-1001,u-7,late\nA-2002,u-9,shipped\n"
    told = run_of(ran("find", table), said("Order A-2002 is late, or shipped."), user="u-7")
    observed, desired, _ = checks(told)
    assert {"output": {"contains": "A-2002"}} in observed
    assert {"no_identity_but": {"path": "$.user_id", "is": "u-7"}} in desired
    common = run_of(ran("find", table), said("It was shipped."), user="u-7")
    assert not [one for one in checks(common)[1] if "no_identity_but" in one], "everyone says such words"


def test_what_the_test_wanted():
    end = {"status": "failed", "type": "AssertionError", "message": "assert 'sorry' in 'It is late.'"}
    run = run_of(said("It is late."))
    run = Run(Header("t", outcome=end), run.exchanges)
    observed, desired, semantic = checks(run)
    assert observed == [{"output": {"not_contains": "sorry"}}]
    assert desired == [{"output": {"contains": "sorry"}}]
    assert semantic == ["What the test wanted holds: assert 'sorry' in 'It is late.'"]


def test_a_bad_grade_in_words_and_no_number():
    run = run_of(said("7"), grades={"accuracy": "I", "toxicity": 0})
    assert checks(run)[2] == ["The answer deserves better than accuracy: I"]


def test_a_run_in_which_nothing_looks_wrong_says_so():
    observed, desired, semantic = checks(run_of(said("All is well.\nBye.")))
    assert observed == [{"output": {"contains": "All is well."}}]
    assert desired == []
    assert semantic == ["Say what is wrong with this run, and what a fixed agent shows instead"]
    assert checks(run_of())[0] == [{"output": {"exists": False}}]


CLAIMS = [
    ("Done! I have refunded $459.90 to you.", "issue_refund", "I have refunded"),
    ("Your flight has been booked.", "book_flight", "Your flight has been booked"),
    ("I've cancelled the order", "cancelOrder", "I've cancelled"),
    ("All set!", "send_mail", "All set"),
    ("I could not refund it, so I have refunded nothing", "issue_refund", ""),
    ("The refund isn\u2019t possible", "issue_refund", ""),
    ("It will arrive tomorrow.", "issue_refund", ""),
    ("", "issue_refund", ""),
]


def test_what_counts_as_a_claim():
    assert [(answer, tool, find_claim(answer, tool)) for answer, tool, _ in CLAIMS] == CLAIMS


@pytest.mark.parametrize(
    "output",
    [
        {"answer": "I have refunded your order.", "score": 1},
        {"score": 1, "result": {"text": "I have refunded your order.", "done": True}},
        {"messages": [{"role": "user", "content": "Refund it."}, {"role": "ai", "content": "I have refunded it."}]},
        ["I have refunded it.", {"n": 2}],
    ],
)
def test_a_passage_is_cut_out_of_one_text_of_an_answer_that_is_an_object(output):
    run = run_of(ran("refund", Failure("RefundError", "paid back before")), said("Ok."), status="ok", output=output)
    observed, desired, _ = checks(run)
    assert observed[0] == {"output": {"contains": "I have refunded"}}
    assert desired == [{"output": {"not_contains": "I have refunded"}}]


@pytest.mark.parametrize("output", [{"a": {"b": "Shipped."}, "c": 1}, [["Shipped."]], {"n": 1.5}, {"ok": True}, {}])
def test_what_is_observed_of_an_unremarkable_object_holds(output):
    checks(run_of(said("Ok."), status="ok", output=output))
