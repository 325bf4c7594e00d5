"""What each operator makes of a run, and how neighbours are drawn."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from pytest_agentreplay.backends.perturbation import (
    NOT_DRAWN,
    OPERATORS,
    Perturbation,
    read_perturbation,
    weakest_label,
)
from pytest_agentreplay.errors import CaseError
from pytest_agentreplay.model.exchanges import (
    Body,
    Exchange,
    Header,
    HttpCall,
    HttpReply,
    Run,
    Timing,
    ToolCall,
    ToolReply,
)
from pytest_agentreplay.providers import READER, encode
from pytest_agentreplay.runs.fuzz.content_changes import INJECTION, change_words
from pytest_agentreplay.runs.fuzz.neighbours import (
    RESULTS,
    WORDS,
    draw_neighbours,
    list_candidates,
    list_simpler,
    list_smaller,
    perturb,
)

NOON = int(datetime(2026, 11, 27, 12, tzinfo=UTC).timestamp()) * 10**9
SECOND = 10**9
USE = {"type": "tool_call", "id": "call_1", "name": "lookup", "arguments": {"order": "A-17", "count": 2}}
OTHER_USE = {"type": "tool_call", "id": "call_2", "name": "refund", "arguments": {"order": "A-17"}}
TEXT = {"type": "text", "content": "Grüße aus Köln, die Bestellung ist unterwegs."}
STREAMED = ("openai_chat", "openai_responses", "anthropic", "gemini")


def ask(dialect, *parts, stream):
    """A call of a model and its reply, as the API writes them."""
    message = {"role": "user", "parts": [{"type": "text", "content": "Where is it?"}]}
    call = encode.request(dialect, model="m", messages=[message], stream=stream)
    return call, encode.reply(call, {"role": "assistant", "parts": [*parts], "finish_reason": "stop"})


def make_run(*pairs):
    """A run of these calls, one after the other, each a second long."""
    exchanges = (
        Exchange(call, outcome, 2 * n + 1, 2 * n + 2, timing=Timing(n * SECOND, None, (n + 1) * SECOND))
        for n, (call, outcome) in enumerate(pairs)
    )
    return Run(Header("test_shop.py::test_refund", clock=NOON), tuple(exchanges))


ROWS = {"rows": [{"id": 1, "text": "one"}, {"id": 2, "text": "two"}], "status": "paid", "price": 20, "currency": "EUR"}
RUN = make_run(
    ask("openai_chat", USE, stream=False),
    (ToolCall("lookup", {"order": "A-17"}), ToolReply({**ROWS, "status": "open"})),
    (ToolCall("lookup", {"order": "A-17"}), ToolReply(ROWS)),
    ask("openai_chat", TEXT, OTHER_USE, stream=True),
    (ToolCall("refund", {"order": "A-17"}), ToolReply("refunded")),
    ask("openai_chat", TEXT, stream=True),
)


def reading(exchange):
    """What a model said, without what each reply has anew."""
    read = READER.read_reply(exchange.call, exchange.outcome)
    return read.text, [(use.name, use.arguments) for use in read.tool_uses], read.error


@pytest.mark.parametrize("operator", [name for name in OPERATORS if name not in {*WORDS, "completion-order"}])
def test_every_operator_fits_a_call_and_changes_the_run(operator):
    candidates = [each for each in list_candidates(RUN) if each.operator == operator]
    assert candidates
    for _, at, arguments, _ in candidates:
        for argument in arguments:
            assert perturb(RUN, (Perturbation(operator, at, argument),), "here") != RUN


@pytest.mark.parametrize("dialect", STREAMED)
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_transparent_operator_leaves_what_the_model_said(dialect, stream):
    run = make_run(ask(dialect, TEXT, USE, stream=stream))
    tried = set()
    for operator, at, arguments, _ in list_candidates(run):
        if OPERATORS[operator].label == "transparent":
            for argument in arguments:
                changed = perturb(run, (Perturbation(operator, at, argument),), "here")
                assert reading(changed.exchanges[-1]) == reading(run.exchanges[-1]), (operator, argument)
                assert sum(changed.exchanges[-1].outcome.cuts) == len(changed.exchanges[-1].outcome.body)
                tried.add(operator)
    streams = {"split-stream", "stream-comments", "stream-crlf", "unknown-event", "unknown-field", "member-order"}
    assert tried == (streams if stream else {"split-stream", "unknown-field", "member-order"})


@given(size=some.integers(1, 400))
@settings(deadline=None, max_examples=30)
def test_a_cut_stream_has_that_many_bytes_and_a_split_one_all_of_them(size):
    whole = RUN.exchanges[-1].outcome
    cut, split = (
        perturb(RUN, (Perturbation(operator, 6, size),), "here").exchanges[-1].outcome
        for operator in ("cut-stream", "split-stream")
    )
    assert cut.body.data == whole.body.data[:size]
    assert split.body.data == whole.body.data
    assert {*split.cuts[:-1]} <= {size}


def test_an_error_comes_once_before_the_recorded_answer_and_an_outage_for_good():
    once = perturb(RUN, (Perturbation("server-error", 1, 429),), "here")
    assert [x.outcome.status for x in once.exchanges[:2]] == [429, 200]
    assert once.exchanges[0].call == once.exchanges[1].call
    # It has the place of the recorded one: also at the first call nothing that is due comes before it.
    assert once.exchanges[0].start == RUN.exchanges[0].start < once.exchanges[-1].start < once.exchanges[1].start
    for_good = perturb(RUN, (Perturbation("outage", 4),), "here")
    models = [x for x in for_good.exchanges if isinstance(x.call, HttpCall)]
    assert [x.outcome.status for x in models] == [200, 503]


def test_a_stale_result_is_what_the_same_call_gave_before():
    stale = perturb(RUN, (Perturbation("stale-result", 3),), "here")
    assert stale.exchanges[2].outcome.value["status"] == "open"
    assert [each.at for each in list_candidates(RUN) if each.operator == "stale-result"] == [3]
    get, other = (HttpCall("GET", f"https://shop.test/orders/{order}") for order in ("A-17", "A-18"))
    rows = [
        HttpReply(200, headers=(("content-type", "application/json"),), body=Body(b'{"n": %d}' % n)) for n in (1, 2)
    ]
    run = make_run((get, rows[0]), (other, rows[1]), (get, rows[1]))
    assert perturb(run, (Perturbation("stale-result", 3),), "here").exchanges[2].outcome == rows[0]
    assert [each.at for each in list_candidates(run) if each.operator == "stale-result"] == [3]


def test_objects_of_python_classes_are_left_alone():
    run = make_run((ToolCall("lookup"), ToolReply({"$class": "shop.Order", "$args": ["A-17"]})))
    assert {each.operator for each in list_candidates(run)} == {"clock", "tool-reset"}


def test_the_clock_passes_the_instant_at_the_call():
    midnight = datetime(2026, 11, 28, tzinfo=UTC)
    shifted = perturb(RUN, (Perturbation("clock", 4, midnight.isoformat()),), "here")
    called, answered = shifted.exchanges[2].timing.end, shifted.exchanges[3].timing.end
    seen = [datetime.fromtimestamp((shifted.header.clock + at) / 1e9, UTC) for at in (called, answered)]
    assert seen[0] < midnight < seen[1]


def test_the_first_call_sees_each_kind_of_instant_and_any_other_call_all_of_them():
    kinds = [[*each.arguments] for each in list_candidates(RUN) if each.operator == "clock"]
    assert [kind[0] for kind in kinds[:5]] == [
        "2026-11-28T00:00:00+00:00",
        "2026-12-01T00:00:00+00:00",
        "2027-01-01T00:00:00+00:00",
        "2028-02-29T00:00:00+00:00",
        "2026-03-29T01:00:00+00:00",
    ]
    assert kinds[5:] == [[*chain.from_iterable(kinds[:5])]] * (len(RUN.exchanges) - 1)


def test_the_same_seed_draws_the_same_neighbours_each_once():
    candidates = list_candidates(RUN, orders=3)
    first, again, other = (draw_neighbours(candidates, seed=seed, budget=300) for seed in (0, 0, 1))
    assert first == again != other
    assert len(first) == len({*first}) == 300
    alone = [neighbour[0][:2] for neighbour in first[: len(candidates)] if len(neighbour) == 1]
    assert {each[:2] for each in candidates if each.operator not in NOT_DRAWN} <= {*alone}
    for neighbour in first:
        perturb(RUN, neighbour, "here")
    assert draw_neighbours(candidates, seed=0, budget=7) == first[:7]
    assert draw_neighbours([], seed=0, budget=7) == []


def test_the_neighbours_of_effects_come_first():
    candidates = list_candidates(RUN, tools=["agent.lookup = read", "agent.refund"])
    drawn = [neighbour[0][:2] for neighbour in draw_neighbours(candidates, seed=0, budget=24)]
    # Call 5 is the refund: its errors, and those of the request after it; then hostile results and other units.
    first = {("tool-error", 5), ("tool-reset", 5), ("connection-reset", 6), ("server-error", 6)}
    assert {*drawn[:4]} == first
    hostile = {("injection", 2), ("injection", 3), ("injection", 5), ("other-unit", 2), ("other-unit", 3)}
    lost = {(operator, at) for operator in ("dropped-field", "tool-error") for at in (2, 3)}
    assert {*drawn[4:13]} == hostile | lost
    assert all(at in {4, 5, 6} or operator in RESULTS for operator, at in drawn[9:])
    by_name = list_candidates(RUN, tools=["agent.find = read as lookup", "lookup = read"])
    assert {*[each[0][:2] for each in draw_neighbours(by_name, seed=3, budget=4)]} == first


def test_an_injection_leaves_words_alone_and_a_unit_is_swapped_for_another_one():
    reply = {"state": "late", "note": "leave it here", "price": "18.50 EUR"}
    run = make_run((ToolCall("quote"), ToolReply(reply)))
    (injected,) = [each.arguments for each in list_candidates(run) if each.operator == "injection"]
    assert [*injected] == ["$", "$.note", "$.price"]

    def changed(*words):
        return perturb(run, (Perturbation(*words),), "here").exchanges[0].outcome.value

    assert changed("injection", 1, "$") == {**reply, "note": INJECTION}
    assert changed("injection", 1, "$.state")["state"] == f"late\n{INJECTION}"  # written by hand
    assert changed("other-unit", 1, "$.price")["price"] == "18.50 USD"
    for text, other in {"€18.50": "$18.50", "12.5 kg": "12.5 LB", "size M": "", "EUR": ""}.items():
        run = make_run((ToolCall("quote"), ToolReply(text)))
        fits = any(each.operator == "other-unit" for each in list_candidates(run))
        assert (changed("other-unit", 1, "$") if fits else "") == other


def test_smaller_neighbours_come_fewest_first_and_simpler_ones_by_their_arguments():
    first, second, third = (Perturbation("timeout", at) for at in (1, 2, 3))
    assert list_smaller((first, second, third))[:4] == [(first,), (second,), (third,), (first, second)]
    split = Perturbation("split-stream", 6, 5)
    simpler = list_simpler((first, split), list_candidates(RUN))
    assert simpler == [(first, split._replace(argument=size)) for size in (1, 2, 3)]


@pytest.mark.parametrize(
    ("perturbation", "message"),
    [
        (Perturbation("timeouts", 1), "there is no operator timeouts"),
        (Perturbation("timeout", 9), "timeout at call 9: the run has the calls 1 to 6"),
        (Perturbation("timeout", 2), "timeout at call 2 does not fit that call"),
        (Perturbation("clock", 1, "noon"), "clock: noon is no instant like 2028-02-29T00:00:00+00:00"),
        (Perturbation("cut-stream", 4, -1), "cut-stream at call 4 does not fit that call (-1)"),
        (Perturbation("dropped-field", 3, "$.none"), "dropped-field at call 3 does not fit that call ($.none)"),
    ],
)
def test_a_perturbation_that_does_not_fit_is_refused_with_the_file(perturbation, message):
    with pytest.raises(CaseError, match=r"^cases/refund/case\.yaml: ") as caught:
        perturb(RUN, (perturbation,), "cases/refund/case.yaml")
    assert message in str(caught.value)


def test_a_perturbation_is_plain_data_and_labels_add_up():
    perturbation = Perturbation("split-stream", 3, 1)
    assert read_perturbation(json.loads(json.dumps(perturbation.plain()))) == perturbation
    assert perturbation.describe() == "split-stream at call 3 (1): the answer comes in pieces of that many bytes"
    pairs = [("split-stream", "transparent"), ("timeout", "robust"), ("injection", "opaque"), ("typo", "request")]
    for count in range(1, 5):
        several = tuple(Perturbation(name, 1) for name, _ in pairs[:count])
        assert weakest_label(several) == pairs[count - 1][1]


def test_the_words_of_the_user_alone_are_changed():
    given = {"messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "where is it"}]}
    changed = change_words(given, (Perturbation("letter-case"),))
    assert [message["content"] for message in changed["messages"]] == ["be brief", "WHERE IS IT"]
    assert change_words({"arguments": {"question": "abcd", "n": 1}}, (Perturbation("typo"),)) == {
        "arguments": {"question": "abdc", "n": 1}
    }
    assert change_words(given, (Perturbation("timeout", 1),)) == given


def test_a_coded_answer_is_changed_as_text():
    import gzip

    call, reply = ask("openai_chat", TEXT, stream=True)
    data = gzip.compress(reply.body.data)
    coded = replace(reply, headers=(*reply.headers, ("content-encoding", "gzip")), body=Body(data), cuts=(len(data),))
    changed = perturb(make_run((call, coded)), (Perturbation("split-stream", 1, 1),), "here").exchanges[0].outcome
    assert isinstance(changed, HttpReply)
    assert changed.body.data == reply.body.data
    assert "content-encoding" not in dict(changed.headers)
