"""The bytes of a trace file as rows of JSON, whatever the file is called; and archives to write.

JSON, JSON Lines, values that follow each other, YAML, a zip archive; each also packed by gzip or zstandard, with a byte
order mark or without. A trace file comes from a stranger: it has bounds in size, depth and number, and is never acted
on.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import sys
import tomllib
import zipfile
import zlib
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING

from pytest_agentreplay.errors import TraceError, TraceUnknown
from pytest_agentreplay.snapshots.codec import parsing, strict_yaml
from pytest_agentreplay.traces.formats import Opened

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_agentreplay.model.exchanges import Json, JsonObject

LARGEST = 256 << 20
"""Bytes of a file when it is unpacked."""
SMALL = 8 << 20
RATIO = 200
"""How many times its size a file may unpack to, beyond what is small; what an agent says packs to a twentieth."""
MEMBERS = 10_000
DEEPEST = 200
FULLEST = 16_000_000
"""Brackets and commas in a file: about a gigabyte when they are lists, objects and values."""

_ZSTANDARD = 93
_GZIP = b"\x1f\x8b"
_GZIP_DEFLATE = b"\x1f\x8b\x08"
_ZSTD = b"\x28\xb5\x2f\xfd"
_LAYERS = 4
_TOML_LIST = re.compile(r"(?m)^\[\[interactions\]\]")
_DOTTED = re.compile(r"""(?<![\w"'-])(?:(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){64}""")
"""A key of TOML with 64 dots: tomllib (Python 3.11 to 3.14) takes memory by the square of its parts."""


def open_trace(data: bytes, *, file: str) -> Opened:
    """Return what `data` holds. Raises TraceError for a bomb, TraceUnknown for what nobody can read as rows."""
    data, members = unpack_file(data, file=file)
    if members is not None:
        return Opened(file, data, members=members)
    text = text_of(data)
    if text is None:
        return Opened(file, data)
    # The lines between may be no JSON: here only how much there is can be counted, and not how deep.
    if why := parsing.explain_excess(data, deepest=len(data), fullest=FULLEST):
        raise TraceError(f"holds {why}", file=file)
    rows, junk = rows_of(text)
    if rows is None:
        rows = [_yaml(text, file)]
    if _deeper(rows, DEEPEST):
        raise TraceError(f"is nested deeper than {DEEPEST}", file=file)
    return Opened(file, data, tuple(rows), None, junk)


def unpack_file(data: bytes, *, file: str) -> tuple[bytes, dict[str, bytes] | None]:
    """Return the bytes of a file unpacked, and the files in it where it is an archive. Raises TraceError for a bomb."""
    most = min(LARGEST, max(SMALL, RATIO * len(data)))
    data = _unpack(data, file, most)
    return data, _members(data, file, most) if data.startswith(b"PK\x03\x04") else None


def rows_of(text: str) -> tuple[list[Json] | None, int]:
    """The JSON values in `text`, and how many lines are none; None where it is no JSON at all."""
    doubled = _Doubled()
    rows, junk = _rows(text, json.JSONDecoder(object_pairs_hook=doubled.object_of))
    doubled.settle(rows or [])
    return rows, junk


def _rows(text: str, decoder: json.JSONDecoder) -> tuple[list[Json] | None, int]:
    try:
        return [_json(text, decoder)], 0
    except ValueError:
        pass
    rows: list[Json] = []
    junk = 0
    for line in text.splitlines():
        if line.strip():
            try:
                rows.append(_json(line, decoder))
            except ValueError:
                junk += 1
    if sum(isinstance(row, dict) for row in rows) > junk:
        return rows, junk
    following, cut = _following(text, decoder)
    return (following, cut) if len(following) > cut else (None, 0)


def _json(text: str, decoder: json.JSONDecoder) -> Json:
    try:
        value: Json = decoder.decode(text)
    except RecursionError:
        msg = "nested too deeply"
        raise ValueError(msg) from None
    return value


class _Doubled:
    """The objects of a file that give a name twice: what counts is what others say under it, else the last word."""

    def __init__(self) -> None:
        self._objects: dict[int, tuple[JsonObject, dict[str, list[Json]]]] = {}

    def object_of(self, pairs: list[tuple[str, Json]]) -> JsonObject:
        """An object as Python reads it."""
        members = dict(pairs)
        if len(members) < len(pairs):
            values: dict[str, list[Json]] = {}
            for name, value in pairs:
                values.setdefault(name, []).append(value)
            self._objects[id(members)] = members, {name: texts for name, texts in values.items() if len(texts) > 1}
        return members

    def settle(self, rows: list[Json]) -> None:
        """Choose among the values, or a row whose id stands in it twice would be a run of its own."""
        names = {name for _, doubled in self._objects.values() for name in doubled}
        others: Counter[tuple[str, Json]] = Counter()
        waiting: list[Json] = [*rows] if names else []
        while waiting:
            value = waiting.pop()
            waiting += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
            if isinstance(value, dict) and id(value) not in self._objects:
                others.update((name, value[name]) for name in names & value.keys() if isinstance(value[name], str))
        for members, doubled in self._objects.values():
            for name, values in doubled.items():
                filled = [value for value in reversed(values) if value not in (None, "", [], {})]
                members[name] = max(
                    filled, key=lambda value: others[name, value] if isinstance(value, str) else 0, default=values[-1]
                )


def _following(text: str, decoder: json.JSONDecoder) -> tuple[list[Json], int]:
    """Objects and lists with nothing but space between, and 1 where something else stands behind them."""
    rows: list[Json] = []
    at = 0
    while at < len(text):
        while at < len(text) and text[at] in " \t\r\n":
            at += 1
        if at == len(text):
            break
        if text[at] not in "{[":  # a row of numbers is no row of values: each digit would be one
            return rows, 1
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return rows, 1
        rows.append(value)
    return rows, 0


def _deeper(level: list[Json], most: int) -> bool:
    """Whether values hold each other in more than `most` levels."""
    for _ in range(most):
        members = (
            value.values() if isinstance(value, dict) else value for value in level if isinstance(value, dict | list)
        )
        level = list(chain.from_iterable(members))
        if not level:
            return False
    return True


def text_of(data: bytes) -> str | None:
    """Return the text that `data` is, by its mark in UTF-16 or UTF-8; None for bytes that are none.

    A recording of cassetter in TOML is returned as JSON: whoever redacts or reads a trace needs no third syntax.
    """
    try:
        text = data.decode("utf-16" if data[:2] in {b"\xff\xfe", b"\xfe\xff"} else "utf-8-sig")
        if _TOML_LIST.search(text) and not _DOTTED.search(text):
            return json.dumps(tomllib.loads(text), ensure_ascii=False, default=str)
    except UnicodeDecodeError:
        return None
    except (ValueError, RecursionError):
        pass  # a YAML or JSON file, in whose texts there is such a line
    return text


def _unpack(data: bytes, file: str, most: int) -> bytes:
    """Return `data` without gzip and zstandard, also where it was packed again, up to `most` bytes."""
    for _ in range(_LAYERS):
        if data.startswith(_GZIP):
            data = _gunzip(data, file, most)
        elif data.startswith(_ZSTD):
            data = _unpacked_zstd(data, most + 1, file)
            _check_size(len(data), file, most)
        else:
            return data
    raise TraceError(f"is packed more than {_LAYERS - 1} times", file=file)


def _gunzip(data: bytes, file: str, most: int) -> bytes:
    """Return the bytes of all gzip members in `data`: log shippers append one behind the other."""
    if data.count(_GZIP_DEFLATE) > MEMBERS:
        raise TraceError(f"more than {MEMBERS:,} files in one are not read", file=file)
    try:
        data = gzip.GzipFile(fileobj=io.BytesIO(data)).read(most + 1)
    except EOFError:
        raise TraceError("the gzip file ends too early", file=file) from None
    except (OSError, zlib.error) as error:
        raise TraceError(f"is no gzip file that can be unpacked: {error}", file=file) from None
    _check_size(len(data), file, most)
    return data


def _members(data: bytes, file: str, most: int) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            listed = [info for info in archive.infolist() if not info.is_dir()]
            if len(listed) > MEMBERS:
                raise TraceError(f"an archive of more than {MEMBERS:,} files is not read", file=file)
            _check_size(sum(info.file_size for info in listed), file, most)
            return {info.filename: _member(archive, info, file) for info in listed}
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, zlib.error, OSError, EOFError) as error:
        raise TraceError(f"is no archive that can be unpacked: {error}", file=file) from None


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, file: str) -> bytes:
    """The bytes of a member; never more than was said, whatever is inside."""
    if info.compress_type == _ZSTANDARD:
        return _zstandard(archive, info, file)
    with archive.open(info) as member:
        return member.read(info.file_size)


