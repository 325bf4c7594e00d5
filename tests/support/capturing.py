"""A capture in the process of a test, and what it has taken: the keeper of the product writes files, this one a list."""

from __future__ import annotations

import sys
import types
from contextlib import contextmanager

from pytest_agentreplay import capture

NAME = "pytest_agentreplay.runs.capture.keeping"


@contextmanager
def started(*tools):
    """A block in which runs are captured; yields the list of those that have ended."""
    taken, before = [], sys.modules.get(NAME)
    module = sys.modules[NAME] = types.ModuleType(NAME)

    class Keeper:
        def __init__(self, store, **options):
            self.options = options

        def take(self, ended):
            taken.append(ended)

        def keep(self, run_id, reason):
            return run_id in {ended.id for ended in taken}

        def stats(self):
            return {"kept": len(taken)}

        def close(self, timeout):
            pass

    module.Keeper = Keeper
    try:
        capture.start("runs", tools=tools)
        yield taken
    finally:
        capture.stop()
        del sys.modules[NAME]
        if before is not None:
            sys.modules[NAME] = before


def asked(ended):
    """What the calls of a run asked, in order: paths of URLs and names of tools."""
    calls = [ended.calls[x.start].native for x in ended.exchanges]
    return [getattr(call, "name", "") or "/" + call.url.split("/", 3)[-1] for call in calls]


def answered(ended):
    """What came back, in order of the calls: bodies, values and failures."""
    return [_content(ended.outcomes[x.start].native) if x.start in ended.outcomes else None for x in ended.exchanges]


def _content(outcome):
    if hasattr(outcome, "body"):
        return outcome.body.data
    return getattr(outcome, "value", None) if hasattr(outcome, "items") else outcome.type
