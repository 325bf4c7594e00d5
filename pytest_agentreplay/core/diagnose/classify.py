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
    recorded: Call, now: Call, reader: Reader, found: tuple[Difference, ...], *, frozen: Callable[[Json], bool]
) -> ContentChange:
    """What `found`, the differences of two calls of one boundary, amount to.

    `frozen` says of a message that holds a tool's result whether that tool was recorded: then it cannot have changed.
    """
    names = {one.path: name for one in found if (name := noise(one))}
    if found and len(names) == len(found):
        return _noise(label(recorded, reader), found, names)
    if function_of(recorded, reader) is not None:
        if any(below(one.path, "call") for one in found):
            return ContentChange(Kind.MODEL, f"{label(recorded, reader)}: {_said(found[0])}", _MODEL_CAUSE, (), found)
        return _arguments(label(recorded, reader), found, names)
    reading, current = reader.read_call(recorded), reader.read_call(now)
    kinds = {reading.kind, current.kind}
    if kinds <= {"embeddings", "rerank"} or (kinds <= {"http", "mcp"} and not (reading.messages or reading.system)):
        return _request(label(recorded, reader), found)
    return _model(label(recorded, reader), (reading, current), _loud(found, names), frozen=frozen)


def _model(
    name: str, readings: Readings, found: tuple[Difference, ...], *, frozen: Callable[[Json], bool]
) -> ContentChange:
    """A model call that became another one, by the most telling section that differs."""
    ranked = sorted(((section(one, *readings), at) for at, one in enumerate(found)))
    mine = tuple(found[at] for where, at in ranked if where is ReportSection.HISTORY)
    found = tuple(found[at] for _, at in ranked)
    if not found:
        return ContentChange(Kind.REQUEST, f"{name}: the same call, written otherwise", _SAME_CAUSE)
    first, where = found[0], ranked[0][0]
    if where is ReportSection.PROMPT and owner(first, readings) == "user" and any(one.now is ABSENT for one in mine):
        # Messages went, and what stands in their place reads like an edited one: a summary.
        first, where = mine[0], ReportSection.HISTORY
        mine = (*mine, found[0])
    match where:
        case ReportSection.MODEL:
            return ContentChange(Kind.MODEL, f"{name}: {_said(first)}", _MODEL_CAUSE, (), found)
        case ReportSection.SCHEMA:
            cause = _SCHEMA_ORDER_CAUSE if is_reordered(first) and len(found) == 1 else _SCHEMA_CAUSE
            return ContentChange(Kind.SCHEMA, f"{name}: {tool_name(first, readings)}{_said(first)}", cause, (), found)
        case ReportSection.PROMPT:
            whose = owner(first, readings)
            cause = _prompt_cause(first, batched=whose == "user")
            return ContentChange(Kind.PROMPT, f"{name}: {whose} text {_said(first)}", cause, (), found)
        case ReportSection.RESULT if frozen(message(first, readings)):
            what = f"{name}: the agent tells a tool result otherwise: {_said(first)}"
            return ContentChange(Kind.HISTORY, what, _RENDER_CAUSE, (), found)
        case ReportSection.RESULT:
            what = f"{name}: the tool result that it is told changed: {_said(first)}"
            return ContentChange(Kind.RESULT, what, _RESULT_CAUSE, (_FREEZE,), found)
        case ReportSection.HISTORY:
            return _history(name, found, mine, readings)
        case ReportSection.FIELD | ReportSection.WIRE:
            return _sdk(name, found)


def _prompt_cause(one: Difference, *, batched: bool) -> str:
    """Return why a text of a prompt differs; `batched` texts may hold items that come in batches."""
    if is_reordered(one):
        return _ORDER_CAUSE
    if not isinstance(one.recorded, str) or not isinstance(one.now, str):
        return _PROMPT_CAUSE
    for word in _WORDS:
        old, new = word.findall(one.recorded), word.findall(one.now)
        before, after = Counter(old), Counter(new)
        if old != new and before == after:
            return _ORDER_CAUSE
        if batched and before and after and before != after and (before <= after or after <= before):
            return _BATCH_CAUSE
    return _PROMPT_CAUSE


