"""The last scan: no text is written that holds a secret. What leaks is cut out, and the rest is kept as pending."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.errors import Leak
from pytest_agentreplay.model.paths import quoted
from pytest_agentreplay.runs.redact.residual import cut
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.codec.styles import unwrapped

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Run
    from pytest_agentreplay.redaction.redaction import Redaction

CUT = "cut"
"""The key of a kit that lists what was cut out."""


def checked(redaction: Redaction, run: Run, file: str) -> str:
    """The text of `run`, after the last scan. Raises Leak, which names rules and places, and no value."""
    if failed := redaction.broken:
        rules = " and ".join(f"the redactor {rule} raised {error}" for rule, error in failed.items())
        raise Leak(f"{file}: not written, because {rules}: what it would have found is not known.")
    if redaction.touched:
        raise Leak(
            f"{file}: not written, because redaction has changed more than the secrets in {redaction.touched[0]}. "
            "This is a fault of ours: compare that text with what is kept, and report it."
        )
    text = codec.dumps(run)
    leaks = redaction.leaks(unwrapped(text).encode())
    if not leaks:
        return text
    if redaction.leaks(run.header.test.encode()):
        raise Leak(
            f"{file}: not written, because a known secret ({', '.join(leaks)}) would be in it, in the id of the test.\n"
            'Name the parameter: pytest.param(..., id="a-name"); or name the secret before tests are collected: '
            "pytest_agentreplay.secret(...)."
        )
    raise Leak(
        f"{file}: not written, because a known secret ({', '.join(leaks)}) would be in it, in an encoding that "
        f"redaction does not reach{told(cut(redaction, run)[1])}."
    )


def told(places: list[str]) -> str:
    """Where something was cut out, for people."""
    shown = "; ".join(places[:4]) + (f"; and {len(places) - 4} more" if len(places) > 4 else "")
    return f": {shown}" if places else ""


def next_step(pending: str) -> str:
    """What to do about a refused write whose rest is kept."""
    return (
        "Pass the value as it appears to agentreplay.secret(...) and record again, or take the rest:\n"
        f"agentreplay accept --recover --policy FILE {quoted(pending)}"
    )


def rest(redaction: Redaction, run: Run) -> str:
    """The text of what may be kept of a run that was refused, what was cut out listed in it; "" for nothing."""
    if redaction.leaks(run.header.test.encode()):
        return ""
    run, places = cut(redaction, run)
    places += [f"{rule}: the redactor raised {error}" for rule, error in redaction.broken.items()]
    text = codec.dumps(replace(run, header=replace(run.header, kit={**run.header.kit, CUT: [*places]})))
    return "" if redaction.leaks(unwrapped(text).encode()) else text