def _zstandard(archive: zipfile.ZipFile, info: zipfile.ZipInfo, file: str) -> bytes:
    """A member that `zipfile` learned to unpack in Python 3.14 only; its packed bytes are taken as if stored."""
    size, info.file_size, info.compress_type = info.file_size, info.compress_size, zipfile.ZIP_STORED
    info.CRC = None  # type: ignore[assignment]  # it is that of the unpacked bytes
    with archive.open(info) as packed:
        return _unpacked_zstd(packed.read(), size, file)


def _unpacked_zstd(data: bytes, most: int, file: str) -> bytes:
    """The first `most` bytes of what is packed, frame after frame; Python itself can it since 3.14."""
    if sys.version_info >= (3, 14):
        from compression import zstd

        unpacking, failed = zstd.ZstdFile(io.BytesIO(data)), zstd.ZstdError
    else:
        try:
            import zstandard
        except ImportError:
            msg = 'is packed by zstandard: pip install "frozen-agentreplay[zstd]", or use Python 3.14'
            raise TraceError(msg, file=file) from None
        unpacker, failed = zstandard.ZstdDecompressor(max_window_size=LARGEST), zstandard.ZstdError
        unpacking = unpacker.stream_reader(data, read_across_frames=True)
    try:
        return unpacking.read(most)
    except (failed, EOFError) as error:
        raise TraceError(f"is not packed by zstandard so that it can be unpacked: {error}", file=file) from None


def _check_size(size: int, file: str, most: int) -> None:
    if size > most:
        raise TraceError(f"unpacked, more than {most:,} bytes are not read", file=file)


def _yaml(text: str, file: str) -> Json:
    """The document of a YAML file; a bare text, which almost anything is, is none."""
    value = strict_yaml.load_foreign(text, file=file, error=_neither)
    if not isinstance(value, dict | list):
        raise _neither("is a bare text", file=file)
    return value


def _neither(message: str, *, file: str, place: str = "") -> TraceUnknown:
    return TraceUnknown(f"is neither JSON nor JSON Lines nor an archive; as YAML it {message}", file=file, place=place)


BEGINNING = (1980, 1, 1, 0, 0, 0)
"""The first moment that an archive can tell."""
PLAIN_FILE = 0o100644 << 16
UNIX = 3


def pack_archive(members: Mapping[str, bytes]) -> bytes:
    """Return the archive that holds `members`, in order of their names."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:  # what is packed tells which library has packed it
        for name in sorted(members):
            info = zipfile.ZipInfo(name, BEGINNING)
            info.external_attr, info.create_system = PLAIN_FILE, UNIX
            archive.writestr(info, members[name])
    return out.getvalue()
