"""What one run has learnt: which values are secrets, which placeholder stands for each, and how often.

Text and headers of the run share it, so that a value that was seen once is replaced wherever it is seen next, by the
same placeholder. Safe from any thread.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.redaction.encodings import as_bytes
from pytest_agentreplay.redaction.known import Known, is_bare_number
from pytest_agentreplay.redaction.placeholders import CREDENTIAL, OPAQUE, Placeholders, tags_in, whole_digest
from pytest_agentreplay.redaction.policy import PERSONAL
from pytest_agentreplay.redaction.secret_names import CATEGORY, is_stand_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.redaction.detecting import Finding
    from pytest_agentreplay.redaction.policy import Policy
    from pytest_agentreplay.redaction.spans import Span

# A file of a thousand keys must not make every later search a thousand times as long.
LEARNT = 256
"""So many values that rules have found are known from then on; one more is only replaced where a rule finds it."""


class RunValues:
    """The known values of one run and their placeholders.

    Attributes:
        secrets: The values to keep out, found in every guise.
        placeholders: What stands instead of each value.
        personal: The categories of personal values, which are not known: a name or a number is many people's.
        hits: How many values were replaced, by category.
    """

    def __init__(self, policy: Policy, redact_claims: Callable[[JsonObject], JsonObject]) -> None:
        """`redact_claims` returns the claims of a token that the policy keeps as they may be stored."""
        self.secrets = Known()
        self.personal = PERSONAL | policy.personal
        self.placeholders = Placeholders(self.personal | {OPAQUE}, policy.placeholders, self._keep_claims)
        # The time of expiry is replaced by one that has not come, so that clients take the token in a replay.
        self._claims_to_keep = policy.keep_claims - {"exp"}
        self._redact_claims = redact_claims
        self._by_rule = 0
        self._sent: set[str] = set()
        self.hits: Counter[str] = Counter()
        self._kept_claims: Counter[str] = Counter()

    def learn(self, category: str, value: str) -> bool:
        """Keep `value` out from now on, and at the seal out of what came before. False: too short or too common."""
        return self.secrets.learn(category, value)

    def learn_sent(self, category: str, value: str) -> None:
        """Keep a value out that a header has carried as a credential."""
        self.secrets.learn(category, value)
        self._sent.add(value)

    def learn_findings(self, findings: Iterable[Finding]) -> bool:
        """Keep out what a rule has found; return whether something of it was not known before."""
        before = self.secrets.generation
        for finding in findings:
            if finding.by_rule and finding.category not in self.personal and self._by_rule < LEARNT:
                self.secrets.learn(finding.category, finding.value, finding.also)
        self._by_rule += self.secrets.generation - before
        return self.secrets.generation > before

    def recall(self, kit: Mapping[str, Json]) -> None:
        """Know the personal values and opaque bodies of a recording again, by its tags. Before anything is redacted."""
        self.placeholders.recall(tags_in(kit))

    def replace(self, category: str, value: str, *, learn: bool = True) -> str:
        """Return the placeholder of a value that is known from now on, and count it; a placeholder stays itself."""
        # An agent sends a placeholder of its recording back: it stays what it is.
        if self.placeholders.pattern.fullmatch(as_bytes(value)):
            return value
        if learn:
            self.secrets.learn(category, value)
        self.hits[category] += 1
        return self._placeholder(category, value).decode()

    def replace_opaque(self, data: bytes) -> bytes:
        """Return what stands for something that cannot be kept at all."""
        self.hits[OPAQUE] += 1
        return self.placeholders.get_placeholder(OPAQUE, whole_digest(data))

    def replace_finding(self, data: bytes, finding: Finding) -> Span:
        """Return what replaces a finding in `data`. It is not counted: not every span is put in."""
        text = self._placeholder(finding.category, finding.value)
        # JSON has no placeholder that is a number.
        quoted = finding.value.isdigit() and is_bare_number(data, finding.start, finding.end)
        return finding.start, finding.end, b'"' + text + b'"' if quoted else text

    def find_credential(self, value: str) -> str | None:
        """Return the placeholder that says which credential of the run a value is; None where that is not compared."""
        if self.placeholders.pattern.fullmatch(as_bytes(value)):
            return value
        if placeholder := self.placeholders.find_placeholder(self.secrets.category(value, CATEGORY), value):
            return placeholder
        # A stand-in says nothing; a JSON web token may be of the client's own make.
        if value not in self._sent or is_stand_in(as_bytes(value)) or value.startswith("eyJ"):
            return None
        return self.placeholders.get_placeholder(CREDENTIAL, value).decode()

    def count_values(self) -> int:
        """Return a number that grows with each value that becomes known or gets a placeholder."""
        return self.secrets.generation + self.placeholders.count

    def was_sent(self, value: str) -> bool:
        """Return whether a header has carried `value` as a credential, or it was replaced anywhere else."""
        return value in self._sent or self.placeholders.has(value)

    def is_part(self, text: bytes) -> bool:
        """Return whether a text is a part of a known value, as a list may hold it."""
        return any(text in secret.raw for secret in self.secrets.secrets)

    def count(self, spans: Iterable[Span]) -> None:
        """Count the placeholders among spans that were put in."""
        for _, _, text in spans:
            if (category := self.placeholders.category(text.strip(b'"'))) is not None:
                self.hits[category] += 1

    @property
    def notes(self) -> JsonObject:
        """What a replay needs to know of the placeholders: tags of personal values, variables, claims."""
        tables: dict[str, Mapping[str, Any]] = {
            "tags": self.placeholders.tags,
            "variables": self.placeholders.variables,
            "claims": self.placeholders.claims,
            "kept_claims": self._kept_claims,
        }
        return {name: dict(sorted(table.items())) for name, table in tables.items() if table}

    def _placeholder(self, category: str, value: str) -> bytes:
        return self.placeholders.get_placeholder(self.secrets.category(value, category), value)

    def _keep_claims(self, claims: JsonObject) -> JsonObject:
        """Return the claims of a token that the policy keeps, redacted as any other values."""
        kept = {name: value for name, value in claims.items() if name in self._claims_to_keep}
        self._kept_claims.update(kept.keys())
        return self._redact_claims(kept)
