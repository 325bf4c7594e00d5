"""The cassette as the network of a recording: the reply of the innermost open cassette of vcrpy, recorded as ours.

Nothing here changes which interaction vcrpy chooses: the suite's matchers, filters and hooks decide.
"""

from __future__ import annotations

import json
import re
import threading
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote_plus, urlencode

from pytest_agentreplay.compare.matching.address import header, split
from pytest_agentreplay.errors import CannotFreeze
from pytest_agentreplay.intercept.session.hosts import is_model_host
from pytest_agentreplay.intercept.session.session_parts import OPEN_CASSETTES
from pytest_agentreplay.model.exchanges import Call, HttpCall, HttpReply, RawCall
from pytest_agentreplay.runs.cassettes.verdicts import describe_address, read_reply, read_request

if TYPE_CHECKING:
    from pytest_agentreplay.backends.backend import Moment, Replayed
    from pytest_agentreplay.intercept.session.interceptions import Interception

HIDDEN = (
    "a filter of the suite hides a value of {} that the snapshot would show: name its field, or its form, in "
    "agentreplay-policy.yaml (docs/how-to/secrets.md)"
)
WORD = re.compile(r"""[\w.@-]{4,}(?![\w.@-]|":|=[^=&\s"])""")  # no name of a field, which a filter drops with its value
_PLAYING = threading.Lock()  # between the question whether there is a reply and the reply


def answer(interception: Interception, recorder: Any, raw: RawCall, call: Call, moment: Moment) -> Replayed | None:
    """Record `call` with the reply of the innermost open cassette; return None where the network is asked.

    Raises what vcrpy raises for a request that its cassette has not. Then, and where a filter of the suite hides a
    value that our redaction keeps, the run is not written.
    """
    if not isinstance(raw.native, HttpCall) or not isinstance(call, HttpCall):
        return None
    cassette, observed, redactor = OPEN_CASSETTES[-1].cassette, interception.observed, interception.redactor
    try:
        with _PLAYING:
            request, response = play(cassette, raw.native)
    except Exception as refused:
        why, address = str(refused).strip().partition("\n")[0], describe_address(call.method, call.url)
        why = redactor.hide(f"vcrpy refused the call ({why}): {address}")
        observed.note_problem(CannotFreeze(why, path="$", kind="vcrpy"))
        raise
    parts: list[HttpCall | HttpReply] = [call]
    verdict: Replayed | None = None
    if response is not None:
        reply = fit_headers(read_reply(response), is_head=raw.native.method == "HEAD")
        kept: Any = redactor.redact_outcome(call, reply)
        parts.append(kept)
        verdict = recorder.serve_outcome(call, kept, moment)
        verdict = replace(verdict, exchange=replace(verdict.exchange, outcome=reply))
    if address := find_hidden(cassette, request, response, parts):
        observed.note_problem(CannotFreeze(HIDDEN.format(redactor.hide(address)), path="$", kind="vcrpy"))
    return verdict


def play(cassette: Any, call: HttpCall) -> tuple[Any, Any]:
    """Return `call` as vcrpy has it, and the response that its stubs give; None where these ask the network."""
    from vcr.errors import CannotOverwriteExistingCassetteException
    from vcr.request import Request

    headers = dict[str, str]()
    for name, value in call.headers:
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    # The stub of aiohttp has the URL of the caller, without the `base_url` of a session.
    relative = [row.uri for row in cassette.requests if "://" not in row.uri and call.url.endswith(row.uri)]
    bodies = list_bodies(call, [row.body for row in cassette.requests])
    requests = [Request(call.method, url, body, headers) for url in [call.url, *relative] for body in bodies]
    for request in requests:
        if cassette.can_play_response_for(request):
            return request, cassette.play_response(request)
    if cassette.write_protected and cassette.filter_request(requests[0]):
        raise CannotOverwriteExistingCassetteException(cassette=cassette, failed_request=requests[0])
    return requests[0], None


def list_bodies(call: HttpCall, recorded: list[Any]) -> list[Any]:
    """Return the body as each stub of vcrpy may have recorded it, those first that are recorded.

    The stub of aiohttp keeps the object of its caller.
    """
    data, kind = call.body.data, header(call.headers, "content-type")
    bodies: list[Any] = [data] if data else [None, b""]
    if "json" in kind:
        with suppress(ValueError):
            bodies.append(json.loads(data))
    if "form-urlencoded" in kind:
        text = data.decode("latin-1")
        for body in recorded:
            with suppress(TypeError, ValueError):  # neither a mapping nor pairs
                pairs = [(name, value) for name, value in (body.items() if isinstance(body, dict) else body)]
                bodies += [body] if urlencode(pairs, doseq=True) == text else []
        bodies.append(dict(parse_qsl(text, keep_blank_values=True)))
    return sorted(bodies, key=lambda body: body not in recorded)


def find_hidden(cassette: Any, request: Any, response: Any, kept: list[HttpCall | HttpReply]) -> str:
    """Return method, host and path of a request where the cassette hides words of `kept` in it or in its response."""
    filtered = cassette.filter_request(request)
    if not filtered:  # it passes by the cassette
        return ""
    before, after = list_words(read_request(request)), list_words(read_request(filtered))
    # Private, for the hooks of vcrpy 9 by which `filter_sensitive_data` hides values on disk only:
    # https://github.com/kevin1024/vcrpy/blob/master/vcr/cassette.py
    hooks = getattr(cassette, "_before_save_interaction", ())
    if hooks and response is not None:
        from vcr.cassette import _run_hooks

        filtered, saved = _run_hooks(hooks, deepcopy(filtered), deepcopy(response), cassette) or (filtered, response)
        before |= list_words(read_reply(response))
        after = list_words(read_request(filtered), read_reply(saved))
    is_hiding = before - after and (before - after) & list_words(*kept)
    return describe_address(filtered.method, filtered.uri) if is_hiding else ""


def list_words(*parts: HttpCall | HttpReply) -> set[str]:
    """Return the words of URLs and bodies but for names of fields, whatever the encoding of a form or of JSON is."""
    words = set[str]()
    for part in parts:
        text = part.body.data.decode(errors="replace")
        with suppress(ValueError):
            text = json.dumps(json.loads(text), ensure_ascii=False)
        url = getattr(part, "url", "")
        if is_model_host(split(url).host):  # its address is no secret, and some suites hide all of it
            url = url.partition("?")[2]
        words.update(WORD.findall(unquote_plus(f"{url} {text}")))
    return words


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
