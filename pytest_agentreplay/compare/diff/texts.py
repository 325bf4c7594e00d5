"""How two texts differ, in a few words: "line 3: refund -> credit". Linear in their size.

Rules of this module: never a character-level matcher on a long text (minutes for 100 kB); first what is common at both
ends, then lines, then words of the lines that changed.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

Opcode = tuple[str, int, int, int, int]

SHOWN = 48  # characters of a changed span in a note
PRODUCT, PAIRS = 4_000_000, 200_000  # what one alignment may cost: N x M, and equal pairs among them

_SPACE = re.compile(r"\s")
_LETTERS = str.maketrans(  # letters of other alphabets, as the Latin ones that they look like
    "\u0430\u0441\u0501\u0435\u0456\u0458\u043e\u0440\u051b\u0455\u0443\u0445\u04cf\u03bf\u03bd\u03b1\u03b9\u0261\u0131\u0578"
    "\u0410\u0412\u0421\u0415\u041d\u0406\u0408\u041a\u041c\u041e\u0420\u0405\u0422\u0425\u0423\u04c0"
    "\u0391\u0392\u0395\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u0396",
    "acdeijopqsyxlovaigioABCEHIJKMOPSTXYIABEHIKMNOPTYXZ",
)
_DASHES = re.compile("[\u2010-\u2015\u2212\ufe58\uff0d]")
_QUOTES = re.compile("[\u2018-\u201b\u2032\u02bc\u00b4]")
_UNSEEN = re.compile("[\u00ad\u034f\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff]")


def opcodes(recorded: Sequence[Hashable], now: Sequence[Hashable]) -> list[Opcode] | None:
    """Return the changed ranges of two sequences, as difflib's opcodes; None when finding them would cost too much."""
    if len(recorded) * len(now) > PRODUCT:
        return None
    have = Counter(recorded)
    if sum(count * have[item] for item, count in Counter(now).items()) > PAIRS:
        return None
    codes = SequenceMatcher(None, recorded, now, autojunk=False).get_opcodes()
    return [code for code in codes if code[0] != "equal"]


