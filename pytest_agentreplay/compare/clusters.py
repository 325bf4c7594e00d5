"""Which failures have one cause: the signature of a failure, and failures grouped by it.

Failures with the same signature are one cluster. Clusters of the same layer and target are merged where their words
are nearly the same; clusters of different layers never are.
"""

from __future__ import annotations

import re
from dataclasses import astuple, dataclass

from pytest_agentreplay.compare.diagnose.classify import mask_spans

SIMILAR = 0.8
"""The share of words that two signatures of one layer and target have in common, from which on they are merged."""

_WITH_DIGIT = re.compile(r"[\w.-]*\d(?:[\w.,-]*\w)?")
_QUOTED = re.compile(r"""(?<!\w)(?:'[^']*'|"[^"]*"|`[^`]*`)(?!\w)""")


def mask(message: str) -> str:
    """Return `message` with placeholders for what changes from run to run: ids, times, places, numbers, quoted texts.

    Masking a masked message changes nothing.
    """
    text, masked = "", " ".join(message.split())
    while masked != text:  # what is masked may have hidden the beginning of something else
        text, masked = masked, _QUOTED.sub("<text>", _WITH_DIGIT.sub("<id>", mask_spans(masked)))
    return text


@dataclass(frozen=True, slots=True, order=True)
class FailureSignature:
    """What failures of one cause have in common.

    `layer` and `code` are those of `divergence.Kind`, `role` is the agent's name, `target` the tool, model or endpoint,
    `path` the JSON path of what differs, its indexes as `[*]`, `exception` a class, `message` is masked.
    """

    layer: str
    code: str
    role: str = ""
    target: str = ""
    path: str = ""
    exception: str = ""
    message: str = ""

    def is_similar(self, other: FailureSignature) -> bool:
        """Return whether both name the same layer and target, and nearly the same words."""
        if (self.layer, self.target) != (other.layer, other.target):
            return False
        mine, others = ({*" ".join(astuple(each)).split()} for each in (self, other))
        return len(mine & others) >= SIMILAR * len(mine | others)


@dataclass(frozen=True, slots=True)
class RecordedFailure:
    """One failure: `file` as shown to people, its signature, and where in its run it is.

    `replays` says whether it can be replayed, `size` is that of its snapshot in bytes, `recorded` an ISO 8601 time.
    """

    file: str
    signature: FailureSignature
    replays: bool = True
    turn: int = 0
    lane: str = "main"
    size: int = 0
    recorded: str = ""


def group_failures(failures: list[RecordedFailure]) -> list[list[RecordedFailure]]:
    """Return the clusters of `failures`, the largest first.

    The first of a cluster is its representative, the one to fix the cause on; one of each other turn and lane follows.
    """
    clusters: dict[FailureSignature, list[RecordedFailure]] = {}
    for failure in sorted(failures, key=lambda each: each.signature):
        mine = failure.signature
        if mine not in clusters:
            mine = next((signature for signature in clusters if signature.is_similar(mine)), mine)
        clusters.setdefault(mine, []).append(failure)
    return sorted(map(_sort_failures, clusters.values()), key=lambda cluster: (-len(cluster), cluster[0].signature))


def _sort_failures(failures: list[RecordedFailure]) -> list[RecordedFailure]:
    """Sort failures: those that replay, early, small and old ones first, but one of each turn and lane before all."""
    easy = sorted(failures, key=lambda each: (not each.replays, each.turn, each.size, each.recorded, each.file))
    first = {(each.turn, each.lane): each for each in reversed(easy)}
    return sorted(easy, key=lambda each: each is not first[each.turn, each.lane])
