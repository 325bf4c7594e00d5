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
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    Range = tuple[int, int, int, int]

Opcode = tuple[str, int, int, int, int]

SHOWN = 48  # characters of a changed span in a note
SIDE = 32  # characters of each side of it
# What one alignment may cost: N x M, and equal pairs among them. Of 2,000 elements in another order it takes 0.05 s;
# the worst that is let through, 188,000 pairs among two times 1,300 elements of nine kinds, takes 5 s.
PRODUCT, PAIRS = 4_000_000, 200_000
# What one part of two texts may cost, N x M, and how often a text is divided: 10,000 lines of nine kinds take 0.02 s.
PART, DEPTH = 40_000, 6
# Comparisons for each element of a large part in which few edits are looked for, and how many a diagonal counts for:
# 50 kB of single letters in another order take 0.1 s.
EFFORT, DIAGONAL = 10, 8

_SPACE = re.compile(r"\s")
_TOKEN = re.compile(r"\w+(?:[-.:/@]+\w+)*|\s+|[^\w\s]")  # a date or a price is one word
# Two code points of one character, as a reader sees it: with a joiner, a skin tone or a tag, or the halves of a flag.
_JOINED = re.compile(
    "[\u200c\u200d].|.[\u200c\u200d\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]|[\U0001f1e6-\U0001f1ff]{2}"
)
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


def find_changes(old: Sequence[str], new: Sequence[str], i: int = 0, j: int = 0, depth: int = 0) -> Iterator[Range]:
    """Yield the ranges of two sequences that differ, in order: begin and end in `old`, begin and end in `new`.

    Both are divided at the elements that each has once ("patience diff"), and only what is between these is aligned.
    A large part without such an element is one range, unless few elements differ in it. `i`, `j` and `depth` are of
    the part that is being divided.
    """
    head, tail = count_common_ends(old, new)
    old, new, i, j = old[head : len(old) - tail], new[head : len(new) - tail], i + head, j + head
    anchors = _find_anchors(old, new) if depth < DEPTH else []
    if anchors:
        i1 = j1 = 0
        for i2, j2 in [*anchors, (len(old), len(new))]:
            yield from find_changes(old[i1:i2], new[j1:j2], i + i1, j + j1, depth + 1)
            i1, j1 = i2 + 1, j2 + 1
    elif old or new:
        codes = opcodes(old, new) if len(old) * len(new) <= PART else None
        ranges = _find_few_edits(old, new) if codes is None else [code[1:] for code in codes]
        yield from ((i + i1, i + i2, j + j1, j + j2) for i1, i2, j1, j2 in ranges)


def _find_few_edits(old: Sequence[str], new: Sequence[str]) -> list[Range]:
    """Return the ranges that differ by the fewest edits (Myers' greedy way); all as one where these are too many.

    Its time is that of the edits, not of equal pairs: a long line of repeated words has millions of these.
    """
    ends: dict[int, tuple[int, Any]] = {1: (0, None)}  # by diagonal: how far in `old`, and the equal runs on the way
    effort = EFFORT * (len(old) + len(new))
    for edits in range(effort):
        for diagonal in range(-edits, edits + 1, 2):
            above, below = ends.get(diagonal + 1), ends.get(diagonal - 1, (-2, None))
            i, runs = above if above is not None and below[0] < above[0] else (below[0] + 1, below[1])
            start, j = i, i - diagonal
            while i < len(old) and j < len(new) and old[i] == new[j]:
                i, j = i + 1, j + 1
            ends[diagonal] = i, (start, start - diagonal, i - start, runs) if i > start else runs
            effort -= i - start + DIAGONAL
            if i >= len(old) and j >= len(new):
                return _list_gaps(ends[diagonal][1], len(old), len(new))
        if effort < 0:
            break
    return [(0, len(old), 0, len(new))]


def _list_gaps(runs: Any, i: int, j: int) -> list[Range]:
    """Return what lies between equal runs, of which the last comes first."""
    gaps = []
    while runs is not None:
        at, to, size, runs = runs
        gaps.append((at + size, i, to + size, j))
        i, j = at, to
    return [*([(0, i, 0, j)] if i or j else []), *(gap for gap in reversed(gaps) if gap[0] < gap[1] or gap[2] < gap[3])]


