"""Content codings: the text under a coded body, and the body of a changed text, chunk by chunk.

Decoding is bounded (`LIMIT` bytes, `RATIO` times the size); what is larger, damaged or coded in a way that nothing at
hand can read is `Opaque`. zlib is at hand; brotli and zstd are, where a library of theirs is. Several codings in a row,
and the frames of aws-chunked, are undone for a request alone (`text_of_layers`): nothing packs them again.

An agent's client asks for br or zstd only where it can read them, so the library is there when a body needs it. Each
reader gives no more than it is asked for, whatever the body promises; a brotli that cannot (before 1.2) is left alone.
"""

from __future__ import annotations

import re
import zlib
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple, Protocol

ZLIB = frozenset(("gzip", "x-gzip", "deflate"))
FRAMED = "aws-chunked"
"""Not packed, but cut into chunks that are signed: S3 takes bodies so (botocore does over TLS)."""
MOST_LAYERS = 4
UNMARKED = frozenset(("br",))
"""Codings whose bodies do not say that they are: whatever bytes may begin one."""
WINDOW_LOG = 23
"""The largest window that zstd may ask for over HTTP, 8 MB (RFC 9659)."""
_PIECE = 64
"""Of so many bytes zstd can make 2 MB at most: four to a block, and 128 kB in each."""
_QUALITY = 4
"""How hard brotli tries: its own default takes seconds for a megabyte."""


class ContentReader(Protocol):
    """Unpacks a body piece by piece."""

    def unpack(self, data: bytes, limit: int) -> bytes:
        """What `data` adds, never much more than `limit` bytes; at least that many where there are more. May raise."""

    def check_end(self) -> tuple[bool, bool]:
        """Return whether the packed body is complete, and whether anything follows it."""


def reader(coding: str, data: bytes) -> ContentReader | None:
    """What unpacks `data`; None for a coding that nothing here can read."""
    if coding in ZLIB:
        return _Zlib(coding, data)
    if coding == "br" and (brotli := _brotli()) is not None:
        return _Brotli(brotli.Decompressor())
    if coding == "zstd" and (zstd := _zstd()) is not None:
        return _Zstd(zstd)
    return None


def writer(coding: str) -> ContentWriter:
    """What packs a body that `reader` can read."""
    if coding in ZLIB:
        packer = zlib.compressobj(wbits=zlib.MAX_WBITS if coding == "deflate" else zlib.MAX_WBITS | 16)
        return ContentWriter(packer.compress, lambda: packer.flush(zlib.Z_SYNC_FLUSH), packer.flush)
    if coding == "br":
        brotli: Any = _brotli()
        stream = brotli.Compressor(quality=_QUALITY)
        return ContentWriter(stream.process, stream.flush, stream.finish)
    library: Any = _zstd()
    if is_standard(library):
        frame = library.ZstdCompressor()
        return ContentWriter(frame.compress, lambda: frame.flush(frame.FLUSH_BLOCK), frame.flush)
    frame = library.ZstdCompressor().compressobj()
    return ContentWriter(frame.compress, lambda: frame.flush(library.COMPRESSOBJ_FLUSH_BLOCK), frame.flush)


class ContentWriter:
    """Packs a body piece by piece."""

    def __init__(self, add: Any, flush: Any, finish: Any) -> None:
        """Take the three functions of a library's stream: what packs, what flushes, what ends the body."""
        self._add, self._flush, self._finish = add, flush, finish

    def write(self, text: bytes, *, last: bool) -> bytes:
        """Return the packed bytes from which all of `text` can be read; with `last` the end of the body too."""
        packed: bytes = self._add(text) + (self._finish() if last else self._flush())
        return packed


class _Zlib:
    def __init__(self, coding: str, data: bytes) -> None:
        self._stream = zlib.decompressobj(window_bits(coding, data))
        self._rest_is_legal = coding == "deflate"

    def unpack(self, data: bytes, limit: int) -> bytes:
        return self._stream.decompress(data, limit)

    def check_end(self) -> tuple[bool, bool]:
        return self._stream.eof, bool(self._stream.unused_data) and not self._rest_is_legal


class _Brotli:
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def unpack(self, data: bytes, limit: int) -> bytes:
        part: bytes = self._stream.process(data, output_buffer_limit=limit) if data else b""
        return part

    def check_end(self) -> tuple[bool, bool]:
        return self._stream.is_finished(), False  # it raises where anything follows


