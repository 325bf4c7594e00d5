"""An agent of today on the frozen world of a case, over the real SDKs and without pytest around it."""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

import pytest

from pytest_agentreplay.errors import CaseError
from pytest_agentreplay.intercept import registry
from pytest_agentreplay.model.divergence import Kind
from tests.runs.shop import (
    CLIENTS,
    MESSAGES,
    NOBODY,
    Shop,
    by_hand,
    furnished,
    lookup_order,
    recorded,
    script,
    tried,
)
from tests.support.exhaustive import rare
from tests.support.model_server import ModelServer

pytestmark = pytest.mark.env("main")

EVERY_CLIENT = pytest.mark.parametrize("client", ["chat", "responses", "claude_stream", *rare("chat_stream", "claude")])
OF_TWO = pytest.mark.parametrize("client", ["chat", "claude_stream", *rare("chat_stream", "responses", "claude")])
FIXES = {
    "another prompt": ({"prompt": "You help customers. Tell nobody of others' orders."}, Kind.PROMPT),
    "another tool schema": ({"about": "Where an order of this customer is."}, Kind.SCHEMA),
    "one argument more": ({"user": "u-7"}, Kind.SCHEMA),
    "another model": ({"model": "gpt-y"}, Kind.MODEL),
}
OUTPUT = "Your order goes to u-3 (answer 2)."
MINE = [{"order": "A-17", "user_id": "u-7"}]
ORDERS = [{"order": "A-17", "user_id": "u-3"}, *MINE]
ANSWERS = (
    "{arguments: {order_id: A-17}, recorded: true, result: [{order: A-17, user_id: u-3}, {order: A-17, user_id: u-7}]}",
    "{arguments: {order_id: A-17, user_id: u-7}, written: true, why: it is new, result: [{order: A-17, user_id: u-7}]}",
)


def agent(client="chat", url=NOBODY, **fix):
    return functools.partial(CLIENTS[client], Shop(url, **fix))


@functools.cache
def run_of(client="chat"):
    """The recorded run of a client."""

    def ask():
        result = agent(client, server.url)(MESSAGES)
        return asyncio.run(result) if inspect.isawaitable(result) else result

    with TemporaryDirectory() as folder, ModelServer(script) as server:
        return recorded(Path(folder), ask)


@EVERY_CLIENT
def test_a_strict_case_reproduces_and_a_fixed_agent_parts_from_it(client, tmp_path):
    evidence = tried(tmp_path, run_of(client), agent(client))
    assert evidence.divergence is None, evidence.divergence
    assert (evidence.status, evidence.output) == ("ok", OUTPUT)
    assert [call.name for call in evidence.tool_calls] == ["lookup_order"]
    assert evidence.served == "strict (model 2 strict, tools 1 strict)"
    for fix, kind in FIXES.values():
        evidence = tried(tmp_path, run_of(client), agent(client, **fix))
        assert (evidence.divergence.kind, evidence.divergence.turn, evidence.status) == (kind, 1, "error")
        assert not [name for name, _ in evidence.errors if "Diverged" in name], "the brake is no error of the agent's"


@EVERY_CLIENT
def test_a_fixed_agent_runs_to_its_end_by_position_and_arguments(client, tmp_path):
    for name, (fix, _) in FIXES.items():
        evidence = tried(furnished(tmp_path, *ANSWERS), run_of(client), agent(client, **fix), half="desired")
        assert evidence.divergence is None, (name, evidence.divergence)
        assert evidence.output == OUTPUT
        (call,) = evidence.tool_calls
        by, result = ("written", MINE) if name == "one argument more" else ("recorded", ORDERS)
        assert call.result == result, name
        served = f"model position, tools arguments, other strict (model 2 position, tools 1 arguments ({by}))"
        assert evidence.served == served


def test_a_tool_that_is_asked_anew_parts_where_nobody_knows_and_says_what_to_write(tmp_path):
    parted = tried(tmp_path, run_of(), agent(user="u-9"), half="desired").divergence
    assert (parted.kind, parted.turn) == (Kind.ARGS, 1)
    assert [one.path for one in parted.differences] == ["$.user_id"]
    swallowed = tried(tmp_path, run_of(), agent(user="u-9", swallows=True), half="desired")
    assert swallowed.divergence.kind is Kind.ARGS, "whatever the agent does with the refusal"
    nearest, line = tried(furnished(tmp_path, *ANSWERS), run_of(), agent(user="u-9"), half="desired").divergence.hints
    assert "recorded, " in nearest
    assert "cases/order/fixtures/lookup_order-1.yaml:3:5, to" in nearest
    assert line.endswith('{"order_id": "A-17", "user_id": "u-9"}, "result": "...", "written": true, "why": "..."}')


def test_a_broken_fixture_is_told_with_its_place_and_an_agent_that_asks_more_often_so(tmp_path):
    parted = tried(tmp_path, run_of(), lambda said: [agent()(said) for _ in range(2)], half="desired").divergence
    assert (parted.kind, "--live" in parted.hints[0]) == (Kind.EXTRA, True)
    file = furnished(tmp_path, *ANSWERS) / "cases/order/fixtures/refund-1.yaml"
    file.write_text("tool: refund\nanswers: {}\n", encoding="utf-8")
    with pytest.raises(CaseError, match=r"refund-1\.yaml:2:\d+: answers is a list"):
        tried(tmp_path, run_of(), agent(), half="desired")


