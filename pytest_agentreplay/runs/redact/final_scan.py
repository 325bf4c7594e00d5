"""The last scan: no text is written that holds a secret. What leaks is cut out, and the rest is kept as pending.

Redaction replaces what it knows in each part of a run; the scan reads the text of the file, as anybody would who looks
for a secret in it. What it finds there was written in a way that redaction does not reach. As little is cut as helps:
a text in a value, else the value, at most a whole call.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.errors import Leak
from pytest_agentreplay.model.exchanges import Body, Failure, FramesReply, Header, HttpReply, Run, ToolCall, ToolReply
from pytest_agentreplay.model.paths import quote_word
from pytest_agentreplay.redaction.encodings import as_bytes
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.codec.styles import unwrap

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Call, Exchange, Outcome
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
    leaks = redaction.text.leaks(as_bytes(unwrap(text)))
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
    """Return `run` without the requests and replies that still hold a secret, and which these were, by rule and place.

    The id of the test stays.
    """
    places: list[str] = []

    def holds_leak(part: Run, place: str) -> bool:
        if rules := find_leaks(redaction, part):
            places.append(f"{', '.join(rules)} in {place}")
        return bool(rules)

    exchanges = []
    for number, x in enumerate(run.exchanges, 1):
        # Alone, an exchange has no parent in the file.
        alone = replace(x, parent=None, outcome=None)
        if holds_leak(Run(Header(""), (alone,)), f"the request of call {number}"):
            placeholder = replace_text(redaction, alone)
            x = replace(x, agent="", call=make_empty_call(x.call, placeholder))  # noqa: PLW2901
        alone = replace(x, parent=None)
        if holds_leak(Run(Header(""), (alone,)), f"the reply of call {number}"):
            x = replace(x, outcome=make_empty_outcome(x.outcome, replace_text(redaction, alone)))  # noqa: PLW2901
        exchanges.append(x)
    header = run.header
    if holds_leak(Run(replace(header, test="")), "the header"):
        header = Header(header.test, header.recorded, header.clock, header.seed)
    return Run(header, tuple(exchanges)), places


def find_leaks(redaction: Redaction, run: Run) -> tuple[str, ...]:
    """Return the rules that find a secret in the text of a run."""
    return redaction.text.leaks(as_bytes(unwrap(codec.dumps(run))))


def replace_text(redaction: Redaction, x: Exchange) -> str:
    """Return the placeholder that stands for an exchange that holds a secret."""
    return redaction.run.replace_opaque(codec.dumps(Run(Header(""), (x,))).encode()).decode()


def make_empty_call(call: Call, placeholder: str) -> Call:
    """Return a call of the same kind of which `placeholder` is all that is kept."""
    return (
        ToolCall(placeholder)
        if isinstance(call, ToolCall)
        else replace(call, url=placeholder, headers=(), body=Body(b""))
    )


def make_empty_outcome(outcome: Outcome | None, placeholder: str) -> Outcome | None:
    """Return an outcome of the same kind of which `placeholder` is all that is kept."""
    match outcome:
        case None | FramesReply():
            return outcome and FramesReply()
        case HttpReply(status=status):
            return HttpReply(status, body=Body(placeholder.encode()), cuts=(len(placeholder),))
        case Failure():
            return Failure("builtins.Exception", placeholder)
        case _:
            return ToolReply(placeholder)
