"""Programs of tasks, threads and children that are not what they were when recorded: each ends, and both sides are named.

What overlapped is waited for as long as it may still come; what was given up is never given out as a value; look-ups may
change places under `order="loose"`; and where no order is kept, a wait ends when nothing can come any more.
"""

import asyncio
import inspect
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest
import trio

from pytest_agentreplay.intercept.ordering import quiet, stall_watch
from pytest_agentreplay.snapshots import codec
from tests.ordering.driving import Stage
from tests.support.model_server import ModelServer

pytestmark = [pytest.mark.env("main"), pytest.mark.process]  # nothing in it depends on the release of a dependency

TAKES = {"a": 0.4, "b": 0.05, "c": 0.2, "endless": 60}
CAME = []
TODAY = {"now": False}
SLEEP = "import time; time.sleep(0.25)"


async def ask(name):
    while name == "long" and "c" not in CAME:  # noqa: ASYNC110  there is a loop for each run
        await asyncio.sleep(0.01)
    if name in TAKES:
        await asyncio.sleep(TAKES[name])
    CAME.append(name)
    return name.upper()


async def ask_trio(name):
    await trio.sleep(60)


def work(name):
    time.sleep(min(TAKES[name], 2))
    return name.upper()


async def look(name):
    await asyncio.sleep(TAKES[name])
    return name.upper()


async def look_slowly(name):
    """Runs for real where tools are verified, longer than a stall takes there."""
    await asyncio.sleep(1.2 if TODAY["now"] else 0.005)
    return name.upper()


async def in_turn(*names):
    return [await ask(name) for name in names]


async def at_once(*names):
    return await asyncio.gather(*map(ask, names))


async def given(up, now):
    """What is changed waits on where it had given up."""
    try:
        await (up if now else asyncio.wait_for(up, 0.1))
    except TimeoutError:
        return "late"


class Program:
    """Programs, as they were, and as they are `now`."""

    def __init__(self, now, url):
        self.now, self.url = now, url

    async def sequence(self):
        await (in_turn if self.now else at_once)("a", "b", "c")

    async def dropped(self):
        await at_once(*("ac" if self.now else "abc"))

    async def dropped_and_told(self):
        await ask(str(await at_once(*("ac" if self.now else "abc"))))

    async def dropped_and_failed(self):
        assert len(await at_once(*("ac" if self.now else "abc"))) == 3

    async def dropped_and_polled(self):
        """Looks for what the dropped call brings, without end."""
        await at_once(*("ac" if self.now else "abc"))
        while self.now:  # noqa: ASYNC110  nobody says when to look
            await asyncio.sleep(0.01)

    async def timeout(self):
        try:
            await asyncio.wait_for((in_turn if self.now else at_once)("a", "b", "c"), 2)
        except TimeoutError:
            raise RuntimeError("the timer of two seconds was let run") from None

    async def inline(self):
        """A tool that never suspends: its calls come one after the other, whoever makes them."""
        await at_once("a", *(f"inline {n}" for n in range(300)), *(["inline 300"] if self.now else []))

    def pool(self):
        with ThreadPoolExecutor(1 if self.now else 3) as workers:
            list(workers.map(work, "abc"))

    async def slow_child(self):
        """No thread waits for it, and it takes longer than the silence after which the order counts as lost."""

        async def run():
            loop = asyncio.get_running_loop()
            child = subprocess.Popen([sys.executable, "-c", SLEEP], stdout=subprocess.PIPE)  # noqa: ASYNC220
            closed = loop.create_future()
            loop.add_reader(child.stdout, closed.set_result, None)
            await closed
            loop.remove_reader(child.stdout)
            child.communicate()
            if not self.now:
                await ask("c")

        await asyncio.gather(run(), ask("long"))

    def timed_out_on_trio(self):
        async def main():
            with trio.move_on_after(0.05):
                await ask_trio("endless")

        trio.run(ask_trio, "endless") if self.now else trio.run(main)

    async def half_a_stream(self):
        async with httpx2.AsyncClient(timeout=30, verify=False) as client:
            body = {"model": "m-1", "messages": [{"role": "user", "content": "half"}], "stream": True}
            async with client.stream("POST", f"{self.url}/chat/completions", json=body) as reply:
                chunks = reply.aiter_bytes()
                await ask(await anext(chunks) and "b")

                async def drained():
                    async for _ in chunks:
                        pass

                assert await given(drained(), self.now) == "late"

    def in_a_thread(self):
        thread = threading.Thread(target=work, args=["endless"], daemon=True)
        thread.start()
        time.sleep(0.05)
        if self.now:
            thread.join()

    async def read_tools(self):
        for name in "ba" if self.now else "ab":
            await look(name)

    async def gets(self):
        async with httpx2.AsyncClient(verify=False) as client:
            for name in "ba" if self.now else "ab":
                await client.get(f"{self.url}/{name}")

    async def write_tools(self):
        for name in "ba" if self.now else "ab":
            await ask(name)

    async def cancelled(self):
        await ask("b")
        call = asyncio.create_task(ask("endless"))
        if not self.now:
            await asyncio.sleep(0.05)
            call.cancel()
        await asyncio.wait({call})

    async def not_made(self):
        ready = asyncio.Event()

        async def producer():
            await ask("a")
            if not self.now:
                await ask("b")
                ready.set()

        async def consumer():
            await ready.wait()  # what no call brings any more
            await ask("c")

        await asyncio.gather(producer(), consumer())

    async def slow(self):
        await asyncio.gather(look_slowly("x"), look_slowly("y"))
        await ask("b")


PROGRAMS = [name for name in vars(Program) if not name.startswith("_")]