@pytest.mark.parametrize("frozen_as", ["chat", "claude_stream"])
@OF_TWO
def test_by_position_an_agent_may_ask_in_another_api(client, frozen_as, tmp_path):
    evidence = tried(furnished(tmp_path, *ANSWERS), run_of(frozen_as), agent(client), half="desired")
    assert evidence.divergence is None, evidence.divergence
    assert (evidence.output, len(evidence.tool_calls)) == (OUTPUT, 1)


@OF_TWO
def test_a_run_that_was_frozen_by_hand_reproduces_by_its_meaning_and_another_word_is_another_call(client, tmp_path):
    for dialect in ("openai_chat", "openai_responses", "anthropic", "gemini", "bedrock"):
        evidence = tried(tmp_path, by_hand(dialect), agent(client), fidelity="semantic")
        assert evidence.divergence is None, (dialect, evidence.divergence)
        assert evidence.output == "Your order goes to u-3."
        assert evidence.served == "strict (model 2 strict, tools 1 strict)"
    for fix, kind in FIXES.values():
        evidence = tried(tmp_path, by_hand(), agent(client, **fix), fidelity="semantic")
        assert (evidence.divergence.kind, evidence.divergence.turn, evidence.tool_calls) == (kind, 1, ())
        assert all(one.path.startswith("$") for one in evidence.divergence.differences), "the host is no matter here"


def test_the_same_body_is_the_same_call_to_another_host(tmp_path):
    elsewhere = agent(url="https://proxy.example/openai")
    assert tried(tmp_path, run_of(), elsewhere, fidelity="body-json").divergence is None
    assert tried(tmp_path, run_of(), elsewhere).divergence is not None
    other = tried(tmp_path, run_of(), agent(prompt="Be brief."), fidelity="body-json")
    assert other.divergence.kind is Kind.PROMPT


@pytest.mark.parametrize("half", ["observed", "desired"])
@pytest.mark.parametrize("said", ["functions", "nothing", "a framework", "a framework that is installed alone"])
def test_a_recorded_tool_that_nobody_names_any_more_does_not_run(tmp_path, monkeypatch, half, said):
    """Of a run that does not say so, what a framework may intercept by itself is known only when it has run."""
    ran, run = [], run_of()
    kit = {name: value for name, value in run.header.kit.items() if name != "functions"}
    if said == "functions":
        kit["functions"] = {"lookup_order": "shop.lookup_order"}
    if said == "a framework":
        monkeypatch.setitem(registry.ACTIVE_PATCHES, "pytest", "their_package.patches")
    if said == "a framework that is installed alone":
        monkeypatch.setitem(registry.ACTIVE_PATCHES, "pytest.tools_not_imported", "their_package.patches")
        clerk = ModuleType("clerk")
        clerk.__file__ = str(tmp_path / "clerk.py")
        exec(compile("def lookup_order(order_id): ...", clerk.__file__, "exec"), vars(clerk))
        monkeypatch.setitem(sys.modules, "clerk", clerk)
    run = replace(run, header=replace(run.header, kit=kit))
    monkeypatch.setitem(Shop.call.__globals__["TOOLS"], "lookup_order", lambda order_id: ran.append(order_id) or "gone")
    evidence = tried(tmp_path, run, agent(), half=half, given={"tools": ()})
    assert ran == (["A-17"] if said == "a framework" else [])
    assert evidence.divergence.kind is (Kind.MISSING if (half, said) == ("observed", "a framework") else Kind.UNFROZEN)
    if evidence.divergence.kind is Kind.UNFROZEN:
        assert "agentreplay_tools" in evidence.divergence.hints[0]


def test_a_fixed_agent_may_refuse_what_the_model_asks_for(tmp_path, monkeypatch):
    run = run_of()  # recorded once for all tests, so before the tools are others
    monkeypatch.setattr(Shop, "call", lambda shop, name, arguments: "not allowed here")
    evidence = tried(tmp_path, run, agent(), half="desired")
    assert (evidence.divergence, evidence.tool_calls) == (None, ())


def test_calls_at_once_are_each_given_their_own(tmp_path):
    """Two agents at once, in tasks or threads of their own: the lanes that they open are not those of the recording."""

    def look(user):
        return lookup_order("A-17", user)

    async def gathered(messages):
        return await asyncio.gather(*(asyncio.to_thread(look, user) for user in ("", "u-7", "")))

    def threads(messages):
        with ThreadPoolExecutor() as pool:
            return [*pool.map(look, ("", "u-7", ""))]

    for runner in (gathered, threads):
        evidence = tried(furnished(tmp_path, *ANSWERS), run_of(), runner, half="desired")
        assert (evidence.divergence, evidence.output) == (None, [ORDERS, MINE, ORDERS])
        assert len(evidence.tool_calls) == 3
