"""Random concurrent agents, made from a seed: trees of some twenty-five calls that run beside and after each other.

Three families. The calls of the first do not depend on each other. In the second each request holds a digest of all
that the agent has seen so far, whichever task saw it: one answer out of turn, and the next request is another one. The
third has tasks besides that sleep, and ask until something is there.
"""

import asyncio
import contextlib
import hashlib
import random
import sys
import time
from dataclasses import dataclass, field

INDEPENDENT, SENSITIVE, POLLING = "independent", "order-sensitive", "polling"
FAMILIES = (INDEPENDENT, SENSITIVE, POLLING)

CALLS = 25

DICE = random.Random()
"""The world's: not the test's `random`, which is seeded."""

RUNS = []
"""What the world was asked. A replay adds nothing."""


async def _take_time():
    RUNS.append(None)
    match DICE.randrange(8):
        case 0:
            return
        case 1:
            await _sleep(0)
        case _:
            await _sleep(DICE.choice((0.0005, 0.001, 0.001, 0.002, 0.003, 0.005)))


async def _sleep(seconds):
    if asyncio._get_running_loop() is not None:
        await asyncio.sleep(seconds)
    else:
        await sys.modules["trio"].sleep(seconds)


async def look(place: str, seen: str) -> str:
    await _take_time()
    if not DICE.randrange(10):
        raise LookupError(f"{place} has nothing, {DICE.random()}")
    return f"{place} {DICE.random()}"


async def flow(place: str, seen: str):
    for number in range(DICE.randrange(4)):
        await _take_time()
        yield f"{place} {number} {DICE.random()}"


async def poll(place: str, seen: str) -> bool:
    await _take_time()
    return not DICE.randrange(3)


def reckon(place: str, seen: str) -> float:
    RUNS.append(None)
    return DICE.random()


TOOLS = (look, flow, poll, reckon)


@dataclass(frozen=True)
class Node:
    """A call, or a way to run others. `number` is how many may run at once, or how often something is done."""

    kind: str
    place: str
    parts: tuple["Node", ...] = ()
    number: int = 0


@dataclass
class Memory:
    """What all tasks of an agent have seen, in order: `log` has the state after each answer."""

    sensitive: bool
    digest: str = ""
    log: list = field(default_factory=list)

    def saw(self, place, value):
        self.digest = hashlib.sha256(f"{self.digest} {place} {value}".encode()).hexdigest()[:12]
        self.log.append((place, str(value), self.digest))

    @property
    def seen(self):
        return self.digest if self.sensitive else ""


WAYS = ("sequence", "gather", "gather", "race", "drop", "limited", "as_completed", "group", "workers")
CALLED = ("look", "look", "look", "flow", "reckon")


