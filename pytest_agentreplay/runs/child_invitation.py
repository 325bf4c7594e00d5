"""What the child processes of a test learn when they join, and how they do.

The process of the test loads this module too, so the session of a child is imported when it begins.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept import registry
from pytest_agentreplay.intercept.process import child_start
from pytest_agentreplay.runs.session_tools import find_child_tool

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.core.model import JsonObject
    from pytest_agentreplay.intercept.process.child_start import Invitation
    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.intercept.tools.tool import Tool
    from pytest_agentreplay.settings import Settings


def describe_run(
    settings: Settings, interception: Interception, kit: JsonObject, tools: Iterable[tuple[str, Tool]]
) -> dict[str, Any]:
    """Return what a child receives when it joins: what holds in the test, its tools by import path, its codecs."""
    return {
        "site": HANDOVER.site,
        "root": interception.root,
        "clock": "stepped" if settings.clock == "virtual" else settings.clock,
        "zone": kit.get("zone") if settings.clock != "real" else None,
        "locale": kit.get("locale"),
        "order": settings.order,
        "waits": settings.waits,
        "tools": [place for path, tool in tools if (place := find_child_tool(path, tool)) is not None],
        "codecs": [codec for codec in interception.tools.codecs if can_pickle(codec)],
        "read_tools": settings.read_tools,
        "live": interception.tools.live,
        "changes": interception.scope.changes,
        "seams": dict(registry.ACTIVE_PATCHES),
        "allow_hosts": settings.allow_hosts,
        "allow_subprocess": settings.allow_subprocess,
    }


def can_pickle(value: object) -> bool:
    """Return whether `value` can be passed to another process."""
    from multiprocessing.reduction import ForkingPickler

    try:
        ForkingPickler.dumps(value)
    except Exception:
        return False  # a codec of lambdas stays here: what needs it is CannotFreeze in the child
    return True


def join_run(invitation: Invitation, main: str = "") -> None:
    """Join a run, in the child."""
    from pytest_agentreplay.runs import child_session

    child_session.join_run(invitation, main)


def run_job(invitation: Invitation | None) -> Any:
    """Return a block that works for the job of a pool, in the child."""
    from pytest_agentreplay.runs import child_session

    return child_session.run_job(invitation)


HANDOVER = child_start.ChildHandover(join_run, run_job, str(Path(__file__).parent / "child_site"))
