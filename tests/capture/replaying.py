"""Captures of the agents of `service_agents`, six at once, and their replays, here or in a process of their own.

python -m tests.capture.replaying STORE DAYS CLOCK [CHANGE]     prints what became of each run, as JSON
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import os
import subprocess
import sys
from contextlib import nullcontext, suppress
from pathlib import Path

import time_machine

from pytest_agentreplay import capture
from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.report.finding import Finding
from pytest_agentreplay.runs.replay_session import ReplaySession
from pytest_agentreplay.runs.run_session import EndedRun, Location
from pytest_agentreplay.settings import Settings
from pytest_agentreplay.snapshots import codec
from tests.capture import service_agents

ROOT = Path(__file__).parents[2]
MODULE = service_agents.__name__
TOOLS = (f"{MODULE}.lookup_order = read", f"{MODULE}.refund")
FROZEN = ((f"{MODULE}.lookup_order", "read"), (f"{MODULE}.refund", "write"))
NOBODY = "http://127.0.0.1:9/v1"


def capture_runs(store, numbers, agents=service_agents.AGENTS):
    """Capture a run of each agent for each number, six at once; return their files."""

    async def serve(url):
        slots = asyncio.Semaphore(6)

        async def request(agent, number):
            async with slots:
                service_agents.URL.set(url)
                arguments = {"agent": agent, "order_id": f"A-{number}", "customer": f"c-{number % 7 + 2}"}
                with suppress(ValueError):
                    async with capture.run("answer", id=f"{agent}-{number}", input={"arguments": arguments}):
                        await service_agents.answer(**arguments)

        await asyncio.gather(*(asyncio.create_task(request(agent, number)) for number in numbers for agent in agents))

    capture.start(str(store), keep="all", tools=TOOLS)
    try:
        with service_agents.serving() as url:
            asyncio.run(serve(url))
    finally:
        capture.stop(60)
    return sorted(store.rglob("*.run.json"))


def replay(file, other_ids=(), **settings):
    """The finding of a replay of today's code, None for a run that is the recorded one; and its session."""
    snapshot = codec.loads(file.read_bytes(), file=str(file))
    header = snapshot.run.header
    place = Location(header.test, file, ROOT, {}, os.environ)
    session = ReplaySession(place, Settings(tools=FROZEN, **settings), snapshot)
    session.new_values.others = other_ids
    session.open()
    failure = None
    try:
        session.enter_body()
        service_agents.URL.set(NOBODY)
        try:
            session.check_start()
            asyncio.run(service_agents.answer(**header.kit["input"]["arguments"]))
        except (Exception, ReplayDiverged) as raised:
            failure = raised
        session.leave_body()
        ended = EndedRun(failure)
        finding = session.end_body(ended) or session.end()
    finally:
        session.close()
    if finding is None and ended.outcome() != header.outcome:
        finding = Finding("", "", f"{header.outcome} -> {ended.outcome()}")
    return finding, session


def replay_elsewhere(store, *, days=0, clock="stepped", change=""):
    """What became of each run of a store in a process of its own, so many days later."""
    words = [sys.executable, "-m", __name__, str(store), str(days), clock, *filter(None, [change])]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main(store, days, clock, *changes):
    service_agents.CHANGES.update(changes)
    with time_machine.travel(dt.datetime.now(dt.UTC) + dt.timedelta(days=int(days))) if int(days) else nullcontext():
        found = {}
        for file in sorted(Path(store).rglob("*.run.json")):
            finding, session = replay(file, clock=clock)
            headline = "" if finding is None else finding.headline
            found[file.name] = [headline, session.new_values.taken.total()]
    assert not service_agents.EFFECTS, "a tool ran for real"
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
