"""What an agent sends and throws into a generator tool is recorded and compared, and where it stops."""

import asyncio
from dataclasses import replace

import pytest

from pytest_agentreplay.snapshots import codec
from tests.ordering.driving import Stage


def till(start):
    total, got = start, None
    while True:
        try:
            got = yield total
        except ValueError:
            got = -1
        total += got or 0


async def atill(start):
    total = start
    while True:
        try:
            got = yield total
        except ValueError:
            got = -1
        total += got or 0


def few():
    yield from (1, 2, 3, 4, 5)


async def afew():
    for number in (1, 2, 3, 4, 5):
        yield number


async def astuck():
    yield 1
    await asyncio.Event().wait()


def sends(*values):
    """Send each value; an exception is thrown."""

    def act():
        made = till(100)
        next(made)
        for value in values:
            made.throw(value) if isinstance(value, Exception) else made.send(value)
        made.close()

    return act


def asends(*values):
    async def use():
        made = atill(100)
        await anext(made)
        for value in values:
            await (made.athrow(value) if isinstance(value, Exception) else made.asend(value))
        await made.aclose()

    return lambda: asyncio.run(use())


def takes(count):
    def act():
        made = few()
        for _ in range(count):
            next(made)
        made.close()

    return act


def atakes(count, how):
    async def use():
        made = afew()
        for _ in range(count - 1):
            await anext(made)
        async for _ in made:
            if how == "left":
                return made  # for the loop to close
            break
        if how == "aclose":
            await made.aclose()
        return None

    return lambda: asyncio.run(use())


async def gives_up():
    stuck = astuck()
    await anext(stuck)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(stuck), 0.05)


async def stops_before():
    stuck = astuck()
    await anext(stuck)
    await stuck.aclose()


@pytest.fixture
def stage(tmp_path):
    return Stage(tmp_path, tools=(till, atill, few, afew, astuck))


CLOSED = "closed after item 2; in the recording after 3 items"
ASKED = "item 4 was asked for; in the recording nobody went beyond 3"
HOWS = ("aclose", "break", "left")
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
LEFT, OTHER = ValueError("none left"), ValueError("another")
CHANGES = {
    "another value": (sends(1, 5), sends(999, 5), "AR-ARGS", "tool till"),
    "one value more": (sends(1, 5), sends(1, 5, 5), "AR-ARGS", "tool till"),
    "something instead of nothing": (sends(None), sends(7), "AR-ARGS", "tool till"),
    "another exception": (sends(LEFT), sends(OTHER), "AR-ARGS", "tool till"),
    "a value instead of an exception": (sends(LEFT), sends(-1), "AR-ARGS", "tool till"),
    "another value, async": (asends(1), asends(999), "AR-ARGS", "tool atill"),
    "another exception, async": (asends(LEFT), asends(OTHER), "AR-ARGS", "tool atill"),
    "closed early": (takes(3), takes(2), "AR-ARGS", f"tool few: {CLOSED}"),
    "closed late": (takes(3), takes(4), "AR-EXTRA", f"tool few: {ASKED}"),
    **{f"closed early, {how}": (atakes(3, how), atakes(2, how), "AR-ARGS", f"tool afew: {CLOSED}") for how in HOWS},
    **{f"closed late, {how}": (atakes(3, how), atakes(4, how), "AR-EXTRA", f"tool afew: {ASKED}") for how in HOWS},
}


@pytest.mark.parametrize(("recorded", "now", "code", "said"), CHANGES.values(), ids=CHANGES)
def test_what_is_sent_and_where_it_stops_is_compared(stage, recorded, now, code, said):
    stage.record(recorded)
    assert stage.replay(recorded).finding is None
    finding = stage.replay(now).finding
    assert finding.code == code
    assert said in finding.headline


def test_who_asks_for_an_item_that_never_comes_is_as_who_does_not_ask(stage):
    stage.record(lambda: asyncio.run(gives_up()))
    assert stage.replay(lambda: asyncio.run(gives_up())).finding is None
    assert stage.replay(lambda: asyncio.run(stops_before())).finding is None


def test_what_is_kept_holds_no_secret_and_older_recordings_replay_whatever_is_sent(stage):
    secret = ValueError(f"{TOKEN} is refused")
    stage.record(sends(1, 5, secret))
    assert stage.replay(sends(1, 5, secret)).finding is None
    (file,) = stage.root.rglob("*.snapshot.json")
    text = file.read_text(encoding="utf-8")
    assert TOKEN not in text
    run = codec.loads(text.encode(), file=str(file)).run
    (kept,) = run.exchanges
    assert kept.outcome.sent[:2] == ({"after": 1, "value": 1}, {"after": 2, "value": 5})
    older = replace(run, exchanges=(replace(kept, outcome=replace(kept.outcome, sent=None)),))
    file.write_text(codec.dumps(older), encoding="utf-8")
    assert stage.replay(sends(1, 999, secret)).finding is None