def common_prefix(recorded: str, now: str) -> int:
    """Return how many characters the two share at the start."""
    low, high = 0, min(len(recorded), len(now))
    if recorded[:high] == now[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if recorded[low:middle] == now[low:middle]:
            low = middle
        else:
            high = middle
    return low


def common_suffix(recorded: str, now: str, limit: int) -> int:
    """Return how many characters, at most `limit`, the two share at the end."""
    low, high = 0, limit
    if high <= 0 or recorded[-high:] == now[-high:]:
        return max(high, 0)
    while high - low > 1:
        middle = (low + high) // 2
        if recorded[len(recorded) - middle :] == now[len(now) - middle :]:
            low = middle
        else:
            high = middle
    return low


def hunk(recorded: str, now: str) -> tuple[int, str, str]:
    """Return the changed span, widened to whole words: (where it begins, its old text, its new text)."""
    start = common_prefix(recorded, now)
    end = common_suffix(recorded, now, min(len(recorded), len(now)) - start)
    floor = max(0, start - SHOWN)
    while start > floor and _inside_word(recorded, start, now):
        start -= 1
    limit = max(0, end - SHOWN)
    while end > limit and _inside_word(recorded, len(recorded) - end, now, len(now) - end):
        end -= 1
    return start, recorded[start : len(recorded) - end], now[start : len(now) - end]


def brief(recorded: str, now: str) -> str:
    """Return what changed between two different texts, in a few words."""
    if max(len(recorded), len(now)) < 2 * SHOWN and not _SPACE.search(recorded + now):
        return _swap(recorded, now)
    start, old, new = hunk(recorded, now)
    several = "\n" in recorded or "\n" in now
    if "\n" not in old and "\n" not in new:
        where = f"line {recorded.count(chr(10), 0, start) + 1}: " if several else ""
        return where + _words(old, new)
    return _lines(recorded.split("\n"), now.split("\n"))


def shorten(text: str, room: int = SHOWN) -> str:
    """Return the text in at most `room` characters, cut in the middle."""
    if len(text) <= room:
        return text
    tail = max(0, (room - 3) // 3)
    return f"{text[: max(0, room - 3 - tail)]}...{text[len(text) - tail :]}"


def excerpt(recorded: str, now: str, room: int) -> tuple[str, str]:
    """Return two texts in at most `room` characters each, both cut so that the first change is seen at the same place.

    Where they would look alike then, what tells them apart is written as escapes.
    """
    at = common_prefix(recorded, now)
    start = max(0, at - room // 3) if max(len(recorded), len(now)) > room else 0
    sides = _cut_text(recorded, start, room), _cut_text(now, start, room)
    if recorded == now or _look(sides[0]) != _look(sides[1]):
        return sides
    at, *spans = hunk(*sides)
    escaped = ["".join(map(_escape, span)) for span in spans]
    if escaped == spans:  # spaces at the end
        return json.dumps(sides[0], ensure_ascii=False), json.dumps(sides[1], ensure_ascii=False)
    written = [side[:at] + new + side[at + len(old) :] for side, old, new in zip(sides, spans, escaped, strict=True)]
    return written[0], written[1]


def shorten_pair(recorded: str, now: str, room: int = SHOWN) -> tuple[str, str]:
    """Return two texts shortened to `room` characters, or cut around their first change where that hides it."""
    short = shorten(recorded, room), shorten(now, room)
    return short if _look(short[0]) != _look(short[1]) else excerpt(recorded, now, room)


def _look(text: str) -> str:
    """Return one text for all that look like `text`."""
    seen = _UNSEEN.sub("", unicodedata.normalize("NFKC", text)).translate(_LETTERS)
    return _SPACE.sub(" ", _QUOTES.sub("'", _DASHES.sub("-", seen))).rstrip()


def _escape(char: str) -> str:
    return char if char.isprintable() and char.isascii() else json.dumps(char)[1:-1]


def _cut_text(text: str, start: int, room: int) -> str:
    before = "..." if start else ""
    rest = text[start:]
    if len(before) + len(rest) <= room:
        return before + rest
    return f"{before}{rest[: max(0, room - len(before) - 3)]}..."


def _inside_word(text: str, at: int, other: str, other_at: int | None = None) -> bool:
    """Return whether position `at` of either text has a letter or digit on both sides."""
    other_at = at if other_at is None else other_at
    return _is_inside_letters(text, at) or _is_inside_letters(other, other_at)


def _is_inside_letters(text: str, at: int) -> bool:
    return 0 < at < len(text) and _wordy(text[at - 1]) and _wordy(text[at])


def _wordy(char: str) -> bool:
    return char.isalnum() or char == "_"


def _show(text: str) -> str:
    plain = text and " " not in text and text.isprintable()
    return text if plain else json.dumps(text, ensure_ascii=False)


def _words(old: str, new: str) -> str:
    """One changed span of a line; several changed words far apart are shown by the first of them."""
    if len(old) + len(new) > 2 * SHOWN and old and new:
        before, after = re.split(r"(\s+)", old), re.split(r"(\s+)", new)
        codes = opcodes(before, after) or []
        if len(codes) > 1:
            _, i1, i2, j1, j2 = codes[0]
            more = len(codes) - 1
            return f"{_swap(''.join(before[i1:i2]), ''.join(after[j1:j2]))} (and {more} more place{'s' * (more > 1)})"
    return _swap(old, new)


def _swap(old: str, new: str) -> str:
    if not old:
        return f"added {_show(shorten(new))}"
    if not new:
        return f"dropped {_show(shorten(old))}"
    return " -> ".join(shorten_pair(_show(old), _show(new)))


def _lines(old: list[str], new: list[str]) -> str:
    """Several changed lines: the first of them, and how many more."""
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    before, after = old[head : len(old) - tail], new[head : len(new) - tail]
    codes = opcodes(before, after) or [("replace", 0, len(before), 0, len(after))]
    kind, i1, i2, j1, j2 = codes[0]
    more = sum(max(code[2] - code[1], code[4] - code[3]) for code in codes) - 1
    if kind == "delete":
        first = f"{_range(head + i1 + 1, head + i2)} dropped"
        more -= i2 - i1 - 1
    elif kind == "insert":
        first = f"{_range(head + j1 + 1, head + j2)} added"
        more -= j2 - j1 - 1
    else:
        first = f"line {head + i1 + 1}: {_words(*hunk(before[i1], after[j1])[1:])}"
    return f"{first} (and {more} more line{'s' * (more > 1)})" if more > 0 else first


def _range(first: int, last: int) -> str:
    return f"line {first}" if first == last else f"lines {first}-{last}"
