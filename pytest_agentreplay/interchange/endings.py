"""How a run ended, by the words that other tools have for it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from pytest_agentreplay.dialects.lenient import string

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Json
    from pytest_agentreplay.interchange.trace import TraceFault

_GOOD = frozenset({"ok", "success", "succeeded", "completed", "complete", "passed", "finished", "done"})
_BAD = frozenset({"error", "errored", "failed", "failure", "fail", "crashed", "timeout", "timed_out"})
_LIMIT = re.compile(
    r"max(?:imum)?[ _-]?(?:number of )?(?:turn|iteration|iter|step|round|tool[ _-]?call)s?"
    r"|(?:recursion|step|turn|iteration|message|token|time|usage|tool[ _-]?call)s?[ _-]?limit"
    r"|limit[ _-]?(?:was )?(?:exceeded|reached)|limit_?error|graph_?recursion",
    re.IGNORECASE,
)
_OF_PROVIDER = re.compile(
    r"rate[ _-]?limit|quota|too[ _-]?many[ _-]?requests|\b429\b|per[ _-](?:min|hour|day)", re.IGNORECASE
)
_READ = 1000
"""Characters of a message that are looked at."""


def word(status: Json) -> Literal["ok", "error", ""]:
    """A status as "ok", "error", or "" for any other."""
    said = string(status).strip().lower()
    return "ok" if said in _GOOD else "error" if said in _BAD else ""


def stopped_by(broke: TraceFault | None) -> str:
    """The class, or the words, of an error that says how far an agent may go; "" for any other error.

    What a provider allows in a minute is another thing.
    """
    said = f"{broke.type} {broke.message[:_READ]}" if broke is not None else ""
    if broke is None or _OF_PROVIDER.search(said) or not (found := _LIMIT.search(said)):
        return ""
    return broke.type.rpartition(".")[2] or found[0]
