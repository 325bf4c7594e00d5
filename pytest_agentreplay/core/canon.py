"""Canonical JSON: one text for everything that means the same, and its digest.

Names are sorted, there is no white space, characters stand as themselves. `1`, `1.0` and `true` stay three different
values: a server may tell them apart, so a request that changes from one to another has changed.
"""

from __future__ import annotations

import hashlib
import json
from enum import Enum
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Json


class NotJson(Enum):
    """Stands for "these bytes are no JSON"; JSON's null is a value."""

    NOT_JSON = "not json"


NOT_JSON: Final = NotJson.NOT_JSON


def _refuse(constant: str) -> Json:
    raise ValueError(constant)


_decode = json.JSONDecoder(parse_constant=_refuse).decode
_encode = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), check_circular=False).encode


def parse(data: bytes | str) -> Json | NotJson:
    """The value of strict JSON in UTF-8, else NOT_JSON.

    NaN and Infinity, numbers of thousands of digits and nesting beyond the interpreter's limit are not JSON here; of a
    name that is given twice the last one counts, as servers read it.
    """
    try:
        return cast("Json", _decode(data if isinstance(data, str) else data.decode()))
    except (ValueError, RecursionError):
        return NOT_JSON


def canonical(value: Json) -> str:
    """The one text of `value`; equal exactly when the values are (object order apart)."""
    return _encode(value)


def digest(text: str) -> str:
    """Hex sha256 of a text, lone surrogates included."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
