"""Pictures, sounds and files that a call carries: found by their shape, told by type, size and digest.

They come as data URLs, as base64 beside their type, or as the bytes of a multipart or of the whole body.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from pytest_agentreplay.model.json_paths import rewritten

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.model.exchanges import Json
    from pytest_agentreplay.model.json_paths import Place

LONG = 1024
"""Characters from which an unbroken run of base64 counts as a file, wherever it stands."""

_DATA_URL = re.compile(r"data:(?P<type>[\w.+-]+/[\w.+-]+)?(?:;[\w=.+-]+)*;base64,")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}\s*")
_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+$")
_TYPES = ("media_type", "mime_type", "mimeType", "mediaType")
_DATA = ("data", "bytes", "image_bytes", "imageBytes", "video_bytes", "videoBytes", "bytesBase64Encoded")
_LISTED = "images"
_PART_TYPE = re.compile(r"^content-type:\s*([^;\s]+)", re.IGNORECASE | re.MULTILINE)
_MARK = re.compile(r"<(?P<kind>[\w.+-]+(?:/[\w.+-]+)?) [0-9.]+ [kM]?B (?P<digest>sha256:[0-9a-f]{8})>")
_WORDS = {"image": "picture", "audio": "sound", "video": "video"}
_FAMILIES = {
    **dict.fromkeys(("png", "jpeg", "jpg", "gif", "webp"), "image"),
    **dict.fromkeys(("wav", "mp3", "flac", "ogg", "opus", "aac", "m4a", "pcm16"), "audio"),
    **dict.fromkeys(("mp4", "mov", "mkv", "webm", "mpeg", "mpg"), "video"),
    **dict.fromkeys(("pdf",), "application"),
}
_MAGIC = (
    (0, b"\x89PNG", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF8", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (8, b"WAVE", "audio/wav"),
    (0, b"ID3", "audio/mp3"),
    (0, b"\xff\xfb", "audio/mp3"),
    (0, b"OggS", "audio/ogg"),
    (0, b"fLaC", "audio/flac"),
    (4, b"ftyp", "video/mp4"),
    (0, b"%PDF", "application/pdf"),
)


@dataclass(frozen=True)
class Media:
    """A picture, sound or file: its type ("image/png", "data" when nothing tells it) and its bytes."""

    kind: str
    data: bytes

    @cached_property
    def digest(self) -> str:
        """The sha256 of the bytes."""
        return hashlib.sha256(self.data).hexdigest()

    def __str__(self) -> str:
        """As reports show it: "<image/png 12.3 kB sha256:ab12cd34>"."""
        return mark(self.kind, len(self.data), self.digest)


def mark(kind: str, size: int, digest: str) -> str:
    """What is reported instead of the bytes."""
    size_text = f"{size} B" if size < 1000 else f"{size / 1000:.1f} kB" if size < 10**6 else f"{size / 10**6:.1f} MB"
    return f"<{kind} {size_text} sha256:{digest[:8]}>"


def mark_media(tree: Json) -> Json:
    """Return the value with a mark for each of its media, the files of a multipart among them."""
    marks: dict[Place, Json] = {place: str(file) for place, file in find_media(tree)}
    for at, part in enumerate(tree if isinstance(tree, list) else ()):
        match part:
            case {"headers": str(head), "body": {"sha256": str(digest), "bytes": int(size)}}:
                marks[at, "body"] = mark(part_type(head), size, digest)
    return rewritten(tree, marks)


def part_type(headers: str) -> str:
    """The type that the headers of a multipart's part tell."""
    match = _PART_TYPE.search(headers)
    return match[1].lower() if match else "data"


def is_mark(value: Json) -> bool:
    """Return whether a value is what is reported instead of the bytes."""
    return isinstance(value, str) and _MARK.fullmatch(value) is not None


def swap(recorded: str, now: str) -> str:
    """What parts two marks, "image/png: another picture (...)"; "" where one side is no mark."""
    old, new = _MARK.fullmatch(recorded), _MARK.fullmatch(now)
    if old is None or new is None:
        return ""
    kinds = old["kind"] if old["kind"] == new["kind"] else f"{old['kind']} -> {new['kind']}"
    word = _WORDS.get(new["kind"].partition("/")[0], "file")
    return f"{kinds}: another {word} ({old['digest']} recorded, {new['digest']} now)"


def find_media(tree: Json) -> Iterator[tuple[Place, Media]]:
    """Yield all media in a JSON value, with their places, in order; those of a place that names no type are sniffed."""
    stack: list[tuple[Place, Json, str]] = [((), tree, "")]
    while stack:
        place, node, kind = stack.pop()
        if isinstance(node, str):
            file = read_media(node, kind)
            if file is not None:
                yield place, file
        elif isinstance(node, list):
            # Ollama's pictures are a list of bare base64.
            listed = "data" if place and place[-1] == _LISTED else ""
            stack += [((*place, at), item, listed) for at, item in reversed(list(enumerate(node)))]
        elif isinstance(node, dict):
            stack += [
                (
                    (*place, name),
                    node[name],
                    _find_type(node, kind) if name in _DATA else _inherit_type(name, node, kind),
                )
                for name in reversed(node)
            ]


def _find_type(node: dict[str, Json], inherited: str) -> str:
    """Return the type of the data beside it in an object; "" when nothing there says that it is data of a file."""
    if node.get("type") == "text":
        return ""
    declared = next((value for name in _TYPES if isinstance(value := node.get(name), str) and _TYPE.match(value)), "")
    return declared or _format(node) or inherited


def _format(node: dict[str, Json]) -> str:
    """The type that a bare format stands for: {"format": "png"}."""
    name = node.get("format")
    return f"{_FAMILIES[name]}/{name}" if isinstance(name, str) and name in _FAMILIES else ""


def _inherit_type(name: str, node: dict[str, Json], inherited: str) -> str:
    """What an object says of the data further down: {"format": "png", "source": {"bytes": ...}}."""
    return (_format(node) or inherited) if name == "source" else ""


def read_media(text: str, kind: str = "") -> Media | None:
    """The file in a text: a data URL, base64 of a said `kind`, or a long run of base64; None for other texts."""
    if text.startswith("data:"):
        head = _DATA_URL.match(text)
        return None if head is None else _decode(text[head.end() :], head["type"] or "")
    if kind or (len(text) >= LONG and _BASE64.fullmatch(text, 0, LONG) and _BASE64.fullmatch(text)):
        return _decode(text, kind)
    return None


@lru_cache(maxsize=32)
def _decode(text: str, kind: str) -> Media | None:
    """Return the media in base64 of either alphabet, with or without its padding."""
    plain = text.strip().replace("-", "+").replace("_", "/").rstrip("=")
    try:
        data = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
    return make_media(data, "" if kind == "data" else kind) if data else None


def make_media(data: bytes, kind: str = "") -> Media:
    """Return bytes of a `kind`, or of the one by which they begin."""
    plain = kind.partition(";")[0].strip().lower()
    if plain in {"", "application/octet-stream"}:
        plain = next((name for at, mark, name in _MAGIC if data.startswith(mark, at)), "data")
    return Media(plain, data)
