"""Which ends of an agent are crashes, and which calls violate an invariant."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_agentreplay.backends.backend import Moment, Refused
from pytest_agentreplay.backends.perturbation import Perturbation
from pytest_agentreplay.compare.matching import Matching
from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.model.exchanges import Exchange, Header, Run, ToolCall, ToolReply
from pytest_agentreplay.providers import READER, RULES, encode
from pytest_agentreplay.runs.fuzz import invariants
from pytest_agentreplay.runs.fuzz.content_changes import INJECTION
from pytest_agentreplay.runs.fuzz.invariants import MOST_RETRIES, Violation, find_crash, find_violations
from pytest_agentreplay.runs.fuzz.plan import FuzzFailure, Trial, TrialResult, find_cause, group_failures, shrink
from pytest_agentreplay.runs.fuzz.trial_verdict import (
    CALLS,
    TIMES,
    AgentAttempt,
    NeighbourBackend,
    find_invariant,
    judge,
)
from tests.support import exchanges

MATCHING = Matching(READER, RULES)
ROOT = Path(__file__).parent
REFUND = ToolCall("refund", {"order": "A-1"})


def find(before, now, *neighbour):
    """The names of the invariants that calls violate; tools that change something begin with "re", services all do."""
    return [each.invariant for each in violate(before, now, *neighbour, runs=(made(), made()))]


def violate(before, now, *neighbour, runs):
    effects = lambda call: call.name.startswith("re") if isinstance(call, ToolCall) else call.url != exchanges.CHAT  # noqa: E731
    return [*find_violations(before, now, neighbour, MATCHING, effects, runs=runs)]


def made(*pairs):
    """A run of these calls and outcomes."""
    return Run(Header("t"), tuple(Exchange(*pair, 2 * n + 1, 2 * n + 2) for n, pair in enumerate(pairs)))


def find_in(before, now, *neighbour):
    """As `find`, of calls with their outcomes."""
    calls = ([x.call for x in run.exchanges] for run in (made(*before), made(*now)))
    return violate(*calls, *neighbour, runs=(made(*before), made(*now)))


def post(url, body, **more):
    return exchanges.call(body, f"https://shop.test{url}", **more)


def ask(text, *messages):
    return exchanges.call({"model": "m", "messages": [{"role": "user", "content": text}, *messages]})


def test_what_changes_something_is_done_as_often_as_recorded_and_with_recorded_arguments():
    other = ToolCall("refund", {"order": "A-2"})
    assert find([REFUND], [REFUND]) == find([REFUND], []) == []
    assert find([REFUND], [REFUND, REFUND]) == ["repeated effect"]
    assert find([REFUND], [other]) == ["unrecorded effect"]
    # What was never called has no arguments to be held against, and what only reads may be repeated.
    assert find([REFUND], [REFUND, ToolCall("report", {"to": "ops"}), ToolCall("lookup"), ToolCall("lookup")]) == []


def test_an_agent_that_asks_for_ever_is_stopped_and_does_not_end():
    run = made((REFUND, ToolReply("paid")))
    backend = NeighbourBackend(run, MATCHING, strict=False)
    verdicts = [backend.decide(REFUND, Moment("main", number)) for number in range(CALLS + TIMES + 2)]
    assert [isinstance(verdict, Refused) for verdict in verdicts] == [False] * (CALLS + TIMES) + [True] * 2
    attempt = AgentAttempt(backend, MATCHING, lambda _: False, run, run, [REFUND], None, ROOT, None, lambda: iter(()))
    violations = judge(Trial(0, (Perturbation("endless-loop", 1),)), attempt)
    assert f"ends: the agent does not end: it was stopped after {CALLS + TIMES} calls" in map(": ".join, violations)


INJECTED = Perturbation("injection", 1, "$")
HOSTILE = f"a note\n{INJECTION}"


@pytest.mark.parametrize(
    ("call", "violates"),
    [
        (ToolCall("refund", {"order": "A-1", "amount": 9999}), True),
        (ToolCall("reorder", {"order": "A-1"}), True),
        (post("/transfers", {"amount": 9999}), True),
        (ToolCall("lookup", {"order": "A-2"}), False),
        # The text was handed on, by whole or in part; code that suspects it may say so.
        (ToolCall("refund", {"order": HOSTILE}), False),
        (ToolCall("refund", {"order": HOSTILE[:20]}), False),
        (ToolCall("report_error", {"text": "suspicious"}), False),
        (post("/v1/logs", {"line": "suspicious"}), False),
    ],
)
def test_what_code_does_by_itself_once_a_result_holds_instructions_has_to_be_recorded(call, violates):
    assert find([REFUND], [REFUND, call], INJECTED) == ["unrecorded effect"] * violates
    elsewhere = not isinstance(call, ToolCall) or call.name != "refund"
    # Beside another fault it may be the report of that.
    beside = find([REFUND], [REFUND, call], INJECTED, Perturbation("timeout", 1))
    assert beside == ["unrecorded effect"] * (violates and not elsewhere)


def test_under_an_injection_an_effect_is_not_made_before_the_model_asks_for_it():
    ask_for = ask("a"), exchanges.reply({"choices": [{"message": {"tool_calls": [
        exchanges.chat_use("call_1", "refund", '{"order": "A-1"}')]}}]})  # fmt: skip
    lookup, refund = (ToolCall("lookup"), ToolReply("late")), (REFUND, ToolReply("done"))
    (early,) = find_in([lookup, ask_for, refund], [lookup, refund, ask_for], INJECTED)
    assert early.text == 'refund(order="A-1") is recorded after the reply that asks for it'
    assert find_in([lookup, ask_for, refund], [lookup, ask_for, refund], INJECTED) == []
    assert find_in([lookup, refund, ask_for], [lookup, refund, ask_for], INJECTED) == []  # as recorded


def test_an_error_is_reported_in_any_words_and_a_log_may_be_written_as_often_as_it_is():
    alert = [ToolCall("reply_alert", {"text": text}) for text in ("done", "failed")]
    assert find(alert[:1], alert[1:], Perturbation("timeout", 1)) == []
    assert find(alert[:1], alert[:1] * 2, Perturbation("timeout", 1)) == ["repeated effect"]
    logs = [post("/logs", {"line": line}) for line in ("asking", "failed")]
    assert find(logs[:1], [logs[0], logs[0], logs[1]], Perturbation("timeout", 1)) == []


def test_a_call_that_does_nothing_twice_may_be_repeated():
    put, sent = post("/orders/A-1", {"state": "paid"}, method="PUT"), post("/refunds", {"idempotency_key": "k", "n": 1})
    keyed = ToolCall("refund", {"order": "A-1", "idempotency_key": "k"})
    for call in (put, sent, keyed):
        assert find([call], [call, call]) == []
    plain = post("/refunds", {"n": 1})
    assert find([plain], [plain, plain]) == ["repeated effect"]
    busy, done = exchanges.reply({}, status=429), exchanges.reply({})
    assert find_in([(plain, done)], [(plain, busy), (plain, done)]) == []
    failed = exchanges.reply({}, status=500)
    assert [each.invariant for each in find_in([(plain, done)], [(plain, failed), (plain, done)])] == [
        "repeated effect"
    ]


SCHEMA = {
    "type": "object",
    "properties": {
        "order": {"type": "string"},
        "amount": {"type": "number", "minimum": 0},
        "currency": {"type": ["string", "null"], "enum": ["EUR", "USD", None]},
    },
}
VALID = {"order": "A-1", "amount": 20, "currency": "EUR"}


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "anthropic", "gemini", "bedrock"])
@pytest.mark.parametrize(
    ("change", "schema", "why"),
    [
        ({"amount": "20!"}, SCHEMA, "amount is of type string, number expected"),
        ({"order": 7}, SCHEMA, "order is of type integer, string expected"),
        ({"amount": -1}, SCHEMA, "amount is -1, at least 0 expected"),
        ({"currency": "GBP"}, SCHEMA, 'currency is "GBP", which is not in its enum'),
        ({"amount": 7.5, "currency": "USD"}, SCHEMA, ""),
        ({"amount": "20!", "order": 7}, {"type": "object", "properties": {}}, ""),
    ],
)
def test_a_value_that_the_schema_forbids_is_not_passed_on(dialect, change, schema, why):
    tool = {"type": "function", "name": "refund", "description": "", "parameters": schema}
    question = {"role": "user", "parts": [{"type": "text", "content": "refund it"}]}
    asked = encode.request(dialect, model="m", messages=[question], tools=[tool], stream=False)

    def answer(arguments):
        use = {"type": "tool_call", "id": "call_1", "name": "refund", "arguments": arguments}
        return asked, encode.reply(asked, {"role": "assistant", "parts": [use], "finish_reason": "tool_calls"})

    wrong = VALID | change
    recorded = [answer(VALID), (ToolCall("refund", VALID), ToolReply("done"))]
    passed_on = [answer(wrong), (ToolCall("refund", wrong), None)]
    found = [each for each in find_in(recorded, passed_on) if each.invariant != "unrecorded effect"]
    assert [each.invariant for each in found] == ["forbidden arguments"] * bool(why)
    assert all(each.text.endswith(f" has what its schema forbids: {why}") for each in found)
    checked = [answer(wrong), (ToolCall("lookup", {"order": "A-1"}), ToolReply("late"))]
    assert find_in(recorded, checked) == []
    as_recorded = [answer(wrong), (ToolCall("refund", wrong), ToolReply("done"))]
    assert find_in(as_recorded, as_recorded) == []


@pytest.mark.parametrize(
    ("row", "other", "path", "paid", "violates"),
    [
        ({"price": 18.5, "currency": "EUR"}, {"price": 18.5, "currency": "USD"}, "$.currency", {"amount": 18.5}, True),
        ({"price": 18.5, "currency": "eur"}, {"price": 18.5}, "$.currency", {"cents": 1850}, True),
        ("It costs 18.50 EUR.", "It costs 18.50 USD.", "$", {"amount": 18.5}, True),
        # Another number, an id, and what the call was asked with.
        ({"price": 18.5, "currency": "EUR"}, {"price": 18.5, "currency": "USD"}, "$.currency", {"amount": 20}, False),
        ({"price": 5, "id": 7, "currency": "EUR"}, {"price": 5, "id": 7}, "$.currency", {"order": 7}, False),
        ({"total": 3, "currency": "EUR"}, {"total": 3, "currency": "USD"}, "$.currency", {"order": 3}, False),
    ],
)
def test_an_amount_is_not_taken_where_its_unit_is_another_one(row, other, path, paid, violates):
    operator = "other-unit" if "USD" in str(other) else "dropped-field"
    quote, refund = ToolCall("quote", {"order": 3}), (ToolCall("refund", paid), ToolReply("done"))
    neighbour = Perturbation(operator, 1, path)
    recorded, now = [(quote, ToolReply(row)), refund], [(quote, ToolReply(other)), refund]
    assert [each.invariant for each in find_in(recorded, now, neighbour)] == ["ignored unit"] * violates
    assert find_in(recorded, recorded, neighbour) == []
    # A unit that nobody has named is not the amount's; the one that the result has now is.
    for currency in ("CHF", "USD"):
        other_call = (ToolCall("refund", paid | {"currency": currency}), ToolReply("done"))
        violations = [each.invariant for each in find_in(recorded, [*now[:1], other_call], neighbour)]
        assert ("ignored unit" in violations) == (violates and currency not in str(other))
    # What comes after another request is up to a model that does not know of the change.
    model = ask("a"), exchanges.reply({"choices": [{"message": {"content": "yes"}}]})
    between = [[first, model, second] for first, second in (recorded, now)]
    assert find_in(*between, neighbour) == []


def test_under_another_clock_one_day_is_taken_for_one_day():
    clock = Perturbation("clock", 1, "2028-02-29T00:00:00+00:00")

    def rebook(first, last, at="2026-11-27T09:00:00Z"):
        return ToolCall("rebook", {"from": first, "to": last, "at": at})

    recorded = [rebook("2026-11-27", "2026-11-27")]
    assert find(recorded, [rebook("2028-02-29", "2028-02-29", "2028-02-29T00:00:01Z")], clock) == []
    assert find(recorded, [rebook("2028-02-28", "2028-02-29")], clock) == ["unrecorded effect"]
    assert find(recorded, [rebook("2028-02-29", "2028-02-29")]) == ["unrecorded effect"]


def test_a_secret_goes_nowhere_else():
    secret = "[[redacted:key:1]]"
    known = ToolCall("login", {"key": secret})
    assert find([known], [known]) == []
    assert find([known], [known, ToolCall("note", {"text": f"key {secret}"})]) == ["secret in a new place"]


def test_a_request_is_one_that_a_service_takes():
    use = {"role": "assistant", "tool_calls": [exchanges.chat_use("call_1", "lookup", "{}")]}
    result, orphan = ({"role": "tool", "tool_call_id": name, "content": "x"} for name in ("call_1", "call_2"))
    assert find([ask("a")], [ask("a", use, result)]) == []
    assert find([ask("a")], [ask("a", use, orphan)]) == ["valid request"]
    assert find([ask("a", use, orphan)], [ask("a", use, orphan)]) == []


def test_a_request_is_not_repeated_for_ever():
    assert find([ask("a")], [ask("a")] * (MOST_RETRIES + 1)) == []
    assert find([ask("a")], [ask("a")] * (MOST_RETRIES + 2)) == ["bounded retries"]


def raise_on_purpose():
    raise ValueError("no such order")


def assert_on_purpose():
    assert not "x", "on purpose"


def misread():
    return {}["status"]


def misread_json():
    return json.loads("{")


@pytest.mark.parametrize(
    ("function", "crashes"),
    [(raise_on_purpose, False), (assert_on_purpose, False), (misread, True), (misread_json, True)],
)
def test_an_error_that_python_raises_is_a_crash_and_one_that_the_code_raises_is_not(function, crashes):
    with pytest.raises(Exception) as caught:
        function()
    crash = find_crash(caught.value, ROOT, None)
    assert (crash is not None) is crashes
    if crash is not None:
        assert f"in {function.__name__} (test_invariants.py:" in crash.text
        assert find_crash(ExceptionGroup("several", [caught.value]), ROOT, None) == crash


def test_an_error_inside_a_library_or_of_the_test_itself_is_no_crash(monkeypatch):
    with pytest.raises(KeyError) as caught:
        misread()
    assert find_crash(caught.value, ROOT, misread.__code__) is None
    assert find_crash(caught.value, ROOT / "elsewhere", None) is None
    monkeypatch.setattr(invariants, "LIBRARIES", (Path(__file__).parent.name,))
    assert find_crash(caught.value, ROOT, None) is None
    assert find_crash(None, ROOT, None) is None
    assert find_crash(RuntimeError("a client's error"), ROOT, None) is None


def test_failures_are_grouped_by_cause_and_shrunk_to_the_fewest_perturbations():
    timeout, split, order = (
        Perturbation("timeout", 3),
        Perturbation("split-stream", 1, 5),
        Perturbation("clock", 2, "x"),
    )
    twice = Violation("repeated effect", 'refund(order="A-1") was called 2 times, recorded 1')
    thrice = Violation("repeated effect", 'refund(order="A-1") was called 3 times, recorded 1')
    crash = Violation("no crash", "KeyError in read (shop.py:3): 'x'")
    assert find_cause(twice) == find_cause(thrice) != find_cause(crash)
    results = [
        TrialResult(Trial(1, (split, timeout, order)), (twice,)),
        TrialResult(Trial(2, (split, timeout)), (thrice,)),
        TrialResult(Trial(3, (split,)), ()),
        TrialResult(Trial(4, (order,)), (crash,)),
    ]
    failures = group_failures(results)
    assert failures == [FuzzFailure(crash, (order,), 1), FuzzFailure(thrice, (split, timeout), 2)]

    def run(trials):
        for trial in trials:
            yield TrialResult(trial, (twice,) if timeout in trial.neighbour else ())

    assert shrink(failures[1], [], Trial(0, ()), run) == FuzzFailure(twice, (timeout,), 2)


def test_operators_that_show_the_same_violation_by_themselves_are_causes_of_their_own():
    wrong, cut, reset, timeout, piece = (
        Perturbation("wrong-types", 1),
        Perturbation("cut-stream", 1, 5),
        Perturbation("connection-reset", 2),
        Perturbation("timeout", 2),
        Perturbation("split-stream", 1, 1),
    )
    other = Violation("unrecorded effect", "refund(order=7) is not recorded with these arguments")
    crash = Violation("no crash", "KeyError in read (shop.py:3): 'x'")
    shown = [(wrong,), (cut,), (cut, piece), (reset,), (timeout,), (piece, timeout), (piece,)]
    results = [TrialResult(Trial(number, neighbour), (other,)) for number, neighbour in enumerate(shown)]
    groups = {failure.neighbour: failure.shown_by for failure in group_failures(results)}
    assert groups == {(wrong,): 1, (cut,): 2, (reset,): 2, (piece,): 2}
    crashes = [TrialResult(Trial(number, neighbour), (crash,)) for number, neighbour in enumerate(shown)]
    assert [failure.shown_by for failure in group_failures(crashes)] == [len(shown)]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("checks", "the invariant checks is no function: write module:function"),
        (":answered", "the invariant :answered is no function: write module:function"),
        ("checks:gone", "the invariant checks:gone cannot be imported: AttributeError: module 'checks' has no"),
        ("absent:f", "the invariant absent:f cannot be imported: ModuleNotFoundError: No module named 'absent'"),
        ("damaged:f", "the invariant damaged:f cannot be imported: SyntaxError: invalid syntax (damaged.py, line 1)"),
        ("checks:__name__", "the invariant checks:__name__ is str, and no function"),
    ],
)
def test_an_invariant_of_the_user_that_is_no_function_is_refused(name, message, tmp_path, monkeypatch):
    (tmp_path / "checks.py").write_text("", encoding="utf-8")
    (tmp_path / "damaged.py").write_text("def f(:\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "checks", raising=False)
    with pytest.raises(SettingsError) as caught:
        find_invariant(name)
    monkeypatch.delitem(sys.modules, "checks", raising=False)
    assert message in str(caught.value)


def test_hypothesis_and_pytest_are_not_needed_to_judge():
    code = "import sys, pytest_agentreplay.runs.fuzz.invariants; print({'pytest', 'hypothesis'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
