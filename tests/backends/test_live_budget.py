"""The budget of live runs: a call's upper bound is never below its use, so that a limit is never crossed."""

import json

from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.backends.budget import UNSTATED, PricedReader, Spending
from pytest_agentreplay.model.exchanges import Body, HttpCall, HttpReply
from pytest_agentreplay.providers import READER

PRICES = (("m-1", (1.25, 10.0)), ("m-*", (3, 15)))


def request(model="m-1", **parameters):
    body = {"model": model, "messages": [{"role": "user", "content": "Where is A-17?"}], **parameters}
    return HttpCall("POST", "https://api.openai.com/v1/chat/completions", body=Body(json.dumps(body).encode()))


def reply(read, written, status=200):
    answer = {
        "object": "chat.completion",
        "model": "m-1",
        "choices": [{"message": {"role": "assistant", "content": "x"}}],
    }
    answer["usage"] = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    return HttpReply(status, headers=(("content-type", "application/json"),), body=Body(json.dumps(answer).encode()))


@given(
    st.lists(st.tuples(st.integers(1, 400), st.integers(1, 3), st.floats(0, 1), st.floats(0, 1)), max_size=30),
    st.fixed_dictionaries(
        {}, optional={"calls": st.integers(1, 20), "tokens": st.integers(1, 5000), "usd": st.floats(0.0001, 0.05)}
    ),
)
def test_no_use_within_the_bound_crosses_a_limit(calls, limits):
    priced = PricedReader(READER, limits, PRICES)
    spent = Spending()
    for most, choices, read, written in calls:
        call = request(max_tokens=most, n=choices)
        bound = priced.upper_bound(call)
        if Spending.total([spent, bound]).find_exceeded(limits):
            continue
        outcome = reply(int(read * len(call.body)), int(written * most * choices))
        used = priced.usage(call, outcome, bound)
        assert all(now <= most for now, most in zip(used, bound, strict=True))
        spent = Spending.total([spent, used])
        assert not spent.find_exceeded(limits)


def test_what_a_call_is_counted_with():
    priced = PricedReader(READER, {"usd": 1}, PRICES)
    call = request(max_tokens=100)
    size = len(call.body)
    bound = priced.upper_bound(call)
    assert bound == Spending(1, size + 100, 1250 * size + 10_000 * 100)
    assert priced.usage(call, reply(7, 3), bound) == Spending(1, 10, 1250 * 7 + 10_000 * 3)
    assert priced.usage(call, reply(7, 3, status=429), bound) == Spending(1)
    assert priced.usage(call, None, bound) == bound


def test_what_cannot_be_bounded_is_refused_with_what_to_add():
    call = request()
    assert PricedReader(READER, {"calls": 3}, ()).upper_bound(call) == Spending(1, len(call.body))
    assert PricedReader(READER, {"tokens": 9}, ()).upper_bound(call) == UNSTATED
    assert PricedReader(READER, {"tokens": 9, "assumed_output": 50}, ()).upper_bound(call) == Spending(
        1, len(call.body) + 50
    )
    unpriced = PricedReader(READER, {"usd": 1, "assumed_output": 50}, PRICES[:0]).upper_bound(call)
    assert "agentreplay_prices" in unpriced
    assert "m-1 = 1.25 in, 10 out" in unpriced
