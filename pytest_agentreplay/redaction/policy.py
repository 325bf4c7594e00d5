"""A policy: what a project wants off its snapshots beyond the shipped rules. It adds and tunes, and removes nothing.

A shape is a category and a search over bytes for text that is a secret, or personal, by its looks alone. A redactor, a
function of a project's own that returns what of a text nobody else may read, becomes a shape, so that it is called
wherever shapes are searched. Where one raises, the whole text is replaced, and the run is not written, since nobody
knows what it would have found.

Compared with another, the weaker policy is that under which something is stored that the other redacts, or under which
a replay takes for the same what the other distinguishes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from difflib import SequenceMatcher
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from pytest_agentreplay.model.json_paths import Selector


@dataclass(frozen=True, slots=True)
class Policy:
    """What is added to the shipped rules; an empty policy is those alone.

    `pii` turns the shipped set of that name on, `strict` public addresses too. `shapes` are matched in texts, `paths`
    (a category and where) and `names` (lower case -> category) in JSON. `headers` are left out of what is stored,
    `keep_headers` are stored beyond the shipped list, `keep_claims` in the placeholder of a JSON web token. The values
    of the variables `secret_environment` count as known; those of `environment` may be stored. `personal` are the
    categories whose placeholders match exactly. `placeholders` says by category what stands instead, `{n}` being the
    number. `digest` is that of what is said, "" for nothing.
    `without` are categories whose shipped shapes are not looked for: no file says so, only code.
    """

    pii: bool = False
    strict: bool = False
    shapes: tuple[SecretShape, ...] = ()
    paths: tuple[tuple[str, Selector], ...] = ()
    names: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    headers: frozenset[str] = frozenset()
    keep_headers: frozenset[str] = frozenset()
    keep_claims: frozenset[str] = frozenset()
    environment: tuple[str, ...] = ()
    secret_environment: tuple[str, ...] = ()
    personal: frozenset[str] = frozenset()
    placeholders: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    digest: str = ""
    without: frozenset[str] = frozenset()


PLAIN = Policy()


def join_policies(*policies: Policy) -> Policy:
    """Return all of them at once. Of what two say of one name the first counts; leaving out wins over keeping."""
    stated = [policy for policy in policies if policy != PLAIN]
    if len(stated) <= 1:
        return stated[0] if stated else PLAIN
    joined: dict[str, Any] = {}
    for name in (each.name for each in fields(Policy)):
        values: list[Any] = [getattr(policy, name) for policy in stated]
        match values[0]:
            case bool():
                joined[name] = any(values)
            case tuple():
                joined[name] = tuple(dict.fromkeys(chain(*values)))
            case frozenset():
                joined[name] = frozenset[str]().union(*values)
            case str():
                joined[name] = join_digests(filter(None, values))
            case _:
                joined[name] = MappingProxyType({key: text for rows in reversed(values) for key, text in rows.items()})
    # Policies only add: none stores what another one leaves out.
    return Policy(**joined | {"keep_headers": joined["keep_headers"] - joined["headers"]})


def join_digests(digests: Iterable[str]) -> str:
    """Return the digest of several: their own, where there is one; "" for none."""
    distinct = [*dict.fromkeys(digests)]
    return hashlib.sha256("\n".join(distinct).encode()).hexdigest() if len(distinct) > 1 else "".join(distinct)


PERSONAL = frozenset(("email", "phone", "credit-card", "iban", "ssn", "national-id", "ip"))
"""The categories of what tells a person."""


class SecretShape(NamedTuple):
    """One kind of value: `find_spans` returns where it stands in a text, `regex` is what the policy file says of it."""

    category: str
    find_spans: Callable[[bytes], Iterable[tuple[int, int]]]
    regex: str = ""

    def find(self, data: bytes) -> Iterator[tuple[int, int, str]]:
        """Yield where values of this kind stand, each as (start, end, category)."""
        yield from ((start, end, self.category) for start, end in self.find_spans(data))


Redactor: TypeAlias = Callable[[str], "Iterable[tuple[int, int]] | str | None"]
"""Takes a text; returns (start, end) of what must go, or the text without it, or None where there is nothing."""

# difflib takes time by the square of what it compares: a quarter of a second for two texts of this size.
LARGEST_COMPARED = 4096


class RedactorSearch:
    """A redactor as the search of a shape. `broken` is the type of what it raised, "" as long as it never did."""

    def __init__(self, redactor: Redactor) -> None:
        """Begin unbroken."""
        self._redactor = redactor
        self.broken = ""

    def __call__(self, text: bytes) -> Iterator[tuple[int, int]]:
        """Return what the redactor finds; the whole text when it raises, or returns what is no answer."""
        # A redactor takes text, and what is stored are bytes, some of them no UTF-8.
        readable = text.decode(errors="surrogateescape")
        try:
            spans = read_spans(self._redactor(readable), readable)
        except Exception as error:  # whatever it is: the text of an error repeats what it was about
            self.broken = self.broken or type(error).__name__
            spans = [(0, len(readable))]
        return ((start, end) for start, end in list_byte_spans(readable, spans) if start < end)


def list_byte_spans(text: str, spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield where parts of a decoded text stand in its bytes; the parts are in order and apart."""
    if text.isascii():
        yield from spans
        return
    offset = at = 0
    for start, end in spans:
        begin = offset + len(text[at:start].encode(errors="surrogateescape"))
        offset, at = begin + len(text[start:end].encode(errors="surrogateescape")), end
        yield begin, offset