class _Zstd:
    def __init__(self, library: Any) -> None:
        if is_standard(library):
            windows = {library.DecompressionParameter.window_log_max: WINDOW_LOG}
            self._stream = library.ZstdDecompressor(options=windows)
        else:
            self._stream = library.ZstdDecompressor(max_window_size=1 << WINDOW_LOG).decompressobj()
        self._follows = False

    def unpack(self, data: bytes, limit: int) -> bytes:
        parts: list[bytes] = []
        for at in range(0, len(data), _PIECE):
            if self._stream.eof or limit <= 0:
                self._follows = self._stream.eof
                break
            part = self._stream.decompress(data[at : at + _PIECE])
            parts.append(part)
            limit -= len(part)
        return b"".join(parts)

    def check_end(self) -> tuple[bool, bool]:
        return self._stream.eof, self._follows or bool(self._stream.unused_data)


def is_standard(library: Any) -> bool:
    """Whether a library for zstd is the standard one, or its twin; zstandard has another face."""
    return hasattr(library, "DecompressionParameter")


def window_bits(name: str, data: bytes) -> int:
    """Gzip by its name; deflate with its zlib header, or without it as some servers send it."""
    if name != "deflate":
        return zlib.MAX_WBITS | 16
    has_header = len(data) >= 2 and data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
    return zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS


@cache
def _brotli() -> Any:
    """The library for br, if there is one that can be told where to stop."""
    library: Any = None
    with suppress(ImportError):
        library = import_module("brotlicffi")
    with suppress(ImportError):
        library = import_module("brotli")
    return library if hasattr(getattr(library, "Decompressor", None), "can_accept_more_data") else None


@cache
def _zstd() -> Any:
    """The library for zstd: the standard one, its twin for older Pythons, or zstandard."""
    with suppress(ImportError):
        return import_module("compression.zstd")
    with suppress(ImportError):
        return import_module("backports.zstd")
    with suppress(ImportError):
        return import_module("zstandard")
    return None


LIMIT = 8 * 1024 * 1024
"""Bytes that a body may decode to."""

RATIO, SMALL = 200, 1024 * 1024
"""How many times its size a body may decode to, as soon as that is more than `SMALL`."""

_STEP = 64 * 1024

_CHUNK = re.compile(rb"([0-9a-fA-F]{1,8})(?:;chunk-signature=[0-9a-fA-F]+)?\r\n")
_TRAILERS = re.compile(rb"(?:x-amz-[\w-]+:[^\r\n]*(?:\r\n|\n|\Z))*(?:\r\n)?\Z", re.IGNORECASE)
"""What follows the last chunk: checksums and the signature of what has been read."""


class Opaque(Exception):
    """The body cannot be read within bounds, so nothing can be said about what it holds."""


class Decoded(NamedTuple):
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
        part = _unpack(stream, data[at : at + size], total)
        at += size
        total += len(part)
        complete, follows = stream.check_end()
        if total > LIMIT or swollen(total, at) or follows:
            raise Opaque
        parts.append(part)
    return Decoded(b"".join(parts), tuple(map(len, parts)), complete)


def layers(coding: str) -> list[str]:
    """Return the codings of a body that was coded in several ways, or framed in chunks; empty for any other."""
    names = [name.strip().lower() for name in coding.split(",") if is_coded(name)]
    return names if len(names) > 1 or FRAMED in names else []


def text_of_layers(names: list[str], data: bytes) -> bytes:
    """Return the text under `layers`. The frames are outermost, wherever they are named. Raises Opaque."""
    if FRAMED in names:
        names, data = [name for name in names if name != FRAMED], remove_chunks(data)
    for name in reversed(names[:MOST_LAYERS]):
        decoded = decode(name, data, ())
        if not decoded.complete:
            raise Opaque
        data = decoded.text
    return data


def remove_chunks(data: bytes) -> bytes:
    """Return what aws-chunked frames hold, without their signatures and checksums. Raises Opaque.

    Each chunk is its size in hex digits, its signature where it has one, and its bytes; one of size 0 is the last
    (https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html).
    """
    parts: list[bytes] = []
    at = 0
    while (head := _CHUNK.match(data, at)) is not None:
        size = int(head[1], 16)
        at = head.end() + size
        if not size:
            break
        parts.append(data[head.end() : at])
        if data[at : at + 2] != b"\r\n":
            raise Opaque
        at += 2
    if head is None or _TRAILERS.match(data, at) is None:
        raise Opaque
    return b"".join(parts)


def _unpack(stream: ContentReader, data: bytes, total: int) -> bytes:
    try:
        return stream.unpack(data, LIMIT - total + 1)
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
            total += len(_unpack(stream, data[at : at + _STEP], total))
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
