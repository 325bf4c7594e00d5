"""Other tools in the process, known by the module that their code stands in.

Some close the network under a test: what they refuse is no answer of the world, and no snapshot keeps it. Some watch
the run and send what they saw from threads of their own: that is no part of the run, whether it arrives or not.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pytest_agentreplay.errors import CannotFreeze

if TYPE_CHECKING:
    from types import FrameType, TracebackType

# Package -> who it is to people, and how a recording gets past it.
CLOSERS = {
    "pytest_socket": ("pytest-socket", "record with --force-enable-socket, or with the model's host in --allow-hosts"),
    "pytest_recording": ("pytest-recording", "record without --block-network, or with the model's host allowed"),
}

# Module -> functions of it that a thread of its own begins with to send traces; "" stands for any.
SENDERS = {
    "agents.tracing.processors": frozenset({""}),
    "langsmith._internal._background_thread": frozenset({""}),
    "langsmith.client": frozenset({"_process_buffered_run_ops_batch", "_send_compressed_multipart_req"}),
    # It sends no traces: it asks again for the price list that the import of litellm has not got, in any later test.
    "litellm.litellm_core_utils.get_model_cost_map": frozenset({"_retry_remote_fetch_in_background"}),
    "opentelemetry.sdk._logs._internal": frozenset({""}),
    "opentelemetry.sdk._logs._internal.export": frozenset({""}),
    "opentelemetry.sdk._shared_internal": frozenset({""}),
    "opentelemetry.sdk.metrics._internal.export": frozenset({""}),
    "opentelemetry.sdk.trace.export": frozenset({""}),
    "posthog.consumer": frozenset({""}),
    "sentry_sdk.worker": frozenset({""}),
}

# Modules on the stack of a thread below the work that it was started for.
_BEGINNINGS = frozenset({"concurrent.futures.thread", "threading", "pytest_agentreplay.intercept.session.lanes"})


def describe_closed(error: BaseException) -> CannotFreeze | None:
    """Why the `error` of a call is not recorded: a tool of the tests has raised it. None for one of the world's."""
    module = _find_raising_module(error)
    closer = CLOSERS.get(module.partition(".")[0])
    if closer is None:
        return None
    who, instead = closer
    text = str(error).strip().partition("\n")[0]
    return CannotFreeze(f"{who} refused the call ({text}); {instead}", path="$", kind=type(error).__name__)


def is_sending_traces(frame: FrameType | None) -> bool:
    """Whether the thread that `frame` runs in was started to send traces, and for nothing else."""
    if SENDERS.keys().isdisjoint(sys.modules.keys()):  # of two views the shorter one is gone through
        return False
    work = ("", "")
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module not in _BEGINNINGS:
            work = (module, frame.f_code.co_name)
        frame = frame.f_back
    functions = SENDERS.get(work[0], frozenset())
    return "" in functions or work[1] in functions


def _find_raising_module(error: BaseException) -> str:
    """The module of the line that raised `error`, or what it was made of."""
    while error.__cause__ is not None:
        error = error.__cause__
    module, traceback = "", error.__traceback__
    while traceback is not None:
        module, traceback = _get_module(traceback), traceback.tb_next
    return module


def _get_module(traceback: TracebackType) -> str:
    return str(traceback.tb_frame.f_globals.get("__name__", ""))
