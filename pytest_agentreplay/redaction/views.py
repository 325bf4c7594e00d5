r"""The views of a text: decoded once, so that each finder searches plain text and knows no encoding.

A body may be a JSON string that holds a JSON string that holds a URL. `list_views` yields the body and each text that
it says, once one encoding is undone: a layer of backslashes, HTML entities, percent signs, base64, what mail escapes,
the colour codes of a terminal. What is found in a view is carried back to the bytes that spell it (`View.map_back`). So
`"{\"q\": \"a%3Db\"}"` has three views beside itself: `{"q": "a%3Db"}`, and the word `a=b` of each of the two.

Layers of backslashes halve them, so there are few; one spelled in \u005c could go on for ever, and is cut off
(`DEEPEST`). Base64 is undone once, where it says ASCII or an archive: a picture, a signature and the key of a vendor do
not.
"""

from __future__ import annotations

import base64
import operator
import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import unquote_to_bytes

from pytest_agentreplay.redaction.encodings import ARCHIVE_START, DEEPEST, list_runs, mark_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Spell: TypeAlias = Callable[[bytes], bytes]

# An entity may be escaped again (`&amp;lt;`), a percent sign too (`%253D`); nobody does so three times.
TWICE = 2
SHORTEST_BASE64 = 44
"""So many letters of base64 are decoded; fewer say less than a key of 32 characters."""

_SHORT = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f"}
_PLAIN = {b"\\" + letter: text for letter, text in _SHORT.items()} | {b"\\" + mark: mark for mark in (b'"', b"/", b"'")}
_UNITS = re.compile(
    rb"\\u[dD][89abAB][0-9A-Fa-f]{2}\\u[dD][c-fC-F][0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}|\\[01][0-7]{2}"
)
"""Letters as JSON, JavaScript, Python and a shell spell them; the octal digits of ASCII alone."""
_ESCAPE = re.compile(_UNITS.pattern + rb"|\\[\\\"/'ntrbf]")
_LETTERS = re.compile(rb"\\(?:[ux/]|[01][0-7]{2}|\\{31})")
_ESCAPED_QUOTE = re.compile(rb'(?<!\\)\\(?:\\\\){127,}"')
"""A quote that is escaped so often; behind an even number of backslashes it is none, and ends a text of them."""
_PERCENT = re.compile(rb"%[0-9A-Fa-f]{2}")
_FORM = re.compile(rb"%[0-9A-Fa-f]{2}|\+")
_ENTITY = re.compile(rb"&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|amp|lt|gt|quot|apos);")
_NAMED = {b"&amp;": b"&", b"&lt;": b"<", b"&gt;": b">", b"&quot;": b'"', b"&apos;": b"'"}
# RFC 2045, section 6.7: a byte in hexadecimal digits, and a line end that is none.
_LINE_END = rb"(?:\r\n?|\n|\\{1,16}r(?:\\{1,16}n)?|\\{1,16}n)"
_QUOTED = re.compile(rb"=(?:[0-9A-Fa-f]{2}|" + _LINE_END + rb")")
_QUOTED_SURELY = re.compile(rb"=(?:3[dD]|[0-9A-Fa-f]{2}=|" + _LINE_END + rb")")
"""What quoted-printable has and a URL hardly: an escaped `=`, two escapes in a row, or a line that is cut."""
_CUT = re.compile(rb"\\{0,16}" + _LINE_END + rb"[ \t]{0,64}|\\{0,16}['\"]")
_CUT_SIGNS = b"\\ \t\r\nnrNR'\""
"""Every character of what `_CUT` matches, and more: to leave all of them out is quicker."""
_LOWER = bytes(range(256)).lower()
_WORDS_ONLY = bytes(32 if byte in b" \t\r\n\"'<>\\" else byte for byte in range(256))
_NOTHING = re.compile(rb"(?!)")
PAINT = re.compile(
    rb"(?:\x1b|\\u001[bB]|\\x1b)\[[0-9;]*[A-Za-z]|\xe2\x80[\x8b-\x8d]|\xef\xbb\xbf|\\u200[b-dB-D]|\\u[fF][eE][fF][fF]"
)
"""Colour codes and characters of no width, escaped or not."""
_ESCAPED_PAINT = re.compile(rb"\\(?:u001|u200|x1b|u[fF][eE][fF][fF])")
_BASE64_RUN = mark_bytes(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-")
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]+(?:(?:\r|\n|\\r|\\n){1,4}[A-Za-z0-9+/_-]+)*")
_WRAP = re.compile(rb"(?:\r|\n|\\r|\\n)+")


