"""Archives: packed bodies that no header announces, known by how they begin: gzip, zlib, zstd, bzip2, xz and zip.

What is in one is read within the bounds of `content_coding`. One that cannot be read is `Opaque`, and so is one in
which something is found and that nothing here packs again.
"""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.core import content_coding
from pytest_agentreplay.core.content_coding import LIMIT, Decoded, Opaque, swollen
from pytest_agentreplay.core.redaction.spans import splice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_agentreplay.core.redaction.spans import Span

_CODINGS = ((b"\x1f\x8b\x08", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"))
_ZLIB = (b"x\x01", b"x\x5e", b"x\x9c", b"x\xda")
"""RFC 1950 with the window that every packer uses, at its four levels."""
_HEAD = 512
_ZIP = b"PK\x03\x04"
_OTHERS = ((b"BZh", b"1AY&SY", 4), (b"\xfd7zXZ\x00", b"", 6))
_ENTRIES = 10_000
_PART = re.compile(
    rb"\r\n\r\n(?=\x1f\x8b\x08|\x28\xb5\x2f\xfd|PK\x03\x04|BZh[1-9]1AY&SY|\xfd7zXZ\x00|x[\x01\x5e\x9c\xda])"
)
_PART_END = b"\r\n--"


def is_archive(data: bytes) -> bool:
    """Whether a body begins as an archive does."""
    starts = data.startswith((_ZIP, *(sign for sign, _ in _CODINGS), _OTHERS[1][0]))
    return starts or (data.startswith(b"BZh") and data[4:10] == b"1AY&SY") or is_zlib(data)


def is_zlib(data: bytes) -> bool:
    """Whether a body begins as zlib does. Two bytes say little (`x^2` is text), so its first part is unpacked too."""
    if not data.startswith(_ZLIB) or data[:_HEAD].isascii():
        return False
    try:
        zlib.decompressobj(-zlib.MAX_WBITS).decompress(data[2:_HEAD], _HEAD)  # whatever its checksum
    except zlib.error:
        return False
    return True


def archives_in(data: bytes, records: Iterable[tuple[int, int]] = ()) -> list[tuple[int, int]]:
    """Where archives stand in a body: all of it, some of its records, or parts of a multipart."""
    if is_archive(data):
        return [(0, len(data))]
    found = [(start, end) for start, end in records if is_archive(data[start:end])]
    for part in _PART.finditer(data) if data.startswith(b"--") else ():
        end = data.find(_PART_END, part.end())
        end = len(data) if end < 0 else end
        if is_archive(data[part.end() : end]):
            found.append((part.end(), end))
    return found


def contents(data: bytes) -> Iterator[bytes]:
    """What is packed in an archive, the names in it too. Raises Opaque."""
    if (coding := coding_of(data)) is not None:
        yield decoded(coding, data).text
        return
    if data.startswith(_ZIP):
        for name, text in _unzipped(data):
            yield name.encode("utf-8", "surrogateescape")
            yield text
        return
    yield _unpacked(data)


def coding_of(data: bytes) -> str | None:
    """The content coding that an archive is packed with, if it is one."""
    coding = next((coding for magic, coding in _CODINGS if data.startswith(magic)), None)
    return "deflate" if coding is None and data.startswith(_ZLIB) else coding


def decoded(coding: str, data: bytes) -> Decoded:
    """An archive unpacked. Raises Opaque, also where bytes follow a zlib stream: nothing here reads those."""
    result = content_coding.decode(coding, data, (len(data),))
    if coding == "deflate":
        stream = zlib.decompressobj()
        stream.decompress(data)  # within bounds, as it has just been decoded
        if stream.unused_data:
            raise Opaque
    return result


def repacked(data: bytes, changed: Callable[[bytes], bytes]) -> bytes:
    """The archive with its contents as `changed` gives them. Raises Opaque."""
    if (coding := coding_of(data)) is not None:
        old = decoded(coding, data)
        text = changed(old.text)
        return content_coding.encode(coding, text, (len(text),), complete=old.complete)[0]
    if data.startswith(_ZIP):
        return _zipped(data, changed)
    raise Opaque


def found_in(
    data: bytes,
    places: Iterable[tuple[int, int]],
    find: Callable[[bytes], list[Span]],
    opaque: Callable[[bytes], bytes],
) -> list[Span]:
    """The archives at `places` of a body that hold something, with what stands instead of each."""
    spans: list[Span] = []
    for start, end in places:
        whole = data[start:end]
        try:
            if any(find(text) for text in contents(whole)):
                spans.append((start, end, repacked(whole, lambda text: splice(text, find(text)))))
        except Opaque:
            spans.append((start, end, opaque(whole)))
    return spans


def _unzipped(data: bytes) -> Iterator[tuple[str, bytes]]:
    import io
    import zipfile

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for entry in _bounded(archive.infolist(), len(data)):
                with archive.open(entry) as file:
                    yield entry.filename, file.read(entry.file_size + 1)
    except Opaque:
        raise
    except Exception as error:  # a damaged or encrypted archive: BadZipFile, RuntimeError, zlib.error and others
        raise Opaque from error


def _bounded(entries: list[Any], size: int) -> list[Any]:
    """The entries of an archive of `size` bytes. Raises Opaque where they are too many, or would fill the memory."""
    total = sum(entry.file_size for entry in entries)
    if len(entries) > _ENTRIES or total > LIMIT or swollen(total, size):
        raise Opaque
    return entries


def _zipped(data: bytes, changed: Callable[[bytes], bytes]) -> bytes:
    import io
    import zipfile

    buffer = io.BytesIO()
    texts = [*_unzipped(data)]
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w") as new:
        for entry, (name, text) in zip(old.infolist(), texts, strict=True):
            kept = zipfile.ZipInfo(changed(name.encode()).decode(), entry.date_time)
            kept.external_attr = entry.external_attr
            stored = zipfile.ZIP_STORED if entry.compress_type == zipfile.ZIP_STORED else zipfile.ZIP_DEFLATED
            new.writestr(kept, changed(text), stored)
        new.comment = changed(old.comment)
    return buffer.getvalue()


def _unpacked(data: bytes) -> bytes:
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
