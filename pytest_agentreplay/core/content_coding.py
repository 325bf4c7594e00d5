"""Content codings: the text under a coded body, and the body of a changed text, chunk by chunk.

Decoding is bounded (`LIMIT` bytes, `RATIO` times the size); what is larger, damaged, coded twice or in a way that
nothing at hand can read (`content_codecs`) is `Opaque`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_agentreplay.core.content_codecs import reader, writer

if TYPE_CHECKING:
    from pytest_agentreplay.core.content_codecs import ContentReader

LIMIT = 8 * 1024 * 1024
"""Bytes that a body may decode to."""

RATIO, SMALL = 200, 1024 * 1024
"""How many times its size a body may decode to, as soon as that is more than `SMALL`."""

_STEP = 64 * 1024


class Opaque(Exception):
    """The body cannot be read within bounds, so nothing can be said about what it holds."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """The text, how many bytes of it each chunk carried, and whether the coded body was complete."""

    text: bytes
    cuts: tuple[int, ...]
    complete: bool


def is_coded(coding: str) -> bool:
    """Whether a Content-Encoding value hides the text at all."""
    return coding.strip().lower() not in {"", "identity"}


def decode(coding: str, data: bytes, cuts: tuple[int, ...]) -> Decoded:
    """The text under `data`. Raises Opaque."""
    stream = reader(coding.strip().lower(), data)
    if stream is None:
        raise Opaque
    parts: list[bytes] = []
    at = total = 0
    for size in cuts or (len(data),):
        part = _read(stream, data[at : at + size], total)
        at += size
        total += len(part)
        complete, follows = stream.ended()
        if total > LIMIT or swollen(total, at) or follows:
            raise Opaque
        parts.append(part)
    return Decoded(b"".join(parts), tuple(map(len, parts)), complete)


def _read(stream: ContentReader, data: bytes, total: int) -> bytes:
    try:
        return stream.read(data, LIMIT - total + 1)
    except Exception as error:  # each library has an error of its own
        raise Opaque from error


def swollen(size: int, coded: int) -> bool:
    """Whether `coded` bytes that decode to `size` are made to fill the memory of whoever decodes them."""
    return size > SMALL and size > RATIO * coded


def bomb(coding: str, data: bytes) -> bool:
    """Whether `data` decodes to more than may be, or is coded more than once; nothing is kept of what it decodes to."""
    names = [name.strip().lower() for name in coding.split(",") if is_coded(name)]
    if len(names) != 1:
        return len(names) > 1
    if (stream := reader(names[0], data)) is None:
        return False
    total = 0
    try:
        for at in range(0, len(data), _STEP):
            total += len(_read(stream, data[at : at + _STEP], total))
            if total > LIMIT:
                return True
    except Opaque:
        return False
    return swollen(total, len(data))


def encode(coding: str, text: bytes, cuts: tuple[int, ...], *, complete: bool) -> tuple[bytes, tuple[int, ...]]:
    """A body that decodes to `text`, each chunk to its share of it; with the sizes of the chunks."""
    packer = writer(coding.strip().lower())
    parts: list[bytes] = []
    at = 0
    for nth, size in enumerate(cuts, 1):
        parts.append(packer.write(text[at : at + size], last=complete and nth == len(cuts)))
        at += size
    return b"".join(parts), tuple(map(len, parts))
