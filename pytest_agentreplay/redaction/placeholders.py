"""Placeholders: what stands instead of a value, numbered by first appearance, the same for the same value.

    [[redacted:key:1]]                       in general
    user1@redacted.invalid                   an e-mail address
    <header>.<payload>.redacted-jwt-1        a JSON web token: its own header; it expires in 2100 and holds what is kept
    cmVkYWN0ZWQ6MDAwMDAx                     what follows "Basic": redacted:000001

They are a fixed point: nothing is ever found inside one, so that redacting twice is redacting once and an agent may
send a placeholder back. Those of secrets match up to renaming; a recording names the variable of the environment that
held a value, so that a replay gives its value of today the same number. Those of personal values match exactly: a
recording keeps a tag of 16 bits with each, by which a replay knows a value again; one with another tag gets a number of
its own.
Of ten billion phone numbers 150,000 share a tag, so that a tag tells none of them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from itertools import count
from threading import RLock
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from pytest_agentreplay.redaction.encodings import as_bytes
from pytest_agentreplay.redaction.secret_names import is_stand_in

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from pytest_agentreplay.model.exchanges import Json, JsonObject

EXPIRES = 4102444800
"""The year 2100."""
PAYLOAD = r"eyJleHAiOjQxMDI0NDQ4MD[\w-]{2,4000}"
"""The base64 of an object that begins with that."""
_BASIC = base64.b64encode(b"redacted:").decode()
LONGEST_HEAD = 1000
"""Characters of a token's header that stay: where there is no bound, each of many beginnings is followed to the end."""
SHAPES = (
    r"\[\[redacted:(?P<category>[a-z][a-z0-9-]*):[0-9]+\]\]",
    rf"eyJ[\w-]{{0,{LONGEST_HEAD}}}\.{PAYLOAD}\.redacted-jwt-[0-9]+-?",
    rf"{_BASIC}[A-Za-z0-9+/]{{8}}",
)
"""The placeholders of secrets, as patterns of `re`."""
SIGNS = ("[[redacted:", ".redacted-jwt-", _BASIC)
"""One of these stands in every text that holds such a placeholder."""
MAIL = r"user[0-9]+@redacted\.invalid"
PLACEHOLDER = re.compile("|".join((*SHAPES, MAIL)).encode())
PLACEHOLDER_TEXT = re.compile("|".join(SHAPES).replace("(?P<category>", "(?:"))
_TOKEN = re.compile(r"\.redacted-jwt-([0-9]+)")
# `int` refuses more than 4,300 digits, and a file may hold any number.
LONGEST_NUMBER = 9
OPAQUE = "opaque"
"""The category of a body, or an archive in one, that cannot be read: it matches exactly, by its whole digest."""
_WHOLE = "\0sha256:"
DIGEST = "[[digest:"
"""Begins what is kept of a header whose value is not stored: sixteen bits of its digest."""
CREDENTIAL = "credential"
"""The category of what a header alone has carried: its placeholder says which of the run's credentials it is."""
CATEGORY_NAME = re.compile(r"[a-z][a-z0-9-]*\Z")


