"""Content codings: the text under a gzip or deflate body, and the body of a changed text, chunk by chunk.

Decoding is bounded (`LIMIT` bytes, `RATIO` times the size); what is larger, damaged, coded twice or in another way is
`Opaque`.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

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
    name = coding.strip().lower()
    if name not in {"gzip", "x-gzip", "deflate"}:
        raise Opaque
    reader = zlib.decompressobj(window_bits(name, data))
    parts: list[bytes] = []
    sizes: list[int] = []
    at = total = 0
    try:
        for size in cuts or (len(data),):
            part = reader.decompress(data[at : at + size], LIMIT - total + 1)
            at += size
            total += len(part)
            if total > LIMIT or swollen(total, at) or (reader.unused_data and name != "deflate"):
                raise Opaque
            parts.append(part)
            sizes.append(len(part))
    except zlib.error as error:
        raise Opaque from error
    return Decoded(b"".join(parts), tuple(sizes), reader.eof)


def swollen(size: int, coded: int) -> bool:
    """Whether `coded` bytes that decode to `size` are made to fill the memory of whoever decodes them."""
    return size > SMALL and size > RATIO * coded


def bomb(coding: str, data: bytes) -> bool:
    """Whether `data` decodes to more than may be, or is coded more than once; nothing is kept of what it decodes to."""
    names = [name.strip().lower() for name in coding.split(",") if is_coded(name)]
    if len(names) != 1 or names[0] not in {"gzip", "x-gzip", "deflate"}:
        return len(names) > 1
    reader = zlib.decompressobj(window_bits(names[0], data))
    total = 0
    try:
        for at in range(0, len(data), _STEP):
            total += len(reader.decompress(data[at : at + _STEP], LIMIT - total + 1))
            if total > LIMIT:
                return True
    except zlib.error:
        return False
    return swollen(total, len(data))


def encode(coding: str, text: bytes, cuts: tuple[int, ...], *, complete: bool) -> tuple[bytes, tuple[int, ...]]:
    """A body that decodes to `text`, each chunk to its share of it; with the sizes of the chunks."""
    name = coding.strip().lower()
    writer = zlib.compressobj(wbits=zlib.MAX_WBITS if name == "deflate" else zlib.MAX_WBITS | 16)
    parts: list[bytes] = []
    at = 0
    for nth, size in enumerate(cuts, 1):
        part = writer.compress(text[at : at + size])
        at += size
        last = nth == len(cuts)
        parts.append(part + writer.flush(zlib.Z_FINISH if last and complete else zlib.Z_SYNC_FLUSH))
    return b"".join(parts), tuple(map(len, parts))


def window_bits(name: str, data: bytes) -> int:
    """Gzip by its name; deflate with its zlib header, or without it as some servers send it."""
    if name != "deflate":
        return zlib.MAX_WBITS | 16
    has_header = len(data) >= 2 and data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
    return zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS
