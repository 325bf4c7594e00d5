"""The random numbers and ids of one run: drawn from its seed, the same in the recording and in every replay.

`random`, and each library's global generator that has joined it, is seeded anew after each call, from the seed, the
lane and the call's number in its lane: what a tool body or an SDK inside a call draws moves nothing, and neither
does a stub that draws nothing. Ids are drawn per lane. Inside an exchange, and outside any run, ids are as random as
ever.

Of numpy the global generator is seeded as `random` is, and fresh generators are the run's own: one that is made without
a seed (`default_rng()`) asks the operating system for entropy; in a run it gets a number drawn from the run's seed. Not
while a module is imported: what is made there outlives the test.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import random
import sys
import time
import uuid
from collections import deque
from types import FunctionType
from typing import TYPE_CHECKING, Any, Protocol

from pytest_agentreplay.intercept.session import interceptions, lanes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import CodeType, FrameType, ModuleType

# The stream of threads that no test started: they have no lane, and taking one would renumber the test's own.
ELSEWHERE = "elsewhere"


class Generator(Protocol):
    """A generator that a whole process shares; the module `random` is one."""

    def getstate(self) -> Any:
        """Where it stands."""

    def setstate(self, state: Any) -> None:
        """Stand there again."""

    def seed(self, number: int) -> None:
        """Begin anew."""


# Whose states a run holds, by the names that their seeds are drawn under.
GENERATORS: dict[str, Generator] = {"random": random}


class RandomSource:
    """`random` (the module's generator), `uuid4`, `uuid1` and, where there are, `uuid6` and `uuid7` of one run.

    With them the generators that have joined (numpy's). `uuid8` draws from `random`. Own `random.Random()` objects,
    `secrets` and `os.urandom` stay what they are.
    """

    def __init__(self, seed: int) -> None:
        """Take the run's seed; nothing changes until `start`. `ids` is what ids are drawn from, the seed at first."""
        self._seed = self.ids = seed
        self._draws: dict[str, tuple[int, Iterator[int]]] = {}
        self._entropy: dict[tuple[str, int], Iterator[int]] = {}
        self._stands = ("main", 0)
        self._states: dict[str, tuple[Generator, Any]] = {}
        self._left: dict[str, Any] = {}  # by generator, the state in which `stop` found it
        self._recorded: dict[tuple[str, str], deque[uuid.UUID]] = {}
        self._stamps: dict[str, Any] = {}
        self._before: RandomSource | None = None

    def start(self) -> None:
        """Seed all generators, and draw ids from here on, also for those who hold `uuid4` itself.

        A second time they stand where `stop` has left them.
        """
        global _active
        self._states = {name: (generator, generator.getstate()) for name, generator in GENERATORS.items()}
        self._stamps = {name: value for name, value in vars(uuid).items() if name.startswith("_last_timestamp")}
        vars(uuid).update(dict.fromkeys(self._stamps))
        self._before, _active = _active, self
        redirect_ids()
        self._seed_all()
        for name, state in self._left.items():
            GENERATORS[name].setstate(state)

    def take(self, name: str, generator: Generator) -> None:
        """Hold `generator` too; it stands where it would, had it been held since the start."""
        if name not in self._states:
            self._states[name] = generator, generator.getstate()
            generator.seed(_hash_parts(self._seed, name, *self._stands))

    def use_seeds(self, seed: int, ids: int) -> None:
        """Draw for the run of `seed` and `ids`: a worker of a pool may come to work for another test."""
        self._seed, self.ids = seed, ids
        self._entropy.clear()

    def step(self, lane: str, count: int) -> None:
        """The `count`-th outermost call of `lane` was done: what comes next is drawn from there."""
        self._draws[lane] = (count, itertools.count())
        self._stands = lane, count
        self._seed_all()

    def _seed_all(self) -> None:
        for name, (generator, _) in tuple(self._states.items()):
            generator.seed(_hash_parts(self._seed, name, *self._stands))

    def stop(self) -> None:
        """Leave all generators and `uuid` exactly as `start` found them. A second call does nothing."""
        global _active
        if not self._states:
            return
        restore_ids()
        _active, self._before = self._before, None
        vars(uuid).update(self._stamps)
        self._left = {name: generator.getstate() for name, (generator, _) in self._states.items()}
        for generator, state in self._states.values():
            generator.setstate(state)
        self._states.clear()

    def serve_ids(self, draws: Iterable[tuple[str, str, list[str]]]) -> None:
        """Draw these ids of a lane and call site; what draws more, or elsewhere, gets the seed's."""
        self._recorded = {(lane, site): deque(map(uuid.UUID, ids)) for lane, site, ids in draws}

    def take_recorded(self, lane: str, name: str) -> uuid.UUID | None:
        """Return the id that the function `name` gave next at this call site in a captured run; None for none."""
        recorded = self._recorded.get((lane, find_call_site(name))) if self._recorded else None
        return recorded.popleft() if recorded else None

    def uuid4(self, lane: str) -> uuid.UUID:
        """A random id."""
        return uuid.UUID(int=_hash_parts(self.ids, "id", lane, *self._draw_next(lane)), version=4)

    def uuid7(self, lane: str) -> uuid.UUID:
        """An id that sorts by time, and by order of drawing where time stands still."""
        count, number = self._draw_next(lane)
        counter = (_hash_parts(self.ids, "counter", lane, count) >> 87) + number
        tail = _hash_parts(self.ids, "id", lane, count, number) >> 96
        milliseconds = time.time_ns() // 1_000_000 & 0xFFFF_FFFF_FFFF
        high = milliseconds << 16 | 7 << 12 | counter >> 30 & 0xFFF
        low = 0b10 << 62 | (counter & 0x3FFF_FFFF) << 32 | tail
        return uuid.UUID(int=high << 64 | low)

    def draw(self, name: str, lane: str, node: int | None, clock_seq: int | None) -> uuid.UUID:
        """What `name` gives; uuid1 and uuid6 have the clock's time, and a node that is the run's, not the machine's."""
        if name not in TIMED:
            return self.uuid4(lane) if name == "uuid4" else self.uuid7(lane)
        if clock_seq is None:
            clock_seq = _hash_parts(self.ids, "id", lane, *self._draw_next(lane)) & 0x3FFF
        made: uuid.UUID = ORIGINALS[name](self._node() if node is None else node, clock_seq)
        return made

    def entropy(self, lane: str) -> int:
        """What a generator that is made without a seed begins with, instead of the operating system's entropy."""
        count, _ = self._draws.get(lane, (0, None))
        numbers = self._entropy.setdefault((lane, count), itertools.count())
        return _hash_parts(self.ids, "entropy", lane, count, next(numbers))

    def _node(self) -> int:
        """The run's network card: a multicast address, which is nobody's."""
        return _hash_parts(self.ids, "node") & 0xFFFF_FFFF_FFFF | 1 << 40

    def _draw_next(self, lane: str) -> tuple[int, int]:
        """How many calls `lane` has done, and how many ids it has drawn since."""
        count, numbers = self._draws.get(lane) or self._draws.setdefault(lane, (0, itertools.count()))
        return count, next(numbers)


_active: RandomSource | None = None


def join(name: str, generator: Generator) -> None:
    """Hold `generator` in each run from now on, and in those that are under way."""
    GENERATORS[name] = generator
    running = _active
    while running is not None:
        running.take(name, generator)
        running = running._before


def find_source() -> tuple[RandomSource, str] | None:
    """Who draws for the code that runs here, and for which lane; None inside an exchange and outside any run."""
    if _active is None:
        return None
    call_context = lanes.CALL_CONTEXT.get()
    if call_context is None:
        running = interceptions.find_interception()
        return None if running is not None and running.is_over() else (_active, ELSEWHERE)
    lane = find_drawing_lane(call_context)
    return None if lane is None else (_active, lane)


def find_drawing_lane(call_context: lanes.CallContext) -> str | None:
    """Return the lane that ids are drawn for in `call_context`; None inside an exchange and after the run's end."""
    if lanes.is_inside(call_context) or call_context.interception.is_over():
        return None
    if call_context.inside is not None:
        # Apart from the client's own, which a server that does not run in a replay must not move. One for each lane:
        # which of several tools draws first is chance.
        return f"{lanes.SERVER} {call_context.path}"
    return lanes.find_lane(call_context).path


def find_call_site(name: str) -> str:
    """Return the function that called `uuid.NAME`, by module and qualified name; with NAME where that is not uuid4.

    Not its line: what stands above it changes more often than what the function is called.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals is not vars(uuid):
        frame = frame.f_back
    caller = None if frame is None else frame.f_back
    site = "" if caller is None else f"{caller.f_globals.get('__name__')}.{caller.f_code.co_qualname}"
    return site if name == "uuid4" else f"{site} {name}"


# What sees each id that no seeded run draws, with the function of `uuid`; and what gets an exception that this raises.
WATCHERS: list[tuple[Callable[[str, uuid.UUID], None], Callable[[Exception], None]]] = []

_users = 0
_codes: dict[FunctionType, CodeType] = {}


def redirect_ids() -> None:
    """Have the functions of `uuid` come here, also those that were imported by name, until all users have restored."""
    global _users  # noqa: PLW0603  of the process, as the functions are
    _users += 1
    for name, replacement in REPLACEMENTS.items() if _users == 1 else ():
        function = getattr(uuid, name, None)
        if name in ORIGINALS and isinstance(function, FunctionType) and not function.__code__.co_freevars:
            _codes[function] = function.__code__
            function.__code__ = replacement.__code__


def restore_ids() -> None:
    """Undo one `redirect_ids`."""
    global _users  # noqa: PLW0603  as in redirect_ids
    _users -= 1
    while not _users and _codes:
        function, code = _codes.popitem()
        function.__code__ = code


def draw_id(name: str, node: int | None = None, clock_seq: int | None = None) -> uuid.UUID:
    """What a function of `uuid` gives here."""
    if _active is not None and (source := find_source()) is not None:
        return source[0].take_recorded(source[1], name) or source[0].draw(name, source[1], node, clock_seq)
    drawn: uuid.UUID = ORIGINALS[name](node, clock_seq) if name in TIMED else ORIGINALS[name]()
    for note, report in WATCHERS:
        try:
            note(name, drawn)
        except Exception as error:
            report(error)
    return drawn


# The bodies that the functions of `uuid` get. They run among the globals of `uuid`, so each imports what it names.


def _uuid4() -> uuid.UUID:
    from pytest_agentreplay.intercept.environment import randomness  # noqa: PLW0406  see above

    return randomness.draw_id("uuid4")


def _uuid7() -> uuid.UUID:
    from pytest_agentreplay.intercept.environment import randomness  # noqa: PLW0406  see above

    return randomness.draw_id("uuid7")


def _uuid1(node: int | None = None, clock_seq: int | None = None) -> uuid.UUID:
    from pytest_agentreplay.intercept.environment import randomness  # noqa: PLW0406  see above

    return randomness.draw_id("uuid1", node, clock_seq)


def _uuid6(node: int | None = None, clock_seq: int | None = None) -> uuid.UUID:
    from pytest_agentreplay.intercept.environment import randomness  # noqa: PLW0406  see above

    return randomness.draw_id("uuid6", node, clock_seq)


REPLACEMENTS: dict[str, FunctionType] = {"uuid4": _uuid4, "uuid1": _uuid1, "uuid6": _uuid6, "uuid7": _uuid7}  # type: ignore[dict-item]
TIMED = frozenset({"uuid1", "uuid6"})
# The functions of `uuid` as they were when this module was loaded, under objects of their own.
ORIGINALS: dict[str, FunctionType] = {
    name: FunctionType(function.__code__, vars(uuid), name, function.__defaults__)
    for name in REPLACEMENTS
    if isinstance(function := getattr(uuid, name, None), FunctionType)
}


def _hash_parts(*parts: object) -> int:
    """128 bits from `parts`, the same on every Python and platform."""
    text = "\0".join(map(str, parts)).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=16).digest())


class Global:
    """The generator behind `numpy.random.rand` and its like, asked as the module `random` is."""

    def __init__(self, module: ModuleType) -> None:
        """`module` is `numpy.random`."""
        self._random = module

    def getstate(self) -> Any:
        """Where it stands; with the bit generator, which agents may exchange (from numpy 1.24 on)."""
        bits = getattr(self._random, "get_bit_generator", None)
        return bits and bits(), self._random.get_state(legacy=False)

    def setstate(self, state: Any) -> None:
        """Stand there again."""
        bits, numbers = state
        if bits is not None and bits is not self._random.get_bit_generator():
            self._random.set_bit_generator(bits)
        self._random.set_state(numbers)

    def seed(self, number: int) -> None:
        """Begin anew; 32 bits are what numpy takes at no cost."""
        self._random.seed(number & 0xFFFF_FFFF)


def patch(module: ModuleType) -> None:
    """Hold `numpy.random` in each run from now on."""
    source = module.bit_generator
    if not hasattr(source.randbits, "__wrapped__"):
        source.randbits = draw_in_runs(source.randbits)
    join("numpy", Global(module))


def draw_in_runs(randbits: Any) -> Any:
    """`randbits` of the operating system, but for a run that draws here."""

    @functools.wraps(randbits)
    def draw_bits(bits: int) -> int:
        source = find_source()
        if source is None or is_importing():
            return int(randbits(bits))
        return source[0].entropy(source[1])

    return draw_bits


def is_importing() -> bool:
    """Whether a module is being imported on this stack."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
