"""The seal as it stands in a file: what it is made of, and whether it fits.

The digest is over the text above the seal, in the layout of `pretty`. So a file that nobody has reformatted is proven
by its bytes; any other is looked at token by token, and laid out again. The last key is a digest over the seal itself.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.codec import parsing
from pytest_agentreplay.codec.encode import members

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_agentreplay.core.model import JsonObject

Stored = dict[str, Any]

KEY = "integrity"
ALGORITHM = "sha256"
FORM = "agentreplay-c2"
FIRST_FORM = "agentreplay-c1"
"""Read only: the digest of compact JSON, and none over the seal itself."""

SHORT = 16
_MARK = f',\n "{KEY}": '.encode()
_PREFIX = b"agentreplay/snapshot/v2\0"


def sealed(content: Stored, revisions: Sequence[JsonObject] = ()) -> str:
    """The text of the file that holds `content`, which has no seal yet."""
    above = members(content)
    seal: Stored = {
        "alg": ALGORITHM,
        "form": FORM,
        "digest": _digest(above.encode("utf-8", "surrogatepass")),
        "parts": parts(content),
        "exchanges": exchanges(content["exchanges"]),
        "revisions": list(revisions),
    }
    return f"{above},{members({KEY: {**seal, 'self': own(seal)}})[1:]}\n}}\n"


def parts(content: Stored) -> dict[str, str]:
    """A short digest of each top-level value but the exchanges."""
    return {key: short(value) for key, value in content.items() if key not in {KEY, "exchanges"}}


def exchanges(stored: list[Any]) -> list[str]:
    """A short digest of each exchange."""
    return [short(exchange) for exchange in stored]


def short(value: Any) -> str:
    """Enough of a digest to name what was edited."""
    return parsing.canonical_digest(value)[:SHORT]


def own(seal: Stored) -> str:
    """The digest over the seal, which covers what it says of the content and its revisions."""
    return parsing.canonical_digest({key: value for key, value in seal.items() if key != "self"})


def own_fits(doc: Stored) -> bool:
    """Whether the seal is what it says of itself, and stands where it belongs."""
    seal = doc[KEY]
    return next(reversed(doc)) == KEY and next(reversed(seal)) == "self" and seal["self"] == own(seal)


def fits(doc: Stored, data: bytes, file: str) -> tuple[bool, str]:
    """Whether the seal of a file in the newest form fits, and the digest of its content. Raises SnapshotUnreadable."""
    seal, above = doc[KEY], _above(data)
    digest = "" if above is None else _digest(above)
    try:
        if digest != seal.get("digest"):
            parsing.strict(data, file)
            digest = laid_out(doc)
        elif b"\\" in data and (b"\\ud" in data or b"\\uD" in data):  # half a character has no other way into a text
            parsing.strict(data, file)
        return digest == seal.get("digest") and own_fits(doc), digest
    except RecursionError:
        raise parsing.too_deep(file) from None


def laid_out(doc: Stored) -> str:
    """The digest of the content of `doc`, however its text was laid out. Raises RecursionError."""
    return _digest(members({key: value for key, value in doc.items() if key != KEY}).encode("utf-8", "surrogatepass"))


def _digest(above: bytes | memoryview) -> str:
    found = hashlib.sha256(_PREFIX)
    found.update(above)
    return found.hexdigest()


def _above(data: bytes) -> memoryview | None:
    """What stands above the seal, not copied; None where more comes after it, or two of them."""
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
    at = data.rfind(_MARK)
    try:
        keys = _pairs.decode(f'{{"{KEY}": {data[at + len(_MARK) :].decode()}') if at >= 0 else []
    except ValueError:
        return None
    return memoryview(data)[:at] if [key for key, _ in keys] == [KEY] else None


def _no_key_twice(pairs: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError(pairs)
    return pairs


_pairs = json.JSONDecoder(object_pairs_hook=_no_key_twice)
