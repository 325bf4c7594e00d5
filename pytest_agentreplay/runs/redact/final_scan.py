"""The last scan: no text is written that holds a secret. What leaks is cut out, and the rest is kept as pending.

As little is cut as helps, at most a whole call.
"""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pytest_agentreplay.errors import Leak
from pytest_agentreplay.model.exchanges import (
    EMPTY,
    Body,
    Failure,
    FramesReply,
    Header,
    HttpReply,
    Run,
    ToolCall,
    ToolReply,
)
from pytest_agentreplay.model.paths import quote_word
from pytest_agentreplay.redaction.encodings import as_bytes
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.codec.styles import unwrap

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Exchange, Headers, Json, JsonObject, Outcome
    from pytest_agentreplay.redaction.redaction import Redaction

CUT = "cut"
"""The key of a kit that lists what was cut out."""


def scan_run(redaction: Redaction, run: Run, file: str) -> str:
    """Return the text of `run`, after the last scan. Raises Leak, which names rules and places, and no value."""
    if failed := redaction.broken:
        rules = " and ".join(f"the redactor {rule} raised {error}" for rule, error in failed.items())
        raise Leak(f"{file}: not written, because {rules}: what it would have found is not known.")
    if redaction.touched:
        raise Leak(
            f"{file}: not written, because redaction has changed more than the secrets in {redaction.touched[0]}. "
            "This is a fault of ours: compare that text with what is kept, and report it."
        )
    text = codec.dumps(run)
    leaks = redaction.text.leaks(unwrap(text).encode())
    if not leaks:
        return text
    if redaction.text.leaks(run.header.test.encode()):
        raise Leak(
            f"{file}: not written, because a known secret ({', '.join(leaks)}) would be in it, in the id of the test.\n"
            'Name the parameter: pytest.param(..., id="a-name"); or name the secret before tests are collected: '
            "pytest_agentreplay.secret(...)."
        )
    raise Leak(
        f"{file}: not written, because a known secret ({', '.join(leaks)}) would be in it, in an encoding that "
        f"redaction does not reach{format_places(cut_leaks(redaction, run)[1])}."
    )


def format_places(places: list[str]) -> str:
    """Return where something was cut out, for people."""
    first_places = "; ".join(places[:4]) + (f"; and {len(places) - 4} more" if len(places) > 4 else "")
    return f": {first_places}" if places else ""


def next_step(pending: str) -> str:
    """Return what to do about a refused write whose rest is kept."""
    return (
        "Pass the value as it appears to agentreplay.secret(...) and record again, or take the rest:\n"
        f"agentreplay accept --recover --policy FILE {quote_word(pending)}"
    )


def rest(redaction: Redaction, run: Run) -> str:
    """Return the text of what may be kept of a run that was refused, what was cut out listed in it; "" for nothing."""
    if redaction.text.leaks(run.header.test.encode()):
        return ""
    run, places = cut_leaks(redaction, run)
    places += [f"{rule}: the redactor raised {error}" for rule, error in redaction.broken.items()]
    text = codec.dumps(replace(run, header=replace(run.header, kit={**run.header.kit, CUT: [*places]})))
    return "" if redaction.text.leaks(unwrap(text).encode()) else text


def cut_leaks(redaction: Redaction, run: Run) -> tuple[Run, list[str]]:
    """`run` without what still holds a secret, and where that stood, by rule and place."""
    knife = ResidualRedaction(redaction)
    exchanges = tuple(knife.exchange(number, x) for number, x in enumerate(run.exchanges, 1))
    return Run(knife.header(run.header), exchanges), knife.places