def _find_anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return where the elements stand that both have once, of those in the same order as many as difflib finds."""
    count, other = Counter(old), Counter(new)
    once = {each for each in count if count[each] == other[each] == 1}
    lines, others = ([(at, each) for at, each in enumerate(side) if each in once] for side in (old, new))
    matcher = SequenceMatcher(None, [each for _, each in lines], [each for _, each in others], autojunk=False)
    return [
        (lines[i + step][0], others[j + step][0])
        for i, j, size in matcher.get_matching_blocks()
        for step in range(size)
    ]


def count_common_ends(recorded: Sequence[object], now: Sequence[object]) -> tuple[int, int]:
    """Return how many elements two sequences share at the start, and how many of the rest at the end."""
    short = min(len(recorded), len(now))
    head = next((i for i in range(short) if recorded[i] != now[i]), short)
    tail = next((i for i in range(short - head) if recorded[-1 - i] != now[-1 - i]), short - head)
    return head, tail


def common_prefix(recorded: str, now: str) -> int:
    """Return how many characters the two share at the start."""
    low, high = 0, min(len(recorded), len(now))
    if recorded[:high] == now[:high]:
        return high
    # By halves: slices are compared in C, so 100 kB take 0.05 ms, and by a loop over the characters 15 ms.
    while high - low > 1:
        middle = (low + high) // 2
        if recorded[low:middle] == now[low:middle]:
            low = middle
        else:
            high = middle
    return low


def common_suffix(recorded: str, now: str, limit: int) -> int:
    """Return how many characters, at most `limit`, the two share at the end."""
    return common_prefix(*(text[len(text) - limit :][::-1] for text in (recorded, now)))


def hunk(recorded: str, now: str) -> tuple[int, str, str]:
    """Return the changed span, widened to whole words: (where it begins, its old text, its new text)."""
    start = common_prefix(recorded, now)
    end = common_suffix(recorded, now, min(len(recorded), len(now)) - start)
    # Not beyond SHOWN: a text without a blank, such as base64, is no word.
    floor, limit = max(0, start - SHOWN), max(0, end - SHOWN)
    while start > floor and (_is_inside_word(recorded, start) or _is_inside_word(now, start)):
        start -= 1
    while end > limit and (_is_inside_word(recorded, len(recorded) - end) or _is_inside_word(now, len(now) - end)):
        end -= 1
    return start, recorded[start : len(recorded) - end], now[start : len(now) - end]


def brief(recorded: str, now: str) -> str:
    """Return what changed between two different texts, in a few words."""
    if max(len(recorded), len(now)) < 2 * SHOWN and not _SPACE.search(recorded + now):
        return _describe_swap(recorded, now)
    start, old, new = hunk(recorded, now)
    if "\n" in old or "\n" in new:
        return _describe_lines(*_find_lines(recorded, now))
    has_lines = "\n" in recorded or "\n" in now
    where = f"line {recorded.count(chr(10), 0, start) + 1}: " if has_lines else ""
    return where + _describe_words(old, new)


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
    if recorded == now or look(sides[0]) != look(sides[1]):
        return sides
    at, *spans = hunk(*sides)
    escaped = ["".join(map(escape_char, span)) for span in spans]
    if escaped == spans:  # spaces at the end
        return json.dumps(sides[0], ensure_ascii=False), json.dumps(sides[1], ensure_ascii=False)
    written = [side[:at] + new + side[at + len(old) :] for side, old, new in zip(sides, spans, escaped, strict=True)]
    return written[0], written[1]


def shorten_pair(recorded: str, now: str, room: int = SHOWN) -> tuple[str, str]:
    """Return two texts shortened to `room` characters, or cut around their first change where that hides it."""
    short = shorten(recorded, room), shorten(now, room)
    return short if look(short[0]) != look(short[1]) else excerpt(recorded, now, room)


def look(text: str) -> str:
    """Return one text for all that look like `text`."""
    seen = _UNSEEN.sub("", unicodedata.normalize("NFKC", text)).translate(_LETTERS)
    return _SPACE.sub(" ", _QUOTES.sub("'", _DASHES.sub("-", seen))).rstrip()


def escape_char(char: str) -> str:
    """Return a character of other alphabets, or one that is not seen, as JSON escapes it."""
    return char if char.isprintable() and char.isascii() else json.dumps(char)[1:-1]


def _cut_text(text: str, start: int, room: int) -> str:
    before = "..." if start else ""
    rest = text[start:]
    if len(before) + len(rest) <= room:
        return before + rest
    return f"{before}{rest[: max(0, room - len(before) - 3)]}..."


def _is_inside_word(text: str, at: int) -> bool:
    """Return whether there is a letter or digit on both sides of position `at`."""
    return 0 < at < len(text) and _is_letter(text[at - 1]) and _is_letter(text[at])


def _is_letter(char: str) -> bool:
    return char.isalnum() or char == "_"


def _show(text: str) -> str:
    plain = text and " " not in text and text.isprintable()
    return text if plain else json.dumps(text, ensure_ascii=False)


def count_places(recorded: str, now: str) -> int:
    """Return in how many places two texts differ: their changed lines, or else the changed words of one line.

    Lines that were only added or dropped are one place where they stand together.
    """
    _, old, new = hunk(recorded, now)
    if "\n" in old or "\n" in new:
        ranges = _find_lines(recorded, now)[2]
        return sum(max(i2 - i1, j2 - j1) if i1 < i2 and j1 < j2 else 1 for i1, i2, j1, j2 in ranges)
    return len(find_words(old, new)[2])


def _find_lines(recorded: str, now: str) -> tuple[list[str], list[str], list[Range]]:
    old, new = recorded.split("\n"), now.split("\n")
    return old, new, [*find_changes(old, new)]


def find_words(old: str, new: str) -> tuple[list[str], list[str], list[Range]]:
    """Return the words, blanks and signs of two lines, and the ranges that differ; those beside each other as one."""
    words, others = _split_words(old), _split_words(new)
    ranges: list[Range] = []
    for i1, i2, j1, j2 in find_changes(words, others):
        # A blank between two changed words belongs to the change.
        if ranges and not "".join(words[ranges[-1][1] : i1]).strip():
            ranges[-1] = ranges[-1][0], i2, ranges[-1][2], j2
        else:
            ranges.append((i1, i2, j1, j2))
    return words, others, ranges


def _split_words(line: str) -> list[str]:
    """Return the words, blanks and signs of a line, none of them cut inside of what a reader sees as one character."""
    starts = (match.start() for match in _TOKEN.finditer(line))
    cuts = [at for at in starts if at == 0 or not is_inside_character(line, at)]
    return [line[start:end] for start, end in pairwise([*cuts, len(line)])]


def is_inside_character(text: str, at: int) -> bool:
    """Return whether position `at` is inside of what a reader sees as one character, or behind a mark within a word."""
    pair = text[at - 1 : at + 1]
    if len(pair) < 2 or pair.isascii():
        return False
    marks = [unicodedata.category(char)[0] == "M" for char in pair]
    return marks[1] or (marks[0] and pair[1].isalnum()) or _JOINED.match(pair) is not None


def _describe_words(old: str, new: str) -> str:
    """Return the first place in which two lines differ."""
    if len(old) + len(new) > SHOWN and old and new:
        before, after, ranges = find_words(old, new)
        i1, i2, j1, j2 = ranges[0]
        # A text that was written anew is shown from its start.
        if sum(i2 - i1 for i1, i2, _, _ in ranges) * 2 < len(before):
            _, old, new = hunk("".join(before[i1:i2]), "".join(after[j1:j2]))
    return _describe_swap(old, new)


def _describe_swap(old: str, new: str) -> str:
    if not old:
        return f"added {_show(shorten(new))}"
    if not new:
        return f"dropped {_show(shorten(old))}"
    return " -> ".join(shorten_pair(_show(old), _show(new), SIDE))


def _describe_lines(old: list[str], new: list[str], ranges: list[Range]) -> str:
    """Return the first of several changed lines."""
    i1, i2, j1, j2 = ranges[0]
    if i1 < i2 and j1 < j2:
        return f"line {i1 + 1}: {_describe_words(*hunk(old[i1], new[j1])[1:])}"
    start, end, what = (i1, i2, "dropped") if i1 < i2 else (j1, j2, "added")
    return f"line {end} {what}" if end - start == 1 else f"lines {start + 1}-{end} {what}"
