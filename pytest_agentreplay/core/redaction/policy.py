"""A policy: what a project wants off its snapshots beyond the shipped rules. It adds and tunes, and removes nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_agentreplay.core.redaction.shapes import Shape
    from pytest_agentreplay.core.selector import Selector


@dataclass(frozen=True, slots=True)
class Policy:
    """What is added to the shipped rules; an empty policy is those alone.

    `pii` turns the shipped set of that name on, `strict` public addresses too. `shapes` are matched in texts, `paths`
    (a category and where) and `names` (lower case -> category) in JSON. `headers` are left out of what is stored,
    `keep_headers` are stored beyond the shipped list. The values of the variables `secret_environment` count as known;
    those of `environment` may be stored. `personal` are the categories whose placeholders match exactly, `placeholders`
    says by category what stands instead, `{n}` being the number. `digest` is that of the file, "" for none.
    """

    pii: bool = False
    strict: bool = False
    shapes: tuple[Shape, ...] = ()
    paths: tuple[tuple[str, Selector], ...] = ()
    names: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    headers: frozenset[str] = frozenset()
    keep_headers: frozenset[str] = frozenset()
    environment: tuple[str, ...] = ()
    secret_environment: tuple[str, ...] = ()
    personal: frozenset[str] = frozenset()
    placeholders: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    digest: str = ""


PLAIN = Policy()