A, B, C, LONG = (f'tool ask {{"name":"{name}"}}' for name in ("a", "b", "c", "long"))
NOT_CALLED = f"{B} is not called, but was answered before {A}"
TOO_EARLY = f"{B} came before {A}, which is recorded first"
GIVEN_UP = "is waited for; it was given up when recorded"
TOLD = {
    "sequence": f"[AR-ORDER] call 1/3: {NOT_CALLED}",
    "dropped": f"[AR-MISSING] call 2/3: {NOT_CALLED}",
    "dropped_and_told": f"[AR-MISSING] call 2/4: {NOT_CALLED}",
    "dropped_and_failed": f"[AR-MISSING] call 2/3: {NOT_CALLED}",
    "dropped_and_polled": f"[AR-MISSING] call 2/3: {NOT_CALLED}",
    "timeout": f"[AR-ORDER] call 1/3: {NOT_CALLED}",
    "inline": "[AR-EXTRA] after call 301/301: one call more than recorded, tool ask",
    "pool": f"[AR-ORDER] call ?/3: {NOT_CALLED.replace('tool ask', 'tool work')}",
    "slow_child": f"[AR-MISSING] call 2/2: {C} is not called, but was answered before {LONG}",
    "timed_out_on_trio": f"[AR-EXTRA] call 1/1: tool ask_trio {GIVEN_UP}",
    "half_a_stream": f"[AR-EXTRA] turn 1/1: model m-1 {GIVEN_UP}",
    "in_a_thread": "[AR-EXTRA] call 1/1: tool work is waited for; it had no answer when the recorded run ended",
    "read_tools": f"[AR-ORDER] call 2/2: {TOO_EARLY.replace('tool ask', 'tool look')}",
    "gets": "[AR-ORDER] call 2/2: ",
    "write_tools": f"[AR-ORDER] call 2/2: {TOO_EARLY}",
    "cancelled": f"[AR-EXTRA] call 2/2: tool ask {GIVEN_UP}",
    "not_made": "[AR-MISSING] call 2/3: the test ended, tool ask was not called",
    "slow": "",
}
LOOSE = {"read_tools", "gets", "sequence"}
"""What may change places where the order is loose: look-ups, and what was under way at once."""
HURRIED = {"dropped_and_polled": (stall_watch, "QUIET", 0.75), "slow_child": (quiet, "SILENCE", 0.12)}
"""Programs that wait for a limit of ours to run out, and the length that it has here."""


def script(body, number):
    time.sleep(0.3)
    return "half"


@pytest.fixture(scope="module")
def url():
    with ModelServer(script, pace=0.3) as server:
        yield f"{server.url}/v1"


@pytest.fixture
def play(tmp_path, url):
    """Records and replays a program, by its name, as it was and as it is `now`."""
    stage = Stage(tmp_path, tools=(ask, ask_trio, work, look, look_slowly))

    def played(name, mode, *, now=False, **settings):
        def act():
            CAME.clear()
            TODAY["now"] = now
            result = getattr(Program(now, url), name)()
            return asyncio.run(result) if inspect.iscoroutine(result) else result

        allowed = {"tools": (("look", "read"), ("look_slowly", "read")), "allow_subprocess": ("python",)}
        return getattr(stage, mode)(act, **allowed, **settings)

    played.stage = stage
    return played


def headline(played):
    """What is told; which call of several threads is the first is chance: it is "?"."""
    said = played.finding.headline if played.finding else ""
    return re.sub(r"call \d/", "call ?/", said) if "tool work {" in said else said


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_change_is_told_and_what_has_not_changed_replays(play, name, monkeypatch):
    if name in HURRIED:
        monkeypatch.setattr(*HURRIED[name])
    play(name, "record")
    assert headline(play(name, "replay")) == ""
    if name == "not_made":
        return  # it would wait for ever: see below
    told = headline(play(name, "replay", now=True))
    assert told[: len(TOLD[name])] == TOLD[name]
    assert bool(told) == bool(TOLD[name])
    if name in {"read_tools", "gets", "write_tools", "sequence"}:
        assert headline(play(name, "replay", now=True, order="loose")) == ("" if name in LOOSE else TOLD[name])


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("not_made", {"order": "free"}),
        *(("cancelled", settings) for settings in ({"order": "free"}, {"replay_tools": "checked"})),
        ("slow", {"replay_tools": "checked"}),
    ],
)
def test_a_wait_that_never_ends_is_reported_where_no_order_is_kept(play, name, settings, monkeypatch):
    monkeypatch.setattr(stall_watch, "QUIET", 0.75)
    monkeypatch.setattr(stall_watch, "LONGER", 1.0)  # an outside that could still bring something is given 30 s
    play(name, "record")
    told = play(name, "replay", now=True, **settings)
    assert headline(told)[: len(TOLD[name])] == TOLD[name]
    if name == "not_made":
        assert "nothing that still runs can end that: the test was ended" in str(told.finding)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_is_taken_for_gone_on_a_busy_machine(play, name):
    play(name, "record")
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(8)]
    try:
        assert [headline(play(name, "replay")) for _ in range(20)] == [""] * 20
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def test_what_was_given_up_is_kept_as_that(play):
    def kept(name):
        play(name, "record")
        (file,) = play.stage.root.rglob("*.snapshot.json")
        return codec.loads(file.read_bytes(), file=str(file)).run.exchanges

    for name in ("cancelled", "timed_out_on_trio"):
        assert [x.call.arguments["name"] for x in kept(name) if x.abandoned] == ["endless"], name
    (half, *_) = kept("half_a_stream")
    assert half.outcome.failure.cancelled
    assert half.outcome.cuts
    (inflight,) = kept("in_a_thread")
    assert (inflight.outcome, inflight.finish) == (None, None)
