"""The guises of a value: how it looks once JSON, a URL, base64, hex or a log has been at it.

Two readers: `secret_guises` (every guise of a secret, to be found) and `place_guises` (the reversible guises of a
directory, by name, to be found and put back).
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote, quote_plus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

JSON_DEPTH = 5  # a body, a message in it, a tool result in that, and what a server of tools had put into it
CASES = ("", "drive", "lower")
DRIVE = re.compile(r"[A-Za-z]:[\\/]")
SAFE_RUN = re.compile(rb"[A-Za-z0-9]+")


@dataclass(frozen=True, slots=True)
class EncodedForm:
    """Needles that can only occur where both `sign`, one for many guises, and `backend` do: few scans clear them all.

    `where` says in what they are looked for: in the text in lower case ("folded"), in which they are too; in the text
    as it is ("exact"); or in its long runs without a space ("run"), where alone base64 stands.
    """

    sign: bytes
    backend: bytes = field(repr=False)
    needles: tuple[bytes, ...] = field(repr=False)
    where: Literal["folded", "exact", "run"] = "folded"


def as_bytes(text: str) -> bytes:
    """UTF-8, lone surrogates included: what came in can always go out again."""
    return text.encode("utf-8", "surrogatepass")


def as_text(data: bytes) -> str:
    """The inverse of `as_bytes`; bytes that are no UTF-8, as percent signs may spell them, are told by number."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "backslashreplace")


def json_escaped(text: str, depth: int = 1, *, ascii_only: bool = False) -> str:
    """`text` as it stands inside a JSON string that stands inside `depth - 1` others."""
    for _ in range(depth):
        text = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
    return text


def lower_percent(text: str) -> str:
    """Percent escapes with lower-case digits."""
    return re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), text)


@lru_cache(maxsize=128)
def secret_guises(value: str) -> tuple[EncodedForm, ...]:
    """Every guise of a secret of at least 8 characters. Remembered: the environment has the same ones in each test."""
    plain = [written(value), *({written(value.lower()), written(value.upper())} - {written(value)})]
    folded = ((b"", plain), (b"", dumped(value)), (b"%", percent_all(value)), (b"\\u", unicode_escaped(value)))
    return (
        *distinct(*((sign, map(lowered, groups)) for sign, groups in folded)),
        *(EncodedForm(b"\0", needle, (needle,)) for needle in lowered(wide(value))),
        *(EncodedForm(b"", gate_of(needles), needles, "run") for needles in (*in_base64(value), *in_hex(value))),
    )


def distinct(*signed: tuple[bytes, Iterable[tuple[bytes, ...]]]) -> Iterator[EncodedForm]:
    """A guise for each group of needles that no other has."""
    seen: set[tuple[bytes, ...]] = set()
    for sign, groups in signed:
        for needles in groups:
            if needles not in seen:
                seen.add(needles)
                yield EncodedForm(sign, gate_of(needles), needles)


def lowered(needles: Iterable[bytes]) -> tuple[bytes, ...]:
    """The needles in lower case, each once, the longest first."""
    return tuple(sorted({needle.lower() for needle in needles}, key=lambda needle: (-len(needle), needle)))


def written(value: str) -> tuple[bytes, ...]:
    """The value as texts, JSON inside JSON and URLs write it."""
    raw = as_bytes(value)
    once = quote(raw, safe="")
    urls = [once, quote(raw, safe="/"), quote_plus(raw), quote(once, safe=""), quote(lower_percent(once), safe="")]
    return unique([*in_strings(value), *urls, *map(lower_percent, urls)])


def in_strings(value: str) -> Iterator[str]:
    """The value as Python shows it, and that or itself in JSON strings, one in the other.

    Each level may escape what is not ASCII, the first its slashes too.
    """
    texts = {value, repr(value)[1:-1], repr(as_bytes(value))[2:-1]}
    yield from texts
    for depth in range(JSON_DEPTH):
        deeper = {json_escaped(text, ascii_only=ascii_only) for text in texts for ascii_only in (False, True)}
        if depth == 0:
            deeper |= {text.replace("/", "\\/") for text in deeper}
        if deeper == texts:
            return
        yield from deeper
        texts = deeper


