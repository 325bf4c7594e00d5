"""Personal data that is known by its looks: the set of rules `pii`, and what `strict` adds to it.

Each finder looks at text that is decoded already (UTF-8) and gives where something personal stands. What is only a
number needs a check digit, a name before it or the signs of a telephone number: orders, versions, dates, ids stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.redaction.pii.emails import find_emails
from pytest_agentreplay.redaction.pii.ibans import find_ibans
from pytest_agentreplay.redaction.pii.national import NAMES
from pytest_agentreplay.redaction.pii.numbers import find_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.redaction.pii.hits import Hit


def find_pii(data: bytes) -> list[Hit]:
    """E-mail addresses, telephone and card numbers, IBANs and national ids, in order; no two overlap."""
    return in_order([*find_emails(data), *find_ibans(data), *find_numbers(data)])


def names_a_person(name: str) -> bool:
    """Whether a member of this name may hold a number that is personal only because of its name."""
    return NAMES.search(name.lower().encode("utf-8", "replace")) is not None


def in_order(hits: Iterable[Hit]) -> list[Hit]:
    """The hits by place; of two that overlap the one that begins first."""
    kept: list[Hit] = []
    for hit in sorted(hits):
        if not kept or hit[0] >= kept[-1][1]:
            kept.append(hit)
    return kept
