"""Two runs side by side: what each form of a tolerance lets differ, who wins over whom, and what needs no configuration."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.compare.tolerance import Level, Reach, TolerancePolicy, find_reach, parse
from pytest_agentreplay.compare.tolerance.comparing import shared_words
from pytest_agentreplay.errors import RunnerError, SettingsError
from pytest_agentreplay.model.path_parsing import compile_path
from tests.support.paraphrases import ANSWERS

LOOK, MAIL, REFUND = ("look", {"id": 1}), ("mail", {"to": "a"}), ("refund", {"id": 1, "amount": 2.5})


def shows(*calls, final="The order has shipped.", texts=("",), results=(), **usage):
    """What a run shows that called these tools."""
    results = [*results, *[None] * len(calls)]
    return {
        "turns": [{"text": text, "finish_reasons": ["stop"]} for text in texts],
        "tools": [
            {"name": name, "arguments": arguments, "result": result}
            for (name, arguments), result in zip(calls, results, strict=False)
        ],
        "final": final,
        "outcome": {"status": "passed"},
        "usage": {"calls": len(texts), "output_tokens": 100, "seconds": 1.5, "cost": None, **usage},
    }


def policy(*lines, level=Level.INI):
    return TolerancePolicy(parse(*line.split(" = ", 1), level=level) for line in lines)


def drifts(recorded, now, *lines, hooks=None):
    return policy(*lines).compare(recorded, now, hooks or {})


def paths(*given, **more):
    return [drift.path for drift in drifts(*given, **more)]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
CALLS = st.lists(st.tuples(st.sampled_from(["look", "mail"]), st.dictionaries(st.just("id"), VALUES)), max_size=4)
FORMS = ["subsequence", "superset", "subset", "set", "multiset", "equal"]


@given(CALLS, CALLS, st.sampled_from(FORMS), st.text(max_size=20))
def test_every_run_is_near_itself_and_a_sequence_of_calls_is_what_its_form_says(recorded, now, form, final):
    rule = f"$.tools = {form}"
    itself = shows(*recorded, final=final)
    assert paths(itself, itself, rule) == []
    old, new = ([repr(call) for call in calls] for calls in (recorded, now))
    rest = iter(new)
    expected = {
        "equal": old == new,
        "multiset": sorted(old) == sorted(new),
        "set": {*old} == {*new},
        "superset": all(old.count(call) <= new.count(call) for call in old),
        "subset": all(new.count(call) <= old.count(call) for call in new),
        "subsequence": all(call in rest for call in old),
    }
    assert (not drifts(shows(*recorded), shows(*now), rule)) == expected[form]


def test_without_configuration_calls_are_exact_text_of_turns_is_by_type_and_the_final_answer_by_its_words():
    recorded = shows(LOOK, REFUND, texts=("I look it up.", "Refunded."), results=["shipped"])
    assert paths(recorded, {**recorded, "turns": [{"text": "Let me see!"}], "final": "The order shipped."}) == []
    assert paths(recorded, shows(LOOK, REFUND, texts=(None, ""), results=["late"])) == [
        "$.turns[0].text",
        "$.tools[0].result",
    ]
    (drift,) = drifts(shows(LOOK, REFUND), shows(LOOK, MAIL, REFUND))
    assert (drift.path, drift.recorded, drift.now, drift.layer) == ("$.tools[1].name", "refund", "mail", "model")
    assert (drift.default, drift.tolerance) == (True, "$.tools[1].name = exact")
    assert drift.summary == '$.tools[1].name "refund" -> "mail"'
    (drift,) = drifts(shows(), shows(final="I cannot help you with this."))
    assert (drift.default, drift.tolerance) == (True, "$.final = text(0.35)")
    assert drift.summary.endswith("(0.00 of the words are the same)")
    assert paths(shows(LOOK), shows()) == ["$.tools[0]"]
    assert paths(shows(), shows(final=None)) == ["$.final"]


def test_the_shipped_ratio_tells_paraphrases_from_other_answers():
    rule = next(iter(policy("$.final = text(0.35)").rules))
    for recorded, paraphrase, other in ANSWERS:
        assert shared_words(recorded, paraphrase) >= float(rule.values[0]) > shared_words(recorded, other), recorded
    assert shared_words("", "") == 1
    assert shared_words("注文は発送されました", "注文は届きました") > 0.5, "scripts without spaces have words too"


NEAR = [
    ("$.final = type", "anything", None),
    ("$.final = text(0.5)", "Shipped: the order", "Refused"),
    ("$.final = regex(ship{1,2}ed)", "It shipped", "It is late"),
    ('$.final = one_of("yes", no, 3)', "no", "maybe"),
    ("$.final = one_of(1, 2)", 2, 3),
    ("$.usage.calls = number(1)", 2, 3),
    ("$.usage.calls = 50%", 1.5, 1.6),
    ("$.usage.calls = number(0.2, 50%)", 1.5, 1.6),
    ("$.outcome.status = exact", "passed", "failed"),
    ("$.turns[0].finish_reasons = superset", ["length", "stop"], ["length"]),
    ("$.turns[0].finish_reasons = set", ["stop", "stop"], ["stop", "length"]),
]


@pytest.mark.parametrize(("line", "near", "far"), NEAR)
def test_each_form_lets_differ_what_it_says_and_no_more(line, near, far):
    path = compile_path(line.partition(" ")[0])
    assert drifts(shows(), path.replace(shows(), lambda _: near), line) == ()
    (drift,) = drifts(shows(), path.replace(shows(), lambda _: far), line)
    assert (drift.tolerance, drift.default) == (line, False)


def test_elements_that_are_paired_by_a_member_tell_what_differs_inside():
    old = [{"id": 1, "s": 1}, {"id": 2, "s": 2}]
    recorded, now = shows(LOOK, results=[old]), shows(LOOK, results=[[{"id": 2, "s": 2}, {"id": 1, "s": 9}]])
    (drift,) = drifts(recorded, now, "look $ = unordered(id)")
    assert (drift.path, drift.recorded, drift.now, drift.layer) == ("$.tools[0].result[1].s", 1, 9, "tool")
    assert paths(recorded, now, "look $ = unordered(id)", "look $[*].s = 10") == []


def test_the_higher_level_wins_then_the_more_specific_path_then_the_later_line():
    recorded, now = shows(LOOK, results=[{"a": {"b": 1}}]), shows(LOOK, results=[{"a": {"b": 2}}])

    def verdict(*lines):
        levels = {"ini": Level.INI, "file": Level.FILE, "test": Level.TEST}
        rules = [parse(*line.split(" ", 1)[1].split(" = "), level=levels[line.split()[0]]) for line in lines]
        return [drift.tolerance for drift in TolerancePolicy(rules).compare(recorded, now)]

    exact = ["look $.a.b = exact"]
    assert verdict("ini look $.a = ignore", "ini look $.a.b = exact") == exact
    assert verdict("ini look $.a.b = exact", "ini look $.a = ignore") == exact, "more specific"
    assert verdict("ini look $.a.b = ignore", "ini look $.a.b = exact") == exact, "later"
    assert verdict("file look $..b = ignore", "ini look $.a.b = exact") == [], "the file is over the ini file"
    assert verdict("file look $.a.b = exact", "test $.tools = ignore") == [], "a marker is over both, and all below it"
    assert verdict("ini * $.a.b = ignore", "ini look $.a.b = exact", "ini * $.a.b = ignore") == exact, "named tool"
    assert verdict("ini $.tools[*].result.a.b = ignore") == [], "a place of the run leads there too"


def test_a_tool_means_its_results_in_a_project_and_its_arguments_in_a_case():
    result, argument = (parse("search $.limit", "ignore", side=side) for side in ("result", "arguments"))
    before, after = shows(("search", {"limit": 5})), shows(("search", {"limit": 9}))
    assert TolerancePolicy([result]).compare(before, after)
    assert not TolerancePolicy([argument]).compare(before, after)
    anywhere = policy("$.tools[*].arguments.limit = ignore")
    assert anywhere.is_near("search", {"limit": 5}, {"limit": 9}, "arguments")
    assert not anywhere.is_near("search", {"limit": 5}, {"limit": 9})
    named = policy("$.tools[?(@.name == 'search')].arguments.limit = ignore")
    assert named.is_near("search", {"limit": 5}, {"limit": 9}, "arguments")
    assert not named.is_near("find", {"limit": 5}, {"limit": 9}, "arguments")
    third = policy("$.tools[0].arguments = ignore")
    assert not third.is_near("search", {"limit": 5}, {"limit": 9}, "arguments"), "one call alone has no number"


def test_what_is_forbidden_and_what_is_too_much_holds_beside_every_other_tolerance():
    recorded, now = shows(LOOK), shows(LOOK, MAIL, output_tokens=151, cost=0.2)
    lines = ["$.tools = superset", "$.tools = forbidden(refund, ma*)", "$.usage.output_tokens = at most 1.5x"]
    found = drifts(recorded, now, *lines)
    assert [(drift.path, drift.tolerance) for drift in found] == [("$.tools[1]", lines[1]), (lines[2][:21], lines[2])]
    assert found[1].summary == "$.usage.output_tokens 100 -> 151 (150 is the most)"
    assert paths(recorded, now, "$.tools = superset", "$.usage.cost = at most 0.2") == []
    assert paths(recorded, now, "$.tools = superset", "$.usage.cost = at most 0.1") == ["$.usage.cost"]
    assert paths(recorded, now, "$.tools = superset", "$..output_tokens = at most 1", lines[2]) == [lines[2][:21]]


def test_judges_and_embeddings_are_asked_about_what_differs_and_what_they_say_is_reported():
    asked = []

    def judge(recorded, now, rubric):
        asked.append((recorded, now, rubric))
        return True if "shipped" in now else "it does not say what became of the order"

    def embed(text):
        return [float("shipped" in text), 1.0]

    line = '$.final = judge(help, "says, in short, what became of it")'
    hooks = {"help": judge, "vectors": embed}
    assert paths(shows(), shows(), line, hooks=hooks) == []
    assert asked == [], "what is equal needs no judge"
    assert paths(shows(), shows(final="Yes: shipped"), line, hooks=hooks) == []
    (drift,) = drifts(shows(), shows(final="No."), line, hooks=hooks)
    assert drift.summary.endswith("(it does not say what became of the order)")
    assert asked[-1] == ("The order has shipped.", "No.", "says, in short, what became of it")
    assert paths(shows(), shows(final="shipped!"), "$.final = embed(vectors, 0.9)", hooks=hooks) == []
    (drift,) = drifts(shows(), shows(final="No."), "$.final = embed(vectors, 0.9)", hooks=hooks)
    assert drift.summary.endswith("(the cosine is 0.71)")
    with pytest.raises(RunnerError, match="ZeroDivisionError"):
        drifts(shows(), shows(final="No."), line, hooks={"help": lambda **_: 1 / 0})
    assert policy("search $ = judge(help, good)").is_near("search", "a", "b") is False, "a verified result asks nobody"


REACHED = [
    ("look $.score = 0.1", Reach([1])),
    ("look $.scores = 0.1", Reach([], False, "scores", frozenset({"score", "hits"}))),
    ("look $.hits[*].id = exact", Reach([])),
    ("look $..id = exact", Reach([])),
    ("look $.hits[?(@.id == 9)].id = exact", Reach([])),
    ("look $['score', 'hits'].id = exact", Reach([], True, "id", frozenset())),
    ("look $..deep = exact", Reach([])),
    ("mail $.x = ignore", Reach([])),
    ("$.turns[5].text = type", Reach([], True, "5")),
    ("$.turns[*].nonsense = ignore", Reach([], False, "nonsense", frozenset({"text", "finish_reasons"}))),
    ("$.usage.cost = 10%", Reach([None])),
]


@pytest.mark.parametrize(("line", "reach"), REACHED)
def test_the_path_of_a_tolerance_leads_into_a_recording_as_far_as_it_can(line, reach):
    found = find_reach(policy(line).rules[0], shows(LOOK, texts=["Hello"], results=[{"score": 1, "hits": []}]))
    assert (found.values, found.open or bool(found.values)) == (reach.values, reach.open)
    if not reach.open:
        assert (found.missing, found.members) == (reach.missing, reach.members)


def test_twice_of_what_nobody_counted_is_no_budget():
    assert policy("$.usage.cost = at most 2x").compare(shows(), shows(cost=9)) == ()


def test_a_forbidden_call_is_named_before_all_else_that_it_breaks_with_the_turn_that_asked_for_it():
    line = "$.tools = forbidden(mail)"
    first, second = policy(line).compare(shows(LOOK, REFUND), shows(LOOK, MAIL), turns=["turn 1", "turn 2"])
    assert (first.tolerance, first.default, first.summary) == (line, False, f"{line}: mail was called at turn 2")
    assert second.path == "$.tools[1].name"


REFUSED = [
    *[(f"{place} = {word}", "does not write the same text twice") for word in ("exact", "equal") for place in
      ("$.final", "$.turns[*].text", "$.turns[3].text", "$.turns", "$", "$..text", "$.*", "$..*")],
    ("$.final = regex((a{90}){90}b)", "the pattern"),
    ("$.final = regex(()", "is no regular expression"),
    ("$.final = regex()", "write ignore"),
    ("$.final = text(1.1)", "write ignore"),
    ("$.final = text(0)", "text(0.35)"),
    ("$.final = text", "text(0.35)"),
    ("$.final = ignore()", "write ignore"),
    ("$.final = one_of()", "one_of(A, B)"),
    ("$.final = judge(help)", 'judge(HOOK, "rubric")'),
    ("$.final = embed(help, 2)", "embed(HOOK, 0.9)"),
    ("$.usage.cost = at most", "at most 2000"),
    ("$.usage.cost = at most -1", "at most 2000"),
    ("$.usage.cost = number(1, 2, 3)", "number(0.01, 1%)"),
    ("$.usage.cost = number()", "number(0.01, 1%)"),
    ("$.tools = forbidden()", "forbidden(NAME)"),
    ("$.answer = ignore", "begins with $.turns, $.tools, $.final, $.outcome, $.usage"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "message"), REFUSED)
def test_what_is_no_tolerance_is_refused(line, message):
    with pytest.raises(SettingsError) as caught:
        policy(line)
    assert message in str(caught.value)
    assert line.split(" = ")[0] in str(caught.value)


def test_exact_is_for_what_no_model_wrote():
    assert policy("search $ = exact", "$.turns[*].finish_reasons = exact", "$.tools = exact", "$.outcome = exact").rules
