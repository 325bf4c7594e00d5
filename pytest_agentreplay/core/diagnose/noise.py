"""Spans that change on every run whatever the agent does: times, random ids, temporary places, the order of a set.

A guess by shape, and told as one: two values whose only difference is such spans are likely the same value. Bytes are
never such a span: another picture, sound or file is a change, also where it is written as digits.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from pytest_agentreplay.core import media
from pytest_agentreplay.core.canonical_json import NotJson, canonical, parse
from pytest_agentreplay.core.diff import texts
from pytest_agentreplay.core.divergence import Absent

if TYPE_CHECKING:
    from pytest_agentreplay.core.divergence import Difference
    from pytest_agentreplay.core.model import Json

CLOCK, UUID, PLACE, PORT, IDENT, ORDER = "a clock", "a uuid", "a place", "a port", "a random id", "the order of a set"

_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_DAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*"
_NAMES = {"clock": CLOCK, "uuid": UUID, "place": PLACE, "port": PORT, "id": IDENT}
_SPAN = re.compile(
    r"(?P<uuid>\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b)"
    r"|(?P<clock>\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
    r"|\b\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?(?:\s?[AP]M)?\b"
    rf"|\b(?:{_DAY},? )?(?:\d{{1,2}}\.? {_MONTH},? \d{{4}}|{_MONTH} \d{{1,2}},? \d{{4}})\b"
    rf"|\b{_DAY}\b(?=,? )"
    r"|\b(?:1[4-9]|20)\d{8}(?:\d{3}|\d{6}|\d{9})?(?:\.\d+)?\b)"
    r"|(?P<place>(?:/private)?/(?:tmp|var/folders|var/tmp)(?:/[^\s\"'<>,;:]*)?"
    r"|(?<![^\s\"'<>,;:])[^\s\"'<>,;:]*/pytest-of-[^\s\"'<>,;:]*"  # a name is long: it is looked at from its start
    r"|\{\{(?:real|link)?tempdir(?::[a-z0-9-]+)?\}\}[^\s\"'<>,;:]*"
    r"|/(?:home|Users)/[^\s\"'<>,;:]+|[A-Za-z]:\\+(?:Users|Temp)\\[^\s\"'<>,;:]+)"
    r"|(?P<port>(?<=[A-Za-z0-9\]]):\d{4,5}\b)"
    r"|(?P<id>\b0x[0-9a-fA-F]{6,}\b|\b(?=[0-9a-f-]{0,99}\d)(?=[0-9a-f-]{0,99}[a-f])[0-9a-f]{8,64}\b"
    r"|\b[A-Za-z]{2,12}[_-](?=[A-Za-z0-9]*\d)(?=[A-Za-z0-9]*[A-Za-z])[A-Za-z0-9]{12,}\b)"
)
_WORD = re.compile(r"[\w.@/-]+")
_MARK = re.compile(r"\{\{(?:(?:real|link)?(?:root|cwd|tmp|tempdir|home)|host|user)(?::[a-z0-9-]+)?\}\}")
_NAME = r"""[^\s"'<>,;]{1,200}"""
_SEPARATOR = re.compile("[,;|]")
_EPOCH = ((1.4e9, 2.1e9), (1.4e12, 2.1e12), (1.4e15, 2.1e15), (1.4e18, 2.1e18))


def noise(difference: Difference) -> str:
    """What the two sides likely differ in, "a clock and a uuid"; "" when they really differ."""
    recorded, now = difference.recorded, difference.now
    if isinstance(recorded, Absent) or isinstance(now, Absent):
        return ""
    if isinstance(recorded, str) and isinstance(now, str):
        return "" if media.is_mark(recorded) or media.is_mark(now) else _in_texts(recorded, now)
    if isinstance(recorded, list) and isinstance(now, list):
        return ORDER if _is_permuted(recorded, now) else ""
    return CLOCK if _epoch(recorded) and _epoch(now) else ""


def nothing_else(difference: Difference) -> bool:
    """Whether the place holds the noise and no other text, so that leaving it out hides nothing."""
    recorded = difference.recorded
    return not isinstance(recorded, str) or not any(map(str.isalnum, _SPAN.sub("", recorded)))


def _in_texts(recorded: str, now: str) -> str:
    if _SPAN.sub(_mark, recorded) == _SPAN.sub(_mark, now):
        pairs = zip(_SPAN.finditer(recorded), _SPAN.finditer(now), strict=True)
        kinds = {_NAMES[str(old.lastgroup)]: None for old, new in pairs if old[0] != new[0]}
        return " and ".join(kinds)
    if _is_place_for_mark(recorded, now) or _is_place_for_mark(now, recorded):
        return PLACE
    if not isinstance(parse(recorded), NotJson):
        return ""
    _, old, new = texts.hunk(recorded, now)
    words = _WORD.findall(old)
    shuffled = len(words) > 1 and Counter(words) == Counter(_WORD.findall(new))
    return ORDER if shuffled and _is_member_list(old) and _is_member_list(new) else ""


def _is_place_for_mark(marked: str, plain: str) -> bool:
    """Whether `plain` names a place outright where `marked` has its mark, as it does with a name that is too common."""
    literals = _MARK.split(marked)
    return len(literals) > 1 and re.fullmatch(_NAME.join(map(re.escape, literals)), plain) is not None


def _is_member_list(text: str) -> bool:
    """Whether a text may be the members of a set: separated by signs, or each on a line of its own."""
    rows = text.split("\n")
    return _SEPARATOR.search(text) is not None or (len(rows) > 1 and all(len(_WORD.findall(row)) <= 3 for row in rows))


def mask_spans(text: str) -> str:
    """Return `text` with the kind of each such span in its place: "<uuid>", "<clock>"."""
    return _SPAN.sub(lambda span: f"<{span.lastgroup}>", text)


def _mark(match: re.Match[str]) -> str:
    return f"\0{match.lastgroup}\0"


def _is_permuted(recorded: list[Json], now: list[Json]) -> bool:
    """The same plain values in another order; messages, tools and pictures have an order that means something."""
    if any(isinstance(item, (dict, list)) or media.is_mark(item) for item in recorded):
        return False
    return Counter(map(canonical, recorded)) == Counter(map(canonical, now))


def _epoch(value: Json) -> bool:
    return type(value) in {int, float} and any(low < value < high for low, high in _EPOCH)  # type: ignore[operator]
