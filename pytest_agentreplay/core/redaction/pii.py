"""Personal values: what tells a person, by its looks."""

from __future__ import annotations

import re

PERSONAL = frozenset(("email", "phone", "credit-card", "iban", "ssn", "ip"))
_MAIL = re.compile(rb"[A-Za-z0-9._-]+@[A-Za-z0-9-]+\.[a-z]{2,}")


def find_pii(data: bytes) -> list[tuple[int, int, str]]:
    """Where e-mail addresses stand."""
    return [(*hit.span(), "email") for hit in _MAIL.finditer(data)]


def find_strict(data: bytes) -> list[tuple[int, int, str]]:  # noqa: ARG001  the signature of its neighbour
    """Where public addresses stand."""
    return []
