"""Agents recorded and replayed in this process, by the way that the plugin goes; only pytest is missing."""

import asyncio
import os
from dataclasses import dataclass

import httpx2

from pytest_agentreplay.intercept.environment.machine import find_places
from pytest_agentreplay.runs.run_session import EndedRun, Location
from pytest_agentreplay.runs.session_factory import begin_session
from pytest_agentreplay.settings import Settings
from pytest_agentreplay.snapshots.store.snapshots import Store
from tests.ordering.programs import RUNS, SENSITIVE, TOOLS, Agent, Memory, Structured, program

TEST = "tests/test_agents.py::test_agent"


@dataclass(frozen=True)
class Played:
    """What `act` gave or raised, what the plugin found, and the scene."""

    result: object
    finding: object
    run_session: object


class Stage:
    """A user's project in `root`, with one test that records or replays."""

    def __init__(self, root, tools=TOOLS):
        self.root = root
        self.tools = tools
        self.reads = []

    def run_session(self, **settings):
        store = Store(self.root)
        marks = find_places(self.root, tmp=self.root / "tmp")
        snapshot = store.path_of(self.root / "tests/test_agents.py", TEST)
        place = Location(TEST, snapshot, self.root, marks, {"PATH": os.defpath})
        return begin_session(place, Settings(**settings), store, lambda: None)

    def play(self, act, **settings):
        """Run `act` as the body of the test."""
        run_session = self.run_session(**settings)
        run_session.open()
        result = error = None
        try:
            for tool in self.tools:
                run_session.freeze(tool, None)
            for tool in self.reads:
                run_session.freeze(tool, None, effects="read")
            run_session.enter_body()
            try:
                result = act()
            except BaseException as raised:
                error = raised
            run_session.leave_body()
            finding = run_session.end_body(EndedRun(error)) or run_session.end()
        finally:
            run_session.close()
        if error is not None and finding is None:
            raise error
        return Played(result, finding, run_session)

    def record(self, act, **settings):
        played = self.play(act, mode="record", **settings)
        assert played.finding is None, played.finding
        assert played.run_session.recording.verdict in {"created", "replaced"}, played.run_session.recording
        return played

    def replay(self, act, **settings):
        """A replay; nothing of the world is reached."""
        before = len(RUNS)
        played = self.play(act, **settings)
        assert len(RUNS) == before, "a replay has reached the world"
        return played


def agent(seed, family, url="", *, run=asyncio.run, **more):
    """One run of a random agent, as a function: gives the log of what it saw."""
    tree = program(seed, family, http=bool(url))

    async def act():
        memory = Memory(sensitive=family != "independent")
        if not url:
            await Agent(memory).run(tree)
            return memory.log
        async with httpx2.AsyncClient(verify=False) as client:
            await Agent(memory, client, f"{url}/v1/chat/completions").run(tree)
        return memory.log

    return lambda: run(act(), **more)


def structured(seed, library, run):
    """As `agent`, order-sensitive and in nurseries; `run` runs a coroutine function."""
    tree = program(seed, SENSITIVE)

    async def act():
        memory = Memory(sensitive=True)
        await Structured(memory, library).run(tree)
        return memory.log

    return lambda: run(act)


def difference(stage, act, **settings):
    """Record `act`, replay it: what was found, or where it saw something else, and "" where nothing differs."""
    recorded = stage.record(act)
    replayed = stage.replay(act, **settings)
    if replayed.finding is not None:
        return replayed.finding.headline
    if replayed.result == recorded.result:
        return ""
    at = next(
        (
            at
            for at, both in enumerate(zip(recorded.result, replayed.result, strict=False))
            if len({*map(str, both)}) > 1
        ),
        -1,
    )
    return f"{recorded.result[at:][:3]} when recorded, now {replayed.result[at:][:3]}"
