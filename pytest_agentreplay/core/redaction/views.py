r"""Views: a text as it reads once JSON, a URL, HTML or a terminal has been undone, with the way back to the bytes.

What stands in a body may be a JSON string that holds a JSON string that holds a URL. What is found in a view is carried
back to the bytes that spell it (`View.back`). A layer of backslashes halves them, so there are few (`below`); one
spelled in \u005c could go on for ever, and is cut off (`DEEPEST`).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote_to_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEEPEST = 8
TWICE = 2

_SHORT = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f"}
_PLAIN = {b"\\" + letter: text for letter, text in _SHORT.items()} | {b"\\" + mark: mark for mark in (b'"', b"/", b"'")}
_UNITS = re.compile(rb"\\u[dD][89abAB][0-9A-Fa-f]{2}\\u[dD][c-fC-F][0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}")
_ESCAPE = re.compile(_UNITS.pattern + rb"|\\[\\\"/'ntrbf]")
_LETTERS = re.compile(rb"\\(?:[ux/]|\\{31})")
_PERCENT = re.compile(rb"%[0-9A-Fa-f]{2}")
_FORM = re.compile(rb"%[0-9A-Fa-f]{2}|\+")
_ENTITY = re.compile(rb"&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|amp|lt|gt|quot|apos);")
_LINE_END = rb"(?:\r\n?|\n|\\{1,16}r(?:\\{1,16}n)?|\\{1,16}n)"
_CUT = re.compile(rb"\\{0,16}" + _LINE_END + rb"[ \t]{0,64}|\\{0,16}['\"]")
_BARE_OF = b"\\ \t\r\nnrNR'\""
_LOWER = bytes(range(256)).lower()
_OCTAL = re.compile(rb"\\{1,16}[0-3][0-7]{2}")
_QUOTED = re.compile(rb"=(?:[0-9A-Fa-f]{2}|" + _LINE_END + rb")")
_RUN_BYTES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_=%\\-"
_RUN = bytes(65 if byte in _RUN_BYTES else 32 for byte in range(256))
_WORDS_ONLY = bytes(32 if byte in b" \t\r\n\"'<>\\" else byte for byte in range(256))
_ZERO = re.compile(rb"\0")
PAINT = re.compile(
    rb"(?:\x1b|\\u001[bB]|\\x1b)\[[0-9;]*[A-Za-z]|\xe2\x80[\x8b-\x8d]|\xef\xbb\xbf|\\u200[b-dB-D]|\\u[fF][eE][fF][fF]"
)
_ESCAPED_PAINT = re.compile(rb"\\(?:u001|u200|x1b|u[fF][eE][fF][fF])")
_NAMED = {b"&amp;": b"&", b"&lt;": b"<", b"&gt;": b">", b"&quot;": b'"', b"&apos;": b"'"}


class ViewText(Protocol):
    """A text, and the text above it that spells it."""

    @property
    def text(self) -> bytes:
        """The text itself."""

    @property
    def above(self) -> ViewText | None:
        """The one above it, if there is any."""

    def up(self, start: int, end: int) -> tuple[int, int]:
        """The bytes of the text above that spell `text[start:end]`."""


@dataclass(slots=True)
class View:
    """`text`, decoded from the text `above` it by undoing every match of `escape`; the topmost has nothing above."""

    text: bytes
    above: ViewText | None = None
    escape: re.Pattern[bytes] | None = None
    decoded: Callable[[bytes], bytes] = bytes
    _stops: tuple[list[int], list[int], list[int]] | None = field(default=None, init=False)
    """For each escape, where its text begins here, and where it begins and ends above."""

    def back(self, start: int, end: int) -> tuple[int, int]:
        """The bytes of the topmost text that spell `text[start:end]`."""
        view: ViewText = self
        while view.above is not None:
            start, end = view.up(start, end)
            view = view.above
        return start, end

    def up(self, start: int, end: int) -> tuple[int, int]:
        """The bytes of the text above that spell it."""
        if self._stops is None:
            assert self.above is not None
            assert self.escape is not None
            here: list[int] = []
            begins: list[int] = []
            ends: list[int] = []
            shrunk = 0
            for found in self.escape.finditer(self.above.text):
                here.append(found.start() - shrunk)
                shrunk += found.end() - found.start() - len(self.decoded(found[0]))
                begins.append(found.start())
                ends.append(found.end())
            self._stops = here, begins, ends
        return self._there(start)[0], self._there(end - 1)[1]

    def _there(self, at: int) -> tuple[int, int]:
        """Where the byte `at` of this text begins and ends in the text above."""
        assert self._stops is not None
        assert self.above is not None
        here, begins, ends = self._stops
        nth = bisect_right(here, at) - 1
        if nth < 0:
            return at, at + 1
        spelled = len(self.decoded(self.above.text[begins[nth] : ends[nth]]))
        if at < here[nth] + spelled:
            return begins[nth], ends[nth]
        there = ends[nth] + at - here[nth] - spelled
        return there, there + 1


def beside(view: View) -> Iterator[View]:
    """A text without HTML entities, twice, and without colour codes; where it has any."""
    page = view
    for _ in range(TWICE):
        if b"&" not in page.text or _ENTITY.search(page.text) is None:
            break
        page = View(_ENTITY.sub(lambda found: _entity(found[0]), page.text), page, _ENTITY, _entity)
        yield page
    if is_painted(view.text) and (text := PAINT.sub(b"", view.text)) != view.text:
        yield View(text, view, PAINT, _nothing)


def below(data: bytes) -> Iterator[View]:
    """The text under each layer of backslashes. Raises TooDeep behind the last one that is looked at."""
    view = View(data)
    for _ in range(DEEPEST):
        if b"\\" not in view.text or (text := unescaped(view.text)) == view.text:
            return
        view = View(text, view, _ESCAPE, _unit)
        yield view
    if _UNITS.search(view.text) or b'\\"' in view.text:
        raise ViewTooDeep(*_deepest(view))


def unescaped_view(data: bytes) -> View:
    """A text under one layer of backslashes."""
    top = View(data)
    return View(unescaped(data), top, _ESCAPE, _unit) if b"\\" in data else top


def spells_letters(data: bytes) -> bool:
    """Whether letters or slashes may be escaped, so that a word must be looked for below; or quotes far too often."""
    return b"\\" in data and _LETTERS.search(data) is not None


def percented(text: bytes) -> Iterator[tuple[int, View]]:
    """The words of a text that have percent signs to undo, each with where it begins, undone once and twice.

    With a `+` among them it may be a form, where that is a space.
    """
    if b"%" not in text or _PERCENT.search(text) is None:
        return
    marks = text.translate(_WORDS_ONLY)
    end = 0
    for found in _PERCENT.finditer(text):
        if found.start() < end:
            continue
        begin = marks.rfind(b" ", 0, found.start()) + 1
        end = marks.find(b" ", found.end())
        end = len(text) if end < 0 else end
        top = view = View(text[begin:end])
        if b"+" in top.text:
            yield begin, View(_of_form(top.text), top, _FORM, _of_form)
        for _ in range(TWICE):
            if _PERCENT.search(view.text) is None:
                break
            view = View(unquote_to_bytes(view.text), view, _PERCENT, unquote_to_bytes)
            yield begin, view


class ViewTooDeep(Exception):
    """What is escaped so often that it is not looked at stands in the outermost text from `start` to `end`."""

    def __init__(self, start: int, end: int) -> None:
        """Keep the span."""
        self.start, self.end = start, end
        super().__init__("escaped too often")


def _deepest(view: View) -> tuple[int, int]:
    """The bytes of the outermost text from the first to the last of what is still escaped."""
    found = [hit.span() for hit in _ESCAPE.finditer(view.text)]
    return view.back(found[0][0], found[-1][1])


def is_painted(text: bytes) -> bool:
    """Whether there may be colour codes or characters of no width; a few quick scans."""
    if b"\x1b" in text or (b"\xe2" in text and b"\xe2\x80" in text) or b"\xef\xbb\xbf" in text:
        return True
    return b"\\" in text and _ESCAPED_PAINT.search(text) is not None


def squeezed(view: ViewText) -> View | None:
    """A text without what cuts its words: line ends, escaped or behind a backslash, and quotes; None if it has none."""
    text = _CUT.sub(b"", view.text)
    return None if len(text) == len(view.text) else View(text, view, _CUT, _nothing)


def bare(text: bytes) -> bytes:
    """A text in lower case without any character that `squeezed` may leave out: a quick look before the exact one."""
    return text.translate(_LOWER, _BARE_OF)


def runs(text: bytes, shortest: int) -> bytes:
    """What of a text stands in runs of at least `shortest` bytes without a space or a sign: base64, digits, keys."""
    flat, run = text.translate(_RUN), b"A" * shortest
    found = []
    at = flat.find(run)
    while at >= 0:
        end = flat.find(b" ", at)
        end = len(text) if end < 0 else end
        found.append(text[at:end])
        at = flat.find(run, end)
    return b" ".join(found)


def respelled(view: ViewText) -> Iterator[View]:
    """A text whose bytes are spelled in octal digits, as quoted-printable or in UTF-16, undone; where it may be so."""
    text = view.text
    if b"\\1" in text and _OCTAL.search(text) is not None:
        yield View(_OCTAL.sub(lambda hit: _octal(hit[0]), text), view, _OCTAL, _octal)
    if b"=" in text and _QUOTED.search(text) is not None:
        yield View(_QUOTED.sub(lambda hit: _quoted(hit[0]), text), view, _QUOTED, _quoted)
    if (wide := widened(view)) is not None:
        yield wide


def _octal(escape: bytes) -> bytes:
    return bytes([int(escape[-3:], 8)])


def _quoted(escape: bytes) -> bytes:
    return bytes.fromhex(escape[1:].decode()) if escape[1:].isalnum() else b""


def widened(view: ViewText) -> View | None:
    """What a text of UTF-16 says in ASCII; None where every other byte is not nearly always zero."""
    if b"\0" not in view.text or view.text.count(0) * 3 < len(view.text):
        return None
    return View(view.text.replace(b"\0", b""), view, _ZERO, _nothing)


def _of_form(text: bytes) -> bytes:
    return unquote_to_bytes(text.replace(b"+", b" "))


def _nothing(_: bytes) -> bytes:
    return b""


def unescaped(text: bytes) -> bytes:
    """One layer of backslashes undone everywhere; what is no escape stays."""
    # A byte that JSON text cannot hold keeps the doubled backslashes apart; in other text it is looked at one by one.
    if b"\0" in text:
        return _ESCAPE.sub(lambda found: _unit(found[0]), text)
    text = text.replace(b"\\\\", b"\0")
    if b"\\" in text:
        for escape, plain in _PLAIN.items():
            text = text.replace(escape, plain)
        if b"\\u" in text or b"\\x" in text:
            text = _UNITS.sub(lambda found: _unit(found[0]), text)
    return text.replace(b"\0", b"\\")


def _unit(escape: bytes) -> bytes:
    """What one escape spells."""
    match escape[1:2]:
        case b"u":
            units = bytes.fromhex(escape.replace(b"\\u", b"").decode())
            return units.decode("utf-16-be", "surrogatepass").encode("utf-8", "surrogatepass")
        case b"x":
            return bytes.fromhex(escape[2:].decode())
        case letter:
            return _SHORT.get(letter, letter)


def _entity(entity: bytes) -> bytes:
    """What one HTML entity spells; one beyond all characters is left as it is."""
    if (text := _NAMED.get(entity)) is not None:
        return text
    digits = entity[2:-1]
    number = int(digits[1:], 16) if digits[:1] in b"xX" else int(digits)
    return chr(number).encode("utf-8", "surrogatepass") if number < 0x110000 else entity