def program(seed, family, *, http=False):
    """A tree of about `CALLS` calls, the same each time."""
    dice = random.Random(f"{family} {seed}")
    called = (*CALLED, *(("ask", "stream") if http else ()))
    # How long a socket takes to close for somebody who was cancelled is no answer, and has no place in the order.
    ways = tuple(way for way in WAYS if not (http and way == "race"))
    if family == POLLING:
        ways = (*ways, "poll", "poll", "nap")

    def grow(place, calls, depth):
        if calls <= 1 or not depth:
            return Node(
                "sequence", place, tuple(Node(dice.choice(called), f"{place}.{n}") for n in range(max(1, calls)))
            )
        kind = dice.choice(ways if depth < 3 else ("gather", "group", "gather"))
        if kind in {"poll", "nap"}:
            return Node(kind, place, (grow(f"{place}.0", calls - 1, depth - 1),), dice.randrange(1, 5))
        count = min(calls, dice.randrange(2, 5))
        shares = [calls // count + (n < calls % count) for n in range(count)]
        parts = tuple(grow(f"{place}.{n}", share, depth - 1) for n, share in enumerate(shares))
        return Node(kind, place, parts, dice.randrange(1, 4))

    return grow("0", CALLS, 3)


class Agent:
    """Runs a program in asyncio. `client` and `url` are there for calls over HTTP."""

    def __init__(self, memory, client=None, url=""):
        self.memory = memory
        self.client = client
        self.url = url

    async def run(self, node):
        await getattr(self, node.kind)(node)
        return node.place

    async def alone(self, node):
        """Run it in a loop that goes on afterwards: whom a cancelled parent has left behind is cancelled, too."""
        await self.run(node)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    # Calls.

    async def look(self, node):
        try:
            self.memory.saw(node.place, await look(node.place, self.memory.seen))
        except LookupError as error:
            self.memory.saw(node.place, error)

    async def flow(self, node):
        async with contextlib.aclosing(flow(node.place, self.memory.seen)) as items:
            async for item in items:
                self.memory.saw(node.place, item)

    async def reckon(self, node):
        self.memory.saw(node.place, reckon(node.place, self.memory.seen))

    async def ask(self, node):
        reply = await self.client.post(self.url, json=self._body(node))
        self.memory.saw(node.place, reply.json()["choices"][0]["message"]["content"])

    async def stream(self, node):
        body = self._body(node) | {"stream": True}
        async with self.client.stream("POST", self.url, json=body) as reply:
            async for line in reply.aiter_lines():
                self.memory.saw(node.place, line)

    def _body(self, node):
        said = f"{node.place} {self.memory.seen}"
        return {"model": "m-1", "messages": [{"role": "user", "content": said}]}

    # Ways to run others.

    async def sequence(self, node):
        for part in node.parts:
            await self.run(part)

    async def gather(self, node):
        self.memory.saw(node.place, await asyncio.gather(*map(self.run, node.parts)))

    async def race(self, node):
        """The first one wins, the others are cancelled."""
        await self._first(node, lambda task: task.cancel())

    async def drop(self, node):
        """The first one wins, the others may end."""
        await self._first(node, lambda _: None)

    async def _first(self, node, end):
        tasks = [asyncio.create_task(self.run(part), name=part.place) for part in node.parts]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        self.memory.saw(node.place, sorted(task.get_name() for task in done))
        for task in tasks:
            if task in pending:
                end(task)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def limited(self, node):
        backend = asyncio.Semaphore(node.number)

        async def one(part):
            async with backend:
                await self.run(part)

        await asyncio.gather(*map(one, node.parts))

    async def as_completed(self, node):
        # Tasks, and no coroutines: those begin in the order of a set, which is another one each time.
        for nearest in asyncio.as_completed([asyncio.create_task(self.run(part)) for part in node.parts]):
            self.memory.saw(node.place, await nearest)

    async def group(self, node):
        async with asyncio.TaskGroup() as group:
            for part in node.parts:
                group.create_task(self.run(part))

    async def workers(self, node):
        queue = asyncio.Queue()
        for part in node.parts:
            queue.put_nowait(part)

        async def work(name):
            while not queue.empty():
                part = queue.get_nowait()
                self.memory.saw(node.place, f"{name} takes {part.place}")
                await self.run(part)

        await asyncio.gather(*(work(name) for name in range(node.number)))

    # Time.

    async def poll(self, node):
        """Asks until something is there, while the rest goes on."""

        async def until_ready():
            while True:
                await asyncio.sleep(0.001 * node.number)
                ready = await poll(node.place, self.memory.seen)
                self.memory.saw(node.place, ready)
                if ready:
                    return

        await asyncio.gather(until_ready(), self.sequence(node))

    async def nap(self, node):
        await asyncio.sleep(0.001 * node.number)
        await self.sequence(node)


class Structured(Agent):
    """Runs a program in nurseries; `library` is trio, or anyio."""

    def __init__(self, memory, library):
        super().__init__(memory)
        self.library = library
        self.nursery = getattr(library, "open_nursery", None) or library.create_task_group

    async def _all(self, run, parts):
        async with self.nursery() as nursery:
            for part in parts:
                nursery.start_soon(run, part)

    async def gather(self, node):
        await self._all(self.run, node.parts)
        self.memory.saw(node.place, "all")

    group = gather

    async def race(self, node):
        async with self.nursery() as nursery:

            async def one(part):
                await self.run(part)
                self.memory.saw(node.place, part.place)
                nursery.cancel_scope.cancel()

            for part in node.parts:
                nursery.start_soon(one, part)

    async def as_completed(self, node):
        async def one(part):
            await self.run(part)
            self.memory.saw(node.place, part.place)

        await self._all(one, node.parts)

    drop = as_completed

    async def limited(self, node):
        backend = self.library.Semaphore(node.number)

        async def one(part):
            async with backend:
                await self.run(part)

        await self._all(one, node.parts)

    async def workers(self, node):
        waiting = [*node.parts]

        async def work(name):
            while waiting:
                part = waiting.pop(0)
                self.memory.saw(node.place, f"{name} takes {part.place}")
                await self.run(part)

        await self._all(work, range(node.number))


def slow_model(body, number):
    """A script for the model server: an answer that nobody else gets, after a while."""
    RUNS.append(None)
    time.sleep(DICE.choice((0, 0.001, 0.003)))
    return f"answer {number} {DICE.random()}"