def make_shapes(redactors: Mapping[str, Redactor]) -> tuple[SecretShape, ...]:
    """Return the shapes of functions by category; new ones for each run, since they remember what went wrong."""
    return tuple(SecretShape(category, RedactorSearch(redactor)) for category, redactor in redactors.items())


def broken(shapes: Iterable[SecretShape]) -> dict[str, str]:
    """Return by category the type of what its redactor has raised."""
    return {shape.category: why for shape in shapes if (why := getattr(shape.find_spans, "broken", ""))}


def read_spans(answer: Iterable[tuple[int, int]] | str | None, text: str) -> list[tuple[int, int]]:
    """Return what a redactor answered, as places in `text` in order. Raises ValueError and its kin for what is none."""
    if answer is None:
        return []
    if isinstance(answer, str):
        return find_changes(text, answer)
    spans = sorted((int(start), int(end)) for start, end in answer)
    at = 0
    for start, end in spans:
        if not at <= start <= end <= len(text):
            msg = "spans lie in the text and do not overlap"
            raise ValueError(msg)
        at = end
    return spans


def find_changes(text: str, now: str) -> list[tuple[int, int]]:
    """Return what of `text` is no longer there in `now`."""
    if text == now:
        return []
    if len(text) > LARGEST_COMPARED or len(now) > LARGEST_COMPARED:
        return [(0, len(text))]
    steps = SequenceMatcher(None, text, now, autojunk=False).get_opcodes()
    return [(start, end) for what, start, end, *_ in steps if what in {"replace", "delete"}] or [(0, len(text))]


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
    """Yield everything that a policy says, key by key."""
    yield from (PolicyRule(word, "", about) for word, about in WORDS.items() if getattr(policy, word))
    for shape in policy.shapes:
        yield PolicyRule("patterns", shape.category, shape.regex)
    yield from (PolicyRule("paths", category, selector.text) for category, selector in policy.paths)
    yield from (PolicyRule("names", category, name) for name, category in policy.names.items())
    for key in ("headers", "keep_headers", "keep_claims", "environment", "secret_environment"):
        yield from (PolicyRule(key, "", name) for name in sorted(getattr(policy, key)))
    yield from (
        PolicyRule("secrets", category, "may be another one in a replay") for category in sorted(list_renamed(policy))
    )
    yield from (PolicyRule("placeholders", category, text) for category, text in policy.placeholders.items())


def list_renamed(policy: Policy) -> AbstractSet[str]:
    """Return the categories of a policy's own whose placeholders match up to renaming."""
    return categories(policy) - policy.personal


def categories(policy: Policy) -> AbstractSet[str]:
    """Return the categories that a policy's own rules find."""
    return {
        *(shape.category for shape in policy.shapes),
        *(category for category, _ in policy.paths),
        *policy.names.values(),
    }


def difference(policy: Policy, baseline: Policy) -> list[PolicyChange]:
    """Return what `policy` says otherwise than `baseline`: what is gone first, then what is added."""
    rules_here, rules_there = [*rules(policy)], [*rules(baseline)]
    gone = [rule for rule in rules_there if rule not in rules_here]
    new = [rule for rule in rules_here if rule not in rules_there]
    # Under another category the same value is still taken off.
    values = {(rule.key, rule.what) for rule in rules_here}
    lost = [rule for rule in gone if rule.key not in STORING | NEUTRAL and (rule.key, rule.what) not in values]
    return [
        *(PolicyChange(rule, added=False, weaker=rule in lost) for rule in gone),
        *(PolicyChange(rule, added=True, weaker=rule.key in STORING) for rule in new),
    ]