def percent_all(value: str) -> Iterator[tuple[bytes, ...]]:
    """Every byte as %XX, upper and lower case, and the same percent-encoded again."""
    upper = "".join(f"%{byte:02X}" for byte in as_bytes(value))
    for form in (upper, lower_percent(upper)):
        yield (form.encode(),)
        yield (form.replace("%", "%25").encode(),)


def unicode_escaped(value: str) -> Iterator[tuple[bytes, ...]]:
    r"""Every UTF-16 unit as \uXXXX, in JSON and in JSON inside JSON; and UTF-16 of which JSON has escaped the zeros."""
    digits = value.encode("utf-16-be", "surrogatepass").hex()
    for slash in ("\\u", "\\\\u"):
        yield ("".join(slash + digits[at : at + 4] for at in range(0, len(digits), 4)).encode(),)
        yield ((slash + "0000").join(map(json_escaped, value)).encode("utf-8", "surrogatepass"),)


def in_base64(value: str) -> Iterator[tuple[bytes, ...]]:
    """Its base64, the base64 of that, and that of its UTF-16."""
    for forms in base64_shifted(as_bytes(value)):
        yield forms
        # Between two borders of three bytes the base64 of base64 depends on nothing else.
        yield from base64_shifted(min(forms, key=len).replace(b"-", b"+").replace(b"_", b"/"))
    for raw in wide(value):
        yield from base64_shifted(raw)


def base64_shifted(raw: bytes) -> Iterator[tuple[bytes, ...]]:
    """Its base64 as far as no neighbour changes it, at the three offsets; URL-safe and escaped too."""
    for offset in range(3):
        whole = base64.b64encode(b"\0" * offset + raw)
        stable = whole[(offset * 8 + 5) // 6 : (offset + len(raw)) * 8 // 6].decode()
        safe = stable.replace("+", "-").replace("/", "_")
        percent = quote(stable, safe="")
        yield unique([stable, safe, stable.replace("/", "\\/"), percent, lower_percent(percent)])


def wide(value: str) -> tuple[bytes, bytes]:
    """Its UTF-16, little and big end first."""
    return value.encode("utf-16-le", "surrogatepass"), value.encode("utf-16-be", "surrogatepass")


def in_hex(value: str) -> Iterator[tuple[bytes, ...]]:
    """Hexadecimal, both cases."""
    for raw in (as_bytes(value), *wide(value)):
        digits = raw.hex()
        yield from ((form.encode(),) for form in sorted({digits, digits.upper()}))


def dumped(value: str) -> Iterator[tuple[bytes, ...]]:
    """Its bytes as programs list them, in octal and hexadecimal digits."""
    raw = as_bytes(value)
    yield (" ".join(f"{byte:03o}" for byte in raw).encode(),)
    yield (raw.hex(" ").encode(),)
    yield (raw.hex(":").encode(),)


def unique(forms: list[str]) -> tuple[bytes, ...]:
    """The forms as bytes, each once, the longest first."""
    return tuple(sorted({as_bytes(form) for form in forms}, key=lambda form: (-len(form), form)))


def gate_of(needles: tuple[bytes, ...]) -> bytes:
    """The longest run of letters and digits that all needles share; b"" when they share none of at least 3."""
    shortest = needles[-1]
    for run in sorted(SAFE_RUN.findall(shortest), key=len, reverse=True):
        if len(run) >= 3 and all(run in needle for needle in needles):
            return bytes(run)
    return shortest if len(needles) == 1 else b""


@lru_cache(maxsize=128)
def place_guises(value: str) -> Mapping[str, str]:
    """The reversible guises of a directory by name; "" is the plain one. Many are equal.

    Windows knows a directory in any case; met are the two that programs give it: the drive's letter, and all of it.
    Remembered: all but the `tmp_path` of a test are the same in each test, and each is read twice.
    """
    cases = dict.fromkeys(CASES, value)
    if DRIVE.match(value):
        cases |= {"drive": value[0].swapcase() + value[1:], "lower": value.lower()}
    guises = {form: case_guises(form) for form in {*cases.values()}}
    return {f"{case}-{guise}".strip("-"): form for case, of in cases.items() for guise, form in guises[of].items()}


def case_guises(value: str) -> Mapping[str, str]:
    """`value` as JSON, URLs and POSIX write it, by name."""
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
