"""Tokens whose identity is known: which of them a call sends is wiring, as with any id that a reply minted.

Placeholders of secrets match up to renaming, because the keys of a desk are not those of CI. Two kinds are known
again: a token that a reply holds, because a replay serves its placeholder, so the agent sends that very one or another;
and the value of a variable of the environment that the recording names and that has a value today.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_agentreplay.core.canonical_json import canonical
from pytest_agentreplay.core.model import FramesReply, HttpReply, ToolCall, ToolReply
from pytest_agentreplay.core.redaction.placeholders import SHAPES, SIGNS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_agentreplay.core.model import Call, Outcome

_PLACEHOLDER = re.compile("|".join(SHAPES).replace("(?P<category>", "(?:"))


class Tokens:
    """The placeholders that stand in the replies served so far; a reply is read when it first matters."""

    def __init__(self) -> None:
        """Begin without any."""
        self._unread: list[Outcome] = []
        self._found: set[str] = set()
        self._variables: frozenset[str] = frozenset()
        self._is_given: Callable[[str], bool] = lambda _: False

    def keep_apart(self, placeholders: frozenset[str], is_given: Callable[[str], bool]) -> None:
        """Know that these stand for the same variables of the environment as in the recording.

        `is_given` says that a placeholder stands for a value of today, whatever number a reply has for another one.
        """
        self._variables, self._is_given = placeholders, is_given

    def served(self, outcome: Outcome | None) -> None:
        """The agent has got this reply."""
        if outcome is not None:
            self._unread.append(outcome)

    def swapped(self, recorded: str, now: str) -> bool:
        """Whether one of two canonical texts, equal up to renaming, holds another token than the other."""
        if recorded == now:
            return False
        pairs = zip(_PLACEHOLDER.findall(recorded), _PLACEHOLDER.findall(now), strict=False)
        moved = [pair for pair in pairs if pair[0] != pair[1]]
        if any(old in self._variables and new in self._variables for old, new in moved):
            return True
        if moved:
            while self._unread:
                self._found.update(_PLACEHOLDER.findall(_text(self._unread.pop())))
        return any(old in self._found and new in self._found and not self._is_given(new) for old, new in moved)


def holds_placeholder(call: Call) -> bool:
    """Whether the placeholder of a secret stands in a call as it was sent: a few scans of its bytes."""
    text = canonical(call.tree) if isinstance(call, ToolCall) else f"{call.url}\n{call.body.data.decode('latin-1')}"
    return any(sign in text for sign in SIGNS)


def _text(outcome: Outcome) -> str:
    if isinstance(outcome, HttpReply | FramesReply):
        return outcome.body.data.decode("utf-8", "replace")
    if isinstance(outcome, ToolReply):
        return canonical([outcome.value, *(outcome.items or ())])
    return outcome.message
