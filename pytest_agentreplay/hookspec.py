"""The hooks that other plugins and conftest files may implement. Documentation only: nothing here runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pytest_agentreplay.redaction.policy import Redactor


@pytest.hookspec
def pytest_agentreplay_patches() -> dict[str, str]:  # type: ignore[empty-body]
    """Return the libraries that you patch: the module that stands for each, and the import path of your patch module.

    Called when a test is recorded or replayed, never at start. Your module is imported when its library is, and no
    sooner; it has `patch(library)`, which wraps functions of the loaded module for good and does nothing the second
    time. `pytest_agentreplay.plugins` has what such a module is made of.
    """


@pytest.hookspec
def pytest_agentreplay_redactors() -> dict[str, Redactor | None]:  # type: ignore[empty-body]
    """Return functions that find text that nobody else may read, by category: `{"customer-number": find}`.

    `find(text)` returns (start, end) of each place, or the text without them, or None for nothing;
    `[[redacted:customer-number:1]]` is written there, one number for one value. Called for each text of a run before it
    is stored, from any thread, so let it be fast. When it raises, the whole text is redacted and the run is not
    written.

    None in place of a function leaves the shipped shapes of a category out: `{"jwt": None}`. No file can do that.
    """


@pytest.hookspec
def pytest_agentreplay_runners() -> dict[str, Callable[..., Any]]:  # type: ignore[empty-body]
    """Return what runs the cases, by the key that a case has under `runner`: `{"refunds": shop.cases.run_refund}`.

    A runner is called with the messages of the case's input, or with its arguments by name. It runs today's agent and
    returns the final output, or a coroutine that does. Called when a case is run, never while it is collected; a
    conftest file counts for the cases below its folder.
    """


@pytest.hookspec
def pytest_agentreplay_assertions() -> dict[str, Callable[[Any, Any], object]]:  # type: ignore[empty-body]
    """Return words that cases may use beside the shipped ones: `{"polite": check}` is `- polite: ...` in a `case.yaml`.

    `check(wanted, evidence)` gets the value in the file, as JSON, and the evidence (`output`, `status`, `tool_calls`,
    `errors`, `seconds`, `run`). It returns True, False, a text (why it does not hold), or None (cannot say, which is no
    pass). When it raises, that counts as None.
    """


@pytest.hookspec
def pytest_agentreplay_judge(case: Any, sentence: str, evidence: Any) -> bool | str | None:
    """Judge one check in words, such as "The answer says that the refund was not made".

    Judges are asked about `desired` alone, in the order of pytest's hooks.

    Args:
        case: The case.
        sentence: The check.
        evidence: What the run shows: `output`, `status`, `tool_calls`, `errors`, `seconds`, `run`.

    Returns:
        True, False, a text (why it does not hold), or None to leave it to the next judge. What no judge decides is
        counted.
    """
