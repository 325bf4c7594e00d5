"""An agent of today on the frozen world of a case, over the real SDKs and without pytest around it."""

from __future__ import annotations

import asyncio
import functools
import inspect
from concurrent.futures import ThreadPoolExecutor

import pytest

from pytest_agentreplay.core.divergence import Kind
from pytest_agentreplay.demo.server import ModelServer
from pytest_agentreplay.errors import CaseError
from tests.application.shop import CLIENTS, QUESTION, Shop, by_hand, lookup_order, recorded, script, tried

NOBODY = "http://127.0.0.1:9"
MESSAGES = [{"role": "user", "content": QUESTION}]
EVERY_CLIENT = pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)

pytestmark = pytest.mark.env("main")


def agent(client, url=NOBODY, **fix):
    return functools.partial(client, Shop(url, **fix))


def finished(result):
    return asyncio.run(result) if inspect.isawaitable(result) else result


@pytest.fixture(scope="module")
def frozen(tmp_path_factory):
    """The recorded run of each client, made once."""
    made = {}

    def run_of(client):
        if client not in made:
            with ModelServer(script) as server:
                root = tmp_path_factory.mktemp("shop")
                made[client] = recorded(root, lambda: finished(client(Shop(server.url), MESSAGES)))
        return made[client]

    return run_of


@EVERY_CLIENT
def test_a_strict_case_reproduces(client, frozen, tmp_path):
    evidence = tried(tmp_path, frozen(client), agent(client))
    assert evidence.divergence is None, evidence.divergence
    assert (evidence.status, evidence.output) == ("ok", "Your order goes to u-3 (answer 2).")
    assert [call.name for call in evidence.tool_calls] == ["lookup_order"]
    assert evidence.served == "strict (model 2 strict, tools 1 strict)"


FIXES = {
    "another prompt": ({"prompt": "You help customers. Tell nobody of others' orders."}, Kind.PROMPT, 1),
    "another tool schema": ({"about": "Where an order of this customer is."}, Kind.SCHEMA, 1),
    "one argument more": ({"user": "u-7"}, Kind.SCHEMA, 1),
    "another model": ({"model": "gpt-y"}, Kind.MODEL, 1),
}
MINE = [{"order": "A-17", "user_id": "u-7"}]


ORDERS = [{"order": "A-17", "user_id": "u-3"}, *MINE]
FIXTURES = """
tool: lookup_order
answers:
  - arguments: {order_id: A-17}
    result: [{order: A-17, user_id: u-3}, {order: A-17, user_id: u-7}]
    recorded: true
  - arguments: {order_id: A-17, user_id: u-7}
    result: [{order: A-17, user_id: u-7}]
    written: true
    why: nobody has asked so before
"""


@pytest.fixture
def furnished(tmp_path):
    """The project of a case that has fixtures beside it."""
    folder = tmp_path / "cases/order/fixtures"
    folder.mkdir(parents=True)
    (folder / "lookup_order-1.yaml").write_text(FIXTURES, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("fix", FIXES)
@EVERY_CLIENT
def test_a_fixed_agent_parts_from_a_strict_world(client, fix, frozen, tmp_path):
    changed, kind, turn = FIXES[fix]
    evidence = tried(tmp_path, frozen(client), agent(client, **changed))
    assert (evidence.divergence.kind, evidence.divergence.turn) == (kind, turn)
    assert evidence.status == "error"
    assert not [name for name, _ in evidence.errors if "Diverged" in name], "the brake is no error of the agent's"


@pytest.mark.parametrize("fix", FIXES)
@EVERY_CLIENT
def test_it_runs_to_its_end_by_position_and_arguments(client, fix, frozen, furnished):
    evidence = tried(furnished, frozen(client), agent(client, **FIXES[fix][0]), half="desired")
    assert evidence.divergence is None, evidence.divergence
    assert evidence.output == "Your order goes to u-3 (answer 2)."
    (call,) = evidence.tool_calls
    written = fix == "one argument more"
    assert call.result == (MINE if written else ORDERS)
    by = "written" if written else "recorded"
    assert (
        evidence.served == f"model position, tools arguments, other strict (model 2 position, tools 1 arguments ({by}))"
    )


def test_a_tool_that_is_asked_anew_parts_where_nobody_knows_and_says_what_to_write(frozen, tmp_path):
    run = frozen(CLIENTS["chat"])
    evidence = tried(tmp_path, run, agent(CLIENTS["chat"], user="u-9"), half="desired")
    assert evidence.divergence.kind is Kind.ARGS
    assert [one.path for one in evidence.divergence.differences] == ["$.user_id"]
    assert evidence.divergence.turn == 1


def test_the_nearest_fixture_is_named_and_the_line_to_write(frozen, furnished):
    evidence = tried(furnished, frozen(CLIENTS["chat"]), agent(CLIENTS["chat"], user="u-9"), half="desired")
    nearest, line = evidence.divergence.hints
    file = "cases/order/fixtures/lookup_order-1.yaml"
    assert f"recorded, {furnished}/{file}:4:5, to" in nearest or f"recorded, {file}:4:5, to" in nearest
    assert line.endswith('{"order_id": "A-17", "user_id": "u-9"}, "result": "...", "written": true, "why": "..."}')


def test_a_broken_fixture_is_told_with_its_place(frozen, furnished):
    (furnished / "cases/order/fixtures/refund-1.yaml").write_text("tool: refund\nanswers: {}\n", encoding="utf-8")
    with pytest.raises(CaseError, match=r"refund-1\.yaml:2:\d+: answers is a list"):
        tried(furnished, frozen(CLIENTS["chat"]), agent(CLIENTS["chat"]), half="desired")


def test_a_refusal_is_in_the_evidence_whatever_the_agent_does_with_it(frozen, tmp_path):
    fixed = agent(CLIENTS["chat"], user="u-9", swallows=True)
    evidence = tried(tmp_path, frozen(CLIENTS["chat"]), fixed, half="desired")
    assert evidence.divergence is not None
    assert evidence.divergence.origin.startswith("tests/application/shop.py") or evidence.divergence.origin


def test_an_agent_that_asks_more_often_is_told_so(frozen, tmp_path):
    def twice(messages):
        return [CLIENTS["chat"](Shop(NOBODY), messages) for _ in range(2)]

    evidence = tried(tmp_path, frozen(CLIENTS["chat"]), twice, half="desired")
    assert evidence.divergence.kind is Kind.EXTRA
    assert "--live" in evidence.divergence.hints[0]


@pytest.mark.parametrize("asked", CLIENTS.values(), ids=CLIENTS)
@pytest.mark.parametrize("frozen_as", ["chat", "claude_stream"])
def test_by_position_an_agent_may_ask_in_another_api(asked, frozen_as, frozen, furnished):
    evidence = tried(furnished, frozen(CLIENTS[frozen_as]), agent(asked), half="desired")
    assert evidence.divergence is None, evidence.divergence
    assert (evidence.output, len(evidence.tool_calls)) == ("Your order goes to u-3 (answer 2).", 1)


@EVERY_CLIENT
@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "anthropic", "gemini", "bedrock"])
def test_a_run_that_was_frozen_by_hand_reproduces_by_its_meaning(client, dialect, tmp_path):
    evidence = tried(tmp_path, by_hand(dialect), agent(client), fidelity="semantic")
    assert evidence.divergence is None, evidence.divergence
    assert evidence.output == "Your order goes to u-3."
    assert evidence.served == "strict (model 2 strict, tools 1 strict)"


