"""Fixtures that are wider than a test, as a test that opted in needs them first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.plugin.keys import BASE, OPEN, PROVING, afterwards_of

if TYPE_CHECKING:
    from collections.abc import Generator

WIDE = (
    "It was asked for outside of the recording, by a fixture that is wider than the test: a recording is one test's.\n"
    "Let the test call the model, or its function-scoped fixture; or let the host pass: agentreplay_allow_hosts."
)


def set_up(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> Generator[None, Any, Any]:
    """Set up a wider fixture outside of the recording. pytest keeps a refusal for the tests that share the fixture."""
    config, item = request.config, request._pyfuncitem
    base = config.stash[BASE]
    recording = base.mode == "record" and not item.stash.get(PROVING, False)
    scene = config.stash.get(OPEN, None)
    if scene is not None:
        scene.pause()
    try:
        with afterwards_of(config).bystander("outside" if recording else "refused", allow=base.allow_hosts):
            return (yield)
    except ReplayDiverged as refused:
        error = pytest.fail.Exception(f"{refused}\n{WIDE}", pytrace=False)
        fixturedef.cached_result = (None, fixturedef.cache_key(request), (error, None))  # type: ignore[arg-type]
        raise error from None
    finally:
        if scene is not None:
            scene.resume()
