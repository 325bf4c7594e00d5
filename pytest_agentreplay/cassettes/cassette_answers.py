"""The cassette as the network of a recording: the reply of the innermost open cassette of vcrpy, recorded as ours.

Nothing here changes which interaction vcrpy chooses: the suite's matchers, filters and hooks decide.
"""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from pytest_agentreplay.cassettes.vcrpy_values import read_reply
from pytest_agentreplay.core.matching.address import header
from pytest_agentreplay.core.model import HttpCall, HttpReply
from pytest_agentreplay.errors import CannotFreeze
from pytest_agentreplay.intercept.session.session_parts import OPEN_CASSETTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.core.backends.backend import Moment, Replayed
    from pytest_agentreplay.core.model import Call, RawCall
    from pytest_agentreplay.intercept.session.interceptions import Interception

_PLAYING = threading.Lock()  # between the question whether there is a reply and the reply


def answer(interception: Interception, recorder: Any, raw: RawCall, call: Call, moment: Moment) -> Replayed | None:
    """Record `call` with the reply of the innermost open cassette; return None where the network is asked.

    Raises what vcrpy raises for a request that its cassette has not, and then the run is not written.
    """
    if not isinstance(raw.native, HttpCall):
        return None
    try:
        with _PLAYING:
            reply = find_reply(OPEN_CASSETTES[-1].cassette, raw.native)
    except Exception as refused:
        why = interception.redactor.hide(str(refused).strip().partition("\n")[0])
        interception.observed.note_problem(CannotFreeze(f"vcrpy refused the call ({why})", path="$", kind="vcrpy"))
        raise
    if reply is None:
        return None
    verdict: Replayed = recorder.serve_outcome(call, interception.redactor.redact_outcome(call, reply), moment)
    return replace(verdict, exchange=replace(verdict.exchange, outcome=reply))


def find_reply(cassette: Any, call: HttpCall) -> HttpReply | None:
    """Return what the cassette has for `call`, as vcrpy's stubs do; None where these ask the network."""
    from vcr.errors import CannotOverwriteExistingCassetteException
    from vcr.request import Request

    requests = [Request(call.method, call.url, body, dict(call.headers)) for body in list_bodies(call)]
    for request in requests:
        if cassette.can_play_response_for(request):
            return fit_headers(read_reply(cassette.play_response(request)), is_head=call.method == "HEAD")
    if cassette.write_protected and cassette.filter_request(requests[0]):
        raise CannotOverwriteExistingCassetteException(cassette=cassette, failed_request=requests[0])
    return None


def list_bodies(call: HttpCall) -> Iterator[Any]:
    """Yield the body as each stub of vcrpy may have recorded it: that of aiohttp keeps the object of its caller."""
    data, kind = call.body.data, header(call.headers, "content-type")
    yield from (data,) if data else (None, b"")
    if "json" in kind:
        with suppress(ValueError):
            yield json.loads(data)
    if "form-urlencoded" in kind:
        yield dict(parse_qsl(data.decode("latin-1"), keep_blank_values=True))


def fit_headers(reply: HttpReply, *, is_head: bool) -> HttpReply:
    """Return the reply with headers that are true of its body: vcrpy may have decoded it, and its length be another."""
    data, coding = reply.body.data, header(reply.headers, "content-encoding").lower()
    try:  # no text has the bytes of a compressed body
        is_decoded = not data.startswith(b"\x1f\x8b") if "gzip" in coding else bool(data.decode())
    except UnicodeDecodeError:
        is_decoded = False
    lengths = {} if is_head else {"content-length": str(len(data))}
    headers = [(name, lengths.get(name.lower(), value)) for name, value in reply.headers]
    if data and is_decoded:
        headers = [pair for pair in headers if pair[0].lower() != "content-encoding"]
    return replace(reply, headers=tuple(headers), cuts=(len(data),) if data else ())
