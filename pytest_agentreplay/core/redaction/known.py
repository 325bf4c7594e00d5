"""Known values: the secrets of this run, found in every guise, each under one numbered placeholder.

`[[redacted:<category>:<n>]]` is a fixed point: nothing is ever found inside a placeholder, so that redacting twice
is redacting once and an agent may send a placeholder back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from pytest_agentreplay.core.redaction.encodings import secret_guises
from pytest_agentreplay.core.redaction.secret_names import worth_knowing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.core.redaction.spans import Span

PLACEHOLDER = re.compile(rb"\[\[redacted:[a-z][a-z0-9-]*:[0-9]+\]\]")
CATEGORY_NAME = re.compile(r"[a-z][a-z0-9-]*\Z")
LONG_LINE = 16
PAINT = re.compile(
    rb"(?:\x1b|\\u001[bB]|\\x1b)\[[0-9;]*[A-Za-z]|\xe2\x80[\x8b-\x8d]|\xef\xbb\xbf|\\u200[b-dB-D]|\\ufeff"
)


@dataclass(frozen=True, slots=True, eq=False)
class Secret:
    """One value to be kept out. Its repr tells nothing of it."""

    category: str
    value: str

    def __repr__(self) -> str:
        return f"Secret({self.category})"


class Known:
    """The secrets learned so far. `generation` grows with each; safe from any thread.

    `reach` is the length of the longest guise in bytes, `numeric` says whether a secret is a number.
    """

    def __init__(self) -> None:
        """Begin knowing nothing."""
        self.generation = 0
        self.reach = 0
        self.numeric = False
        self._lock = Lock()
        self._secrets: dict[str, Secret] = {}
        self._guises: dict[bytes, list[tuple[bytes, tuple[bytes, ...], Secret]]] = {}
        self._numbers: dict[tuple[str, str], bytes] = {}
        self._counters: dict[str, int] = {}

    def learn(self, category: str, value: str) -> bool:
        """Know `value` from now on; gives whether it is long and rare enough. The lines of a long value count too."""
        if not CATEGORY_NAME.match(category):
            raise ValueError("a category is named with lower-case letters, digits and -")
        value = value.strip()
        if not worth_knowing(value):
            return False
        if value in self._secrets:
            return True
        secret = Secret(category, value)
        parts = {value: None, value.replace("\r\n", "\n"): None, value.replace("\n", "\r\n"): None}
        lines = value.splitlines()
        if len(lines) > 1:
            parts.update((line, None) for line in lines if len(line) >= LONG_LINE and not line.startswith("-----"))
        with self._lock:
            if value not in self._secrets:
                guises = {sign: list(group) for sign, group in self._guises.items()}
                for guise in (guise for part in parts for guise in secret_guises(part)):
                    guises.setdefault(guise.sign, []).append((guise.gate, guise.needles, secret))
                    self.reach = max(self.reach, *map(len, guise.needles))
                self.numeric = self.numeric or value.isdigit()
                self._guises = guises
                self._secrets = {**self._secrets, value: secret}
                self.generation += 1
        return True

    def placeholder(self, category: str, value: str) -> bytes:
        """The placeholder of a value, numbered within its category when it first appears. `value` need not be known."""
        secret = self._secrets.get(value)
        key = (secret.category if secret is not None else category, value)
        with self._lock:
            if key not in self._numbers:
                number = self._counters[key[0]] = self._counters.get(key[0], 0) + 1
                self._numbers[key] = f"[[redacted:{key[0]}:{number}]]".encode()
            return self._numbers[key]

    def find(self, data: bytes) -> list[Span]:
        """Where known values stand, in order, with their placeholders; what overlaps is one span."""
        return [(start, end, self._instead(data, start, end, secret)) for start, end, secret in self._merged(data)]

    def categories_in(self, data: bytes) -> tuple[str, ...]:
        """The categories of the known values that `data` still holds, sorted; never the values."""
        return tuple(sorted({secret.category for _, _, secret in self._merged(data)}))

    def _instead(self, data: bytes, start: int, end: int, secret: Secret) -> bytes:
        text = self.placeholder(secret.category, secret.value)
        if secret.value.isdigit() and is_bare_number(data, start, end):
            return b'"' + text + b'"'
        return text

    def _merged(self, data: bytes) -> list[tuple[int, int, Secret]]:
        found = list(self._raw(data))
        if is_painted(data):
            found += self._unpainted(data)
        if not found:
            return []
        found.sort(key=lambda hit: (hit[0], -hit[1]))
        if b"[[redacted:" in data:
            ours = [hit.span() for hit in PLACEHOLDER.finditer(data)]
            found = [hit for hit in found if not any(start < hit[1] and hit[0] < end for start, end in ours)]
        merged: list[tuple[int, int, Secret]] = []
        for start, end, secret in found:
            if merged and start < merged[-1][1]:
                if end > merged[-1][1]:
                    merged[-1] = (merged[-1][0], end, merged[-1][2])
            else:
                merged.append((start, end, secret))
        return merged

    def _raw(self, data: bytes) -> Iterator[tuple[int, int, Secret]]:
        for sign, group in self._guises.items():
            if sign not in data:
                continue
            for _, needles, secret in [entry for entry in group if entry[0] in data]:
                for needle in needles:
                    at = data.find(needle)
                    while at >= 0:
                        yield at, at + len(needle), secret
                        at = data.find(needle, at + len(needle))

    def _unpainted(self, data: bytes) -> list[tuple[int, int, Secret]]:
        """Hits that colour codes or zero-width characters run through."""
        kept: list[bytes] = []
        origin: list[tuple[int, int]] = []
        at = size = 0
        for paint in PAINT.finditer(data):
            origin.append((size, at))
            kept.append(data[at : paint.start()])
            size += paint.start() - at
            at = paint.end()
        if not at:
            return []
        origin.append((size, at))
        kept.append(data[at:])

        def place(offset: int) -> int:
            begin, real = max(pair for pair in origin if pair[0] <= offset)
            return real + offset - begin

        return [(place(start), place(end - 1) + 1, secret) for start, end, secret in self._raw(b"".join(kept))]


def is_painted(data: bytes) -> bool:
    """Whether there may be colour codes or zero-width characters; a few scans, no regex."""
    if b"\x1b" in data or (b"\xe2" in data and b"\xe2\x80" in data):
        return True
    return b"\\" in data and (b"\\u001" in data or b"\\u200" in data or b"\\x1b" in data)


def is_bare_number(data: bytes, start: int, end: int) -> bool:
    """Whether the digits stand as a JSON number, so that what replaces them needs quotes of its own."""
    before, after = data[:start].rstrip()[-1:], data[end:].lstrip()[:1]
    return before in {b":", b"[", b","} and after in {b",", b"]", b"}"} and data.lstrip()[:1] in {b"{", b"["}
