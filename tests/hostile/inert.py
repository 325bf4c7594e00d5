"""Takes one text through a recorded run, in a process that may open, dial, start and import nothing more."""

from __future__ import annotations

import json
import sys

from making import run_of
from shown import of_the_printers

from pytest_agentreplay.backends.backend import Moment, Replayed
from pytest_agentreplay.backends.replay import ReplayBackend
from pytest_agentreplay.compare.align import divergences
from pytest_agentreplay.compare.matching import Matching
from pytest_agentreplay.providers import READER, RULES
from pytest_agentreplay.snapshots import codec

DENIED = (
    "socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.fork", "pty.", "ctypes.", "import",
    "open",
)  # fmt: skip


def closed(event: str, arguments: tuple[object, ...]) -> None:
    if ARMED and event.startswith(DENIED):
        SEEN.append(f"{event} {arguments!r:.200}")


def through(text: str) -> None:
    run = run_of(text)
    back = codec.loads(codec.dumps(run), file="f").run
    assert back == run
    for now, then in zip(back.exchanges, run.exchanges, strict=True):
        assert getattr(now.call, "body", now.call) == getattr(then.call, "body", then.call)
        assert now.outcome == then.outcome
    assert not divergences(run, back, READER, matching=Matching(READER, RULES))
    replayer = ReplayBackend(back, Matching(READER, RULES), READER)
    for x in run.exchanges:
        answer = replayer.decide(x.call, Moment(x.lane, 0))
        assert isinstance(answer, Replayed), answer
        assert answer.exchange.outcome == x.outcome
    for _ in of_the_printers(back):
        pass


ARMED: list[bool] = []
SEEN: list[str] = []
text = json.load(sys.stdin)
through("wärm 字 " * 30)  # whatever is imported when it is first needed
sys.addaudithook(closed)
ARMED.append(True)
through(text)
ARMED.clear()
print("\n".join(SEEN) or "inert")
