"""The seal as it stands in a file: what it is made of, whether it fits, and who resealed the file.

The digest is over the text above the seal, in the layout of `members`. So a file that nobody has reformatted is proven
by its bytes; any other is looked at token by token, and laid out again. The last key is a digest over the seal itself.

The layout is JSON as people read it in a diff: what fits into `WIDTH` columns stands on one line, else one item a line.
A container with one item hugs it (`{"m7": {` ... `}}`), which spares a level of indent for every mark and id. The two
outermost levels never hug: a second exchange must not move the first one to the right.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from json.encoder import encode_basestring as quoted
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import SnapshotUnreadable
from pytest_agentreplay.snapshots.codec import parsing
from pytest_agentreplay.snapshots.codec.volatile_reader import LINES, RUN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_agentreplay.model.exchanges import JsonObject

Stored = dict[str, Any]

KEY = "integrity"
FORM = "agentreplay-c3"
_FORMER_FORM = "agentreplay-c2"
"""That of files in which nothing stands apart: they are read, and get the new form when they are written."""
OWN = 16
"""Digits of the seal's digest over itself."""
SHORT = 8
"""Digits of the digest of a part of the file: enough to name which of some thousand parts was edited by accident."""
_NO_PARTS = frozenset({"schemaVersion", "needs", "exchanges", LINES, KEY})
_MARK = f',\n "{KEY}": '.encode()
_PREFIX = b"agentreplay/snapshot/v2\0"


def write_sealed(content: Stored, revisions: Sequence[JsonObject] = ()) -> str:
    """Return the text of the file that holds `content`, which has no seal yet."""
    above = members(content)
    seal: Stored = {
        "form": FORM,
        "digest": _digest(above.encode("utf-8", "surrogatepass")),
        "parts": parts(content),
        "exchanges": exchanges(content),
    }
    seal |= {"revisions": [*revisions]} if revisions else {}
    seal["self"] = digest_seal(seal)[:OWN]
    return f"{above},{members({KEY: seal})[1:]}\n}}\n"


def parts(content: Stored) -> dict[str, str]:
    """Return a short digest of each top-level value but the exchanges."""
    return {key: digest_shortly(value) for key, value in content.items() if key not in _NO_PARTS}


def exchanges(content: Stored) -> list[str]:
    """Return a short digest of each exchange, with the line of what was set apart from it."""
    lines = content.get(LINES, [])
    return [digest_shortly(pair) for pair in itertools.zip_longest(content["exchanges"], lines)]


def digest_shortly(value: Any) -> str:
    """Return enough of a digest to name what was edited."""
    return parsing.canonical_digest(value)[:SHORT]


def digest_seal(seal: Stored) -> str:
    """Return the digest over the seal, which covers what it says of the content and its revisions."""
    return parsing.canonical_digest({key: value for key, value in seal.items() if key != "self"})


def is_own_digest_right(doc: Stored) -> bool:
    """Return whether the seal is what it says of itself, and stands where it belongs."""
    seal = doc[KEY]
    own = seal.get("self")
    is_right = isinstance(own, str) and len(own) >= OWN and digest_seal(seal).startswith(own)
    return is_right and next(reversed(doc)) == KEY and next(reversed(seal)) == "self"


def digest_content(doc: Stored) -> str:
    """Return the digest of the content of `doc`, however its text was laid out. Raises RecursionError."""
    return _digest(members({key: value for key, value in doc.items() if key != KEY}).encode("utf-8", "surrogatepass"))


def _digest(above: bytes | memoryview) -> str:
    digest = hashlib.sha256(_PREFIX)
    digest.update(above)
    return digest.hexdigest()


def _cut_seal(data: bytes) -> memoryview | None:
    """Return what stands above the seal, not copied; None where more comes after it, or two of them."""
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
    at = data.rfind(_MARK)
    try:
        below = parsing.decode(f'{{"{KEY}": {data[at + len(_MARK) :].decode()}') if at >= 0 else {}
    except ValueError:
        return None
    return memoryview(data)[:at] if [*below] == [KEY] else None


def check_seal(doc: Stored, data: bytes, file: str) -> tuple[bool, str]:
    """Return whether the seal fits, and the digest of the content. Raises SnapshotUnreadable.

    Every token of `data` has been looked at then, but where it is what was sealed byte for byte: a doubled key
    could hide anything.
    """
    seal = doc.get(KEY)
    if not isinstance(seal, dict | None):
        raise SnapshotUnreadable(f"`{KEY}` must be an object", file=file, place=KEY)
    if seal is None:
        parsing.strict(data, file)
        return False, digest_content(doc)
    form = seal.get("form")
    if form not in (FORM, _FORMER_FORM):
        raise SnapshotUnreadable(f"sealed as {form!r:.20}, which is not known here", file=file, place=KEY)
    above = _cut_seal(data)
    digest = "" if above is None else _digest(above)
    try:
        if digest != seal.get("digest"):
            parsing.strict(data, file)
            digest = digest_content(doc)
        elif b"\\" in data and (b"\\ud" in data or b"\\uD" in data):  # half a character has no other way into a text
            parsing.strict(data, file)
        return digest == seal.get("digest") and is_own_digest_right(doc), digest
    except RecursionError:
        raise parsing.too_deep(file) from None


