"""Canonical JSON: one text for everything that means the same, and its digest.

Names are sorted, there is no white space, characters stand as themselves. `1`, `1.0` and `true` stay three different
values: a server may tell them apart, so a request that changes from one to another has changed.
"""

from __future__ import annotations

import hashlib
import json
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Json


class NotJson(Enum):
    """Stands for "these bytes are no JSON"; JSON's null is a value."""

    NOT_JSON = "not json"


NOT_JSON: Final = NotJson.NOT_JSON


_HUGE = 2000  # bits; the interpreter may be set to 640 digits, and not to less


def _refuse(constant: str) -> Json:
    raise ValueError(constant)


_decode = json.JSONDecoder(parse_constant=_refuse).decode
_encode = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), check_circular=False).encode


def parse(data: bytes | str, *, exact: bool = False) -> Json | NotJson:
    """The value of strict JSON in UTF-8, else NOT_JSON.

    NaN and Infinity, numbers of thousands of digits and nesting beyond the interpreter's limit are not JSON here; of a
    name that is given twice the last one counts, as servers read it.

    Args:
        data: The JSON text.
        exact: Keep what a Python value loses, for a comparison: a number that no float holds is `{"$number": text}`,
            and earlier values of a repeated name stand under `"$repeated"`.
    """
    try:
        text = data if isinstance(data, str) else data.decode()
        return cast("Json", (_decode_exact if exact else _decode)(text))
    except (ValueError, RecursionError):
        return NOT_JSON


def _number(text: str) -> Json:
    """A float, or its text where that is another number: 12345678901234567.11, 1e400."""
    value = float(text)
    if repr(value) == text:
        return value
    try:
        same = Decimal(text) == Decimal(repr(value))
    except ArithmeticError:  # an exponent beyond what Decimal counts
        same = False
    return value if same else {"$number": text}


def _members(pairs: list[tuple[str, Json]]) -> Json:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    values: dict[str, list[Json]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    return members | {"$repeated": {name: all_of[:-1] for name, all_of in values.items() if len(all_of) > 1}}


_decode_exact = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=_members, parse_float=_number).decode


def canonical(value: Json) -> str:
    """The one text of `value`; equal exactly when the values are (object order apart)."""
    try:
        return _encode(value)
    except ValueError:  # a number of more digits than the interpreter writes down
        return _encode(_in_hex(value))


def _in_hex(value: Json) -> Json:
    match value:
        case dict():
            return {key: _in_hex(item) for key, item in value.items()}
        case list():
            return [_in_hex(item) for item in value]
        case int() if value.bit_length() >= _HUGE:
            return {"$int": hex(value)}
        case _:
            return value


def digest(text: str) -> str:
    """Hex sha256 of a text, lone surrogates included."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
