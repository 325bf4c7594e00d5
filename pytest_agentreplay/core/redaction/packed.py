"""Packed texts: what base64 says, where it says text: a file of a repository, a secret of a cluster.

Only runs that decode to ASCII or to an archive are looked at; a picture, a signature, a hash and a key of a vendor do
not. What is found is carried back to the groups of four letters that spell it, in an archive to all of it.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_agentreplay.core.content_coding import Opaque
from pytest_agentreplay.core.redaction.archives import contents, is_archive
from pytest_agentreplay.core.redaction.views import View

if TYPE_CHECKING:
    from collections.abc import Iterator

SHORTEST = 44
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-"
_RUN = bytes(65 if byte in _LETTERS else 32 for byte in range(256))
_WRAP = re.compile(rb"(?:\r|\n|\\r|\\n)+")
_PACKED = re.compile(rb"[A-Za-z0-9+/_-]+(?:(?:\r|\n|\\r|\\n){1,4}[A-Za-z0-9+/_-]+)*")


@dataclass(frozen=True, slots=True)
class PackedText:
    """What base64 says, `text`, and the letters that spell it, which begin at `begin` of `above`."""

    text: bytes
    letters: View
    begin: int
    above: View

    def up(self, start: int, end: int) -> tuple[int, int]:
        """The bytes of the text above that spell `text[start:end]`."""
        last = min(-(-end // 3) * 4, len(self.letters.text))
        start, end = self.letters.back(start // 3 * 4, last)
        return self.begin + start, self.begin + end

    def back(self, start: int, end: int) -> tuple[int, int]:
        """The bytes of the topmost text that do."""
        return self.above.back(*self.up(start, end))


class Archived(View):
    """What an archive in base64 holds; the letters of all of it, from `begin` to `end` of a text, spell each part."""

    begin: int
    end: int

    def back(self, start: int, end: int) -> tuple[int, int]:
        """All of it."""
        del start, end
        return self.begin, self.end


class Unreadable(Archived):
    """An archive in base64 that cannot be read."""


def archived(data: bytes, begin: int, end: int) -> Archived:
    """An archive whose base64 stands at `begin` of a text."""
    try:
        view = Archived(b"\n".join(contents(data)))
    except Opaque:
        view = Unreadable(b"")
    view.begin, view.end = begin, end
    return view


def unpacked(view: View) -> Iterator[PackedText | Archived]:
    """What stands in base64 in a text."""
    flat, run = view.text.translate(_RUN), b"A" * SHORTEST
    at = flat.find(run)
    while at >= 0:
        found = _PACKED.match(view.text, at)
        assert found is not None
        if (data := decoded(letters := unwrapped(found[0]))) is not None:
            yield (
                PackedText(data, letters, at, view)
                if data.isascii()
                else archived(data, at, padded(view.text, found.end()))
            )
        at = flat.find(run, found.end())


def padded(text: bytes, end: int) -> int:
    """Where base64 ends whose letters end at `end`."""
    return end + len(text[end : end + 2]) - len(text[end : end + 2].lstrip(b"="))


def unwrapped(word: bytes) -> View:
    """Base64 without the ends of its lines."""
    top = View(word)
    return top if _WRAP.search(word) is None else View(_WRAP.sub(b"", word), top, _WRAP, _nothing)


def decoded(letters: View) -> bytes | None:
    """What base64 says where that is ASCII or an archive; None where it is anything else."""
    text = letters.text.replace(b"-", b"+").replace(b"_", b"/")
    head = base64.b64decode(text[:SHORTEST])
    if not head.isascii() and not is_archive(head):
        return None
    whole = text[: len(text) - (len(text) % 4 == 1)]
    data = base64.b64decode(whole + b"=" * (-len(whole) % 4))
    return data if data.isascii() or is_archive(data) else None


def _nothing(_: bytes) -> bytes:
    return b""
