"""A policy: what a project wants off its snapshots beyond the shipped rules. It adds and tunes, and removes nothing."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_agentreplay.core.redaction.shapes import SecretShape
    from pytest_agentreplay.core.selector import Selector


@dataclass(frozen=True, slots=True)
class Policy:
    """What is added to the shipped rules; an empty policy is those alone.

    `pii` turns the shipped set of that name on, `strict` public addresses too. `shapes` are matched in texts, `paths`
    (a category and where) and `names` (lower case -> category) in JSON. `headers` are left out of what is stored,
    `keep_headers` are stored beyond the shipped list. The values of the variables `secret_environment` count as known;
    those of `environment` may be stored. `personal` are the categories whose placeholders match exactly. `placeholders`
    says by category what stands instead, `{n}` being the number. `digest` is that of what is said, "" for nothing.
    `without` are categories whose shipped shapes are not looked for: no file says so, only code.
    """

    pii: bool = False
    strict: bool = False
    shapes: tuple[SecretShape, ...] = ()
    paths: tuple[tuple[str, Selector], ...] = ()
    names: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    headers: frozenset[str] = frozenset()
    keep_headers: frozenset[str] = frozenset()
    environment: tuple[str, ...] = ()
    secret_environment: tuple[str, ...] = ()
    personal: frozenset[str] = frozenset()
    placeholders: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    digest: str = ""
    without: frozenset[str] = frozenset()


PLAIN = Policy()


def joined(*policies: Policy) -> Policy:
    """All of them at once. Of what two say of one name the first counts; leaving out wins over keeping."""
    given = [policy for policy in policies if policy != PLAIN]
    if len(given) <= 1:
        return given[0] if given else PLAIN
    headers = frozenset[str]().union(*(policy.headers for policy in given))
    return Policy(
        pii=any(policy.pii for policy in given),
        strict=any(policy.strict for policy in given),
        shapes=tuple(shape for policy in given for shape in policy.shapes),
        paths=tuple(dict.fromkeys(path for policy in given for path in policy.paths)),
        names=MappingProxyType({name: kind for policy in reversed(given) for name, kind in policy.names.items()}),
        headers=headers,
        keep_headers=frozenset[str]().union(*(policy.keep_headers for policy in given)) - headers,
        environment=tuple(dict.fromkeys(name for policy in given for name in policy.environment)),
        secret_environment=tuple(dict.fromkeys(name for policy in given for name in policy.secret_environment)),
        personal=frozenset[str]().union(*(policy.personal for policy in given)),
        placeholders=MappingProxyType(
            {kind: text for policy in reversed(given) for kind, text in policy.placeholders.items()}
        ),
        without=frozenset[str]().union(*(policy.without for policy in given)),
        digest=joined_digest(policy.digest for policy in given if policy.digest),
    )


def joined_digest(digests: Iterable[str]) -> str:
    """The digest of several: their own, where there is one."""
    found = [*dict.fromkeys(digests)]
    return found[0] if len(found) == 1 else hashlib.sha256("\n".join(found).encode()).hexdigest() if found else ""