class ResidualRedaction:
    """Cuts, and notes in `places` where."""

    def __init__(self, redaction: Redaction) -> None:
        """Begin with nothing cut."""
        self._redaction = redaction
        self.places: list[str] = []

    def header(self, header: Header) -> Header:
        """Return the header, as it may be kept; the id of the test stays."""
        bare = Header("", header.recorded, header.clock, header.seed)
        if not self._leaks(codec.dumps(Run(replace(header, test="")))):
            return header
        kit, outcome = self._tree(header.kit, "the header"), self._tree(header.outcome, "the header")
        kept = replace(bare, kit=cast("JsonObject", kit), outcome=cast("JsonObject", outcome))
        return replace(kept if not self._leaks(codec.dumps(Run(kept))) else bare, test=header.test)

    def exchange(self, number: int, x: Exchange) -> Exchange:
        """One exchange, as it may be kept."""
        if not self._leaks(alone(x)):
            return x
        request, reply = f"the request of call {number}", f"the reply of call {number}"
        agent = self._text(x.agent, f"the agent of call {number}")
        x = replace(
            x, call=self._side(x.call, request), outcome=x.outcome and self._side(x.outcome, reply), agent=agent
        )
        if rules := self._leaks(alone(x)):
            self._note(rules, f"call {number}, which is left out")
            return nothing_of(x, self._opaque(alone(x)))
        return x

    def _side(self, side: Any, place: str) -> Any:
        """Return a call or an outcome."""
        match side:
            case ToolCall():
                kept: dict[str, Any] = {
                    "name": self._text(side.name, place),
                    "arguments": self._object(side.arguments, place),
                    "facts": self._object(side.facts, place),
                }
            case Failure():
                args = tuple(self._tree(arg, place) for arg in side.args)
                kept = {"message": self._text(side.message, place), "args": args}
            case ToolReply():
                items = side.items and tuple(self._tree(item, place) for item in side.items)
                kept = {"value": self._tree(side.value, place), "items": items}
            case _:
                kept = {"headers": self._headers(side.headers, place), "body": self._body(side.body, place)}
        if (failure := getattr(side, "failure", None)) is not None:
            kept["failure"] = self._side(failure, place)
        if hasattr(side, "url"):
            kept["url"] = self._text(side.url, place)
        if isinstance(side, HttpReply | FramesReply) and kept["body"] is not side.body:
            kept["cuts"] = (len(kept["body"]), *(0 for _ in (side.cuts or ())[1:]))
        return replace(side, **kept)

    def _tree(self, tree: Json, place: str) -> Json:
        if not (rules := self._leaks(json.dumps(tree, ensure_ascii=False))):
            return tree
        self._note(rules, place)
        kept = self._leaves(tree)
        return kept if not self._leaks(json.dumps(kept, ensure_ascii=False)) else self._opaque(json.dumps(tree))

    def _leaves(self, tree: Json) -> Json:
        match tree:
            case str():
                return self._opaque(tree) if self._leaks(tree) or self._leaks(json.dumps(tree)) else tree
            case dict():
                return {str(self._leaves(key)): self._leaves(value) for key, value in tree.items()}
            case list():
                return [self._leaves(value) for value in tree]
            case _:
                return tree

    def _object(self, tree: JsonObject, place: str) -> JsonObject:
        kept = self._tree(tree, place)
        return kept if isinstance(kept, dict) else {"redacted": kept}

    def _text(self, text: str, place: str) -> str:
        if not (rules := self._leaks(text)):
            return text
        self._note(rules, place)
        return self._opaque(text)

    def _headers(self, headers: Headers, place: str) -> Headers:
        return tuple((self._text(name, place), self._text(value, place)) for name, value in headers)

    def _body(self, body: Body, place: str) -> Body:
        data = body.data
        if not (rules := self._leaks(alone_body(data))):
            return body
        try:
            tree = json.loads(data)
        except ValueError:
            self._note(rules, place)
            return Body(self._opaque(data).encode())
        return Body(as_bytes(json.dumps(self._tree(tree, place), ensure_ascii=False)))

    def _leaks(self, text: str | bytes) -> tuple[str, ...]:
        return self._redaction.text.leaks(as_bytes(unwrap(text)) if isinstance(text, str) else text)

    def _opaque(self, data: str | bytes) -> str:
        return self._redaction.run.replace_opaque(as_bytes(data) if isinstance(data, str) else data).decode()

    def _note(self, rules: tuple[str, ...], place: str) -> None:
        line = f"{', '.join(rules)} in {place}"
        if line not in self.places:
            self.places.append(line)


def alone(x: Exchange) -> str:
    """Return the text of one exchange."""
    return codec.dumps(Run(Header(""), (replace(x, parent=None),)))


def alone_body(data: bytes) -> bytes:
    """Return a body as it is and as a snapshot writes it, which is base64 for what is no text."""
    try:
        return as_bytes(json.dumps(data.decode(), ensure_ascii=False)) + b"\n" + data
    except UnicodeDecodeError:
        return data + b"\n" + base64.b64encode(data)


def nothing_of(x: Exchange, what: str) -> Exchange:
    """Return an exchange of which only its place in the order is kept; `what` stands for the rest."""
    call = ToolCall(what) if isinstance(x.call, ToolCall) else replace(x.call, url=what, headers=(), body=EMPTY)
    outcome: Outcome | None
    match x.outcome:
        case None | FramesReply():
            outcome = x.outcome and FramesReply()
        case HttpReply(status=status):
            outcome = HttpReply(status, body=Body(what.encode()), cuts=(len(what),))
        case Failure():
            outcome = Failure("builtins.Exception", what)
        case _:
            outcome = ToolReply(what)
    return replace(x, call=call, outcome=outcome, agent="")
