"""Places: today's directories, host and user as marks, `{{tmp}}`, and marks as tomorrow's.

A snapshot is replayed in another checkout, by another user, in another temp directory. What is stored holds marks;
what is served holds the places of the machine it is served on. A mark names its guise where that is not the plain
one: `{{tmp:url}}` stood percent-encoded. A text that holds something that looks like a mark of ours gets one more
exclamation mark, so that every text comes back as it was.
"""

from __future__ import annotations

import re
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from pytest_agentreplay.redaction.encodings import DRIVE, SAFE_RUN, as_bytes, place_guises
from pytest_agentreplay.redaction.secret_names import names
from pytest_agentreplay.redaction.spans import merge_disjoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pytest_agentreplay.redaction.spans import Span

FOLDERS = ("root", "cwd", "tmp", "temp", "tempdir", "home")
KNOWN_NAMES = (*FOLDERS, *(kind + name for kind in ("real", "link") for name in FOLDERS), "host", "user")
# "/tmp" has four characters; two letters of a name stand in any text by chance.
SHORTEST_PATH = 4
SHORTEST_NAME = 3
COMMON_NAMES = names(
    "root admin administrator user users guest test tests tester dev developer runner runneradmin ubuntu debian app"
    " agent node main work build builder default docker vagrant jenkins github gitlab circleci travis azure codespace"
    " vscode nobody web www mail api host home server local localhost localdomain computer laptop desktop python"
)
UNESCAPED = re.compile(rb"[A-Za-z0-9_.-]+")
"""Stands in every guise as it is: neither JSON nor a URL escapes any of it."""
WORD = frozenset(bytes([byte]) for byte in b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
ESCAPE_BEFORE = re.compile(rb"(?:\\[nrtbf]|\\u[0-9A-Fa-f]{4}|%[0-9A-Fa-f]{2})\Z")
# Of a place in parts only the first is counted.
FIRST_PART = re.compile(rb"#0-[0-9]*")
ESCAPES = re.compile(rb"\\u[0-9A-Fa-f]{4}|\\.|%[0-9A-Fa-f]{2}", re.DOTALL)
MARK_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")


class Needle(NamedTuple):
    """One guise of one place, and the mark that stands for it. Where it stands, `backend` stands too."""

    name: str
    text: bytes
    mark: bytes
    backend: bytes


class Places:
    """Two-way marks for today's places, given as `{"tmp": "/tmp/pytest-1/x", "user": "ada", ...}`.

    A value with a slash or backslash is a directory and is matched as whole path components; any other is a name and is
    matched as a whole word. Too short, too common and brace-holding values are not marked. Marking is not idempotent
    (it protects what looks like a mark): it is done once per call. `reach` is the length in bytes of the longest
    guise. Safe from any thread.
    """

    def __init__(self, values: Mapping[str, str]) -> None:
        """Take the places by mark name ([a-z][a-z0-9_]*); where two are equal the first name wins."""
        self.counts: dict[str, int] = {}
        self._lock = Lock()
        self.take(values)

    def take(self, values: Mapping[str, str]) -> None:
        """Take `values` instead of the places so far: a test learns of its `tmp_path` while it is set up."""
        for name in values:
            if not MARK_NAME.match(name):
                msg = f"a place is named with lower-case letters, digits and _, not {name!r}"
                raise ValueError(msg)
        needles = needles_of(values)
        self.may_reach = max((len(needle.text) for needle in needles), default=0)
        self._gates = group_by_backend(needles)
        self._names = {needle.mark: needle.name for needle in needles}
        self._today = {name: place_guises(value) for name, value in values.items() if value}
        every = "|".join(sorted({*KNOWN_NAMES, *values}, key=len, reverse=True))
        self._marks = re.compile(
            rf"\{{\{{(!*)({every})(?::([a-z0-9-]+))?(?:#([0-9]{{1,4}})-([0-9]{{0,4}}))?\}}\}}".encode()
        )

    def marks_in(self, data: bytes) -> list[Span]:
        """Return where today's places stand in a text, and the marks to put there, in order."""
        literals: list[Span] = []
        if b"{{" in data:
            literals = [(hit.start(), hit.end(), b"{{!" + hit[0][2:]) for hit in self._marks.finditer(data)]
        needles: list[Needle] = []
        # A text without the longest plain run of a place holds none of its thirteen guises.
        for backend, group in self._gates:
            if backend in data:
                needles += group
        if not needles:
            return literals
        needles.sort(key=lambda needle: -len(needle.text))
        return merge_disjoint(literals, *(find_occurrences(data, needle) for needle in needles))

    def part(self, mark: bytes, start: int, end: int | None) -> bytes | None:
        """Return the mark of a part of a place, from byte `start` to `end` of it.

        None for what is no mark of a place.
        """
        if mark not in self._names:
            return None
        return b"%b#%d-%b}}" % (mark[:-2], start, b"" if end is None else b"%d" % end)

    def count(self, spans: Iterable[Span]) -> None:
        """Add the marks among `spans` to `counts`."""
        for _, _, text in spans:
            name = self._names.get(FIRST_PART.sub(b"", text) if b"#0-" in text else text)
            if name is not None:
                with self._lock:
                    self.counts[name] = self.counts.get(name, 0) + 1

    def places_in(self, data: bytes) -> list[Span]:
        """Return where marks stand in a text, and today's places to put there, in order."""
        if b"{{" not in data:
            return []
        spans: list[Span] = []
        for hit in self._marks.finditer(data):
            if hit[1]:
                spans.append((hit.start(1), hit.start(1) + 1, b""))
                continue
            text = self._today.get(hit[2].decode(), {}).get((hit[3] or b"").decode())
            if text is not None:
                place = as_bytes(text)
                if hit[4] is not None:
                    end = find_border(place, int(hit[5])) if hit[5] else len(place)
                    place = place[find_border(place, int(hit[4])) : end]
                spans.append((hit.start(), hit.end(), place))
        return spans


def find_border(place: bytes, at: int) -> int:
    """Return where `place` may be cut nearest before `at`: not within a character, nor within an escape."""
    at = min(at, len(place))
    while 0 < at < len(place) and place[at] & 0xC0 == 0x80:
        at -= 1
    return next((escape.start() for escape in ESCAPES.finditer(place) if escape.start() < at < escape.end()), at)


def needles_of(values: Mapping[str, str]) -> list[Needle]:
    """Return every guise of every place that can be marked."""
    first: dict[str, str] = {}
    for name, value in values.items():
        if is_markable(value):
            first.setdefault(value, name)
    return [needle for value, name in first.items() for needle in needles_for(name, value)]


@lru_cache(maxsize=128)
def needles_for(name: str, value: str) -> tuple[Needle, ...]:
    """Return every guise of one place. Remembered: all but the `tmp_path` of a test are the same in each test."""
    # The drive of Windows has another case in some programs.
    backend = max(UNESCAPED.findall(as_bytes(DRIVE.sub("", value))), key=len)
    forms = place_guises(value) if is_path(value) else {"": value}
    distinct = {form: guise for guise, form in reversed(list(forms.items()))}
    needles = []
    for form, guise in distinct.items():
        mark = f"{{{{{name}:{guise}}}}}" if guise else f"{{{{{name}}}}}"
        sign = backend.lower() if guise.startswith("lower") else backend
        needles.append(Needle(name, as_bytes(form), mark.encode(), sign))
    return tuple(needles)


def is_path(value: str) -> bool:
    """Return whether a value is matched as path components rather than as a word."""
    return "/" in value or "\\" in value


def is_markable(value: str) -> bool:
    """Return whether a value is long and rare enough to be told from chance, and cannot be taken for a mark."""
    if "{" in value or "}" in value or SAFE_RUN.search(as_bytes(value)) is None:
        return False
    if is_path(value):
        return len(value) >= SHORTEST_PATH
    return len(value) >= SHORTEST_NAME and value.lower() not in COMMON_NAMES and not value.isdigit()


def group_by_backend(needles: list[Needle]) -> list[tuple[bytes, tuple[Needle, ...]]]:
    """Return the needles by backend: one scan for it clears the whole group."""
    groups: dict[bytes, list[Needle]] = {}
    for needle in needles:
        groups.setdefault(needle.backend, []).append(needle)
    return [(backend, tuple(group)) for backend, group in groups.items()]


def find_occurrences(data: bytes, needle: Needle) -> Iterator[Span]:
    """Yield where a needle stands as whole components, or as a whole word."""
    text = needle.text
    at = data.find(text)
    while at >= 0:
        end = at + len(text)
        if is_free_before(data, at) and is_free_after(data, end):
            yield at, end, needle.mark
            at = data.find(text, end)
        else:
            at = data.find(text, at + 1)


def is_free_before(data: bytes, at: int) -> bool:
    r"""Return whether a component can begin at `at`: not inside a word, though an escape (\n, %20) may end there."""
    before = data[at - 1 : at] if at else b""
    if before in WORD:
        return ESCAPE_BEFORE.search(data, max(0, at - 6), at) is not None
    return before != b"."


def is_free_after(data: bytes, end: int) -> bool:
    """Return whether a component can end at `end`; a full stop ends one unless a word goes on after it."""
    after = data[end : end + 1]
    if after == b".":
        return data[end + 1 : end + 2] not in WORD
    return after not in WORD