class ViewTooDeep(Exception):
    """What is escaped so often that it is not looked at stands in the outermost text from `start` to `end`."""

    def __init__(self, start: int, end: int) -> None:
        """Keep the span."""
        self.start, self.end = start, end
        super().__init__("escaped too often")


@dataclass(slots=True)
class View:
    """A text, decoded from the part of the text `above` it that begins at `begin`; the topmost has nothing above.

    Every match of `escape` there has become what `spell` returns for it. `rules` says what is searched for: all there
    is; keys with a form of their own alone; only what does not read through escapes by itself; or nothing, and all of
    it goes, since it cannot be read.
    """

    text: bytes
    above: View | None = None
    escape: re.Pattern[bytes] = _NOTHING
    spell: Spell = bytes
    begin: int = 0
    rules: Literal["all", "certain", "own", "opaque"] = "all"
    _stops: list[tuple[int, int, int, int]] = field(default_factory=list, init=False)
    """Of each escape where its text begins and ends here, and where it begins and ends above; read on demand."""

    def map_back(self, start: int, end: int) -> tuple[int, int]:
        """Return the bytes of the topmost text that spell `text[start:end]`."""
        view = self
        while view.above is not None:
            start, end = view.map_up(start, end)
            view = view.above
        return start, end

    def map_up(self, start: int, end: int) -> tuple[int, int]:
        """Return the bytes of the text above that spell it."""
        if not self._stops:
            self._stops = [(0, 0, self.begin, self.begin), *self._list_stops()]
        return self._map_byte(start)[0], self._map_byte(end - 1)[1]

    def _list_stops(self) -> Iterator[tuple[int, int, int, int]]:
        assert self.above is not None
        shift = self.begin
        for match in self.escape.finditer(self.above.text, self.begin):
            here = match.start() - shift
            if here > len(self.text):  # a word ends before the text above does
                return
            end = here + len(self.spell(match[0]))
            yield here, end, *match.span()
            shift = match.end() - end

    def _map_byte(self, at: int) -> tuple[int, int]:
        """Return where the byte `at` of this text begins and ends in the text above."""
        _, end, escape_begin, escape_end = self._stops[bisect_right(self._stops, at, key=operator.itemgetter(0)) - 1]
        if at < end:
            return escape_begin, escape_end
        return escape_end + at - end, escape_end + at - end + 1


class Base64View(View):
    """What the letters of base64 say that are the text above."""

    def map_up(self, start: int, end: int) -> tuple[int, int]:
        """Return the groups of four letters that spell `text[start:end]`."""
        assert self.above is not None
        return start // 3 * 4, min(-(-end // 3) * 4, len(self.above.text))


@dataclass(slots=True)
class ArchiveView(View):
    """What an archive in base64 holds. The letters of all of it, up to `end` of the text above, spell each part."""

    end: int = 0

    def map_up(self, start: int, end: int) -> tuple[int, int]:
        """Return where the archive stands: it goes as a whole, as what it holds has no letters of its own."""
        del start, end
        return self.begin, self.end


def list_views(data: bytes, *, deep: bool) -> Iterator[View]:
    """Yield the text itself, and every text that it says when an encoding is undone.

    Layers of backslashes are undone where they spell letters, or it is to be `deep`. Raises ViewTooDeep.
    """
    top = View(data)
    yield top
    yield from list_views_beside(top)
    yield from list_base64_views(top)
    # Letters or slashes may be escaped, or quotes far too often: then words stand only in the layers below.
    spelled = b"\\" in data and _LETTERS.search(data) is not None
    if spelled or (deep and b"\\" in data):
        for view in list_views_below(data):
            # Rules read through the backslashes before quotes and line ends themselves: a layer shows them nothing new.
            view.rules = "all" if spelled else "own"
            yield view
            yield from list_views_beside(view)


