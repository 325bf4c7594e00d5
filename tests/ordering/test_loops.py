"""Every kind of event loop keeps the order: asyncio's own, uvloop's, trio's; several of them; and after them nothing is left."""

import asyncio
import functools
import threading
from pathlib import Path

import anyio
import pytest
import trio

from pytest_agentreplay.intercept.ordering import idle
from tests.ordering import programs
from tests.ordering.driving import agent, difference, structured
from tests.ordering.programs import SENSITIVE, Agent, Memory, Node, program
from tests.support.exhaustive import rare
from tests.support.small_projects import furnished, passed, recorded

KINDS = {
    "trio": lambda seed: structured(seed, trio, trio.run),
    "anyio on trio": lambda seed: structured(seed, anyio, functools.partial(anyio.run, backend="trio")),
    "anyio on asyncio": lambda seed: structured(seed, anyio, anyio.run),
    "asyncio in debug mode": lambda seed: agent(seed, SENSITIVE, debug=True),
}
counts = pytest.mark.parametrize("count", [8, *rare(40)])


def unfaithful(stage, seeds, make):
    """The programs whose replay saw something else: seed and difference."""
    told = {seed: difference(stage, make(seed), order="recorded") for seed in range(seeds)}
    return {seed: why for seed, why in told.items() if why}


def guessed(stage, act):
    return stage.replay(act, order="recorded").run_session.order.quiet.guessed


@counts
@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_loop_is_faithful(stage, kind, count):
    missed = unfaithful(stage, count, KINDS[kind])
    # Two cancelled branches that unwind in the same turn of the loop end in an order that no call shows: a real tool
    # may need more rounds for it than a stub. On a busy machine that is one program in a hundred of those in nurseries.
    assert len(missed) <= ("in debug mode" not in kind), missed


@counts
def test_uvloop_is_faithful_and_said_to_be_guessed(stage, count):
    uvloop = pytest.importorskip("uvloop", reason="uvloop is not made for this system")
    assert unfaithful(stage, count, lambda seed: agent(seed, SENSITIVE, run=uvloop.run)) == {}
    assert guessed(stage, agent(count - 1, SENSITIVE, run=uvloop.run))


def test_a_callback_of_uvloop_that_may_wake_a_task_is_work():
    uvloop = pytest.importorskip("uvloop", reason="uvloop is not made for this system")

    async def main():
        loop = asyncio.get_running_loop()
        other = asyncio.create_task(asyncio.Event().wait())
        await asyncio.sleep(0)
        loop.call_soon(other.cancel)
        return idle.is_idle(loop), idle.do_other_tasks_wait(loop)

    assert uvloop.run(main()) == (False, True)


@pytest.mark.parametrize("missing", ["do_hooks_work", "has_selector"])
def test_a_loop_that_cannot_be_asked_is_guessed(stage, monkeypatch, missing):
    assert unfaithful(stage, 1, lambda seed: agent(seed, SENSITIVE)) == {}
    assert not guessed(stage, agent(0, SENSITIVE))
    monkeypatch.setattr(idle, missing, lambda *_: False)
    assert unfaithful(stage, 8, lambda seed: agent(seed, SENSITIVE)) == {}
    assert guessed(stage, agent(7, SENSITIVE))


async def seen(seed, memory):
    await Agent(memory).run(program(seed, SENSITIVE))
    return memory.log


def test_one_loop_after_another(stage):
    def act():
        memory = Memory(sensitive=True)
        for seed in range(3):
            asyncio.run(seen(seed, memory))
        loop = asyncio.new_event_loop()
        for seed in (3, 4):
            loop.run_until_complete(Agent(memory).alone(program(seed, SENSITIVE)))
        loop.close()
        thread = threading.Thread(target=lambda: asyncio.run(seen(5, memory)))
        thread.start()
        thread.join()
        return memory.log

    assert difference(stage, act) == ""


def test_a_loop_in_a_thread_of_a_loop(stage):
    async def outer():
        memory = Memory(sensitive=True)
        inner = Memory(sensitive=True)
        await asyncio.gather(seen(0, memory), asyncio.to_thread(lambda: asyncio.run(seen(1, inner))), seen(2, memory))
        return memory.log, inner.log

    assert difference(stage, lambda: asyncio.run(outer())) == ""


def test_a_task_that_spins_beside_an_agent(stage):
    async def act():
        memory, over = Memory(sensitive=True), asyncio.Event()

        async def spin():
            while not over.is_set():  # noqa: ASYNC110  it is tried because people do it
                await asyncio.sleep(0)

        async def work():
            for number in range(5):
                await Agent(memory).look(Node("look", str(number)))
            over.set()

        await asyncio.gather(spin(), work())
        return memory.log

    assert difference(stage, lambda: asyncio.run(act()), order="recorded") == ""


def test_nothing_of_ours_runs_in_a_loop_or_stays_there(stage):
    loop = asyncio.new_event_loop()
    found, select = set(), loop._selector.select

    async def act():
        memory = Memory(sensitive=True)
        watched = Agent(memory)
        run = watched.run

        async def noting(node):
            found.update(task.get_coro().__qualname__ for task in asyncio.all_tasks())
            await run(node)
            return node.place

        watched.run = noting
        await watched.alone(program(1, SENSITIVE))
        return memory.log

    assert difference(stage, lambda: loop.run_until_complete(act()), order="recorded") == ""
    assert loop._selector.select == select
    assert "select" not in vars(loop._selector)
    assert not asyncio.all_tasks(loop)
    loop.close()
    here = f"{test_nothing_of_ours_runs_in_a_loop_or_stays_there.__name__}.<locals>."
    assert {name for name in found if not name.startswith((here, "Agent."))} == set()


TESTS = """
import asyncio, json
import anyio, pytest, trio
import programs

def told(memory):
    with open("logs.txt", "a") as logs:
        print(json.dumps(memory.log), file=logs)

@pytest.mark.asyncio
async def test_asyncio(agentreplay):
    memory = programs.Memory(sensitive=True)
    await programs.Agent(memory).alone(programs.program(1, programs.SENSITIVE))
    told(memory)

@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.anyio
async def test_anyio(anyio_backend, agentreplay):
    memory = programs.Memory(sensitive=True)
    await programs.Structured(memory, anyio).run(programs.program(2, programs.SENSITIVE))
    told(memory)

@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.asyncio(loop_scope="module")
async def test_one_loop_for_two(number, agentreplay):
    memory = programs.Memory(sensitive=True)
    await programs.Agent(memory).alone(programs.program(number, programs.SENSITIVE))
    told(memory)
"""

INI = """asyncio_default_fixture_loop_scope = function
agentreplay_tools =
    programs.look
    programs.flow
    programs.reckon
"""


def test_the_loops_of_plugins(shared_project):
    project = furnished(
        shared_project(), INI, programs=Path(programs.__file__).read_text(encoding="utf-8"), test_agents=TESTS
    )
    project.plugins = (*project.plugins, "anyio.pytest_plugin", "pytest_asyncio.plugin")
    logs = project.root / "logs.txt"
    assert "5 passed" in recorded(project).recording.stdout
    first = logs.read_text(encoding="utf-8").splitlines()
    logs.unlink()
    passed(project.offline())
    assert logs.read_text(encoding="utf-8").splitlines() == first
