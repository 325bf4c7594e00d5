"""What one policy says otherwise than another, and whether it is the weaker one.

Weaker is a policy under which something is stored that the other takes off, or under which a replay takes for the same
what the other tells apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from pytest_agentreplay.redaction.policy import Policy

WORDS = {"pii": "e-mails, phone numbers, cards, IBANs and national ids", "strict": "public addresses"}


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One thing that a policy says: under which key, of which category ("" for none), and what."""

    key: str
    category: str
    what: str

    def __str__(self) -> str:
        return f"{self.key}: {f'{self.category} ' if self.category else ''}{self.what}"


STORING = frozenset({"keep_headers", "keep_claims", "environment", "secrets"})
"""Keys that have more stored, or told apart less, the more they say; all others take more off."""
NEUTRAL = frozenset({"placeholders"})


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """A rule that is there (`added`) or gone, and whether the policy is weaker for it."""

    rule: PolicyRule
    added: bool
    weaker: bool


def rules(policy: Policy) -> Iterator[PolicyRule]:
    """Everything that a policy says, key by key."""
    yield from (PolicyRule(word, "", about) for word, about in WORDS.items() if getattr(policy, word))
    for shape in policy.shapes:
        yield PolicyRule("patterns", shape.category, str(getattr(shape.pattern, "regex", "")))
    yield from (PolicyRule("paths", category, selector.text) for category, selector in policy.paths)
    yield from (PolicyRule("names", category, name) for name, category in policy.names.items())
    for key in ("headers", "keep_headers", "keep_claims", "environment", "secret_environment"):
        yield from (PolicyRule(key, "", name) for name in sorted(getattr(policy, key)))
    yield from (
        PolicyRule("secrets", category, "may be another one in a replay") for category in sorted(renamed(policy))
    )
    yield from (PolicyRule("placeholders", category, text) for category, text in policy.placeholders.items())


def renamed(policy: Policy) -> AbstractSet[str]:
    """The categories of a policy's own whose placeholders match up to renaming."""
    return categories(policy) - policy.personal


def categories(policy: Policy) -> AbstractSet[str]:
    """The categories that a policy's own rules find."""
    return {
        *(shape.category for shape in policy.shapes),
        *(category for category, _ in policy.paths),
        *policy.names.values(),
    }


def difference(policy: Policy, baseline: Policy) -> list[PolicyChange]:
    """What `policy` says otherwise than `baseline`: what is gone first, then what is added."""
    here, there = [*rules(policy)], [*rules(baseline)]
    gone = [rule for rule in there if rule not in here]
    new = [rule for rule in here if rule not in there]
    # Under another category the same value is still taken off.
    found = {(rule.key, rule.what) for rule in here}
    lost = [rule for rule in gone if rule.key not in STORING | NEUTRAL and (rule.key, rule.what) not in found]
    return [
        *(PolicyChange(rule, added=False, weaker=rule in lost) for rule in gone),
        *(PolicyChange(rule, added=True, weaker=rule.key in STORING) for rule in new),
    ]
