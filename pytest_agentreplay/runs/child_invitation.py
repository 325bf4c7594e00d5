"""What the child processes of a test are told when they join, and how they do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept import registry
from pytest_agentreplay.intercept.process import child_start

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.core.model import JsonObject
    from pytest_agentreplay.intercept.process.child_start import Invitation
    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.intercept.tools.tool import Tool
    from pytest_agentreplay.runs.child_tools import ChildTool
    from pytest_agentreplay.settings import Settings


def greeting(
    settings: Settings, interception: Interception, kit: JsonObject, tools: Iterable[tuple[str, Tool]]
) -> dict[str, Any]:
    """What a child is told when it joins: what holds in the test, its tools by their import paths, and its codecs."""
    return {
        "site": TAKING.site,
        "root": interception.root,
        "clock": "stepped" if settings.clock == "virtual" else settings.clock,
        "zone": kit.get("zone") if settings.clock != "real" else None,
        "locale": kit.get("locale"),
        "order": settings.order,
        "waits": settings.waits,
        "tools": [*places(tools)],
        "codecs": [codec for codec in interception.tools.codecs if can_travel(codec)],
        "read_tools": settings.read_tools,
        "live": interception.tools.live,
        "changes": interception.scope.changes,
        "seams": dict(registry.ACTIVE_PATCHES),
        "allow_hosts": settings.allow_hosts,
        "allow_subprocess": settings.allow_subprocess,
    }


def places(tools: Iterable[tuple[str, Tool]]) -> Iterator[ChildTool]:
    """Where a child finds `tools`."""
    from pytest_agentreplay.runs.child_tools import find_child_tool

    for path, tool in tools:
        place = find_child_tool(path, tool)
        if place is not None:
            yield place


def can_travel(value: object) -> bool:
    """Whether `value` can be handed to another process."""
    from multiprocessing.reduction import ForkingPickler

    try:
        ForkingPickler.dumps(value)
    except Exception:
        return False  # a codec of lambdas stays here: what needs it is CannotFreeze in the child
    return True


def join(invitation: Invitation, main: str = "") -> None:
    """Join a run, in the child."""
    from pytest_agentreplay.runs.child_session import join

    join(invitation, main)


def job(invitation: Invitation | None) -> Any:
    """A block that works for the job of a pool, in the child."""
    from pytest_agentreplay.runs.child_session import job

    return job(invitation)


TAKING = child_start.ChildHandover(join, job, str(Path(__file__).parent / "child_site"))
"""By name and no more, so that the test's own process does not load what only children need."""
