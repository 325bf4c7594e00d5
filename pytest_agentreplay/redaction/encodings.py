"""The guises of a value, and the views of a text: encodings applied, and undone.

A guise is how a value looks once JSON, a URL, base64, hex or a log has encoded it: `secret_guises` has every guise of a
secret, `place_guises` the reversible guises of a directory, by name. A view is a text as it reads once JSON, a URL,
HTML or a terminal has been undone, with the way back to the bytes.

What stands in a body may be a JSON string that holds a JSON string that holds a URL. What is found in a view is carried
back to the bytes that spell it (`View.map_back`). A layer of backslashes halves them, so there are few; one
spelled in \u005c could go on for ever, and is cut off (`DEEPEST`).
"""

from __future__ import annotations

import base64
import json
import re
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, Protocol
from urllib.parse import quote, quote_plus, unquote_to_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

JSON_DEPTH = 5  # a body, a message in it, a tool result in that, and what a server of tools had put into it
CASES = ("", "drive", "lower")
DRIVE = re.compile(r"[A-Za-z]:[\\/]")
SAFE_RUN = re.compile(rb"[A-Za-z0-9]+")


@dataclass(frozen=True, slots=True)
class EncodedForm:
    """Needles that can only occur where both `sign`, one for many guises, and `backend` do: few scans clear them all.

    `where` says in what they are looked for: in the text in lower case ("folded"), in which they are too; in the text
    as it is ("exact"); or in its long runs without a space ("run"), where alone base64 stands.
    """

    sign: bytes
    backend: bytes = field(repr=False)
    needles: tuple[bytes, ...] = field(repr=False)
    where: Literal["folded", "exact", "run"] = "folded"


def as_bytes(text: str) -> bytes:
    """Return the UTF-8 of a text, lone surrogates included: what came in can always go out again."""
    return text.encode("utf-8", "surrogatepass")


def as_text(data: bytes) -> str:
    """Return the inverse of `as_bytes`.

    Bytes that are no UTF-8, as percent signs may spell them, are told by number.
    """
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "backslashreplace")


def json_escaped(text: str, depth: int = 1, *, ascii_only: bool = False) -> str:
    """Return `text` as it stands inside a JSON string that stands inside `depth - 1` others."""
    for _ in range(depth):
        text = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
    return text


def lower_percent(text: str) -> str:
    """Return a text whose percent escapes have lower-case digits."""
    return re.sub("%[0-9A-F]{2}", lambda match: match[0].lower(), text)


@lru_cache(maxsize=128)
def secret_guises(value: str) -> tuple[EncodedForm, ...]:
    """Return every guise of a secret of at least 8 characters.

    Remembered: the environment has the same ones in each test.
    """
    plain = [
        list_written_forms(value),
        *({list_written_forms(value.lower()), list_written_forms(value.upper())} - {list_written_forms(value)}),
    ]
    folded = ((b"", plain), (b"", list_dumps(value)), (b"%", percent_all(value)), (b"\\u", unicode_escaped(value)))
    return (
        *list_distinct(*((sign, map(to_lower_needles, groups)) for sign, groups in folded)),
        *(EncodedForm(b"\0", needle, (needle,)) for needle in to_lower_needles(wide(value))),
        *(EncodedForm(b"", gate_of(needles), needles, "run") for needles in (*in_base64(value), *in_hex(value))),
    )


def list_distinct(*signed: tuple[bytes, Iterable[tuple[bytes, ...]]]) -> Iterator[EncodedForm]:
    """Yield a guise for each group of needles that no other has."""
    seen: set[tuple[bytes, ...]] = set()
    for sign, groups in signed:
        for needles in groups:
            if needles not in seen:
                seen.add(needles)
                yield EncodedForm(sign, gate_of(needles), needles)