def identity(doc: Stored, data: bytes, file: str) -> str:
    """Return the digest over a sealed file and its seal; "" for one that was edited since.

    Raises SnapshotUnreadable.
    """
    return digest_seal(doc[KEY]) if check_seal(doc, data, file)[0] else ""


def revisions(doc: Stored, file: str) -> tuple[JsonObject, ...]:
    """Return who resealed the file and why, oldest first. Raises SnapshotUnreadable."""
    revisions = (doc.get(KEY) or {}).get("revisions", [])
    if not (isinstance(revisions, list) and all(isinstance(revision, dict) for revision in revisions)):
        raise SnapshotUnreadable("`revisions` must be a list of objects", file=file, place="integrity")
    return tuple(revisions)


def broken(revisions: Sequence[JsonObject], digest: str) -> str:
    """Return where the revisions do not lead from one to the next and to `digest`; "" where they do."""
    for number, revision in enumerate(revisions, 1):
        last = number == len(revisions)
        if revision.get("to") != (digest if last else revisions[number].get("from")):
            return f"revision {number} does not lead to {'what is sealed' if last else 'the next one'}"
    return ""


WIDTH = 110

_SHORT = 40
_LOOSE = 2

_A_LINE_EACH = frozenset({"$text", "lines", "headers"})
"""Lists whose items stay on lines of their own, so that one changed line is one line of the diff."""


def members(value: dict[str, Any]) -> str:
    """Return an object of two and more members as it begins in a file: one member a line, and not yet closed."""
    return "{" + ",".join(f"\n {quoted(key)}: {_form_part(key, item)}" for key, item in value.items())


def _fields(value: dict[str, Any], depth: int, lead: int) -> list[str]:
    """Return the texts of the members of an object, whose names begin in column `depth + lead`."""
    return [
        f"{name}: {_form(item, depth, lead + len(name) + 2, fill=key not in _A_LINE_EACH)}"
        for key, item in value.items()
        if (name := quoted(key))
    ]


def _form_part(key: str, value: Any) -> str:
    """Return the text of a top-level value: what each recording has anew takes one line for each exchange."""
    if key in {LINES, RUN}:
        return _write_lines(value)
    if key == KEY and isinstance(value, dict):
        return "{" + ",".join(f"{quoted(name)}:{_write_lines(item)}" for name, item in value.items()) + "}"
    return _form(value, 1, len(key) + 4, fill=key not in _A_LINE_EACH)


def _write_lines(value: Any) -> str:
    """Return the text of a value on one line, of a list of objects on one line each."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[" + ",".join(f"\n  {_write_line(item)}" for item in value) + "\n ]"
    return _write_line(value)


_write_line = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")).encode


def _form(value: Any, depth: int, lead: int, *, fill: bool) -> str:
    """Return the text of `value` whose first line begins in column `depth + lead`."""
    if isinstance(value, str):
        return quoted(value)
    if not isinstance(value, dict | list):
        return repr(value) if type(value) is int else json.dumps(value, allow_nan=False)  # the former takes a tenth
    inner, hug = (depth, lead + 1) if len(value) == 1 and depth >= _LOOSE else (depth + 1, 0)
    if isinstance(value, dict):
        return _enclose("{}", _fields(value, inner, hug), depth, lead)
    parts = [_form(item, inner, hug, fill=fill) for item in value]
    if fill and len(parts) > 1 and not any(isinstance(item, dict) for item in value):
        parts = _fill_lines(parts, depth)
    return _enclose("[]", parts, depth, lead)


def _enclose(brackets: str, parts: list[str], depth: int, lead: int) -> str:
    room = WIDTH - depth - lead
    if len(parts) == 1 and depth >= _LOOSE:
        return brackets[0] + parts[0] + brackets[1]
    if sum(map(len, parts)) + 2 * len(parts) <= room and not any("\n" in part for part in parts):
        return brackets[0] + ", ".join(parts) + brackets[1]
    pad = "\n" + " " * (depth + 1)
    return f"{brackets[0]}{pad}{f',{pad}'.join(parts)}\n{' ' * depth}{brackets[1]}"


def _fill_lines(parts: list[str], depth: int) -> list[str]:
    """Return short items packed into full lines (sizes, tokens of a stream); as they are when one of them is long."""
    if any(len(part) > _SHORT or "\n" in part for part in parts):
        return parts
    rows: list[str] = []
    row = parts[0]
    for part in parts[1:]:
        if depth + 4 + len(row) + len(part) > WIDTH:
            rows.append(row)
            row = part
        else:
            row = f"{row}, {part}"
    return [*rows, row]
