"""Tests that freeze time, or replace functions of `time`: they record and replay as any other test does."""

import asyncio
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import freezegun
import httpx2
import pytest
import time_machine

from pytest_agentreplay.runs import replay_kit
from tests.ordering.driving import Stage

pytestmark = pytest.mark.env("main")  # freezegun

THEN = "2020-02-03 04:05:06"
STILL = {name: lambda: 7.0 for name in ("time", "monotonic", "perf_counter")}
FREEZES = {
    "freezegun": lambda: freezegun.freeze_time(THEN),
    "freezegun that ticks": lambda: freezegun.freeze_time(THEN, tick=True),
    "time_machine that ticks": lambda: time_machine.travel(THEN, tick=True),
    "clocks that stand": lambda: mock.patch.multiple(time, monotonic_ns=lambda: 7, **STILL),
    "a sleep that fails": lambda: mock.patch("time.sleep", side_effect=AssertionError("who sleeps?")),
}


def look_up(name):
    threading.Event().wait(0.01)
    return name.upper()


async def alook_up(name):
    await asyncio.to_thread(threading.Event().wait, 0.01)
    return name.upper()


@pytest.fixture
def everything(server):
    def ask(text):
        body = {"model": "m", "messages": [{"role": "user", "content": text}]}
        return httpx2.post(f"{server.url}/v1/chat/completions", json=body).json()["id"]

    async def in_tasks():
        assert await asyncio.gather(*map(alook_up, "abc")) == ["A", "B", "C"]

    def act():
        ask("one")
        look_up("ada")
        with ThreadPoolExecutor(3) as pool:
            assert list(pool.map(look_up, "abc")) == ["A", "B", "C"]
            list(pool.map(ask, "abc"))
        asyncio.run(in_tasks())
        threading.Thread(target=look_up, args=("late",)).start()
        return ask("two")

    return act


@pytest.mark.parametrize("before", [False, True], ids=["in the body", "by a fixture"])
@pytest.mark.parametrize("freeze", FREEZES.values(), ids=FREEZES)
def test_a_test_that_freezes_time_records_and_replays(tmp_path, server, everything, freeze, before):
    stage = Stage(tmp_path, tools=(look_up, alook_up))

    def frozen(work, *given, **more):
        with freeze():
            return work(*given, **more)

    def play(mode):
        return frozen(getattr(stage, mode), everything) if before else getattr(stage, mode)(lambda: frozen(everything))

    recorded, hits = play("record"), server.hits
    replayed = play("replay")
    assert replayed.finding is None, "\n".join(map(str, replayed.finding.lines))
    assert (replayed.result, server.hits) == (recorded.result, hits)


@pytest.mark.skipif(sys.platform == "win32", reason="a script of sh")
def test_git_is_asked_without_the_sleep_of_the_test(tmp_path, monkeypatch):
    (tmp_path / "git").write_text("#!/bin/sh\necho abc\nexec >&- 2>&-\nsleep 0.2\n", encoding="utf-8")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with FREEZES["a sleep that fails"]():
        assert replay_kit.read_git_state(str(tmp_path)) == (("commit", "abc"), ("dirty", True))