def to_lower_needles(needles: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return the needles in lower case, each once, the longest first."""
    return tuple(sorted({needle.lower() for needle in needles}, key=lambda needle: (-len(needle), needle)))


def list_written_forms(value: str) -> tuple[bytes, ...]:
    """Return the value as texts, JSON inside JSON and URLs write it."""
    raw = as_bytes(value)
    once = quote(raw, safe="")
    urls = [once, quote(raw, safe="/"), quote_plus(raw), quote(once, safe=""), quote(lower_percent(once), safe="")]
    return unique([*in_strings(value), *urls, *map(lower_percent, urls)])


def in_strings(value: str) -> Iterator[str]:
    """Yield the value as Python shows it, and that or itself in JSON strings, one in the other.

    Each level may escape what is not ASCII, the first its slashes too.
    """
    texts = {value, repr(value)[1:-1], repr(as_bytes(value))[2:-1]}
    yield from texts
    for depth in range(JSON_DEPTH):
        deeper = {json_escaped(text, ascii_only=ascii_only) for text in texts for ascii_only in (False, True)}
        if depth == 0:
            deeper |= {text.replace("/", "\\/") for text in deeper}
        if deeper == texts:
            return
        yield from deeper
        texts = deeper


def percent_all(value: str) -> Iterator[tuple[bytes, ...]]:
    """Yield every byte as %XX, upper and lower case, and the same percent-encoded again."""
    upper = "".join(f"%{byte:02X}" for byte in as_bytes(value))
    for form in (upper, lower_percent(upper)):
        yield (form.encode(),)
        yield (form.replace("%", "%25").encode(),)


def unicode_escaped(value: str) -> Iterator[tuple[bytes, ...]]:
    r"""Yield every UTF-16 unit as \uXXXX, in JSON and in JSON inside JSON.

    And UTF-16 of which JSON has escaped the zeros.
    """
    digits = value.encode("utf-16-be", "surrogatepass").hex()
    for slash in ("\\u", "\\\\u"):
        yield ("".join(slash + digits[at : at + 4] for at in range(0, len(digits), 4)).encode(),)
        yield ((slash + "0000").join(map(json_escaped, value)).encode("utf-8", "surrogatepass"),)


def in_base64(value: str) -> Iterator[tuple[bytes, ...]]:
    """Yield its base64, the base64 of that, and that of its UTF-16."""
    for forms in base64_shifted(as_bytes(value)):
        yield forms
        # Between two borders of three bytes the base64 of base64 depends on nothing else.
        yield from base64_shifted(min(forms, key=len).replace(b"-", b"+").replace(b"_", b"/"))
    for raw in wide(value):
        yield from base64_shifted(raw)


def base64_shifted(raw: bytes) -> Iterator[tuple[bytes, ...]]:
    """Yield its base64 as far as no neighbour changes it, at the three offsets; URL-safe and escaped too."""
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + raw)
        stable = encoded[(offset * 8 + 5) // 6 : (offset + len(raw)) * 8 // 6].decode()
        safe = stable.replace("+", "-").replace("/", "_")
        percent = quote(stable, safe="")
        yield unique([stable, safe, stable.replace("/", "\\/"), percent, lower_percent(percent)])


def wide(value: str) -> tuple[bytes, bytes]:
    """Return its UTF-16, little and big end first."""
    return value.encode("utf-16-le", "surrogatepass"), value.encode("utf-16-be", "surrogatepass")


def in_hex(value: str) -> Iterator[tuple[bytes, ...]]:
    """Yield a value in hexadecimal digits, both cases."""
    for raw in (as_bytes(value), *wide(value)):
        digits = raw.hex()
        yield from ((form.encode(),) for form in sorted({digits, digits.upper()}))


def list_dumps(value: str) -> Iterator[tuple[bytes, ...]]:
    """Yield its bytes as programs list them, in octal and hexadecimal digits."""
    raw = as_bytes(value)
    yield (" ".join(f"{byte:03o}" for byte in raw).encode(),)
    yield (raw.hex(" ").encode(),)
    yield (raw.hex(":").encode(),)


def unique(forms: list[str]) -> tuple[bytes, ...]:
    """Return the forms as bytes, each once, the longest first."""
    return tuple(sorted({as_bytes(form) for form in forms}, key=lambda form: (-len(form), form)))


def gate_of(needles: tuple[bytes, ...]) -> bytes:
    """Return the longest run of letters and digits that all needles share; b"" when they share none of at least 3."""
    shortest = needles[-1]
    for run in sorted(SAFE_RUN.findall(shortest), key=len, reverse=True):
        if len(run) >= 3 and all(run in needle for needle in needles):
            return bytes(run)
    return shortest if len(needles) == 1 else b""


@lru_cache(maxsize=128)
def place_guises(value: str) -> Mapping[str, str]:
    """Return the reversible guises of a directory by name; "" is the plain one. Many are equal.

    Windows knows a directory in any case; met are the two that programs give it: the drive's letter, and all of it.
    Remembered: all but the `tmp_path` of a test are the same in each test, and each is read twice.
    """
    cases = dict.fromkeys(CASES, value)
    if DRIVE.match(value):
        cases |= {"drive": value[0].swapcase() + value[1:], "lower": value.lower()}
    guises = {form: case_guises(form) for form in {*cases.values()}}
    return {f"{case}-{guise}".strip("-"): form for case, of in cases.items() for guise, form in guises[of].items()}


def case_guises(value: str) -> Mapping[str, str]:
    """Return `value` as JSON, URLs and POSIX write it, by name."""
    posix = value.replace("\\", "/")
    return {
        "": value,
        "json": json_escaped(value),
        "json2": json_escaped(value, 2),
        "json3": json_escaped(value, 3),
        "ascii": json_escaped(value, ascii_only=True),
        "ascii2": json_escaped(value, 2, ascii_only=True),
        "slash": json_escaped(value).replace("/", "\\/"),
        "slash2": json_escaped(json_escaped(value).replace("/", "\\/")),
        "posix": posix,
        "path": quote(as_bytes(posix), safe="/:"),
        "url": quote(as_bytes(value), safe=""),
        "url-low": lower_percent(quote(as_bytes(value), safe="")),
        "url2": quote(quote(as_bytes(value), safe=""), safe=""),
    }


DEEPEST = 8
TWICE = 2

_SHORT = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f"}
_PLAIN = {b"\\" + letter: text for letter, text in _SHORT.items()} | {b"\\" + mark: mark for mark in (b'"', b"/", b"'")}
_UNITS = re.compile(rb"\\u[dD][89abAB][0-9A-Fa-f]{2}\\u[dD][c-fC-F][0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}")
_ESCAPE = re.compile(_UNITS.pattern + rb"|\\[\\\"/'ntrbf]")
_LETTERS = re.compile(rb"\\(?:[ux/]|\\{31})")
_ESCAPED_QUOTE = re.compile(rb'(?<!\\)\\(?:\\\\){127,}"')
"""A quote that is escaped so often; behind an even number of backslashes it is none, and ends a text of them."""
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

    def map_up(self, start: int, end: int) -> tuple[int, int]:
        """Return the bytes of the text above that spell `text[start:end]`."""


@dataclass(slots=True)
class View:
    """`text`, decoded from the text `above` it by undoing every match of `escape`; the topmost has nothing above."""

    text: bytes
    above: ViewText | None = None
    escape: re.Pattern[bytes] | None = None
    decoded: Callable[[bytes], bytes] = bytes
    _stops: tuple[list[int], list[int], list[int]] | None = field(default=None, init=False)
    """For each escape, where its text begins here, and where it begins and ends above."""

    def map_back(self, start: int, end: int) -> tuple[int, int]:
        """Return the bytes of the topmost text that spell `text[start:end]`."""
        view: ViewText = self
        while view.above is not None:
            start, end = view.map_up(start, end)
            view = view.above
        return start, end

    def map_up(self, start: int, end: int) -> tuple[int, int]:
        """Return the bytes of the text above that spell it."""
        if self._stops is None:
            assert self.above is not None
            assert self.escape is not None
            here: list[int] = []
            begins: list[int] = []
            ends: list[int] = []
            shrunk = 0
            for match in self.escape.finditer(self.above.text):
                here.append(match.start() - shrunk)
                shrunk += match.end() - match.start() - len(self.decoded(match[0]))
                begins.append(match.start())
                ends.append(match.end())
            self._stops = here, begins, ends
        return self._map_byte(start)[0], self._map_byte(end - 1)[1]

    def _map_byte(self, at: int) -> tuple[int, int]:
        """Return where the byte `at` of this text begins and ends in the text above."""
        assert self._stops is not None
        assert self.above is not None
        here, begins, ends = self._stops
        nth = bisect_right(here, at) - 1
        if nth < 0:
            return at, at + 1
        spelled = len(self.decoded(self.above.text[begins[nth] : ends[nth]]))
        if at < here[nth] + spelled:
            return begins[nth], ends[nth]
        above_at = ends[nth] + at - here[nth] - spelled
        return above_at, above_at + 1


def list_views_beside(view: View) -> Iterator[View]:
    """Yield a text without HTML entities, twice, and without colour codes; where it has any."""
    page = view
    for _ in range(TWICE):
        if b"&" not in page.text or _ENTITY.search(page.text) is None:
            break
        page = View(_ENTITY.sub(lambda match: _decode_entity(match[0]), page.text), page, _ENTITY, _decode_entity)
        yield page
    if is_painted(view.text) and (text := PAINT.sub(b"", view.text)) != view.text:
        yield View(text, view, PAINT, spell_nothing)


def list_views_below(data: bytes) -> Iterator[View]:
    """Yield the text under each layer of backslashes. Raises TooDeep behind the last one that is looked at."""
    view = View(data)
    for _ in range(DEEPEST):
        if b"\\" not in view.text or (text := unescape(view.text)) == view.text:
            return
        view = View(text, view, _ESCAPE, _decode_escape)
        yield view
    if _UNITS.search(view.text) or (b'\\"' in view.text and _ESCAPED_QUOTE.search(data)):
        raise ViewTooDeep(*_find_still_escaped(view))


def unescaped_view(data: bytes) -> View:
    """Return a text under one layer of backslashes."""
    top = View(data)
    return View(unescape(data), top, _ESCAPE, _decode_escape) if b"\\" in data else top


def spells_letters(data: bytes) -> bool:
    """Return whether letters or slashes may be escaped, so that a word must be looked for below.

    Or quotes far too often.
    """
    return b"\\" in data and _LETTERS.search(data) is not None


def list_percent_views(text: bytes) -> Iterator[tuple[int, View]]:
    """Yield the words of a text that have percent signs to undo, each with where it begins, undone once and twice.

    With a `+` among them it may be a form, where that is a space.
    """
    if b"%" not in text or _PERCENT.search(text) is None:
        return
    marks = text.translate(_WORDS_ONLY)
    end = 0
    for match in _PERCENT.finditer(text):
        if match.start() < end:
            continue
        begin = marks.rfind(b" ", 0, match.start()) + 1
        end = marks.find(b" ", match.end())
        end = len(text) if end < 0 else end
        top = view = View(text[begin:end])
        if b"+" in top.text:
            yield begin, View(_decode_form(top.text), top, _FORM, _decode_form)
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


def _find_still_escaped(view: View) -> tuple[int, int]:
    """Return the bytes of the outermost text from the first to the last of what is still escaped."""
    spans = [hit.span() for hit in _ESCAPE.finditer(view.text)]
    return view.map_back(spans[0][0], spans[-1][1])


def is_painted(text: bytes) -> bool:
    """Return whether there may be colour codes or characters of no width; a few quick scans."""
    if b"\x1b" in text or (b"\xe2" in text and b"\xe2\x80" in text) or b"\xef\xbb\xbf" in text:
        return True
    return b"\\" in text and _ESCAPED_PAINT.search(text) is not None


def squeeze(view: ViewText) -> View | None:
    """Return a text without what cuts its words: line ends, escaped or behind a backslash, and quotes.

    None if it has none.
    """
    text = _CUT.sub(b"", view.text)
    return None if len(text) == len(view.text) else View(text, view, _CUT, spell_nothing)


def strip_cuts(text: bytes) -> bytes:
    """Return a text in lower case without any character that may cut a value: a quick look before the exact one."""
    return text.translate(_LOWER, _BARE_OF)


def extract_runs(text: bytes, shortest: int) -> bytes:
    """Return the runs of a text of at least `shortest` bytes without a space or a sign: base64, digits, keys."""
    flat, run = text.translate(_RUN), b"A" * shortest
    texts = []
    at = flat.find(run)
    while at >= 0:
        end = flat.find(b" ", at)
        end = len(text) if end < 0 else end
        texts.append(text[at:end])
        at = flat.find(run, end)
    return b" ".join(texts)


def list_respelled(view: ViewText) -> Iterator[View]:
    """Yield a text whose bytes are spelled in octal digits, as quoted-printable or in UTF-16, undone.

    Where it may be so.
    """
    text = view.text
    if (b"\\1" in text or b"\\0" in text) and _OCTAL.search(text) is not None:
        yield View(_OCTAL.sub(lambda hit: _decode_octal(hit[0]), text), view, _OCTAL, _decode_octal)
    if b"=" in text and _QUOTED.search(text) is not None:
        yield View(_QUOTED.sub(lambda hit: _decode_quoted(hit[0]), text), view, _QUOTED, _decode_quoted)
    if (wide := undo_utf16(view)) is not None:
        yield wide


def _decode_octal(escape: bytes) -> bytes:
    return bytes([int(escape[-3:], 8)])


def _decode_quoted(escape: bytes) -> bytes:
    return bytes.fromhex(escape[1:].decode()) if escape[1:].isalnum() else b""


def undo_utf16(view: ViewText) -> View | None:
    """Return what a text of UTF-16 says in ASCII; None where every other byte is not nearly always zero."""
    if b"\0" not in view.text or view.text.count(0) * 3 < len(view.text):
        return None
    return View(view.text.replace(b"\0", b""), view, _ZERO, spell_nothing)


def _decode_form(text: bytes) -> bytes:
    return unquote_to_bytes(text.replace(b"+", b" "))


def spell_nothing(_: bytes) -> bytes:
    """Return what a mark spells that only parts a text."""
    return b""


def unescape(text: bytes) -> bytes:
    """Return one layer of backslashes undone everywhere; what is no escape stays."""
    # A byte that JSON text cannot hold keeps the doubled backslashes apart; in other text it is looked at one by one.
    if b"\0" in text or b"\\u0000" in text or b"\\x00" in text:
        return _ESCAPE.sub(lambda match: _decode_escape(match[0]), text)
    text = text.replace(b"\\\\", b"\0")
    if b"\\" in text:
        for escape, plain in _PLAIN.items():
            text = text.replace(escape, plain)
        if b"\\u" in text or b"\\x" in text:
            text = _UNITS.sub(lambda match: _decode_escape(match[0]), text)
    return text.replace(b"\0", b"\\")


def _decode_escape(escape: bytes) -> bytes:
    """Return what one escape spells."""
    match escape[1:2]:
        case b"u":
            units = bytes.fromhex(escape.replace(b"\\u", b"").decode())
            return units.decode("utf-16-be", "surrogatepass").encode("utf-8", "surrogatepass")
        case b"x":
            return bytes.fromhex(escape[2:].decode())
        case letter:
            return _SHORT.get(letter, letter)


def _decode_entity(entity: bytes) -> bytes:
    """Return what one HTML entity spells; one beyond all characters is left as it is."""
    if (text := _NAMED.get(entity)) is not None:
        return text
    digits = entity[2:-1]
    number = int(digits[1:], 16) if digits[:1] in b"xX" else int(digits)
    return chr(number).encode("utf-8", "surrogatepass") if number < 0x110000 else entity
