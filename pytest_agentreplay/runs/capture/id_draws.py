"""The ids that a captured run draws from `uuid`, noted by lane and call site; the service gets them unchanged.

A replay serves them again (`RandomSource.serve_ids`). What is drawn inside an exchange, an SDK's own, is not noted: a
replay does not make it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.intercept.environment import randomness
from pytest_agentreplay.intercept.session import lanes
from pytest_agentreplay.runs.capture import fail_open

if TYPE_CHECKING:
    import uuid

MOST = 1_000
"""Ids that are noted of one run, 40 kB in memory; of those that follow, how many there were."""
DROPPED = "dropped"


def start() -> None:
    """Note draws from here on."""
    randomness.redirect_ids()
    randomness.WATCHERS.append((note_id, fail_open.note_fault))


def stop() -> None:
    """Leave the functions of `uuid` as `start` found them. A second call does nothing."""
    while randomness.WATCHERS:
        randomness.WATCHERS.pop()
        randomness.restore_ids()


def note_id(name: str, drawn: uuid.UUID) -> None:
    """Note an id that the function `name` of `uuid` has given to the run that runs here, if any."""
    call_context = lanes.CALL_CONTEXT.get()
    draws = None if call_context is None else getattr(call_context.interception, "draws", None)
    if call_context is None or draws is None or (lane := randomness.find_drawing_lane(call_context)) is None:
        return
    if DROPPED in draws or sum(len(ids) for sites in [*draws.values()] for ids in [*sites.values()]) >= MOST:
        draws[DROPPED] = draws.get(DROPPED, 0) + 1
        return
    draws.setdefault(lane, {}).setdefault(randomness.find_call_site(name), []).append(drawn.hex)
