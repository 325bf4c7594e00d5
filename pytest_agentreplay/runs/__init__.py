"""How one test is recorded, replayed, proved and reported; no pytest.

session_factory    decides how a test runs            run_session       what all sessions share
recording_session  everything runs, and is kept       session_tools     the tools of a session, and their names
replay_session     all answered from the snapshot     offline_session   what replays share; no usable snapshot
partial_replay     adopt, fork, another order         replay_kit        what was around a run
session_children   the child processes, the gateway  child_session     a Python child, in its own process
fixture_handle     what the fixture gives to a test   late_calls        calls after the end of their test
accept             pending runs, journals, rules      unused_snapshots  snapshots without a test, renamed tests
snapshot_server    a snapshot for any process         snapshot_selection  what a command line means; mv
command            commands run to their end; the proof of new recordings
proof_conditions   why a recording does not replay    outside_causes    caches, edited prompts
inventory          what a project has recorded, an entry for each file
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
