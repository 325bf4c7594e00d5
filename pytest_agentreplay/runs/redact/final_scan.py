"""The last scan: no text is written that holds a secret. What leaks is cut out, and the rest is kept as pending.

Redaction replaces what it knows in each part of a run; the scan reads the text of the file, as anybody would who looks
for a secret in it. What it finds there was written in a way that redaction does not reach. As little is cut as helps:
a text in a value, else the value, at most a whole call.
"""

from __future__ import annotations

import base64
import json
from dataclasses import is_dataclass, replace
from typing import TYPE_CHECKING, Any

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
    from pytest_agentreplay.model.exchanges import Call, Exchange, Json, Outcome
    from pytest_agentreplay.redaction.redaction import Redaction

CUT = "cut"
"""The key of a kit that lists what was cut out."""

# What of a header, a call and an outcome may hold text of an agent, in the order in which people are told of it. The
# rest are numbers, words of ours, and names of classes, which a replay looks up.
FIELDS = (
    *("outcome", "kit", "name", "url", "message", "args", "reason", "arguments", "facts", "value", "headers", "body"),
    *("items", "failure"),
)


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
        f"agentreplay verify --recover --policy FILE {quote_word(pending)}"
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
    """Return `run` without what still holds a secret, and where that stood, by rule and place."""
    cutting = LeakCutting(redaction)
    exchanges = tuple(cutting.cut_exchange(number, x) for number, x in enumerate(run.exchanges, 1))
    return Run(cutting.cut_header(run.header), exchanges), cutting.places


class LeakCutting:
    """Cuts what still holds a secret out of the parts of a run, and notes in `places` where that stood."""

    def __init__(self, redaction: Redaction) -> None:
        """Begin with nothing cut."""
        self._redaction = redaction
        self.places: list[str] = []

    def cut_header(self, header: Header) -> Header:
        """Return the header, as it may be kept; the id of the test stays."""
        if not self._find_leaks(codec.dumps(Run(replace(header, test="")))):
            return header
        kept: Header = self._cut_fields(replace(header, test=""), "the header")
        if self._find_leaks(codec.dumps(Run(kept))):
            kept = Header("", header.recorded, header.clock, header.seed)
        return replace(kept, test=header.test)

    def cut_exchange(self, number: int, x: Exchange) -> Exchange:
        """Return an exchange, as it may be kept."""
        if not self._find_leaks(write_alone(x)):
            return x
        agent = self._cut_value(x.agent, f"the agent of call {number}")
        call = self._cut_value(x.call, f"the request of call {number}")
        x = replace(x, agent=agent, call=call, outcome=self._cut_value(x.outcome, f"the reply of call {number}"))
        # What is left stands between two fields, or in one that a replay cannot do without.
        if rules := self._find_leaks(write_alone(x)):
            self._note(rules, f"call {number}, which is left out")
            return leave_out(x, self._replace(write_alone(x)))
        return x

    def _cut_value(self, value: Any, place: str) -> Any:
        """Return a field of a header, a call or an outcome, as it may be kept."""
        match value:
            case str() | dict() | list():
                return self._cut_tree(value, place)
            case tuple():
                return tuple(self._cut_value(item, place) for item in value)
            case Body():
                return self._cut_body(value, place)
            case _ if is_dataclass(value):
                return self._cut_fields(value, place)
            case _:
                return value

    def _cut_fields(self, part: Any, place: str) -> Any:
        kept = {name: self._cut_value(getattr(part, name), place) for name in FIELDS if hasattr(part, name)}
        if isinstance(part, HttpReply | FramesReply) and kept["body"] is not part.body:
            # The new body comes in one piece, in as many pieces as there were.
            kept["cuts"] = (len(kept["body"]), *(0 for _ in (part.cuts or ())[1:]))
        return replace(part, **kept)

    def _cut_tree(self, tree: Json, place: str = "") -> Json:
        """Return a value as it may be kept; what is inside of it has no `place` of its own."""
        text = json.dumps(tree, ensure_ascii=False)
        # A file holds the text in the escapes of JSON, a person reads it without: a secret may be in either.
        rules = self._find_leaks(text) or (self._find_leaks(tree) if isinstance(tree, str) else ())
        if not rules:
            return tree
        if place:
            self._note(rules, place)
        kept: Json
        match tree:
            case dict():
                kept = {str(self._cut_tree(key)): self._cut_tree(value) for key, value in tree.items()}
            case list():
                kept = [self._cut_tree(value) for value in tree]
            case _:
                return self._replace(tree if isinstance(tree, str) else text)
        # Several texts can hold a secret that none of them holds alone.
        if not self._find_leaks(json.dumps(kept, ensure_ascii=False)):
            return kept
        return {"redacted": self._replace(text)} if isinstance(tree, dict) else self._replace(text)

    def _cut_body(self, body: Body, place: str) -> Body:
        if not (rules := self._find_leaks(list_forms(body.data))):
            return body
        try:
            tree = json.loads(body.data)
        except ValueError:
            self._note(rules, place)
            return Body(self._replace(body.data).encode())
        return Body(as_bytes(json.dumps(self._cut_tree(tree, place), ensure_ascii=False)))

    def _find_leaks(self, text: str | bytes) -> tuple[str, ...]:
        return self._redaction.text.leaks(as_bytes(unwrap(text)) if isinstance(text, str) else text)

    def _replace(self, data: str | bytes) -> str:
        """Return the placeholder that stands for the whole of a text."""
        return self._redaction.run.replace_opaque(as_bytes(data) if isinstance(data, str) else data).decode()

    def _note(self, rules: tuple[str, ...], place: str) -> None:
        line = f"{', '.join(rules)} in {place}"
        if line not in self.places:
            self.places.append(line)


def write_alone(x: Exchange) -> str:
    """Return the text of one exchange, as a file of it alone has it."""
    return codec.dumps(Run(Header(""), (replace(x, parent=None),)))


def list_forms(data: bytes) -> bytes:
    """Return a body as it is and as a snapshot writes it, which is base64 for what is no text."""
    try:
        return as_bytes(json.dumps(data.decode(), ensure_ascii=False)) + b"\n" + data
    except UnicodeDecodeError:
        return data + b"\n" + base64.b64encode(data)


def leave_out(x: Exchange, placeholder: str) -> Exchange:
    """Return an exchange of which only its place in the order is kept; `placeholder` stands for the rest."""
    call: Call = ToolCall(placeholder)
    if not isinstance(x.call, ToolCall):
        call = replace(x.call, url=placeholder, headers=(), body=EMPTY)
    outcome: Outcome | None
    match x.outcome:
        case None | FramesReply():
            outcome = x.outcome and FramesReply()
        case HttpReply(status=status):
            outcome = HttpReply(status, body=Body(placeholder.encode()), cuts=(len(placeholder),))
        case Failure():
            outcome = Failure("builtins.Exception", placeholder)
        case _:
            outcome = ToolReply(placeholder)
    return replace(x, call=call, outcome=outcome, agent="")
