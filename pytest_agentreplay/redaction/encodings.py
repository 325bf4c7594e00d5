"""The guises of a value: how it looks once it has been encoded.

Most encodings of a text are undone, and a value is found in what the text says then (`views`). `secret_guises` has the
guises of a secret that are searched for as they are, since to undo them would cost more: in base64 at any offset, in
hexadecimal digits, in UTF-16, and as programs list bytes. `place_guises` has the guises of a directory that can be
undone, by name, as JSON, URLs and POSIX write it.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# A body, a message in it, a tool result in that, what a server of tools had put into it, and as many again.
DEEPEST = 8
"""So many layers of escapes are undone, here and wherever JSON in strings of JSON is read."""
CASES = ("", "drive", "lower")
DRIVE = re.compile(r"[A-Za-z]:[\\/]")
SAFE_RUN = re.compile(rb"[A-Za-z0-9]+")
# RFC 1952, RFC 8878, the zip format of PKWARE (section 4.3.7), bzip2, xz, and RFC 1950 with the window of every packer.
ARCHIVE_START = re.compile(rb"\x1f\x8b\x08|\x28\xb5\x2f\xfd|PK\x03\x04|BZh[1-9]1AY&SY|\xfd7zXZ\x00|x[\x01\x5e\x9c\xda]")


@dataclass(frozen=True, slots=True)
class EncodedForm:
    """Needles that can only occur where `gate` does, so that one search clears them all.

    `where` says in what they are looked for: in a text in lower case ("plain"), in which they are too; in that, if it
    has bytes of zero ("wide"); in its runs of digits and what parts them ("listed"); in runs of letters ("base64").
    """

    where: Literal["plain", "wide", "listed", "base64"]
    gate: bytes = field(repr=False)
    needles: tuple[bytes, ...] = field(repr=False)


def as_bytes(text: str) -> bytes:
    """Return the UTF-8 of a text, lone surrogates included: what came in can always go out again."""
    return text.encode("utf-8", "surrogatepass")


def as_text(data: bytes) -> str:
    """Return the inverse of `as_bytes`.

    Bytes that are no UTF-8, as percent signs may spell them, are told by number.
    """
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "backslashreplace")


def find_everywhere(needle: bytes, data: bytes) -> list[int]:
    """Return where `needle` begins in `data`."""
    places = []
    at = data.find(needle)
    while at >= 0:
        places.append(at)
        at = data.find(needle, at + len(needle))
    return places


def mark_bytes(letters: bytes) -> bytes:
    """Return the table for `list_runs` of the bytes that runs are made of."""
    return bytes(65 if byte in letters else 32 for byte in range(256))


def list_runs(data: bytes, table: bytes, shortest: int) -> Iterator[tuple[int, int]]:
    """Yield where at least `shortest` bytes in a row begin and end that `table` marks."""
    flat, run = data.translate(table), b"A" * shortest
    begin = flat.find(run)
    while begin >= 0:
        end = flat.find(b" ", begin)
        end = len(data) if end < 0 else end
        yield begin, end
        begin = flat.find(run, end)


def json_escaped(text: str, depth: int = 1, *, ascii_only: bool = False) -> str:
    """Return `text` as it stands inside a JSON string that stands inside `depth - 1` others."""
    for _ in range(depth):
        text = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
    return text


def lower_percent(text: str) -> str:
    """Return a text whose percent escapes have lower-case digits."""
    return re.sub("%[0-9A-F]{2}", lambda match: match[0].lower(), text)


@lru_cache(maxsize=128)
def secret_guises(value: str) -> tuple[EncodedForm, ...]:
    """Return the guises of a secret of at least 8 characters that no view undoes.

    Remembered: the environment has the same ones in each test.
    """
    raw = as_bytes(value)
    # In octal digits, and in hexadecimal ones with spaces or colons, as programs list bytes.
    dumps = " ".join(f"{byte:03o}" for byte in raw).encode(), raw.hex(" ").encode(), raw.hex(":").encode()
    return (
        *(EncodedForm("listed", needle, (needle,)) for needle in dumps),
        *(EncodedForm("wide", needle.lower(), (needle.lower(),)) for needle in wide(value)),
        *(EncodedForm("base64", gate_of(needles), needles) for needles in (*in_base64(value), *in_hex(value))),
    )


def in_base64(value: str) -> Iterator[tuple[bytes, ...]]:
    """Yield its base64, the base64 of that, and that of its UTF-16."""
    for forms in base64_shifted(as_bytes(value)):
        yield forms
        # Between two borders of three bytes the base64 of base64 depends on nothing else.
        yield from base64_shifted(min(forms, key=len).replace(b"-", b"+").replace(b"_", b"/"))
    for raw in wide(value):
        yield from base64_shifted(raw)


def base64_shifted(raw: bytes) -> Iterator[tuple[bytes, ...]]:
    """Yield its base64 as far as no neighbour changes it, at the three offsets; URL-safe and escaped too."""
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + raw)
        stable = encoded[(offset * 8 + 5) // 6 : (offset + len(raw)) * 8 // 6].decode()
        safe = stable.replace("+", "-").replace("/", "_")
        percent = quote(stable, safe="")
        forms = {as_bytes(form) for form in (stable, safe, stable.replace("/", "\\/"), percent, lower_percent(percent))}
        yield tuple(sorted(forms, key=lambda form: (-len(form), form)))


def wide(value: str) -> tuple[bytes, bytes]:
    """Return its UTF-16, little and big end first."""
    return value.encode("utf-16-le", "surrogatepass"), value.encode("utf-16-be", "surrogatepass")


def in_hex(value: str) -> Iterator[tuple[bytes, ...]]:
    """Yield a value in hexadecimal digits, both cases."""
    for raw in (as_bytes(value), *wide(value)):
        digits = raw.hex()
        yield from ((form.encode(),) for form in sorted({digits, digits.upper()}))


def gate_of(needles: tuple[bytes, ...]) -> bytes:
    """Return the longest run of letters and digits that all needles share; b"" when they share none of at least 3."""
    shortest = needles[-1]
    for run in sorted(SAFE_RUN.findall(shortest), key=len, reverse=True):
        if len(run) >= 3 and all(run in needle for needle in needles):
            return bytes(run)
    return shortest if len(needles) == 1 else b""


@lru_cache(maxsize=128)
def place_guises(value: str) -> Mapping[str, str]:
    """Return the reversible guises of a directory by name; "" is the plain one. Many are equal.

    Windows knows a directory in any case; met are the two that programs give it: the drive's letter, and all of it.
    Remembered: all but the `tmp_path` of a test are the same in each test, and each is read twice.
    """
    cases = dict.fromkeys(CASES, value)
    if DRIVE.match(value):
        cases |= {"drive": value[0].swapcase() + value[1:], "lower": value.lower()}
    guises = {form: case_guises(form) for form in {*cases.values()}}
    return {f"{case}-{guise}".strip("-"): form for case, of in cases.items() for guise, form in guises[of].items()}


def case_guises(value: str) -> Mapping[str, str]:
    """Return `value` as JSON, URLs and POSIX write it, by name."""
    posix = value.replace("\\", "/")
    return {
        "": value,
        "json": json_escaped(value),
        "json2": json_escaped(value, 2),
        "json3": json_escaped(value, 3),
        "ascii": json_escaped(value, ascii_only=True),
        "ascii2": json_escaped(value, 2, ascii_only=True),
        "slash": json_escaped(value).replace("/", "\\/"),
        "slash2": json_escaped(json_escaped(value).replace("/", "\\/")),
        "posix": posix,
        "path": quote(as_bytes(posix), safe="/:"),
        "url": quote(as_bytes(value), safe=""),
        "url-low": lower_percent(quote(as_bytes(value), safe="")),
        "url2": quote(quote(as_bytes(value), safe=""), safe=""),
    }
