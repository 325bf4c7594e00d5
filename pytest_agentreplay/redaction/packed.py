"""Packed bodies that no header announces: archives, known by how they begin, read and packed again.

They are gzip, zlib, zstd, bzip2, xz and zip, alone, as a record of a stream, or as a part of a form. What is in one is
read within the bounds of `content_coding`, and so is what is packed in that. One that cannot be read is `Opaque`, and
so is one in which something is found and that nothing here packs again.
"""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING

from pytest_agentreplay.model import content_coding
from pytest_agentreplay.model.content_coding import LIMIT, Decoded, Opaque, swollen
from pytest_agentreplay.redaction.encodings import ARCHIVE_START
from pytest_agentreplay.redaction.spans import splice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_agentreplay.redaction.spans import Span

_PART = re.compile(rb"\r\n\r\n(?=" + ARCHIVE_START.pattern + rb")")
_CODINGS = {b"\x1f": "gzip", b"\x28": "zstd", b"x": "deflate"}
"""The content codings that are archives, by their first byte."""
# The files of a tar file begin at multiples of this; a part of a body of this length tells whether it is zlib.
_HEAD = 512
_ENTRIES = 10_000
_DEEPEST = 3
"""So many layers of archives in archives are read within the first."""


def is_archive(data: bytes) -> bool:
    """Return whether a body begins as an archive does, or is a tar file that holds one."""
    start = ARCHIVE_START.match(data)
    if start is None:
        is_tar = data[257:262] == b"ustar"
        return is_tar and any(is_archive(data[at : at + _HEAD]) for at in range(_HEAD, len(data), _HEAD))
    return data[:1] != b"x" or is_zlib(data)


def is_zlib(data: bytes) -> bool:
    """Return whether a body that begins with the two bytes of zlib is one: `x^2` is text, so a part is unpacked."""
    try:
        zlib.decompressobj(-zlib.MAX_WBITS).decompress(data[2:_HEAD], _HEAD)  # whatever its checksum
    except zlib.error:
        return False
    return not data[:_HEAD].isascii()


def find_archives(data: bytes, records: Iterable[tuple[int, int]] = ()) -> list[tuple[int, int]]:
    """Return where archives stand in a body: all of it, some of its records, or parts of a multipart."""
    if is_archive(data):
        return [(0, len(data))]
    spans = [*records]
    for part in _PART.finditer(data) if data.startswith(b"--") else ():
        end = data.find(b"\r\n--", part.end())
        spans.append((part.end(), len(data) if end < 0 else end))
    return [(start, end) for start, end in spans if is_archive(data[start:end])]


def find_in_archives(
    data: bytes,
    places: Iterable[tuple[int, int]],
    find: Callable[[bytes], list[Span]],
    opaque: Callable[[bytes], bytes],
) -> list[Span]:
    """Return the archives at `places` of a body that hold something, with what stands instead of each."""
    spans: list[Span] = []
    for start, end in places:
        archive = data[start:end]
        try:
            if any(find(text) for text in list_contents(archive)):
                spans.append((start, end, repack(archive, lambda text: _redact_text(text, find))))
        except Opaque:
            spans.append((start, end, opaque(archive)))
    return spans


def _redact_text(text: bytes, find: Callable[[bytes], list[Span]]) -> bytes:
    """Return a text out of an archive without what `find` finds.

    Raises Opaque where that stands in an archive again.
    """
    if is_archive(text) and any(find(inner) for inner in list_contents(text)):
        raise Opaque
    return splice(text, find(text))


def list_contents(data: bytes) -> Iterator[bytes]:
    """Yield what is packed in an archive and in those within it, their names too.

    Raises Opaque, also beyond the bounds.
    """
    total, waiting = 0, [(data, 0)]
    while waiting:
        archive, depth = waiting.pop()
        for text in _unpack(archive):
            total, within = total + len(text), is_archive(text)
            if total > 2 * LIMIT or (within and depth == _DEEPEST):
                raise Opaque
            yield text
            if within:
                waiting.append((text, depth + 1))


def repack(data: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """Return the archive with its contents as `change` returns them. Raises Opaque."""
    if (coding := _CODINGS.get(data[:1])) is not None:
        old = decompress(coding, data)
        text = change(old.text)
        return content_coding.encode(coding, text, (len(text),), complete=old.complete)[0]
    if data.startswith(b"PK"):
        return _zip(data, change)
    raise Opaque


def _unpack(data: bytes) -> Iterator[bytes]:
    """Yield what is packed in an archive itself."""
    if (coding := _CODINGS.get(data[:1])) is not None:
        yield decompress(coding, data).text
    elif data.startswith(b"PK"):
        for name, text in _unzip(data):
            yield name.encode("utf-8", "surrogateescape")
            yield text
    else:
        yield _read_unwritten(data)


def decompress(coding: str, data: bytes) -> Decoded:
    """Return an archive unpacked. Raises Opaque, also where bytes follow a zlib stream: nothing here reads those."""
    result = content_coding.decode(coding, data, (len(data),))
    if coding == "deflate":
        stream = zlib.decompressobj()
        stream.decompress(data)  # within bounds, as it has just been decoded
        if stream.unused_data:
            raise Opaque
    return result


def _unzip(data: bytes) -> list[tuple[str, bytes]]:
    """Return the files of a zip by name. Raises Opaque, also where they are too many, or would fill the memory."""
    import io
    import zipfile

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            total = sum(entry.file_size for entry in entries)
            fits = len(entries) <= _ENTRIES and total <= LIMIT and not swollen(total, len(data))
            texts = [(entry.filename, archive.read(entry)) for entry in entries if fits]
    except Exception as error:  # a damaged or encrypted archive: BadZipFile, RuntimeError, zlib.error and others
        raise Opaque from error
    if not fits:
        raise Opaque
    return texts


def _zip(data: bytes, change: Callable[[bytes], bytes]) -> bytes:
    import io
    import zipfile

    buffer = io.BytesIO()
    texts = _unzip(data)
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w") as new:
        for entry, (name, text) in zip(old.infolist(), texts, strict=True):
            kept = zipfile.ZipInfo(change(name.encode()).decode(), entry.date_time)
            kept.external_attr = entry.external_attr
            stored = zipfile.ZIP_STORED if entry.compress_type == zipfile.ZIP_STORED else zipfile.ZIP_DEFLATED
            new.writestr(kept, change(text), stored)
        new.comment = change(old.comment)
    return buffer.getvalue()


def _read_unwritten(data: bytes) -> bytes:
    """Return what is in bzip2 or xz, which nothing here writes. Raises Opaque."""
    import bz2
    import lzma

    reader = bz2.BZ2Decompressor() if data.startswith(b"BZh") else lzma.LZMADecompressor(memlimit=1 << 26)
    try:
        text = reader.decompress(data, LIMIT + 1)
    except (OSError, EOFError, ValueError, lzma.LZMAError, MemoryError) as error:
        raise Opaque from error
    if len(text) > LIMIT or swollen(len(text), len(data)):
        raise Opaque
    return text
