"""Our side, by the way that the plugin goes: settings, store, `runs.session_factory`, open, body, end. Only pytest is missing."""

from __future__ import annotations

import os
import weakref
from contextlib import contextmanager
from pathlib import Path

from pytest_agentreplay.intercept.environment.machine import find_places
from pytest_agentreplay.runs.run_session import EndedRun, Location
from pytest_agentreplay.runs.session_factory import begin_session
from pytest_agentreplay.settings import Settings
from pytest_agentreplay.snapshots.store.snapshots import Store

TEST = "tests/test_orders.py::test_conversation"
SECRETS = {
    "OPENAI_API_KEY": "sk-live-Zk3v9Qw7Lr2Xc8Tn5Bm1",
    "ANTHROPIC_API_KEY": "sk-ant-Kp4s8Vd2Hy6Wf0Jg3Ra9",
    "DATABASE_PASSWORD": "correct-horse-battery-staple",
    "GITHUB_TOKEN": "ghp_u7Nq2Ze5Ow8Ei1Ya4Sx6Dc9Fv3Gb0Hn",
}


def nobody_else():
    """What is known of other tests; only a snapshot that is missing asks."""
    raise AssertionError(TEST)


ENDED = weakref.WeakSet()
"""Run sessions that have ended."""


class Project:
    """A user's project in `root`, with one test that records or replays."""

    def __init__(self, root, **settings):
        self.root = Path(root)
        self.settings = settings
        self.environ = {"PATH": os.defpath, "LANG": "C.UTF-8"} | SECRETS

    def run_session(self, mode):
        """A scene, not yet open. The store is new each time, as in a new session."""
        store = Store(self.root)
        module = self.root / "tests/test_orders.py"
        marks = find_places(self.root, tmp=self.root / "tmp")
        place = Location(TEST, store.path_of(module, TEST), self.root, marks, self.environ)
        return begin_session(place, Settings(mode=mode, **self.settings), store, nobody_else)

    @property
    def snapshot(self):
        """The one snapshot."""
        return next(self.root.rglob("*.snapshot.json"))

    @contextmanager
    def body(self, mode):
        """The body of the test, with its scene opened before and ended after; a finding is a failed benchmark."""
        run_session = self.run_session(mode)
        run_session.open()
        run_session.enter_body()
        try:
            yield run_session
        except BaseException:
            run_session.leave_body()
            run_session.close()
            raise
        end(run_session)

    def recording(self):
        """The body of a test that is recorded."""
        return self.body("record")

    def record(self, script):
        """Record `script`; gives the size of the snapshot."""
        script.world.rewind()
        with self.body("record"):
            script.run()
        return self.snapshot.stat().st_size


def end(run_session):
    """Leave the body and end the test; a second time does nothing."""
    if run_session not in ENDED:
        run_session.leave_body()
        finding = run_session.end_body(EndedRun()) or run_session.end()
        assert finding is None, finding
        ENDED.add(run_session)