class Placeholders:
    """The placeholders of one run. Safe from any thread."""

    def __init__(
        self,
        personal: Collection[str] = (),
        texts: Mapping[str, str] = MappingProxyType({}),
        keep: Callable[[JsonObject], JsonObject] = lambda _: {},
    ) -> None:
        """`personal` are the categories that match exactly, `texts` a project's own placeholders, holding `{n}`.

        `keep` gives those claims of a token that may be kept, as they may be.
        """
        self._keep = keep
        self._personal = frozenset(personal)
        self._texts = dict(texts)
        self._shaped = self._personal | self._texts.keys() | {"jwt", "basic"}
        # Reentrant: formatting a token redacts its claims, which may need placeholders.
        self._lock = RLock()
        self._by_value: dict[tuple[str, str], bytes] = {}
        self._values: dict[str, list[str]] = {}
        self._categories: dict[bytes, str] = {}
        self._counters: dict[str, int] = {}
        self.count = 0
        """How many values have a placeholder so far."""
        self._recorded: dict[tuple[str, str], list[int]] = {}
        self.tags: dict[str, str] = {}
        self.claims: dict[str, Json] = {}
        """The names of the claims that went with a token: "jwt:1" -> ["sub"]."""
        self._variables: dict[str, str] = {}
        self._reserved: dict[tuple[str, str], int] = {}
        self.variables: dict[str, str] = {}
        """The variables of the environment whose values have got a placeholder: "key:1" -> "SHOP_KEY"."""
        own = (re.escape(text).replace(r"\{n\}", "[0-9]+") for text in self._texts.values())
        self.pattern = re.compile(b"|".join([*(text.encode() for text in own), PLACEHOLDER.pattern]))

    def recall(self, tags: Mapping[str, str]) -> None:
        """Know personal values of a recording again, by its `tags`: "email:1" -> "3fa9". Before any is given out."""
        for name, tag in tags.items():
            category, _, number = name.rpartition(":")
            if number.isdecimal() and len(number) <= LONGEST_NUMBER:  # a file says this, and files are anyone's
                self._recorded.setdefault((category, tag), []).append(int(number))
                self._counters[category] = max(self._counters.get(category, 0), int(number))

    def name(self, variables: Mapping[str, str]) -> None:
        """Know which variable of the environment holds a value. Before any placeholder is given out."""
        self._variables.update(variables)

    def reserve(self, recorded: Mapping[str, str]) -> frozenset[str]:
        """Return the value of a variable the number that a recording gave it, for those that have a value today.

        One alone keeps no number: there is no other to take it for.

        Args:
            recorded: The `variables` of the recording.

        Returns:
            The placeholders that are the same as in the recording.
        """
        today = {*self._variables.values()}
        reserved: dict[tuple[str, str], int] = {}
        for name, variable in recorded.items():
            category, _, number = name.rpartition(":")
            secret = bool(category) and category not in self._personal
            if secret and variable in today and number.isdecimal() and len(number) <= LONGEST_NUMBER:
                reserved.setdefault((category, variable), int(number))
        if len(reserved) < 2:
            return frozenset()
        self._reserved = reserved
        return frozenset(self._format_placeholder(category, number, "") for (category, _), number in reserved.items())

    def get_placeholder(self, category: str, value: str) -> bytes:
        """Return the placeholder of a value, numbered within its category when it first appears."""
        key = category, value
        with self._lock:
            if (placeholder := self._by_value.get(key)) is None:
                # A value that a header has carried is the same wherever it is seen next: in a reply, a body, a URL.
                if category not in self._shaped and (sent := self._by_value.get((CREDENTIAL, value))) is not None:
                    placeholder = sent
                else:
                    number = self._choose_number(category, value)
                    placeholder = self._format_placeholder(category, number, value).encode()
                    self._categories[placeholder] = category
                self._by_value[key] = placeholder
                self._values.setdefault(placeholder.decode(), []).append(value)
                self.count += 1
            return placeholder

    def find_placeholder(self, category: str, value: str) -> str | None:
        """Return the placeholder that a value has been given; None for none so far."""
        placeholder = self._by_value.get((category, value))
        return None if placeholder is None else placeholder.decode()

    def may_be_shared(self, placeholder: str) -> bool:
        """Return whether several keys of a recording may be one today: a variable of the environment, or a stand-in."""
        return any(value in self._variables for value in self._values.get(placeholder, ())) or self.is_stand_in(
            placeholder
        )

    def is_stand_in(self, placeholder: str) -> bool:
        """Return whether a placeholder stands for a dummy: a value that only says where a secret would be."""
        return any(is_stand_in(as_bytes(value)) for value in self._values.get(placeholder, ()))

    def category(self, placeholder: bytes) -> str | None:
        """Return of which category a placeholder is that this run has given; None for any other text."""
        return self._categories.get(placeholder)

    def is_given(self, placeholder: str) -> bool:
        """Return whether a placeholder stands for a value that this run itself has redacted."""
        return as_bytes(placeholder) in self._categories

    def has(self, value: str) -> bool:
        """Return whether `value` has been given a placeholder."""
        return any(other == value for _, other in [*self._by_value])

    def inside(self, text: bytes) -> list[tuple[int, int]]:
        """Return where placeholders stand in `text`."""
        return [match.span() for match in self.pattern.finditer(text)]

    def _choose_number(self, category: str, value: str) -> int:
        if category in self._personal:
            tag = tag_of(category, value)
            # Several values of a recording may share a tag: they are told apart by their order, and the last stays.
            recorded = self._recorded.get((category, tag)) or [self._find_next_number(category)]
            number = recorded.pop(0) if len(recorded) > 1 else recorded[0]
            self.tags[f"{category}:{number}"] = tag
            return number
        variable = self._variables.get(value, "")
        number = self._reserved.get((category, variable)) or self._find_next_number(category)
        if variable:
            self.variables[f"{category}:{number}"] = variable
        return number

    def _find_next_number(self, category: str) -> int:
        taken = {number for (of, _), number in self._reserved.items() if of == category}
        first = self._counters.get(category, 0) + 1
        self._counters[category] = next(number for number in count(first) if number not in taken)
        return self._counters[category]

    def _format_placeholder(self, category: str, number: int, value: str) -> str:
        if category in self._texts:
            return self._texts[category].replace("{n}", str(number))
        match category:
            case "email":
                return f"user{number}@redacted.invalid"
            case "jwt" if value.startswith("eyJ") and value.find(".") <= LONGEST_HEAD:
                claims = claims_of(value)
                kept = {"exp": EXPIRES} | self._keep(claims)
                self.claims[f"jwt:{number}"] = [*sorted(claims.keys() - kept.keys())]
                payload = (
                    base64.urlsafe_b64encode(json.dumps(kept, separators=(",", ":")).encode()).decode().rstrip("=")
                )
                text = f"{value.partition('.')[0]}.{payload}.redacted-jwt-{number}"
                return text if len(text.rpartition(".")[2]) % 4 != 1 else f"{text}-"  # no base64 has that length
            case "basic":  # a client decodes it, and splits it at the colon
                return base64.b64encode(f"redacted:{number:06}".encode()).decode()
            case _:
                return f"[[redacted:{category}:{number}]]"


