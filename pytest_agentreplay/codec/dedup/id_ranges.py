"""Ids of messages, tools and texts, and runs of them: "m1..m14".

`m7` is the seventh message of the file, `m7.2` its second version. A run "m1..m14" names first versions; "m1..m14~"
names each one's newest version that stands above, or left of, the run. Runs keep a request short whose history was
touched here and there (a cache mark that moves on).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_ID = re.compile(r"([a-z])([1-9][0-9]{0,8})(?:\.([1-9][0-9]{0,8}))?", re.ASCII)
_RUN = re.compile(r"([a-z])([1-9][0-9]{0,8})\.\.\1([1-9][0-9]{0,8})(~?)", re.ASCII)


def base(ident: str) -> str:
    """The id of the first version of `ident`."""
    return ident.partition(".")[0]


def is_id(text: str) -> bool:
    """Whether `text` is the id of one item."""
    return _ID.fullmatch(text) is not None


def compress(ids: Sequence[str], newest: Mapping[str, str]) -> Iterator[str]:
    """`ids` as single ids and runs. `newest` gives the newest version of each first version that has another."""
    at = 0
    while at < len(ids):
        end, mark = _run(ids, at, newest)
        yield ids[at] if end == at + 1 else f"{base(ids[at])}..{base(ids[end - 1])}{mark}"
        at = end


def _run(ids: Sequence[str], at: int, newest: Mapping[str, str]) -> tuple[int, str]:
    """Where the longest run from `at` ends, and the mark that it needs."""
    first = base(ids[at])
    prefix, number = first[0], int(first[1:])
    plain = latest = True
    end = at
    while end < len(ids):
        wanted = f"{prefix}{number}"
        is_plain = plain and ids[end] == wanted
        is_latest = latest and ids[end] == newest.get(wanted, wanted)
        if not (is_plain or is_latest):
            break
        plain, latest = is_plain, is_latest
        number += 1
        end += 1
    return max(end, at + 1), "" if plain else "~"


def expand(text: str) -> Iterator[tuple[str, bool]]:
    """The ids that `text` names, each with whether its newest version is meant. Raises ValueError."""
    if is_id(text):
        yield text, False
        return
    found = _RUN.fullmatch(text)
    if found is None:
        msg = f"{text[:40]!r} is neither an id nor a run of ids"
        raise ValueError(msg)
    for number in range(int(found[2]), int(found[3]) + 1):
        yield f"{found[1]}{number}", bool(found[4])
