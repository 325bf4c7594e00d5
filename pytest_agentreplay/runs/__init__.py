"""How one test is recorded, replayed, proved and reported; no pytest.

session_factory    decides how a test runs            run_session       what all sessions share
recording_session  everything runs, and is kept       session_tools     the tools of a session, and their names
replay_session     all answered from the snapshot     offline_session   what replays share; no usable snapshot
partial_replay     adopt, fork, other order, stop     replay_kit        what was around a run
session_children   the child processes, the gateway  child_session     a Python child, in its own process
fixture_handle     what the fixture gives to a test   late_calls        calls after the end of their test
accept             pending runs, journals, rules      unused_snapshots  snapshots without a test, renamed tests
snapshot_server    a snapshot for any process         snapshot_selection  what a command line means; mv
command            commands run to their end; the proof of new recordings
proof_conditions   why a recording does not replay    outside_causes    caches, edited prompts
inventory          what a project has recorded, an entry for each file
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.model.exchanges import JsonObject


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Return a block without the garbage collector.

    A snapshot is a hundred thousand objects that stay, and so are imported modules: it would look through them in vain.
    """
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()


def describe_failure(error: BaseException) -> JsonObject:
    """Return type and first line of an exception, as the header of a recording has them."""
    kind = type(error)
    return {
        "type": f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins."),
        "message": str(error).strip().partition("\n")[0],
    }
