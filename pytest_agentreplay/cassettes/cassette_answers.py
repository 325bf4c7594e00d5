"""The cassette as the network of a recording: the reply of the innermost open cassette of vcrpy, recorded as ours.

Nothing here changes which interaction vcrpy chooses: the suite's matchers, filters and hooks decide.
"""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from pytest_agentreplay.cassettes.vcrpy_values import read_reply
from pytest_agentreplay.core.model import HttpCall
from pytest_agentreplay.errors import CannotFreeze
from pytest_agentreplay.intercept.session.session_parts import OPEN_CASSETTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.core.backends.backend import Moment, RecordBackend, Replayed
    from pytest_agentreplay.core.model import Call, Headers, HttpReply, RawCall
    from pytest_agentreplay.intercept.session.interceptions import Interception


_PLAYING = threading.Lock()  # between the question whether there is a reply and the reply


def answer(
    interception: Interception, recorder: RecordBackend, raw: RawCall, call: Call, moment: Moment
) -> Replayed | None:
    """Record `call` with the reply of the innermost open cassette; return None where the network is asked.

    Raises what vcrpy raises for a request that its cassette has not, and then the run is not written.
    """
    if not isinstance(raw.native, HttpCall):
        return None
    try:
        reply = find_reply(OPEN_CASSETTES[-1].cassette, raw.native)
    except Exception as refused:
        why = interception.redactor.hide(str(refused).strip().partition("\n")[0])
        interception.observed.note_problem(
            CannotFreeze(f"vcrpy refused the call ({why})", path="$", kind=type(refused).__name__)
        )
        raise
    if reply is None:
        return None
    verdict = recorder.serve_outcome(call, interception.redactor.redact_outcome(call, reply), moment)
    return replace(verdict, exchange=replace(verdict.exchange, outcome=reply))


def find_reply(cassette: Any, call: HttpCall) -> HttpReply | None:
    """Return what the cassette has for `call`, as vcrpy's stubs do; None where these ask the network."""
    from vcr.errors import CannotOverwriteExistingCassetteException
    from vcr.request import Request

    # Some stubs see fewer headers than are sent, and only those can be equal to recorded ones.
    names = {name.lower() for request, _ in cassette.data for name in request.headers}
    seen = {name: value for name, value in call.headers if name.lower() in names}
    requests = [
        Request(call.method, call.url, body, headers)
        for headers in (dict(call.headers), seen)
        for body in list_bodies(call)
    ]
    with _PLAYING:
        for request in requests:
            if cassette.can_play_response_for(request):
                reply = read_reply(cassette.play_response(request))
                data = reply.body.data
                headers = tuple(fit_headers(reply.headers, data, is_head=call.method == "HEAD"))
                return replace(reply, headers=headers, cuts=(len(data),) if data else ())
    if cassette.write_protected and cassette.filter_request(requests[0]):
        raise CannotOverwriteExistingCassetteException(cassette=cassette, failed_request=requests[0])
    return None


def list_bodies(call: HttpCall) -> Iterator[Any]:
    """Yield the body in each form in which a stub of vcrpy may have recorded it.

    No body is None or empty; that of aiohttp is the object that its caller gave.
    """
    data = call.body.data
    yield data or None
    if not data:
        yield b""
        return
    kind = next((value for name, value in call.headers if name.lower() == "content-type"), "")
    if "json" in kind:
        try:
            yield json.loads(data)
        except ValueError:
            return
    elif "form-urlencoded" in kind:
        yield dict(parse_qsl(data.decode("latin-1"), keep_blank_values=True))


def fit_headers(headers: Headers, data: bytes, *, is_head: bool) -> Iterator[tuple[str, str]]:
    """Yield the headers that are true of a body: vcrpy may have decoded it, and its length may be another one."""
    for name, value in headers:
        match name.lower():
            case "content-encoding" if is_decoded(data, value):
                continue
            case "content-length" if not is_head:
                yield name, str(len(data))
            case _:
                yield name, value


def is_decoded(data: bytes, coding: str) -> bool:
    """Return whether a body stands in the cassette without its content-encoding, of which text holds no byte."""
    if "gzip" in coding.lower():
        return bool(data) and not data.startswith(b"\x1f\x8b")
    try:
        return bool(data.decode())
    except UnicodeDecodeError:
        return False
