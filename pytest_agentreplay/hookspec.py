"""The hooks that other plugins and conftest files may implement. Documentation only: nothing here runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pytest_agentreplay.core.redaction.policy import Redactor


@pytest.hookspec
def pytest_agentreplay_patches() -> dict[str, str]:  # type: ignore[empty-body]
    """Return the libraries that you patch: the module that stands for each -> the import path of your patch module.

    Called when a test is recorded or replayed, never at start. Your module is imported when its library is, and no
    sooner; it has `patch(library)`, which wraps functions of the loaded module for good and does nothing the second
    time. `pytest_agentreplay.plugins` has what such a module is made of.
    """


@pytest.hookspec
def pytest_agentreplay_seams() -> dict[str, str]:  # type: ignore[empty-body]
    """Return the same as `pytest_agentreplay_patches`: the hook's former name, which 0.2 will not have any more."""


@pytest.hookspec
def pytest_agentreplay_redactors() -> dict[str, Redactor | None]:  # type: ignore[empty-body]
    """Return functions that say where in a text something stands that nobody else may read, by category.

    `{"customer-number": find}`: `find(text)` gives (start, end) of each place, or the text without them, or None for
    nothing. `[[redacted:customer-number:1]]` stands there then, one number for one value. Called for each text of a run
    before it is stored, so let it be fast; from any thread. When it raises, the text goes whole and the run is not
    written.

    None in place of a function leaves the shipped shapes of a category out: `{"jwt": None}`. No file can say that.
    """


@pytest.hookspec
def pytest_agentreplay_runners() -> dict[str, Callable[..., Any]]:  # type: ignore[empty-body]
    """Return what runs the cases, by the key that a case has under `runner`: `{"refunds": shop.cases.run_refund}`.

    A runner is called with the messages of the case's input, or with its arguments by name. It runs today's agent and
    gives the final output, or a coroutine that does. Called when a case is run, never while it is collected; a conftest
    file counts for the cases below its folder.
    """


@pytest.hookspec
def pytest_agentreplay_assertions() -> dict[str, Callable[[Any, Any], object]]:  # type: ignore[empty-body]
    """Return words that cases may use beside the shipped ones: name -> function.

    `{"polite": check}` is `- polite: ...` in a `case.yaml`: `check(wanted, evidence)` gets what stands there, as JSON,
    and the evidence (`output`, `status`, `tool_calls`, `errors`, `seconds`, `run`). It gives True, False, a text (why
    it does not hold), or None: cannot say, which is no pass. When it raises, nobody can say either.
    """


@pytest.hookspec
def pytest_agentreplay_judge(case: Any, sentence: str, evidence: Any) -> bool | str | None:
    """Judge one check in words, such as "The answer says that the refund was not made".

    Give True, False, a text (why it does not hold), or None to leave it to the next judge. What no judge has said is
    counted as `needs human`. Judges are asked about `desired` alone, in the order of pytest's hooks.
    """