def _history(
    name: str, found: tuple[Difference, ...], mine: tuple[Difference, ...], readings: Readings
) -> ContentChange:
    """Messages that were sent before came otherwise; `mine` are the differences that say so."""
    lost = [one for one in mine if one.now is ABSENT]
    gained = [one for one in mine if one.recorded is ABSENT]
    if lost and len(mine) > len(lost):
        cause = "earlier messages gave way to others: the agent now summarises or rebuilds its history"
    elif lost:
        cause = "the agent sends fewer earlier messages: its memory trims, or a call that added them did not happen"
    elif gained:
        cause = "the agent sends messages that the recording does not have: its loop adds them"
    elif any(str(one.note).startswith("reordered") for one in mine):
        cause = "the agent sends the same messages in another order"
    else:
        cause = "what the model said is the same, so the agent rewrites its words before it sends them back"
    first = (lost or mine)[0]
    whose = "" if first.now is ABSENT or first.recorded is ABSENT else f"{owner(first, readings)} message "
    said = f"{first.path} changed, {texts.shorten(first.note, 60)}" if is_reordered(first) else _said(first)
    return ContentChange(Kind.HISTORY, f"{name}: history: {whose}{said}", cause, (), found)


def _sdk(name: str, found: tuple[Difference, ...]) -> ContentChange:
    fields = ", ".join(_said(one) for one in found[:3])
    cause = (
        "fields that agents seldom set themselves: another version of the SDK sends them, or no longer does. "
        "Compare the versions in the snapshot's kit with those installed"
    )
    hints = tuple(
        f"accept it in all snapshots: agentreplay accept --rule '{one.path}=sent by another SDK version'"
        if one.path.startswith("$") and "'" not in one.path
        else ignore_line(one.path, "sent by another SDK version")
        for one in found[:2]
    )
    return ContentChange(Kind.SDK, f"{name}: {fields}", cause, hints, found)


def _arguments(name: str, found: tuple[Difference, ...], names: dict[str, str]) -> ContentChange:
    found = _loud(found, names)
    what = f"{name}: {_said(found[0])}" if found else f"{name}: the same arguments, written otherwise"
    return ContentChange(Kind.ARGS, what, "", (), found)


def _request(name: str, found: tuple[Difference, ...]) -> ContentChange:
    what = f"{name}: {_said(found[0])}" if found else f"{name}: the same request, written otherwise"
    return ContentChange(Kind.REQUEST, what, "your code now sends another request here", (), found)


def _noise(name: str, found: tuple[Difference, ...], names: dict[str, str]) -> ContentChange:
    kinds = " and ".join(dict.fromkeys(part for one in found for part in names[one.path].split(" and ")))
    cause = f"both sides look like {kinds}: such values differ in every run. {_ADVICE[kinds.split(' and ')[0]]}"
    # A place that holds more than the noise would hide real changes, too.
    hints = tuple(ignore_line(one.path, kinds) for one in found[:2] if nothing_else(one))
    return ContentChange(Kind.NOISE, f"{name}: {found[0].path} differs only in {kinds}", cause, hints, found)


def ignore_line(path: str, reason: str) -> str:
    """The hint that names the ini line which takes a place out of the comparison, as ini files have it."""
    place = f"header:{path.removeprefix('headers.')}" if path.startswith("headers.") else path
    return f"or do not compare it: agentreplay_ignore = {place} = {reason}"


def _said(one: Difference) -> str:
    """One difference in a few words: where, and the shortest way to say what."""
    if one.recorded is ABSENT:
        return one.note or f"{one.path} added"
    if one.now is ABSENT:
        return one.note or f"{one.path} dropped"
    if is_reordered(one):
        return f"{one.path} came in another order"
    if one.note.startswith("[[redacted:"):
        return f"{one.path}: {one.note}"
    if one.note:
        return f"{one.path} changed, {texts.shorten(one.note, 60)}"
    sides = texts.apart(canonical(one.recorded), canonical(one.now), 24)
    return f"{one.path} changed, {sides[0]} -> {sides[1]}"


def is_reordered(one: Difference) -> bool:
    """Whether both sides hold the same elements, in another order."""
    return one.note.startswith("reordered [")


def _loud(found: tuple[Difference, ...], names: dict[str, str]) -> tuple[Difference, ...]:
    """Real differences first, those that look like noise last."""
    return tuple(sorted(found, key=lambda one: one.path in names))


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
