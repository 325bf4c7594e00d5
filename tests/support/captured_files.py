"""Captures in the process of a test that write real files, and what the files say."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import NamedTuple

from pytest_agentreplay import capture, clocks
from pytest_agentreplay.snapshots.store.reading import load


class Captured(NamedTuple):
    """One file: its folder, what the kit says, the calls by URL path or name, what models were asked."""

    name: str
    kit: dict
    outcome: dict
    calls: list[str]
    asked: list[str]
    lanes: list[str]

    @property
    def arguments(self):
        """The arguments of the input."""
        return self.kit["input"]["arguments"]

    @property
    def cold(self):
        """Why it cannot be replayed."""
        return self.kit["capture"].get("cold", "")


def read_store(folder):
    """Return what the files of a store say, in the order in which their runs began."""
    runs = [load(file).run for file in folder.glob("*/*/*.run.json")]
    runs.sort(key=lambda run: run.header.clock)
    return [_describe(run) for run in runs]


def _describe(run):
    kit, lanes = run.header.kit, [exchange.lane for exchange in run.exchanges]
    return Captured(kit["capture"]["name"], kit, run.header.outcome, _calls(run), _asked(run), lanes)


def _calls(run):
    calls = [exchange.call for exchange in run.exchanges]
    return [getattr(call, "name", "") or "/" + call.url.split("/", 3)[-1] for call in calls]


def _asked(run):
    """The last message of each request to a model, in order."""
    bodies = [json.loads(exchange.call.body.data) for exchange in run.exchanges if hasattr(exchange.call, "body")]
    return [body["messages"][-1]["content"] for body in bodies if "messages" in body]


@contextmanager
def capturing(folder, keep="all", **options):
    """A block that is captured into `folder`; yields a function that waits for `runs`, ends it and returns what was kept."""

    def finish(runs=0):
        deadline = clocks.monotonic() + 10
        while capture.stats()["captured"] < runs and clocks.monotonic() < deadline:
            clocks.sleep(0.01)
        capture.stop()
        return read_store(folder)

    capture.start(str(folder), keep=keep, **options)
    try:
        yield finish
    finally:
        capture.stop()
