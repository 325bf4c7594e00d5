"""The vocabulary: what can be said of a run, the same in both lists of a case and in `run.assert_*`.

    endings   status output error exchange no_secret_in_output     amounts    turns tokens cost duration
    calls     tool_called tool_not_called tool_failed forbidden_tools tool_order repeated_call
    identity  no_identity_but

A word takes what is wanted, as JSON, and the evidence. What is not there to be judged makes a word say nothing.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.cases.checks import calls, endings, identity
from pytest_agentreplay.cases.checks.values import AnswerCheck, unknown
from pytest_agentreplay.errors import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_agentreplay.cases.evidence import CaseEvidence

WORDS: dict[str, Callable[[Any, CaseEvidence], AnswerCheck]] = {
    "status": endings.status,
    "output": endings.output,
    "tool_called": calls.tool_called,
    "tool_not_called": calls.tool_not_called,
    "tool_failed": calls.tool_failed,
    "forbidden_tools": calls.forbidden_tools,
    "tool_order": calls.tool_order,
    "repeated_call": calls.repeated_call,
    "turns": endings.turns,
    "tokens": endings.tokens,
    "cost": endings.cost,
    "duration": endings.duration,
    "error": endings.error,
    "exchange": endings.exchange,
    "no_secret_in_output": endings.no_secret_in_output,
    "no_identity_but": identity.no_identity_but,
}
"""Every word, in the order in which documents name them."""
TOOL_WORDS = {"tool_called", "tool_not_called", "tool_failed", "forbidden_tools", "tool_order", "repeated_call"}
"""Words about the tools that were called, of which nobody can say anything where no calls were told."""
MODEL_WORDS = {"turns", "tokens", "cost"}
"""Words about the calls of the model, of which nobody can say anything where no run is known."""


def hold(word: str, wanted: Any, evidence: CaseEvidence) -> AnswerCheck:
    """Hold `evidence` against one word. Never raises for what a run holds: what cannot be looked at says nothing."""
    if word in TOOL_WORDS and "tool_calls" in evidence.unknown:
        return unknown("nobody told which tools were called")
    if word in MODEL_WORDS and evidence.run is None:
        return unknown("the model calls of this run are not known")
    try:
        held, lines = WORDS[word](wanted, evidence)
    except RecursionError:
        held, lines = unknown("the run holds values that are nested too deep")
    return AnswerCheck(held, tuple(map(visible, lines)))


def no_word(word: str, added: Iterable[str] = ()) -> str:
    """The message about a word that nobody knows."""
    close = get_close_matches(word, [*WORDS, *added], n=1)
    hint = f"did you mean {close[0]}?" if close else f"it is one of {', '.join([*WORDS, *added])}"
    return f"{word!r:.60} is no word of a check: {hint} (packages add words by pytest_agentreplay_assertions)"
