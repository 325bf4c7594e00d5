"""What anyio and trio decide by chance or out of sight: functions in threads, and the order of tasks.

Plain functions that anyio runs in threads, in asyncio and in trio, are at work on their way there and back too. Its
threads wait for the next function as they wait for anything else, and outlive the test that first needed them. So it is
the function that is followed. What pydantic-ai, Starlette and the MCP SDK run in threads goes this way.

trio shuffles the tasks that are ready in one go, so that nobody relies on an order. A replay has to rely on one: while
a test is recorded or replayed, tasks that are ready together run in the order in which they were begun. trio can do so
itself (for Hypothesis); only its shuffling is left out.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.session import interceptions, lanes
from pytest_agentreplay.intercept.session.patching import wrap

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from pytest_agentreplay.intercept.session.patching import Seam


def patch(library: ModuleType) -> None:
    """Patch `trio._core._run`, or wrap `anyio.to_thread.run_sync`. Twice does nothing."""
    if library.__name__ == "trio._core._run":
        patch_trio(library)
    else:
        wrap(library, "run_sync", note_running)


def note_running(original: Seam) -> Seam:
    """`run_sync`, which tells where the function is."""

    async def run_sync(func: Callable[..., Any], *args: Any, **more: Any) -> Any:
        call_context = lanes.CALL_CONTEXT.get()
        if call_context is None:
            return await original(func, *args, **more)
        from pytest_agentreplay.intercept.session.courses import ANYHOW

        errand, handed, must_run = object(), call_context.interception.work.handed, True
        # Whoever awaits this waits for nothing else.
        stamped = lanes.begin(call_context, func, course=lanes.begin_course(call_context, ANYHOW))(func)

        def run(*args: Any) -> Any:
            with lanes.mark_working(call_context):
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


_SORTED = "_ALLOW_DETERMINISTIC_SCHEDULING"


class FixedBatchOrder(random.Random):
    """The random numbers of trio, which shuffle nothing in a test."""

    def shuffle(self, x: Any) -> None:
        """Leave the tasks as they are sorted, or throw."""
        if interceptions.find_interception() is None:
            super().shuffle(x)


def patch_trio(module: ModuleType) -> None:
    """Replace the shuffling of `trio._core._run`, where a version has it. Twice does nothing."""
    # trio 0.35: https://github.com/python-trio/trio/blob/main/src/trio/_core/_run.py
    if hasattr(module, _SORTED) and type(module._r) is random.Random:
        setattr(module, _SORTED, True)
        vars(module)["_r"] = FixedBatchOrder()
