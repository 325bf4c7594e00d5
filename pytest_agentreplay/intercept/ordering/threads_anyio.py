"""Plain functions that anyio runs in threads, in asyncio and in trio: on their way there and back they are at work too.

Its threads wait for the next function as they wait for anything else, and outlive the test that first needed them. So
it is the function that is followed. What pydantic-ai, Starlette and the MCP SDK run in threads goes this way.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.session import lanes
from pytest_agentreplay.intercept.session.patching import wrap

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from pytest_agentreplay.intercept.session.patching import Seam


def patch(library: ModuleType) -> None:
    """Wrap `anyio.to_thread.run_sync`. Twice does nothing."""
    wrap(library, "run_sync", running)


def running(original: Seam) -> Seam:
    """`run_sync`, which tells where the function is."""

    @functools.wraps(original)
    async def run_sync(func: Callable[..., Any], *args: Any, **more: Any) -> Any:
        call_context = lanes.CALL_CONTEXT.get()
        if call_context is None:
            return await original(func, *args, **more)
        from pytest_agentreplay.intercept.session.courses import ANYHOW

        errand, handed, must_run = object(), call_context.interception.work.handed, True
        # Whoever awaits this waits for nothing else.
        stamped = lanes.begin(call_context, func, course=lanes.course_of(call_context, ANYHOW))(func)

        def run(*args: Any) -> Any:
            with lanes.working(call_context):
                handed.discard(errand)
                try:
                    return stamped(*args)
                finally:
                    if must_run:
                        handed.add(errand)

        handed.add(errand)
        try:
            return await original(run, *args, **more)
        finally:
            must_run = False
            handed.discard(errand)

    return run_sync
