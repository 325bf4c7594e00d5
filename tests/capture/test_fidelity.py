"""Runs that a service captured are the same on unchanged code, at any time, and no planted change is hidden in them.

The default lane tries one run of each agent; all 320 runs and 192 plants are exhaustive.
"""

from __future__ import annotations

import datetime as dt
import json
import shutil
import uuid

import pytest
import time_machine

from pytest_agentreplay.cli import main
from pytest_agentreplay.compare.matching import Matching
from pytest_agentreplay.compare.matching.new_values import list_ids
from pytest_agentreplay.providers import READER, RULES
from pytest_agentreplay.snapshots import codec
from tests.capture import service_agents
from tests.capture.replaying import capture_runs, replay, replay_elsewhere
from tests.capture.service_agents import AGENTS, PLANTS


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    assert len(capture_runs(folder, [1003])) == len(AGENTS)
    return folder


def file_of(store, agent, number=1003):
    (file,) = store.rglob(f"{agent}-{number}.run.json")
    return file


@pytest.mark.parametrize("agent", AGENTS)
def test_a_run_is_the_same_on_unchanged_code(store, agent):
    finding, session = replay(file_of(store, agent))
    assert finding is None, finding.headline
    kinds = {kind for _, kind in session.new_values.taken}
    assert kinds == ({"epoch", "time"} if agent == "now_each_turn" else {"time"} if agent == "now_once" else set())


@pytest.mark.parametrize("agent", ["now_each_turn", "date", "ids"])
def test_it_is_the_same_a_day_later_whatever_the_clock_shows(store, agent):
    """Under another traveller the clock of a replay leaves time alone."""
    with time_machine.travel(dt.datetime.now(dt.UTC) + dt.timedelta(days=1)):
        finding, session = replay(file_of(store, agent))
    assert finding is None, finding.headline
    kinds = {kind for _, kind in session.new_values.taken}
    assert kinds == {"now_each_turn": {"epoch", "time"}, "date": {"date"}, "ids": set()}[agent]


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_change_is_found(store, plant, monkeypatch):
    monkeypatch.setattr(service_agents, "CHANGES", {plant})
    agents = [*AGENTS]
    for agent in (agents[PLANTS.index(plant)], "now_each_turn"):
        assert replay(file_of(store, agent))[0] is not None


@pytest.fixture
def run_of(tmp_path):
    """Captures one run of an agent that a test defines; returns its file."""

    def capture_agent(agent, name="mine"):
        AGENTS[name] = agent
        return capture_runs(tmp_path, [len([*tmp_path.rglob("*.json")]) + 1003], [name])[-1]

    yield capture_agent
    AGENTS.pop("mine", None)


def found(file, agent, **expected):
    AGENTS["mine"] = agent
    finding, session = replay(file)
    return finding and finding.headline, sum(session.new_values.taken.values())


async def one_id_a_request(client, order_id, customer):
    key = str(uuid.uuid4())
    return [await service_agents.ask(client, f"{number} of {order_id}", user=key) for number in range(3)]


async def one_id_a_call(client, order_id, customer):
    return [await service_agents.ask(client, f"{number} of {order_id}", user=str(uuid.uuid4())) for number in range(3)]


def test_which_calls_share_an_id_is_compared(run_of):
    shared, own = run_of(one_id_a_request), run_of(one_id_a_call)
    assert found(shared, one_id_a_request) == (None, 0)
    assert found(own, one_id_a_call) == (None, 0)
    assert found(shared, one_id_a_call)[0]
    assert found(own, one_id_a_request)[0]


def test_a_draw_more_in_the_code_of_today_moves_no_other(run_of):
    async def answer(client, order_id, customer):
        key = str(uuid.uuid4())
        return await service_agents.ask(client, order_id, user=key)

    def log():
        return uuid.uuid4()

    async def answer_and_log(client, order_id, customer):
        log()
        key = str(uuid.uuid4())
        return await service_agents.ask(client, order_id, user=key)

    answer_and_log.__qualname__ = answer.__qualname__
    answer_and_log.__code__ = answer_and_log.__code__.replace(co_qualname=answer.__qualname__)

    async def answer_twice(client, order_id, customer):
        uuid.uuid4()
        key = str(uuid.uuid4())
        return await service_agents.ask(client, order_id, user=key)

    answer_twice.__code__ = answer_twice.__code__.replace(co_qualname=answer.__qualname__)
    file = run_of(answer)
    assert found(file, answer_and_log) == (None, 0), "served by call site"
    assert found(file, answer_twice) == (None, 1), "new in both runs"


def test_a_constant_is_told_from_an_id_by_the_other_runs(run_of):
    def with_tenant(tenant):
        async def answer(client, order_id, customer):
            return await service_agents.ask(client, order_id, user=tenant)

        return answer

    first, other = (run_of(with_tenant("3f2504e0-4f89-41d3-9a0c-0305e82c3301")) for _ in range(2))
    AGENTS["mine"] = with_tenant("77ab04e0-4f89-41d3-9a0c-0305e82c33f0")
    assert replay(first)[0] is None
    matching = Matching(READER, RULES)
    exchanges = codec.loads(other.read_bytes(), file=str(other)).run.exchanges
    values = {value for x in exchanges for value in list_ids(matching.text(x.call))}
    finding, _ = replay(first, other_ids=values)
    assert finding.headline


def test_show_grades_a_captured_run_with_its_reasons(store, capsys):
    assert main(["show", str(file_of(store, "ids")), "--kit", "--json"]) == 0
    kit = json.loads(capsys.readouterr().out)
    assert kit["grade"] == "B"
    reasons = "\n".join(kit["reasons"])
    assert "the clock was real" in reasons
    assert "ids of uuid served by call site" in reasons
    assert "taken as equal if they are new in the run" in reasons
    assert "order" not in reasons
    assert main(["show", str(file_of(store, "gathered")), "--kit"]) == 0
    assert "the order of answers was observed, not held" in " ".join(capsys.readouterr().out.split())


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    files = capture_runs(folder, range(1000, 1040))
    assert len(files) == 320
    failed = [file for file in files if '"status": "failed"' in file.read_text(encoding="utf-8")[:2000]]
    assert len(failed) == 32
    return folder


@pytest.mark.exhaustive
@pytest.mark.parametrize(("days", "clock"), [(0, "stepped"), (0, "real"), (1, "stepped")])
def test_all_of_320_runs_are_the_same(corpus, days, clock):
    results = replay_elsewhere(corpus, days=days, clock=clock)
    assert len(results) == 320
    assert not {file: headline for file, (headline, _) in results.items() if headline}


@pytest.mark.exhaustive
@pytest.mark.parametrize("days", [0, 1])
@pytest.mark.parametrize("plant", PLANTS)
def test_none_of_192_plants_is_hidden(corpus, tmp_path, plant, days):
    for file in corpus.rglob("*-100[0-3].run.json"):
        shutil.copy(file, tmp_path)
    results = replay_elsewhere(tmp_path, days=days, change=plant)
    assert len(results) == 32
    assert all(headline for headline, _ in results.values())