def claims_of(token: str) -> JsonObject:
    """Return the claims of a JSON web token; none where it is encrypted."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


def claims_in(kit: Mapping[str, Json], text: str) -> dict[str, str]:
    """Return the claims that a recording took out of the tokens in a text, each with the name of its token."""
    notes = _get_notes(kit, "claims")
    tokens = dict.fromkeys(f"jwt:{number}" for number in _TOKEN.findall(text))
    return {str(claim): name for name in tokens for claim in cast("list[Json]", notes.get(name) or [])}


def tags_in(kit: Mapping[str, Json]) -> dict[str, str]:
    """Return the tags that a recording keeps in its kit."""
    return {name: str(tag) for name, tag in _get_notes(kit, "tags").items()}


def variables_in(kit: Mapping[str, Json]) -> dict[str, str]:
    """Return the variables that a recording names for its placeholders."""
    return {name: str(variable) for name, variable in _get_notes(kit, "variables").items()}


def _get_notes(kit: Mapping[str, Json], kind: str) -> JsonObject:
    """Return what a recording notes of its redactions by name; nothing where it holds no such table."""
    redactions = kit.get("redactions")
    notes = redactions.get(kind) if isinstance(redactions, dict) else None
    return notes if isinstance(notes, dict) else {}


def whole_digest(data: bytes) -> str:
    """Return what stands for a body that cannot be read; no other value of a policy's own category reads so."""
    return _WHOLE + hashlib.sha256(data).hexdigest()


def tag_of(category: str, value: str) -> str:
    """Return sixteen bits of a value's digest, in hex: too few to tell the value, enough to tell another one from it.

    Of a body that cannot be read, whose `value` is `whole_digest` of it, all of them: nobody guesses a body.
    """
    if category == OPAQUE and value.startswith(_WHOLE):
        return value.removeprefix(_WHOLE)
    return hashlib.sha256(f"agentreplay/tag/1\0{category}\0{value}".encode("utf-8", "surrogatepass")).hexdigest()[:4]


def describe_exchange(recorded: str, now: str) -> str:
    """Return which placeholder stands where another one stood, in two texts that are equal but for that; else ""."""
    if recorded == now or PLACEHOLDER_TEXT.sub("", recorded) != PLACEHOLDER_TEXT.sub("", now):
        return ""
    pairs = zip(PLACEHOLDER_TEXT.findall(recorded), PLACEHOLDER_TEXT.findall(now), strict=False)
    return next((describe_other(old, new) for old, new in pairs if old != new), "")


def describe_other(old: str, new: str) -> str:
    """Return what is reported where a placeholder stands for another one."""
    return f"{old} recorded, {new} now (another {'body, unread' if f':{OPAQUE}:' in new else 'token'})"
