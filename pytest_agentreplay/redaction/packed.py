"""Packed texts: what base64 says, where it says text: a file of a repository, a secret of a cluster.

Only runs that decode to ASCII or to an archive are looked at; a picture, a signature, a hash and a key of a vendor do
not. What is found is carried back to the groups of four letters that spell it, in an archive to all of it.

Archives are packed bodies that no header announces, known by how they begin: gzip, zlib, zstd, bzip2, xz and zip. What
is in one is read within the bounds of `content_coding`. One that cannot be read is `Opaque`, and so is one in which
something is found and that nothing here packs again.
"""

from __future__ import annotations

import base64
import re
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_agentreplay.model import content_coding
from pytest_agentreplay.model.content_coding import LIMIT, Decoded, Opaque, swollen
from pytest_agentreplay.redaction.encodings import View, spell_nothing
from pytest_agentreplay.redaction.spans import splice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_agentreplay.redaction.spans import Span

_CODINGS = ((b"\x1f\x8b\x08", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"))
_ZLIB = (b"x\x01", b"x\x5e", b"x\x9c", b"x\xda")
"""RFC 1950 with the window that every packer uses, at its four levels."""
_HEAD = 512
_ZIP = b"PK\x03\x04"
_OTHERS = ((b"BZh", b"1AY&SY", 4), (b"\xfd7zXZ\x00", b"", 6))
_STARTS = (_ZIP, *(sign for sign, _ in _CODINGS), _OTHERS[1][0])
_ENTRIES = 10_000
_DEEPEST = 3
"""So many layers within the first are read: of archives in archives, of base64 in base64."""
_PART = re.compile(
    rb"\r\n\r\n(?=\x1f\x8b\x08|\x28\xb5\x2f\xfd|PK\x03\x04|BZh[1-9]1AY&SY|\xfd7zXZ\x00|x[\x01\x5e\x9c\xda])"
)
_PART_END = b"\r\n--"


def is_archive(data: bytes) -> bool:
    """Return whether a body begins as an archive does, or is a tar file of some."""
    if data.startswith(_STARTS) or (data.startswith(b"BZh") and data[4:10] == b"1AY&SY"):
        return True
    return (data.startswith(_ZLIB) and is_zlib(data)) or (data[257:262] == b"ustar" and holds_archives(data))


def holds_archives(data: bytes) -> bool:
    """Return whether a tar file, whose files begin at multiples of 512 bytes, holds an archive that is not read."""
    return any(is_archive(data[at : at + _HEAD]) for at in range(_HEAD, len(data), _HEAD))


def is_zlib(data: bytes) -> bool:
    """Return whether a body that begins with the two bytes of zlib is one: `x^2` is text, so a part is unpacked."""
    if data[:_HEAD].isascii():
        return False
    try:
        zlib.decompressobj(-zlib.MAX_WBITS).decompress(data[2:_HEAD], _HEAD)  # whatever its checksum
    except zlib.error:
        return False
    return True


def find_archives(data: bytes, records: Iterable[tuple[int, int]] = ()) -> list[tuple[int, int]]:
    """Return where archives stand in a body: all of it, some of its records, or parts of a multipart."""
    if is_archive(data):
        return [(0, len(data))]
    spans = [(start, end) for start, end in records if is_archive(data[start:end])]
    for part in _PART.finditer(data) if data.startswith(b"--") else ():
        end = data.find(_PART_END, part.end())
        end = len(data) if end < 0 else end
        if is_archive(data[part.end() : end]):
            spans.append((part.end(), end))
    return spans


def contents(data: bytes) -> Iterator[bytes]:
    """Yield what is packed in an archive and in those within it, their names too.

    Raises Opaque, also beyond the bounds.
    """
    total = 0
    for text in _layers(data, _DEEPEST):
        total += len(text)
        if total > 2 * LIMIT:
            raise Opaque
        yield text


def _layers(data: bytes, depth: int) -> Iterator[bytes]:
    """Yield each text in an archive, and behind it what is packed in that, `depth` times."""
    for text in _parts(data):
        yield text
        if is_archive(text):
            if not depth:
                raise Opaque
            yield from _layers(text, depth - 1)


def _parts(data: bytes) -> Iterator[bytes]:
    """Yield what is packed in an archive itself."""
    if (coding := coding_of(data)) is not None:
        yield decompress(coding, data).text
        return
    if data.startswith(_ZIP):
        for name, text in _unzip(data):
            yield name.encode("utf-8", "surrogateescape")
            yield text
        return
    yield _unpack(data)


def coding_of(data: bytes) -> str | None:
    """Return the content coding that an archive is packed with, if it is one."""
    coding = next((coding for magic, coding in _CODINGS if data.startswith(magic)), None)
    return "deflate" if coding is None and data.startswith(_ZLIB) else coding


def decompress(coding: str, data: bytes) -> Decoded:
    """Return an archive unpacked. Raises Opaque, also where bytes follow a zlib stream: nothing here reads those."""
    result = content_coding.decode(coding, data, (len(data),))
    if coding == "deflate":
        stream = zlib.decompressobj()
        stream.decompress(data)  # within bounds, as it has just been decoded
        if stream.unused_data:
            raise Opaque
    return result


def repack(data: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """Return the archive with its contents as `change` returns them. Raises Opaque."""
    if (coding := coding_of(data)) is not None:
        old = decompress(coding, data)
        text = change(old.text)
        return content_coding.encode(coding, text, (len(text),), complete=old.complete)[0]
    if data.startswith(_ZIP):
        return _zip(data, change)
    raise Opaque


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
            if any(find(text) for text in contents(archive)):
                spans.append((start, end, repack(archive, lambda text: _redact_text(text, find))))
        except Opaque:
            spans.append((start, end, opaque(archive)))
    return spans


def _redact_text(text: bytes, find: Callable[[bytes], list[Span]]) -> bytes:
    """Return a text out of an archive without what `find` finds.

    Raises Opaque where that stands in an archive again.
    """
    if is_archive(text) and any(find(inner) for inner in contents(text)):
        raise Opaque
    return splice(text, find(text))


def _unzip(data: bytes) -> Iterator[tuple[str, bytes]]:
    import io
    import zipfile

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for entry in _check_bounds(archive.infolist(), len(data)):
                with archive.open(entry) as file:
                    yield entry.filename, file.read(entry.file_size + 1)
    except Opaque:
        raise
    except Exception as error:  # a damaged or encrypted archive: BadZipFile, RuntimeError, zlib.error and others
        raise Opaque from error


def _check_bounds(entries: list[Any], size: int) -> list[Any]:
    """Return the entries of an archive of `size` bytes.

    Raises Opaque where they are too many, or would fill the memory.
    """
    total = sum(entry.file_size for entry in entries)
    if len(entries) > _ENTRIES or total > LIMIT or swollen(total, size):
        raise Opaque
    return entries


def _zip(data: bytes, change: Callable[[bytes], bytes]) -> bytes:
    import io
    import zipfile

    buffer = io.BytesIO()
    texts = [*_unzip(data)]
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w") as new:
        for entry, (name, text) in zip(old.infolist(), texts, strict=True):
            kept = zipfile.ZipInfo(change(name.encode()).decode(), entry.date_time)
            kept.external_attr = entry.external_attr
            stored = zipfile.ZIP_STORED if entry.compress_type == zipfile.ZIP_STORED else zipfile.ZIP_DEFLATED
            new.writestr(kept, change(text), stored)
        new.comment = change(old.comment)
    return buffer.getvalue()


def _unpack(data: bytes) -> bytes:
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


SHORTEST = 44
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-"
_RUN = bytes(65 if byte in _LETTERS else 32 for byte in range(256))
_WRAP = re.compile(rb"(?:\r|\n|\\r|\\n)+")
_PACKED = re.compile(rb"[A-Za-z0-9+/_-]+(?:(?:\r|\n|\\r|\\n){1,4}[A-Za-z0-9+/_-]+)*")


class PackedText(NamedTuple):
    """What base64 says, `text`, and the letters that spell it, which begin at `begin` of `above`."""

    text: bytes
    letters: View
    begin: int
    above: View | PackedText

    def map_up(self, start: int, end: int) -> tuple[int, int]:
        """Return the bytes of the text above that spell `text[start:end]`."""
        last = min(-(-end // 3) * 4, len(self.letters.text))
        start, end = self.letters.map_back(start // 3 * 4, last)
        return self.begin + start, self.begin + end

    def map_back(self, start: int, end: int) -> tuple[int, int]:
        """Return the bytes of the topmost text that do."""
        return self.above.map_back(*self.map_up(start, end))


class Archived(View):
    """What an archive in base64 holds; the letters of all of it, from `begin` to `end` of a text, spell each part."""

    begin: int
    end: int

    def map_back(self, start: int, end: int) -> tuple[int, int]:
        """Return all of it."""
        del start, end
        return self.begin, self.end


class Unreadable(Archived):
    """An archive in base64 that cannot be read."""


def read_archive(data: bytes, begin: int, end: int, *, deeper: bool = True) -> Archived:
    """Return an archive whose base64 stands at `begin` of a text; it is not read where that is too deep in others."""
    try:
        view = Archived(b"\n".join(contents(data))) if deeper else Unreadable(b"")
    except Opaque:
        view = Unreadable(b"")
    view.begin, view.end = begin, end
    return view


def list_packed(view: View | PackedText, depth: int = _DEEPEST) -> Iterator[PackedText | Archived]:
    """Yield what stands in base64 in a text, and in base64 in that; what stands deeper than `depth` is not read."""
    flat, run = view.text.translate(_RUN), b"A" * SHORTEST
    at = flat.find(run)
    while at >= 0:
        match = _PACKED.match(view.text, at)
        assert match is not None
        if (data := decode_text(letters := join_lines(match[0]))) is not None:
            inner: PackedText | Archived = PackedText(data, letters, at, view)
            if not data.isascii() or not depth:
                inner = read_archive(
                    data, *view.map_back(at, find_padding_end(view.text, match.end())), deeper=depth > 0
                )
            yield inner
            if depth:
                yield from list_packed(inner, depth - 1)
        at = flat.find(run, match.end())


def find_padding_end(text: bytes, end: int) -> int:
    """Return where base64 ends whose letters end at `end`."""
    return end + len(text[end : end + 2]) - len(text[end : end + 2].lstrip(b"="))


def join_lines(word: bytes) -> View:
    """Return base64 without the ends of its lines."""
    top = View(word)
    return top if _WRAP.search(word) is None else View(_WRAP.sub(b"", word), top, _WRAP, spell_nothing)


def decode_text(letters: View) -> bytes | None:
    """Return what base64 says where that is ASCII or an archive; None where it is anything else."""
    text = letters.text.replace(b"-", b"+").replace(b"_", b"/")
    head = base64.b64decode(text[:SHORTEST])
    if not head.isascii() and not is_archive(head):
        return None
    letters_of_bytes = text[: len(text) - (len(text) % 4 == 1)]
    data = base64.b64decode(letters_of_bytes + b"=" * (-len(letters_of_bytes) % 4))
    return data if data.isascii() or is_archive(data) else None
