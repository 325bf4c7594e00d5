"""How a run ended, by the words that other tools have for it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from pytest_agentreplay.dialects.loose import string

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Json
    from pytest_agentreplay.interchange.trace import Fault

_GOOD = frozenset({"ok", "success", "succeeded", "completed", "complete", "passed", "finished", "done"})
_BAD = frozenset({"error", "errored", "failed", "failure", "fail", "crashed", "timeout", "timed_out"})
_LIMIT = re.compile(
    r"max(?:imum)?[ _-]?(?:number of )?(?:turns|iterations?|steps|rounds|tool[ _-]?calls)"
    r"|(?:recursion|step|turn|iteration|message|token|time|tool call)[ _-]?limit|limit (?:was )?(?:exceeded|reached)"
    r"|LimitExceeded|TurnsExceeded",
    re.IGNORECASE,
)


def word(status: Json) -> Literal["ok", "error", ""]:
    """A status as "ok", "error", or "" for any other."""
    said = string(status).strip().lower()
    return "ok" if said in _GOOD else "error" if said in _BAD else ""


def stopped_by(broke: Fault | None) -> str:
    """The class or the words of an error by which an agent was stopped; "" for any other error."""
    if broke is None or not (found := _LIMIT.search(f"{broke.type} {broke.message}")):
        return ""
    return broke.type or found[0]
