"""Values that somebody names as secrets outside of a test's own fixture: in a conftest, a wider fixture, the agent.

They hold for the whole process: for the run that is open, its past included, and for every one that comes.
"""

from __future__ import annotations

from pytest_agentreplay.core.redaction.secret_names import CATEGORY
from pytest_agentreplay.intercept.session.interceptions import current

_named: dict[str, None] = {}


def secret(value: str) -> str:
    """Never write `value`, in any encoding, in this test and in all others; gives it back. Safe from any thread.

    What was recorded before is redacted again when the run is sealed. Less than 8 characters are too short to be told
    from other text, and are left as they are.
    """
    _named[value] = None
    if (interception := current()) is not None:
        interception.redactor.learn(CATEGORY, value)
    return value


def named() -> list[str]:
    """What has been named so far."""
    return list(_named)
