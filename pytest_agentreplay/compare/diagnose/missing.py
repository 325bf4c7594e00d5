"""What is missing: the recorded calls that a test has ended without, and the credentials that it has not here.

Lanes that run beside each other have no first one between them: the headline is the call that is recorded first, and
what another lane leaves out by itself is told beside it.

SDKs ask the service of a cloud machine last, or a program such as `az`: a replay in which they do so has none.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.compare.diff.texts import shorten
from pytest_agentreplay.model.divergence import Divergence, Kind
from pytest_agentreplay.model.release_order import Precedence
from pytest_agentreplay.model.turns import top_level

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pytest_agentreplay.compare.diagnose.progress import ReplayProgress
    from pytest_agentreplay.model.exchanges import Exchange

NEXT = 120  # characters of the recorded call that was next


def explain_missing(progress: ReplayProgress, required: Collection[int] = ()) -> Divergence | None:
    """Return the recorded calls that were never made, now that the test has ended; None when there are none.

    Calls that the agent had given up, or that never ended, need not come again, except those of `required`.
    """
    left = [x for x in progress.find_unserved() if not x.abandoned or x.start in required]
    if not left:
        return None
    apart = _list_independent(progress, left)
    first, *others = [x for x in left if progress.name_lane(x) not in apart]
    elsewhere = [_explain_end(progress, theirs).also() for theirs in apart.values()]
    others_left = [f"not called either: {progress.name_turn(x)}, {progress.name(x.call)}" for x in others]
    return replace(_explain_end(progress, [first, *others]), detail=(*elsewhere, *others_left))


def explain_stop(progress: ReplayProgress) -> Divergence | None:
    """How far a test came that an error of its own has ended, and which recorded call was next; None: all were made."""
    left = [x for x in progress.find_unserved() if not x.abandoned]
    if not left:
        return None
    first, *others = left
    at = progress.make_divergence(
        Kind.MISSING,
        "",
        first,
        None,
        (),
        cause="the error of the test came first, and the recorded calls that are left may be missing because of it",
        detail=(f"{len(others)} more recorded call{'s' if len(others) > 1 else ''} not made",) if others else (),
    )
    so_far = _describe_progress(at, progress.is_model_call(first.call))
    return replace(at, summary=f"{so_far}: {shorten(progress.format_call(first.call), NEXT)}")


def _describe_progress(at: Divergence, begins_turn: bool) -> str:
    """Return the words before the call that was next: "stopped after turn 2 of 3; turn 3 would have been"."""
    whose = f" of {at.who}" if at.who else ""
    if at.turns == 0:
        stop = f"after call {at.position - 1}" if at.position > 1 else "before call 1"
        return f"stopped {stop} of {at.positions}; call {at.position} would have been"
    if not begins_turn:
        stop = f"in turn {at.turn}" if at.turn else "before turn 1"
        return f"stopped {stop} of {at.turns}{whose}; the next call would have been"
    stop = f"after turn {at.turn - 1}" if at.turn > 1 else "before turn 1"
    return f"stopped {stop} of {at.turns}{whose}; turn {at.turn} would have been"


def _explain_end(progress: ReplayProgress, left: Sequence[Exchange]) -> Divergence:
    """Return the divergence of a test that has ended without the calls `left`."""
    first, *others = left
    cause = "your code stopped earlier than it did when recorded: a changed condition, a caught error, a limit"
    if first.abandoned:
        cause = (
            "when recorded it was begun and then given up (a timeout, a cancelled task, the end of the run); "
            "your code does not begin it any more"
        )
    more = f", and {len(others)} more" if others else ""
    summary = f"the test ended, {progress.name(first.call)} was not called{more}"
    return progress.make_divergence(Kind.MISSING, summary, first, None, cause=cause)


def _list_independent(progress: ReplayProgress, left: Sequence[Exchange]) -> dict[str, list[Exchange]]:
    """What is missing in lanes other than the first one's, where nothing that is missing elsewhere comes before it."""
    theirs: dict[str, list[Exchange]] = {}
    for x in left:
        theirs.setdefault(progress.name_lane(x), []).append(x)
    if len(theirs) < 2:
        return {}
    kit = progress.run.header.kit
    order = Precedence(top_level(progress.run), kit.get("lanes"), kit.get("after"))
    missing = {x.start for x in left}
    others = list(theirs)[1:]
    return {
        lane: theirs[lane] for lane in others if missing.isdisjoint(x.start for x in order.binding(theirs[lane][0]))
    }


# https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html (ECS, EKS),
# https://github.com/googleapis/google-auth-library-python/blob/v2.40.0/google/auth/compute_engine/_metadata.py,
# https://github.com/Azure/azure-sdk-for-python/blob/main/sdk/identity/azure-identity/azure/identity/_credentials
_HERE = r"^https?://169\.254\.169\.254(?::80)?/"
_SIGNS = {
    "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, and record": r"/latest/[^\0]*/(federation|/sts)",
    "in CI set any AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY": rf"{_HERE}latest/|^https?://(?:169\.254\.170\.|\[fd00:ec2)"
    r"|botocore\.exceptions\.(?:NoCred|PartialCred|CredentialRetr|ProfileNot)|not resolve credentials from session",
    "record with AZURE_CLIENT_ID, AZURE_TENANT_ID and AZURE_CLIENT_SECRET set, and set the first two in CI": rf"{_HERE}"
    r"metadata/|//168\.63\.|azure\.\S*(Unavailable|Authentication)Error|process azd? |process sh (?s:.*)254/metadata/",
    "in CI set GOOGLE_APPLICATION_CREDENTIALS to a file of placeholders": rf"{_HERE}|^https?://metadata(?:\.google\.internal)?"
    r"[:/]|^\d+ child process gcloud |google\.auth\.exceptions\.DefaultCredentialsError",
}


def find_advice(sign: str, *urls: str) -> str:
    """Return what to do where `sign`, a URL, an error or a refused program, shows that credentials are missing.

    `urls` are those of the recorded run: one that fetched credentials needs others than one that had them from a file.
    """
    text = "\n".join((sign, *urls))
    return next((advice for advice, pattern in _SIGNS.items() if re.search(pattern, text)), "")
