"""Format 0.9, read only: a flat list of exchanges whose bodies stand whole, as text or as base64.

No release wrote it. It is here so that reading an older format is a path that exists, is tested and stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_agentreplay.codec.decode import exchange_in, header_in, tangled
from pytest_agentreplay.codec.styles import BlobReader
from pytest_agentreplay.codec.values import Malformed, unbase64
from pytest_agentreplay.core.model import Body, Run
from pytest_agentreplay.errors import SnapshotUnreadable

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Exchange

VERSION = "0.9"
SEAL = "seal"

_PLACES = {"http": ("request", "response"), "tool": ("tool", "result")}

_NONE = BlobReader()


def run(doc: dict[str, Any], file: str) -> Run:
    """The run of a parsed file of format 0.9. Raises SnapshotUnreadable."""
    place = "header"
    try:
        header = header_in({key: doc[key] for key in ("test", "recorded", "clock", "seed") if key in doc}, _NONE)
        found = []
        for number, flat in enumerate(doc["exchanges"], 1):
            place = f"exchange {number}"
            found.append(_exchange(flat))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        message = f"not as format {VERSION} has it ({str(error)[:100]}); restore the file from git"
        raise SnapshotUnreadable(message, file=file, place=place) from None
    if tangle := tangled(found):
        raise SnapshotUnreadable(f"{tangle[1]}; restore the file from git", file=file, place=f"exchange {tangle[0]}")
    return Run(header, tuple(found))


def _exchange(flat: dict[str, Any]) -> Exchange:
    """0.9 said `kind` where 1.0 tells it by the key, and kept bodies beside their messages."""
    stored: dict[str, Any] = {"order": [flat["start"], flat["finish"]], "lane": flat.get("lane", "main")}
    call, answer = _PLACES[flat["kind"]]
    stored[call] = flat["call"]
    if "error" in flat:
        stored["failure"] = flat["error"]
    elif "answer" in flat:
        stored[answer] = flat["answer"]
    if call == "request":
        for place in stored.keys() & {"request", "response"}:
            stored[place] = _with_body(stored[place])
    return exchange_in(stored, lambda _, message: Body(message["body"]["data"]), _NONE)


def _with_body(message: dict[str, Any]) -> dict[str, Any]:
    match message.get("body", ""):
        case str(text):
            data = text.encode()
        case {"base64": str(encoded)}:
            data = unbase64(encoded)
        case _:
            raise Malformed("a body must be a text or base64")
    rest = {key: value for key, value in message.items() if key != "body"}
    return {**rest, "body": {"data": data, "size": len(data)}} if data else rest
