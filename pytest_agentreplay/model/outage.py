"""Whether a run is one of its agent, or of an outage: no call of a model was answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.model.exchanges import Failure, FramesReply, HttpReply, ToolReply
from pytest_agentreplay.model.turns import is_model

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Outcome, Run
    from pytest_agentreplay.model.reading import Reader

REFUSED = frozenset({401, 402, 403, 407, 408, 429})
"""Statuses below 500 by which a service refuses whoever asks. Others (400, 404, 422) answer what was asked."""


def outage(run: Run, reader: Reader) -> str:
    """Why no model call of `run` was answered, by its last one; "" where one was, or where none was made."""
    reasons = [_unanswered(x.outcome) for x in run.exchanges if is_model(x.call, reader)]
    return reasons[-1] if reasons and all(reasons) else ""


def _unanswered(outcome: Outcome | None) -> str:
    """What came in the place of an answer; "" for an answer, a part of one, and a call that the agent gave up."""
    match outcome:
        case Failure():
            return "" if outcome.cancelled else _named(outcome)
        case HttpReply(status=status) if status >= 500 or status in REFUSED:
            return f"{status} {outcome.reason}".rstrip()
        case HttpReply(failure=Failure(cancelled=False) as failure) if not outcome.body.data:
            return _named(failure)
        case FramesReply(failure=Failure() as failure) if not outcome.body.data:
            return _named(failure)
        case ToolReply(failure=Failure() as failure) if not outcome.items:
            return _named(failure)
        case _:
            return ""


def _named(failure: Failure) -> str:
    name = failure.type.rpartition(".")[2]
    message = failure.message.strip().partition("\n")[0]
    return f"{name}: {message}" if message else name
