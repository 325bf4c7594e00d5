"""The word about secrets: none in the output, neither a plain one nor the mark of one that was taken off."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.cases.checks.answers import HOLDS, AnswerCheck, fails, unknown
from pytest_agentreplay.cases.checks.endings import is_something
from pytest_agentreplay.cases.checks.values import texts
from pytest_agentreplay.core.redaction.detecting import Detector
from pytest_agentreplay.core.redaction.known import Known
from pytest_agentreplay.core.redaction.placeholders import Placeholders
from pytest_agentreplay.core.redaction.policy import PERSONAL, PLAIN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.cases.evidence import CaseEvidence


def no_secret_in_output(wanted: Any, evidence: CaseEvidence) -> AnswerCheck:  # noqa: ARG001  true is all that can be wanted
    """No key, token, password or the like stands in the output."""
    if not is_something(evidence.output) or "output" in evidence.unknown:
        return unknown("there is no output")
    found = sorted(set(secrets_in(evidence.output)))
    if not found:
        return HOLDS
    return fails("a secret stands in the output", "none", f"one of category {', '.join(found)}")


def secrets_in(value: Any) -> Iterator[str]:
    """The categories of the secrets in a value; a secret is never told."""
    for text in texts(value):
        data = text.encode("utf-8", "surrogatepass")
        yield from (hit.category for hit in detector().all(data))
        for start, end in marks().inside(data):
            category = data[start:end].removeprefix(b"[[redacted:").partition(b":")[0].decode()
            if category not in PERSONAL and b"@redacted.invalid" not in data[start:end]:
                yield category if data[start : start + 11] == b"[[redacted:" else "token"


@functools.cache
def marks() -> Placeholders:
    """The forms of what stands instead of a secret."""
    return Placeholders()


@functools.cache
def detector() -> Detector:
    """The shipped rules, with no value known."""
    return Detector(PLAIN, Known(), marks())
