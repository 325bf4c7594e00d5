"""Which kind of change made one call another: the places that differ, and what they say about the cause.

Rules of this module:
- The kind is that of the first section that differs: model, tool schemas, prompt, tool results, history, SDK fields.
- A cause is a guess from structure alone; it says "likely" in the report, and nothing is ever ignored because of it.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_agentreplay.core.canonical_json import canonical
from pytest_agentreplay.core.diagnose.noise import CLOCK, IDENT, ORDER, PLACE, PORT, UUID, noise, nothing_else
from pytest_agentreplay.core.diagnose.sections import ReportSection, below, message, owner, section, tool_name
from pytest_agentreplay.core.diff import texts
from pytest_agentreplay.core.divergence import ABSENT, Difference, Kind
from pytest_agentreplay.core.turns import function_of, label

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_agentreplay.core.diagnose.sections import Readings
    from pytest_agentreplay.core.model import Call, Json
    from pytest_agentreplay.core.reading import Reader


@dataclass(frozen=True, slots=True)
class ContentChange:
    """What made one call another: `what` in a few words, `differences` with the telling ones first."""

    kind: Kind
    what: str
    cause: str = ""
    hints: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()


def after_tools(change: ContentChange) -> ContentChange:
    """Return the change of a request that came after frozen tools were answered, which may have changed a state."""
    guessed = change.kind is Kind.PROMPT and change.cause != _ORDER_CAUSE
    return replace(change, cause=_STATE_CAUSE + change.cause) if guessed else change


def between(
    recorded: Call, now: Call, reader: Reader, differences: tuple[Difference, ...], *, frozen: Callable[[Json], bool]
) -> ContentChange:
    """What `differences`, the differences of two calls of one boundary, amount to.

    `frozen` says of a message that holds a tool's result whether that tool was recorded: then it cannot have changed.
    """
    names = {difference.path: name for difference in differences if (name := noise(difference))}
    if differences and len(names) == len(differences):
        return _noise(label(recorded, reader), differences, names)
    if function_of(recorded, reader) is not None:
        if any(below(difference.path, "call") for difference in differences):
            return ContentChange(
                Kind.MODEL, f"{label(recorded, reader)}: {_describe(differences[0])}", _MODEL_CAUSE, (), differences
            )
        return _arguments(label(recorded, reader), differences, names)
    reading, current = reader.read_call(recorded), reader.read_call(now)
    kinds = {reading.kind, current.kind}
    if kinds <= {"embeddings", "rerank"} or (kinds <= {"http", "mcp"} and not (reading.messages or reading.system)):
        return _request(label(recorded, reader), differences)
    return _model(label(recorded, reader), (reading, current), _loud(differences, names), frozen=frozen)


def _model(
    name: str, readings: Readings, differences: tuple[Difference, ...], *, frozen: Callable[[Json], bool]
) -> ContentChange:
    """A model call that became another one, by the most telling section that differs."""
    ranked = sorted(((section(difference, *readings), at) for at, difference in enumerate(differences)))
    mine = tuple(differences[at] for where, at in ranked if where is ReportSection.HISTORY)
    differences = tuple(differences[at] for _, at in ranked)
    if not differences:
        return ContentChange(Kind.REQUEST, f"{name}: the same call, written otherwise", _SAME_CAUSE)
    first, where = differences[0], ranked[0][0]
    if (
        where is ReportSection.PROMPT
        and owner(first, readings) == "user"
        and any(difference.now is ABSENT for difference in mine)
    ):
        # Messages went, and what stands in their place reads like an edited one: a summary.
        first, where = mine[0], ReportSection.HISTORY
        mine = (*mine, differences[0])
    match where:
        case ReportSection.MODEL:
            return ContentChange(Kind.MODEL, f"{name}: {_describe(first)}", _MODEL_CAUSE, (), differences)
        case ReportSection.SCHEMA:
            cause = _SCHEMA_ORDER_CAUSE if is_reordered(first) and len(differences) == 1 else _SCHEMA_CAUSE
            return ContentChange(
                Kind.SCHEMA, f"{name}: {tool_name(first, readings)}{_describe(first)}", cause, (), differences
            )
        case ReportSection.PROMPT:
            whose = owner(first, readings)
            cause = _prompt_cause(first, batched=whose == "user")
            return ContentChange(Kind.PROMPT, f"{name}: {whose} text {_describe(first)}", cause, (), differences)
        case ReportSection.RESULT if frozen(message(first, readings)):
            what = f"{name}: the agent tells a tool result otherwise: {_describe(first)}"
            return ContentChange(Kind.HISTORY, what, _RENDER_CAUSE, (), differences)
        case ReportSection.RESULT:
            what = f"{name}: the tool result that it is told changed: {_describe(first)}"
            return ContentChange(Kind.RESULT, what, _RESULT_CAUSE, (_FREEZE,), differences)
        case ReportSection.HISTORY:
            return _history(name, differences, mine, readings)
        case ReportSection.FIELD | ReportSection.WIRE:
            return _sdk(name, differences)


def _prompt_cause(difference: Difference, *, batched: bool) -> str:
    """Return why a text of a prompt differs; `batched` texts may hold items that come in batches."""
    if is_reordered(difference):
        return _ORDER_CAUSE
    if not isinstance(difference.recorded, str) or not isinstance(difference.now, str):
        return _PROMPT_CAUSE
    for word in _WORDS:
        old, new = word.findall(difference.recorded), word.findall(difference.now)
        before, after = Counter(old), Counter(new)
        if old != new and before == after:
            return _ORDER_CAUSE
        if batched and before and after and before != after and (before <= after or after <= before):
            return _BATCH_CAUSE
    return _PROMPT_CAUSE


def _history(
    name: str, differences: tuple[Difference, ...], mine: tuple[Difference, ...], readings: Readings
) -> ContentChange:
    """Messages that were sent before came otherwise; `mine` are the differences that say so."""
    lost = [difference for difference in mine if difference.now is ABSENT]
    gained = [difference for difference in mine if difference.recorded is ABSENT]
    if lost and len(mine) > len(lost):
        cause = "earlier messages gave way to others: the agent now summarises or rebuilds its history"
    elif lost:
        cause = "the agent sends fewer earlier messages: its memory trims, or a call that added them did not happen"
    elif gained:
        cause = "the agent sends messages that the recording does not have: its loop adds them"
    elif any(str(difference.note).startswith("reordered") for difference in mine):
        cause = "the agent sends the same messages in another order"
    else:
        cause = "what the model said is the same, so the agent rewrites its words before it sends them back"
    first = (lost or mine)[0]
    whose = "" if first.now is ABSENT or first.recorded is ABSENT else f"{owner(first, readings)} message "
    text = f"{first.path} changed, {texts.shorten(first.note, 60)}" if is_reordered(first) else _describe(first)
    return ContentChange(Kind.HISTORY, f"{name}: history: {whose}{text}", cause, (), differences)


def _sdk(name: str, differences: tuple[Difference, ...]) -> ContentChange:
    fields = ", ".join(_describe(difference) for difference in differences[:3])
    cause = (
        "fields that agents seldom set themselves: another version of the SDK sends them, or no longer does. "
        "Compare the versions in the snapshot's kit with those installed"
    )
    hints = tuple(
        f"accept it in all snapshots: agentreplay accept --rule '{difference.path}=sent by another SDK version'"
        if difference.path.startswith("$") and "'" not in difference.path
        else ignore_line(difference.path, "sent by another SDK version")
        for difference in differences[:2]
    )
    return ContentChange(Kind.SDK, f"{name}: {fields}", cause, hints, differences)


def _arguments(name: str, differences: tuple[Difference, ...], names: dict[str, str]) -> ContentChange:
    differences = _loud(differences, names)
    what = f"{name}: {_describe(differences[0])}" if differences else f"{name}: the same arguments, written otherwise"
    return ContentChange(Kind.ARGS, what, "", (), differences)


def _request(name: str, differences: tuple[Difference, ...]) -> ContentChange:
    what = f"{name}: {_describe(differences[0])}" if differences else f"{name}: the same request, written otherwise"
    return ContentChange(Kind.REQUEST, what, "your code now sends another request here", (), differences)


def _noise(name: str, differences: tuple[Difference, ...], names: dict[str, str]) -> ContentChange:
    kinds = " and ".join(
        dict.fromkeys(part for difference in differences for part in names[difference.path].split(" and "))
    )
    cause = f"both sides look like {kinds}: such values differ in every run. {_ADVICE[kinds.split(' and ')[0]]}"
    # A place that holds more than the noise would hide real changes, too.
    hints = tuple(ignore_line(difference.path, kinds) for difference in differences[:2] if nothing_else(difference))
    return ContentChange(
        Kind.NOISE, f"{name}: {differences[0].path} differs only in {kinds}", cause, hints, differences
    )


def ignore_line(path: str, reason: str) -> str:
    """The hint that names the ini line which takes a place out of the comparison, as ini files have it."""
    place = f"header:{path.removeprefix('headers.')}" if path.startswith("headers.") else path
    return f"or do not compare it: agentreplay_ignore = {place} = {reason}"


def _describe(difference: Difference) -> str:
    """One difference in a few words: where, and the shortest way to say what."""
    if difference.recorded is ABSENT:
        return difference.note or f"{difference.path} added"
    if difference.now is ABSENT:
        return difference.note or f"{difference.path} dropped"
    if is_reordered(difference):
        return f"{difference.path} came in another order"
    if difference.note.startswith("[[redacted:"):
        return f"{difference.path}: {difference.note}"
    if difference.note:
        return f"{difference.path} changed, {texts.shorten(difference.note, 60)}"
    sides = texts.apart(canonical(difference.recorded), canonical(difference.now), 24)
    return f"{difference.path} changed, {sides[0]} -> {sides[1]}"


def is_reordered(difference: Difference) -> bool:
    """Whether both sides hold the same elements, in another order."""
    return difference.note.startswith("reordered [")


def _loud(differences: tuple[Difference, ...], names: dict[str, str]) -> tuple[Difference, ...]:
    """Real differences first, those that look like noise last."""
    return tuple(sorted(differences, key=lambda difference: difference.path in names))


_SAME_CAUSE = "what it says is the same; its bytes differ, or an id that the client made ties it to another call"
_MODEL_CAUSE = "the model, its address or a parameter was set otherwise in your code or configuration"
_SCHEMA_CAUSE = "what the model is told about your tools changed: a signature, a docstring, or which tools are given"
_SCHEMA_ORDER_CAUSE = (
    "the same tools are given in another order: tools that come from a set, or from a folder that is listed, have "
    "another order in each process. Sort them before they are sent"
)
_WORDS = re.compile(r"[^\W\d]+"), re.compile(r"\w+")  # without numbers first: they may count what comes in parts
_PROMPT_CAUSE = "the prompt was edited, or something that is put into it changed"
_ORDER_CAUSE = (
    "the same words in another order: what is put into the prompt was found, listed or finished in another order "
    "(search results, a folder, a set, tasks)"
)
_BATCH_CAUSE = "the prompt was edited, or the same items came in other batches (a timer, a limit on their number)"
_STATE_CAUSE = "state that a frozen tool changes, whose code does not run in a replay; or else "
_RENDER_CAUSE = (
    "the tool's own result is the recorded one, so your code between the tool and this call writes it otherwise"
)
_RESULT_CAUSE = "no recorded call stands behind this result: the tool is not frozen, and gave something else this time"
_FREEZE = "freeze the tool, by adding it to agentreplay_tools: your.module.the_tool"
_ADVICE = {
    CLOCK: "Python's clocks are stepped unless agentreplay_clock = real: this time comes from elsewhere, "
    "or from before the test began",
    UUID: "Draw it from Python's uuid or random inside the test, where they are seeded, and record again",
    IDENT: "Draw it from Python's uuid or random inside the test, where they are seeded, and record again",
    PLACE: "Places are put back only where they are known, and names where they are rare: use tmp_path, the home or "
    "the root directory, and no user or host name that is a common word",
    PORT: "Ports of this machine differ in each run: keep them out of prompts and arguments",
    ORDER: "Sort it before it is sent, or run with PYTHONHASHSEED=0: sets have another order in each process",
}