def list_views_beside(view: View) -> Iterator[View]:
    """Yield a text without HTML entities, colour codes, what mail escapes, and its words without percent signs.

    With a `+` in such a word it may be of a form, where that is a space.
    """
    page = view
    for _ in range(TWICE):
        if b"&" not in page.text or _ENTITY.search(page.text) is None:
            break
        page = undo(page, _ENTITY, _spell_entity)
        yield page
    if is_painted(view.text) and (plain := undo(view, PAINT, spell_nothing)).text != view.text:
        yield plain
    if b"=" in view.text and _QUOTED_SURELY.search(view.text) is not None:
        yield undo(view, _QUOTED, _spell_quoted)
    for begin, end in list_percent_words(view.text) if b"%" in view.text else ():
        word = view.text[begin:end]
        if b"+" in word:
            yield View(_spell_form(word), view, _FORM, _spell_form, begin)
        once = View(unquote_to_bytes(word), view, _PERCENT, unquote_to_bytes, begin)
        yield once
        if _PERCENT.search(once.text) is not None:
            yield View(unquote_to_bytes(once.text), once, _PERCENT, unquote_to_bytes)


def list_views_below(data: bytes) -> Iterator[View]:
    """Yield the text under each layer of backslashes. Raises ViewTooDeep behind the last one that is looked at."""
    view = View(data)
    for _ in range(DEEPEST):
        if b"\\" not in view.text or (text := unescape(view.text)) == view.text:
            return
        view = View(text, view, _ESCAPE, _spell_escape)
        yield view
    if _UNITS.search(view.text) or (b'\\"' in view.text and _ESCAPED_QUOTE.search(data)):
        spans = [hit.span() for hit in _ESCAPE.finditer(view.text)]
        raise ViewTooDeep(*view.map_back(spans[0][0], spans[-1][1]))


def list_base64_views(view: View) -> Iterator[View]:
    """Yield what base64 in a text says: a file of a repository, a secret of a cluster, an archive."""
    done = 0
    for at, _ in list_runs(view.text, _BASE64_RUN, SHORTEST_BASE64):
        if at >= done and (match := _BASE64.match(view.text, at)) is not None:
            done = match.end()  # behind the ends of its lines there may be more of it
            letters = View(_WRAP.sub(b"", match[0]), view, _WRAP, spell_nothing, at)
            if (text := decode_base64(letters.text)) is not None:
                if text.isascii():
                    yield Base64View(text, letters, rules="certain")
                else:
                    yield _read_archive(text, view, *match.span())


def _read_archive(archive: bytes, above: View, begin: int, end: int) -> ArchiveView:
    """Return the view of an archive whose base64 stands there; one that cannot be read is all opaque."""
    from pytest_agentreplay.model.content_coding import Opaque
    from pytest_agentreplay.redaction.packed import list_contents

    padding = above.text[end : end + 2]
    end += len(padding) - len(padding.lstrip(b"="))
    try:
        return ArchiveView(b"\n".join(list_contents(archive)), above, begin=begin, end=end, rules="certain")
    except Opaque:
        return ArchiveView(b"", above, begin=begin, end=end, rules="opaque")


def decode_base64(letters: bytes) -> bytes | None:
    """Return what base64 says, also that of URLs and without its padding; None where that is no ASCII, nor packed."""
    letters = letters.replace(b"-", b"+").replace(b"_", b"/")
    if not _is_text_or_archive(base64.b64decode(letters[:SHORTEST_BASE64])):
        return None
    # A letter too many spells no byte: the text was cut off there.
    groups = letters[: len(letters) - (len(letters) % 4 == 1)]
    text = base64.b64decode(groups + b"=" * (-len(groups) % 4))
    return text if _is_text_or_archive(text) else None


