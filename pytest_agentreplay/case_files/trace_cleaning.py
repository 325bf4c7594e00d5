"""A trace file before anybody reads it: unpacked, and without what the rules find in it.

Everything else is made of what this gives, so that no datum has a way around it. What is left is still a trace file of
the same tool: headers lose their credentials, texts their secrets; ids and times, which resemble long numbers, stay.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_agentreplay.cases.case import SOURCE_TRACE
from pytest_agentreplay.core.redaction.encodings import DEEPEST
from pytest_agentreplay.core.redaction.headers import CREDENTIALS, NEVER, SESSIONS, hidden_in_traces, set_cookies
from pytest_agentreplay.errors import TraceError
from pytest_agentreplay.interchange.archives import packed
from pytest_agentreplay.interchange.opening import rows_of, text_of, unpacked
from pytest_agentreplay.redact.rule_review import in_text
from pytest_agentreplay.redact.trace_headers import edits, without_credentials

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.core.redaction import Redaction
    from pytest_agentreplay.redact.rule_review import RuleHit

_QUOTE = r"""(?<!\\)\\*["']"""  # from the first backslash of many, or each of them would be a beginning
_NAME = rf"(?:{_QUOTE})?(?P<name>[A-Za-z][A-Za-z0-9_-]*)(?:{_QUOTE})?"
_SCHEME = "(?:Bearer|Basic|Token|ApiKey) "
SCHEME = re.compile(_SCHEME, re.IGNORECASE)
PLACEHOLDER = re.compile(r"\[\[redacted:[a-z-]+:\d+\]\]")
_VALUE = rf"(?P<scheme>{_SCHEME})?(?P<value>[^\"'\\\n]+)"
HEADER = re.compile(
    rf"""(?P<before>{_QUOTE}name{_QUOTE}\s*:\s*{_NAME}\s*,\s*{_QUOTE}value{_QUOTE}\s*:\s*{_QUOTE}){_VALUE}(?={_QUOTE})""",
    re.IGNORECASE,
)
MEMBER = re.compile(
    rf"""(?P<before>{_QUOTE}(?P<name>[A-Za-z][A-Za-z0-9_-]*){_QUOTE}\s*:\s*(?:\[\s*)?{_QUOTE}){_VALUE}(?={_QUOTE})""",
    re.IGNORECASE,
)
LINE = re.compile(
    rf"""(?m)^(?P<before>[ \t-]*{_NAME}:(?![ \t]*[\[{{])[ \t]*(?:\n[ \t]*-[ \t]+)?(?:{_QUOTE})?)"""
    rf"""{_VALUE}(?={_QUOTE}|$)""",
    re.IGNORECASE,
)
"""A header as HAR has it, as a member of an object, as a line of YAML."""
NUMBER = re.compile(
    rf"""(?P<before>{_QUOTE}(?:\w*(?:time|nano|nanos|timestamp|_at|_ns|created|ended)|(?:parent_?)?(?:span|trace|run)_?id)"""
    rf"""{_QUOTE}\s*:\s*(?:{_QUOTE})?)(?P<digits>\d{{8,20}})(?=[^\d])""",
    re.IGNORECASE,
)
"""A time or an id that is all digits: a card or a telephone for all that a rule can see."""
NUMBER_BYTES = re.compile(NUMBER.pattern.encode(), re.IGNORECASE)
OPAQUE = "[[redacted:opaque:"
"""Stands for what redaction cannot see into."""
BARE = re.compile(r"(?m)^(?P<before>[ \t]*(?:- +)*(?:[^\s\"'#:]+: +)?)(?P<text>\[\[redacted:[^\n]*)$")


def cleaned(data: bytes, file: str, redaction: Redaction) -> tuple[bytes, bool]:
    """The bytes of a trace file without what the rules find, and whether these bytes may be kept.

    Nothing can be taken out of what is no text: it is read as it is, and not kept if anything is found in it. Raises
    TraceError for what cannot be opened.
    """
    data, held = unpacked(data, file=file)
    if held is None:
        return _member(data, redaction, file)
    members = {name: _member(member, redaction, f"{file}: {name}") for name, member in held.items()}
    return packed({name: data for name, (data, _) in members.items()}), all(fine for _, fine in members.values())


def _member(data: bytes, redaction: Redaction, file: str) -> tuple[bytes, bool]:
    text = text_of(data)
    if text is None:
        return data, not redaction.findings(data)
    kept = clean(text, redaction)
    if OPAQUE in kept and text[:1] in "{[" and torn(text, kept):
        msg = f"holds JSON in strings of JSON, more than {DEEPEST} times; redaction sees no deeper: unpack it first"
        raise TraceError(msg, file=file)
    return kept.encode(), True


def torn(before: str, after: str) -> bool:
    """Whether a text is JSON no more, or holds fewer rows of it."""
    (rows, _), (left, _) = rows_of(before), rows_of(after)
    return len(left or ()) != len(rows or ())


def clean(text: str, redaction: Redaction) -> str:
    """A text of JSON or YAML without what the rules find, and still JSON or YAML."""
    text = _Headers(redaction).out_of(text)
    held: list[str] = []
    mark = "zq"
    while mark in text:
        mark += "q"

    def hold(found: re.Match[str]) -> str:
        held.append(found["digits"])
        return f"{found['before']}{mark}"

    parts = redaction.text(NUMBER.sub(hold, text)).split(mark)
    text = "".join(part + digits for part, digits in zip(parts, [*held, ""], strict=True))
    return text if text[:1] in "{[" else BARE.sub(lambda found: f"{found['before']}'{found['text']}'", text)


def found_in(name: str, data: bytes, redaction: Redaction) -> list[RuleHit]:
    """What the rules find in a text file, by line and column: of a kept trace, in what cleaning it would change."""
    if not name.startswith(SOURCE_TRACE):
        return in_text(data, redaction)
    headers = list(_header_hits(data, redaction))
    data = NUMBER_BYTES.sub(lambda found: found["before"] + b"x" * len(found["digits"]), data)
    return in_text(data, redaction, headers)


def _header_hits(data: bytes, redaction: Redaction) -> Iterator[tuple[int, str]]:
    """(offset, category) of each credential in a header of a kept trace file."""
    if (text := text_of(data)) is None:
        return
    offset = at = 0
    for edit in edits(text, _Headers(redaction).stored):
        offset += len(text[at : edit.start].encode())
        at = edit.start
        yield offset, "header"


class _Headers:
    """What is stored of the credentials in headers, however short they are; each value has a number."""

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self._numbers: dict[str, int] = {}

    def out_of(self, text: str) -> str:
        """The text without them: first of its parsed data, then of texts in it that show headers."""
        text = without_credentials(text, self.stored)
        text = HEADER.sub(lambda found: self._instead(found, hidden_in_traces(found["name"].lower())), text)
        known = CREDENTIALS | NEVER | SESSIONS
        for pattern in (MEMBER, LINE):
            text = pattern.sub(lambda found: self._instead(found, found["name"].lower() in known), text)
        return text

    def stored(self, name: str, value: str) -> str:
        """What is stored of the value of the header `name`: its scheme, and a placeholder for the rest."""
        scheme = SCHEME.match(value)
        prefix = scheme[0] if scheme else ""
        rest = value[len(prefix) :]
        if not rest.strip() or PLACEHOLDER.fullmatch(rest):
            return value
        if name == "set-cookie":
            for session in set_cookies(((name, value),)):
                self._redaction.learn("cookie", session)
        else:
            self._redaction.headers(((name, value),))
        number = self._numbers.setdefault(rest, len(self._numbers) + 1)
        return f"{prefix}[[redacted:header:{number}]]"

    def _instead(self, found: re.Match[str], secret: bool) -> str:
        if not secret or "[[redacted:" in found["value"]:
            return found[0]
        return found["before"] + self.stored(found["name"].lower(), f"{found['scheme'] or ''}{found['value']}")