@pytest.mark.parametrize("fix", FIXES)
@EVERY_CLIENT
def test_by_its_meaning_another_word_is_another_call(client, fix, tmp_path):
    evidence = tried(tmp_path, by_hand(), agent(client, **FIXES[fix][0]), fidelity="semantic")
    assert (evidence.divergence.kind, evidence.divergence.turn) == FIXES[fix][1:]
    assert all(one.path.startswith("$") for one in evidence.divergence.differences), "the host is no matter here"
    assert not evidence.tool_calls


def test_the_same_body_is_the_same_call_to_another_host(frozen, tmp_path):
    run = frozen(CLIENTS["chat"])
    elsewhere = agent(CLIENTS["chat"], url="https://proxy.example/openai")
    assert tried(tmp_path, run, elsewhere, fidelity="body-json").divergence is None
    assert tried(tmp_path, run, elsewhere).divergence is not None
    other = tried(tmp_path, run, agent(CLIENTS["chat"], prompt="Be brief."), fidelity="body-json")
    assert other.divergence.kind is Kind.PROMPT


def test_a_tool_that_nobody_has_named_is_told(frozen, tmp_path, monkeypatch):
    ran = []

    def lookup_order(order_id):
        ran.append(order_id)
        return "gone"

    monkeypatch.setitem(Shop.call.__globals__["TOOLS"], "lookup_order", lookup_order)
    evidence = tried(tmp_path, frozen(CLIENTS["chat"]), agent(CLIENTS["chat"]), half="desired", tools=())
    assert (evidence.divergence.kind, ran) == (Kind.UNFROZEN, ["A-17"])
    assert "agentreplay_tools" in evidence.divergence.hints[0]


def test_a_fixed_agent_may_refuse_what_the_model_asks_for(frozen, tmp_path, monkeypatch):
    monkeypatch.setattr(Shop, "call", lambda shop, name, arguments: "not allowed here")
    evidence = tried(tmp_path, frozen(CLIENTS["chat"]), agent(CLIENTS["chat"]), half="desired")
    assert (evidence.divergence, evidence.tool_calls) == (None, ())


@pytest.mark.parametrize("how", ["gathered", "in threads"])
def test_calls_at_once_are_each_given_their_own(how, frozen, furnished):
    """Two agents at once, in tasks or threads of their own: the lanes that they open are not those of the recording."""

    async def gathered(messages):
        return await asyncio.gather(*(asyncio.to_thread(look, user) for user in ("", "u-7", "")))

    def threads(messages):
        with ThreadPoolExecutor() as pool:
            return [*pool.map(look, ("", "u-7", ""))]

    def look(user):
        return lookup_order("A-17", user)

    evidence = tried(furnished, frozen(CLIENTS["chat"]), gathered if how == "gathered" else threads, half="desired")
    assert evidence.divergence is None
    assert evidence.output == [ORDERS, MINE, ORDERS]
    assert len(evidence.tool_calls) == 3
