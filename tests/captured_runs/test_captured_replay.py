"""One captured run against the code of today, in this process: agents of many kinds, and what ends a run early."""

import asyncio
import dataclasses
import datetime as dt
import os
from collections import Counter

import openai
import pytest

from pytest_agentreplay import capture
from pytest_agentreplay.compare.matching.new_values import list_ids
from pytest_agentreplay.runs.captured.captured_replay import replay_captured
from pytest_agentreplay.runs.cases.evaluation import CaseEvaluator
from pytest_agentreplay.runs.cases.runners import Runners
from pytest_agentreplay.settings import Settings
from pytest_agentreplay.snapshots import codec
from tests.capture import service_agents
from tests.capture.replaying import FROZEN, NOBODY, ROOT, TOOLS, capture_runs
from tests.support.exhaustive import rare

GROUPS = {
    "customer": "differ in refund $.customer",
    "amount": "differ in refund $.amount",
    "order": "differ in refund $.order_id",
    "model": "ask otherwise ($.model)",
    "prompt": "ask otherwise (system text)",
    "dropped write": "no longer call refund",
}


async def answer(**arguments):
    service_agents.URL.set(NOBODY)
    return await service_agents.answer(**arguments)


def replay(file, runner=answer, other=None, change=None, **settings):
    """What the code of today made of a run; `change` is made to its header."""
    run = codec.loads(file.read_bytes(), file=str(file)).run
    if change is not None:
        run = dataclasses.replace(run, header=change(run.header))
    settings = Settings(tools=FROZEN, **settings)
    evaluator = CaseEvaluator(ROOT, settings, Runners((), [{"answer": runner}]), os.environ, {})
    ids = set() if other is None else list_ids(other.read_text(encoding="utf-8"))
    before = Counter(service_agents.EFFECTS)
    result = replay_captured(run, file, evaluator, ids)
    assert before == service_agents.EFFECTS, "a tool ran for real"
    return result


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A run of each agent, the last one of which has failed."""
    made = capture_runs(tmp_path_factory.mktemp("runs"), [1003])
    return made + capture_runs(tmp_path_factory.mktemp("failed"), [1007], ["plain"])


def test_unchanged_runs_of_all_agents_are_the_same(files):
    results = [replay(file, other=files[place - 1]) for place, file in enumerate(files)]
    assert {(result.level, result.group) for result in results} == {("same", "")}
    assert sum(result.new for result in results) > 0


@pytest.mark.parametrize("plant", ["dropped write", *rare(*sorted(GROUPS.keys() - {"dropped write"}))])
def test_a_planted_change_has_its_group_whatever_the_agent(files, plant, monkeypatch):
    monkeypatch.setattr(service_agents, "CHANGES", {plant})
    assert {replay(file).group for file in files} == {GROUPS[plant]}


def test_what_the_service_said_of_a_run_is_no_exception_that_must_recur(files):
    def say(header):
        return dataclasses.replace(header, outcome={"status": "failed", "type": "failed", "message": "thumbs down"})

    assert replay(files[0], change=say).level == "same"


def test_an_answer_is_compared_where_the_service_kept_it_but_for_new_values(files):
    def keep(output):
        return lambda header: dataclasses.replace(header, kit={**header.kit, "output": output})

    async def number(**arguments):
        await answer(**arguments)
        return {"items": [1, 2]}

    assert replay(files[0], number, change=keep({"items": [1, 2]})).level == "same"
    assert replay(files[0], number, change=keep({"items": [1, 3]})).group == "answer otherwise ($.items[1])"

    async def items(**arguments):
        yield await answer(**arguments) and "done"

    assert replay(files[0], items, change=keep(["done"])).level == "same"

    async def ticket(**arguments):
        await answer(**arguments)
        return "ticket 7f0e4a52-97be-4b8f-8e8c-2f4e1f1f6a01"

    other = keep("ticket 0c1d3b1e-1b0e-4a35-9a52-0f3f3c1c2d11")
    result = replay(files[0], ticket, change=other)
    assert (result.level, result.new) == ("same", 1)
    ids = {"7f0e4a5297be4b8f8e8c2f4e1f1f6a01"}
    run = codec.loads(files[0].read_bytes(), file="")
    header = other(run.run.header)
    evaluator = CaseEvaluator(ROOT, Settings(tools=FROZEN), Runners((), [{"answer": ticket}]), os.environ, {})
    constant = replay_captured(dataclasses.replace(run.run, header=header), files[0], evaluator, ids)
    assert constant.group == "answer otherwise ($)"


def test_one_call_more_than_recorded_ends_the_run_and_names_it(files):
    async def twice(**arguments):
        await answer(**arguments)
        return await answer(**arguments)

    assert replay(files[0], twice).group.endswith(" once more")


async def write_to(email, phone):
    """An agent with personal values in its input, its prompt, the arguments of a tool and its output."""
    async with openai.AsyncOpenAI(api_key="none", base_url=service_agents.URL.get(), max_retries=0) as client:
        text = f"Write to {email} or call {phone}; a copy goes to desk@shop.example, +1 415 555 0100."
        said = await service_agents.ask(client, text)
        service_agents.refund("A-1", email, 5, phone)
        return {"said": said, "to": email, "copy": await service_agents.ask(client, f"{phone}: {said}")}


def test_personal_values_are_redacted_in_a_run_and_in_its_replay(tmp_path):
    async def serve(url):
        service_agents.URL.set(url)
        given = {"email": "ada@example.org", "phone": "+44 20 7946 0958"}
        with capture.run("answer", input={"arguments": given}) as run:
            run.output(await write_to(**given))

    capture.start(str(tmp_path), keep="all", tools=TOOLS)
    try:
        with service_agents.serving() as url:
            asyncio.run(serve(url))
    finally:
        capture.stop(60)
    (file,) = tmp_path.rglob("*.run.json")
    stored = file.read_text(encoding="utf-8")
    assert not any(value in stored for value in ("ada@", "desk@", "7946 0958", "415 555"))

    async def write_now(**given):
        service_agents.URL.set(NOBODY)
        return await write_to(**given)

    assert replay(file, write_now).level == "same"


@dataclasses.dataclass
class Order:
    number: str
    due: dt.date


def test_arguments_that_were_no_json_are_made_again_by_the_annotations_of_the_runner(tmp_path):
    received = []

    def ship(order: Order, days: tuple[int, ...], note: str = "") -> str:
        received.append((order, days))
        return note

    capture.start(tmp_path, keep="all")
    capture.run("answer")(ship)(Order("A-17", dt.date(2026, 11, 28)), (1, 2))
    capture.stop()
    (file,) = tmp_path.rglob("*.run.json")
    assert replay(file, ship).level == "same"
    assert received == [(Order("A-17", dt.date(2026, 11, 28)), (1, 2))] * 2
    result = replay(file, lambda order, days, note="": note)
    assert result.level == "not replayed"
    assert "the argument order was a tests.captured_runs.test_captured_replay.Order" in result.refused