def _is_text_or_archive(data: bytes) -> bool:
    if data.isascii() or ARCHIVE_START.match(data) is None:
        return data.isascii()
    # Most replays hold no archive, and what reads one loads the readers of all codings.
    from pytest_agentreplay.redaction.packed import is_archive

    return is_archive(data)


def unescaped_view(data: bytes) -> View:
    """Return a text under one layer of backslashes."""
    top = View(data)
    return View(unescape(data), top, _ESCAPE, _spell_escape) if b"\\" in data else top


def undo(view: View, escape: re.Pattern[bytes], spell: Spell) -> View:
    """Return the view of a text in which each match of `escape` is what `spell` returns for it."""
    return View(escape.sub(lambda match: spell(match[0]), view.text), view, escape, spell)


def list_percent_words(text: bytes) -> Iterator[tuple[int, int]]:
    """Yield where the words of a text stand that have percent signs to undo."""
    marks = text.translate(_WORDS_ONLY) if _PERCENT.search(text) is not None else b""
    end = 0
    for match in _PERCENT.finditer(text):
        if match.start() >= end:
            end = marks.find(b" ", match.end())
            end = len(text) if end < 0 else end
            yield marks.rfind(b" ", 0, match.start()) + 1, end


def is_painted(text: bytes) -> bool:
    """Return whether there may be colour codes or characters of no width; a few quick scans."""
    if b"\x1b" in text or (b"\xe2" in text and b"\xe2\x80" in text) or b"\xef\xbb\xbf" in text:
        return True
    return b"\\" in text and _ESCAPED_PAINT.search(text) is not None


def squeeze(view: View) -> View | None:
    """Return a text without what cuts its words: line ends, escaped or behind a backslash, and quotes.

    None if it has none.
    """
    text = _CUT.sub(b"", view.text)
    return None if len(text) == len(view.text) else View(text, view, _CUT, spell_nothing)


def strip_cuts(text: bytes) -> bytes:
    """Return a text in lower case without any character that may cut a value: a quick look before the exact one."""
    return text.translate(_LOWER, _CUT_SIGNS)


def unescape(text: bytes) -> bytes:
    """Return one layer of backslashes undone everywhere; what is no escape stays."""
    # A byte that JSON text cannot hold keeps the doubled backslashes apart; in other text it is looked at one by one.
    if b"\0" in text or b"\\u0000" in text or b"\\x00" in text or b"\\000" in text:
        return _ESCAPE.sub(lambda match: _spell_escape(match[0]), text)
    text = text.replace(b"\\\\", b"\0")
    if b"\\" in text:
        for escape, plain in _PLAIN.items():
            text = text.replace(escape, plain)
        if b"\\" in text:
            text = _UNITS.sub(lambda match: _spell_escape(match[0]), text)
    return text.replace(b"\0", b"\\")


def spell_nothing(_: bytes) -> bytes:
    """Return what a mark spells that only parts a text."""
    return b""


def _spell_escape(escape: bytes) -> bytes:
    """Return what one escape spells."""
    match escape[1:2]:
        case b"u":
            units = bytes.fromhex(escape.replace(b"\\u", b"").decode())
            return units.decode("utf-16-be", "surrogatepass").encode("utf-8", "surrogatepass")
        case b"x":
            return bytes.fromhex(escape[2:].decode())
        case b"0" | b"1":
            return bytes([int(escape[1:], 8)])
        case letter:
            return _SHORT.get(letter, letter)


def _spell_form(text: bytes) -> bytes:
    return unquote_to_bytes(text.replace(b"+", b" "))


def _spell_quoted(escape: bytes) -> bytes:
    return bytes.fromhex(escape[1:].decode()) if escape[1:].isalnum() else b""


def _spell_entity(entity: bytes) -> bytes:
    """Return what one HTML entity spells; one beyond all characters is left as it is."""
    if (text := _NAMED.get(entity)) is not None:
        return text
    number = int(entity[3:-1], 16) if entity[2:3] in b"xX" else int(entity[2:-1])
    return chr(number).encode("utf-8", "surrogatepass") if number < 0x110000 else entity
