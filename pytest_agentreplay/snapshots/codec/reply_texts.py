"""Texts of replies that an agent sends back in its next request: they stand once in the file, in the reply.

    {"role": "assistant", "content": {"$reply": 1}}

The number counts the long texts of the replies of the lane, from the last one back. So it is the same in each recording
of a conversation, and a changed answer is one change of the file. Of a stream a text is what the rows of a template say
one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.snapshots.codec.values import Malformed, lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator

MARK = "$reply"
LONG = 60
"""Characters of a text that is worth a reference, which takes some twenty and a look upwards."""
_REACH = 8
"""So many texts back a reference goes: an agent sends the last reply back, with its reasoning and its tool calls."""


@dataclass(slots=True)
class ReplyTexts:
    """The last texts of the replies of each lane, as they are stored, newest first."""

    _lanes: dict[str, list[Any]] = field(default_factory=dict)

    def add(self, lane: str, body: Any) -> None:
        """Remember the long texts of a stored reply."""
        if isinstance(body, dict):
            texts = [*_list_texts(body.get("json")), *_join_rows(body)]
            self._lanes[lane] = [*reversed(texts), *self._lanes.get(lane, ())][:_REACH]

    def find(self, lane: str, stored: Any) -> int:
        """Return the number of a stored text among those of the lane; 0 for any other value."""
        texts = self._lanes.get(lane, ())
        return texts.index(stored) + 1 if stored in texts else 0

    def get(self, lane: str, number: Any) -> Any:
        """Return the stored text with this number. Raises Malformed."""
        texts = self._lanes.get(lane, ())
        if type(number) is not int or not 0 < number <= len(texts):
            raise Malformed(f"no text of a reply has the number {number!r:.20}")
        return texts[number - 1]


def is_text(stored: Any) -> bool:
    """Return whether a stored value is a text that is long enough."""
    return len(stored) >= LONG if isinstance(stored, str) else isinstance(stored, dict) and stored.keys() == {"$text"}


def _list_texts(stored: Any) -> Iterator[Any]:
    """Yield the long texts of a stored value, in order."""
    if is_text(stored):
        yield stored
    elif isinstance(stored, dict | list):
        for item in stored.values() if isinstance(stored, dict) else stored:
            yield from _list_texts(item)


def _join_rows(body: dict[str, Any]) -> Iterator[Any]:
    """Yield what the rows of each template say, hole by hole; values that are no texts say nothing."""
    columns: dict[tuple[str, int], list[str]] = {}
    for key in ("events", "lines"):
        for name, *rows in (row for row in body.get(key) or () if isinstance(row, list)):
            for row in rows:
                for hole, cell in enumerate(row if isinstance(row, list) else [row]):
                    if isinstance(cell, str):
                        columns.setdefault((name, hole), []).append(cell)
    yield from filter(is_text, (lines_of("".join(cells)) for cells in columns.values()))
