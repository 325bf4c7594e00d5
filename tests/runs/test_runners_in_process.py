"""What a runner is given, what it may give back, and how it may end."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import functools
import json
import os
import re
import socket
import sys
import threading
from dataclasses import dataclass, replace
from pathlib import Path

import pydantic
import pytest

from pytest_agentreplay.cases.case import ServingPolicy
from pytest_agentreplay.errors import CaseError, LiveRefused, RunnerError
from pytest_agentreplay.intercept.ordering import overtime
from pytest_agentreplay.model.divergence import Kind
from pytest_agentreplay.model.exchanges import Header, Run
from pytest_agentreplay.runs.cases.in_process_run import attempt
from tests.runs.shop import (
    CLIENTS,
    NOBODY,
    QUESTION,
    Shop,
    by_hand,
    case,
    furnished,
    lookup_order,
    script,
    tried,
)
from tests.runs.shop import settings as settings_of
from tests.support.exhaustive import rare
from tests.support.model_script import Ask
from tests.support.model_server import ModelServer


def given(runner, asked=None, run=None, *, root, **settings):
    """What the runner does with an input, on a run of nothing."""
    made = {"settings": settings_of(tools=(), **settings), "root": Path(__file__).parent, "environ": os.environ}
    run = Run(Header("nothing")) if run is None else run
    return attempt(replace(case(root), input=asked), "observed", run, runner=runner, **made)


def test_it_gets_the_messages_or_the_arguments_and_may_change_them(tmp_path):
    asked = {"messages": [{"role": "user", "content": "a"}]}

    def appends(messages):
        messages.append("b")
        return messages

    assert given(appends, asked, root=tmp_path).output == [*asked["messages"], "b"]
    assert asked == {"messages": [{"role": "user", "content": "a"}]}
    told = given(lambda *, order, user="u": [order, user], {"arguments": {"order": 7}}, root=tmp_path)
    assert told.output == [7, "u"]
    assert given(lambda: "nothing to say", root=tmp_path).output == "nothing to say"


class Called:
    async def __call__(self):
        return "from an object"


def test_it_may_be_awaited(tmp_path):
    async def coroutine():
        return "from a coroutine"

    for runner in (coroutine, Called(), functools.partial(coroutine), lambda: coroutine()):
        assert given(runner, root=tmp_path).output.startswith("from a")


class Order(pydantic.BaseModel):
    id: int
    at: dt.date


@dataclass
class Parcel:
    id: int


class Odd:
    def __str__(self):
        return "odd"


def test_whatever_it_gives_is_kept_as_json(tmp_path):
    circle = []
    circle.append(circle)
    for output, told in (
        (None, None),
        ({"a": [1, 2.5, True]}, {"a": [1, 2.5, True]}),
        (Order(id=7, at=dt.date(2026, 5, 1)), {"id": 7, "at": "2026-05-01"}),
        ([Parcel(1)], [{"id": 1}]),
        ({"when": {1}}, {"when": [1]}),
        (Odd(), "odd"),
        ([Odd()], ["odd"]),
        (b"\xff", "b'\\xff'"),
        (float("nan"), "NaN"),
        (circle, "[[...]]"),
    ):
        assert given(lambda output=output: output, root=tmp_path).output == told


def fails(error):
    raise error


class Late(Exception):
    pass


def test_what_it_raises_is_an_error_and_no_divergence_and_nothing_that_it_tells_holds_a_secret(tmp_path, monkeypatch):
    key = "sk-live-" + "0123456789abcdef" * 2
    monkeypatch.setenv("SHOP_API_KEY", key)
    evidence = given(lambda: {"told": f"the key is {key}"}, root=tmp_path)
    assert key not in str(evidence.output)
    assert evidence.output["told"].startswith("the key is [[redacted:")
    evidence = given(lambda: fails(Late(f"too late for {key}")), root=tmp_path)
    assert (evidence.status, evidence.output, evidence.divergence) == ("error", None, None)
    ((name, text),) = evidence.errors
    assert (name.endswith("Late"), text[:12], key in text) == (True, "too late for", False)
    assert given(lambda: sys.exit(3), root=tmp_path).errors == (("SystemExit", "3"),)


def test_who_interrupts_it_interrupts_us_and_the_door_is_closed(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        given(lambda: fails(KeyboardInterrupt), root=tmp_path)
    with pytest.raises(pytest.fail.Exception):
        given(lambda: pytest.fail("asked for"), root=tmp_path)
    assert given(lambda: "open again", root=tmp_path).divergence is None


RELEASED = threading.Event()


def spins():
    while True:
        pass


def waits_in_vain():
    threading.Event().wait()


async def never():
    await asyncio.Event().wait()


async def in_a_thread():
    await asyncio.to_thread(RELEASED.wait)


@pytest.mark.parametrize("runner", [spins, waits_in_vain, never, in_a_thread])
def test_one_that_hangs_is_ended_and_what_it_leaves_behind_is_told(runner, tmp_path, monkeypatch):
    monkeypatch.setattr(overtime, "QUIET", 0.2)
    RELEASED.clear()
    try:
        with pytest.raises(RunnerError) as told:
            given(runner, root=tmp_path, timeout=0.2)
    finally:
        RELEASED.set()
    said, *left = str(told.value).splitlines()
    where = rf"at {re.escape(Path(__file__).name)}:\d+ in {runner.__name__}, and was ended"
    running = rf"cases/order/case\.yaml: its runner was still running after 0\.2 s, {where}"
    assert re.fullmatch(f"{running}; raise agentreplay_timeout, or --timeout", said)
    assert any("left behind: thread asyncio_0" in line for line in left) is (runner is in_a_thread)
    assert given(lambda: "the next one", root=tmp_path).output == "the next one"


def test_a_socket_is_refused_and_told_also_where_the_runner_hangs_afterwards(tmp_path, monkeypatch):
    monkeypatch.setattr(overtime, "QUIET", 0.2)

    def calls_home(*, hangs=False):
        with contextlib.suppress(BaseException):
            socket.create_connection(("127.0.0.1", 9), timeout=1)
        return threading.Event().wait() if hangs else "swallowed"

    evidence = given(calls_home, root=tmp_path)
    assert (evidence.output, evidence.divergence.kind) == ("swallowed", Kind.NETWORK)
    assert given(functools.partial(calls_home, hangs=True), root=tmp_path).divergence.kind is Kind.NETWORK


def test_without_a_runner_the_frozen_run_is_the_evidence(tmp_path):
    evidence = given(None, run=by_hand(), root=tmp_path)
    assert (evidence.output, evidence.served) == ("Your order goes to u-3.", "")


LIVE = {"desired": ServingPolicy(model="live", tools="arguments")}


@pytest.mark.parametrize("client", ["chat", "claude_stream", *rare("chat_stream", "responses")])
def test_the_real_model_is_asked_only_where_the_command_line_allows_it(client, tmp_path):
    run = by_hand()
    with ModelServer(script) as server:
        runner = functools.partial(CLIENTS[client], Shop(server.url, prompt="Be brief."))
        with pytest.raises(LiveRefused, match=r"agentreplay replay cases/order/case.yaml --live"):
            tried(tmp_path, run, runner, half="desired", serving=LIVE)
        assert not server.hits
        evidence = tried(tmp_path, run, runner, half="desired", serving=LIVE, allow_live=True)
        assert server.hits == 2, (evidence.errors, evidence.divergence)
    assert evidence.divergence is None
    assert evidence.output == "Your order goes to u-3 (answer 2)."
    assert [call.name for call in evidence.tool_calls] == ["lookup_order"]
    assert evidence.served.startswith("model live, tools arguments, other strict (model 2 live, tools 1")
    assert QUESTION in str([x.call.body.data for x in evidence.run.exchanges if x.call.boundary == "http"])


def asks_in(arguments):
    """The model of today: the same look-up, in these arguments, and another answer at each call."""
    return lambda body, number: script(body, number) if "u-3" in json.dumps(body) else Ask("lookup_order", arguments)


TOLERANT = {"tolerance": {"lookup_order $.user_id": "ignore"}}
PARTED = [
    ({"order_id": "A-17", "user_id": "u-1"}, {}, ["$.user_id"]),
    ({"order_id": "A-18", "user_id": "u-1"}, TOLERANT, ["$.order_id"]),
    ({"order_id": "A-18"}, {"tolerance": {"refund $.order_id": "ignore"}}, ["$.order_id"]),
]


@pytest.mark.parametrize("fixture", ["", "recorded"])
@pytest.mark.parametrize("tools", ["arguments", "strict"])
def test_what_a_live_model_asks_of_tools_may_differ_as_the_case_tolerates(tools, fixture, tmp_path):
    serving = {"desired": ServingPolicy(model="live", tools=tools)}
    if fixture:
        answer = "{arguments: {order_id: A-17}, result: [{order: A-17, user_id: u-3}], recorded: true}"
        furnished(tmp_path, answer)
    with ModelServer(asks_in({"order_id": "A-17", "user_id": "u-1"})) as server:
        runner = functools.partial(CLIENTS["chat"], Shop(server.url, swallows=True))
        more = {"half": "desired", "serving": serving, "allow_live": True}
        evidence = tried(tmp_path, by_hand(), runner, **more, **TOLERANT)
        assert evidence.divergence is None, evidence.divergence
        assert evidence.output.startswith("Your order goes to u-3")
        assert [call.arguments for call in evidence.tool_calls] == [{"order_id": "A-17", "user_id": "u-1"}]
        assert f"(model 2 live, tools 1 {tools} (within the tolerance))" in evidence.served
        for arguments, tolerance, paths in PARTED:
            server._replies = asks_in(arguments)
            parted = tried(tmp_path, by_hand(), runner, **more, **tolerance).divergence
            assert (parted.kind, [one.path for one in parted.differences]) == (Kind.ARGS, paths)


def test_a_tolerance_is_for_a_live_model_alone(tmp_path):
    def runner(messages):
        return lookup_order("A-17", "u-1")

    for serving in (ServingPolicy(), ServingPolicy(model="position", tools="arguments")):
        evidence = tried(tmp_path, by_hand(), runner, serving={"observed": serving}, fidelity="semantic", **TOLERANT)
        assert evidence.divergence is not None


def test_what_cannot_be_served_so_is_said_and_what_the_case_ignores_is_not_compared(tmp_path):
    for serving, said in (
        (ServingPolicy(tools="live"), "tools never go live"),
        (ServingPolicy(model="arguments"), "only tools are served by arguments"),
        (ServingPolicy(other="arguments"), "only tools are served by arguments"),
    ):
        with pytest.raises(CaseError, match=said):
            tried(tmp_path, by_hand(), lambda messages: None, serving={"observed": serving}, allow_live=True)
    runner = functools.partial(CLIENTS["chat"], Shop(NOBODY, model="gpt-y"))
    assert tried(tmp_path, by_hand(), runner, fidelity="semantic").divergence is not None
    ignored = tried(tmp_path, by_hand(), runner, fidelity="semantic", ignore=("$.model",))
    assert ignored.divergence is None, ignored.divergence
