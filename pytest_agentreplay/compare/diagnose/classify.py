"""Which kind of change made one call another: the places that differ, and what they say about the cause.

Rules of this module:
- The kind is that of the first section that differs: model, tool schemas, prompt, tool results, history, SDK fields.
- A cause is a guess from structure alone; it says "likely" in the report, and nothing is ever ignored because of it.
- Noise are spans that change on every run whatever the agent does: times, random ids, temporary places, the order of a
  set. Two values whose only difference is such spans are likely the same value, and the report says "likely". Bytes are
  never noise: another picture, sound or file is a change, also where it is written as digits. Neither are settings (the
  name of a model, a version, a commit), nor values that occur elsewhere in the run.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from pytest_agentreplay.compare.diagnose import sections
from pytest_agentreplay.compare.diagnose.sections import Readings, ReportSection, is_below, is_setting
from pytest_agentreplay.compare.diff import texts
from pytest_agentreplay.model import media
from pytest_agentreplay.model.canonical_json import NotJson, canonical, parse
from pytest_agentreplay.model.divergence import ABSENT, Difference, Kind
from pytest_agentreplay.model.turns import function_of, label

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from pytest_agentreplay.model.exchanges import Call, Json
    from pytest_agentreplay.model.reading import Reader


Differences: TypeAlias = "tuple[Difference, ...]"
IsFrozen: TypeAlias = "Callable[[Json], bool]"
ExplainValue: TypeAlias = "Callable[[str, str], str]"
Verdict: TypeAlias = "tuple[Kind, str, str, tuple[str, ...]]"
"""What a change amounts to, what it is in a few words, its likely cause, and what to type next."""

CLOCK, UUID, PLACE, PORT, IDENT, ORDER = "a clock", "a uuid", "a place", "a port", "a random id", "the order of a set"

NOTE = 100  # characters of a difference in a headline: both sides of it, and how many more there are
ADDRESS = 60  # characters of one that is an address

_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_DAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*"
_NAMES = {"clock": CLOCK, "uuid": UUID, "place": PLACE, "port": PORT, "id": IDENT}
# Forty hex digits are a commit, which is no random id.
_SPAN = re.compile(
    r"(?P<uuid>\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b)"
    r"|(?P<clock>\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
    r"|\b\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?(?:\s?[AP]M)?\b"
    rf"|\b(?:{_DAY},? )?(?:\d{{1,2}}\.? {_MONTH},? \d{{4}}|{_MONTH} \d{{1,2}},? \d{{4}})\b"
    rf"|\b{_DAY}\b(?=,? )"
    r"|\b(?:1[4-9]|20)\d{8}(?:\d{3}|\d{6}|\d{9})?(?:\.\d+)?\b)"
    r"|(?P<place>(?:/private)?/(?:tmp|var/folders|var/tmp)(?:/[^\s\"'<>,;:]*)?"
    r"|(?<![^\s\"'<>,;:])[^\s\"'<>,;:]*/pytest-of-[^\s\"'<>,;:]*"  # a name is long: it is looked at from its start
    r"|\{\{(?:real|link)?tempdir(?::[a-z0-9-]+)?\}\}[^\s\"'<>,;:]*"
    r"|/(?:home|Users)/[^\s\"'<>,;:]+|[A-Za-z]:\\+(?:Users|Temp)\\[^\s\"'<>,;:]+)"
    r"|(?P<port>(?<=[A-Za-z0-9\]]):\d{4,5}\b)"
    r"|(?P<id>\b0x[0-9a-fA-F]{6,}\b|\b(?=[0-9a-f-]{0,99}\d)(?=[0-9a-f-]{0,99}[a-f])(?!\w{40}\b)[0-9a-f]{8,64}\b"
    r"|\b(?:[A-Za-z]{2,12}[_-]){1,3}(?=[A-Za-z0-9]*\d)(?=[A-Za-z0-9]*[A-Za-z])[A-Za-z0-9]{12,}\b)"
)
_WORD = re.compile(r"[\w.@/-]+")
_MARK = re.compile(r"\{\{(?:(?:real|link)?(?:root|cwd|tmp|tempdir|home)|host|user)(?::[a-z0-9-]+)?\}\}")
# What may stand in the place of a mark: a name or path, which ends at a quote, bracket or blank.
_NAME = r"""[^\s"'<>,;]{1,200}"""
_SEPARATOR = re.compile("[,;|]")
# Two addresses below Azure's path for models that differ in the API's version alone, also of an unknown endpoint.
_AZURE_VERSION = re.compile(r"(\S*/openai/\S*[?&]api-version=)[^&\0]*(\S*)\0\1[^&]*\2\Z")
# Seconds, milliseconds, microseconds and nanoseconds since 1970, from 2014 to 2036: other numbers are no clocks.
_EPOCH = ((1.4e9, 2.1e9), (1.4e12, 2.1e12), (1.4e15, 2.1e15), (1.4e18, 2.1e18))


def describe_noise(difference: Difference, explain: ExplainValue) -> str:
    """Return what the two sides likely differ in, "a clock and a uuid"; "" when they really differ.

    `explain` says of a recorded value and the one of now why they are not both new in their runs; "" when they are.
    """
    recorded, now = difference.recorded, difference.now
    if isinstance(recorded, list) and isinstance(now, list):
        # In JSON that is sent as a text an order may mean something; only prose may hold a printed set.
        return ORDER if _is_permuted(recorded, now) and not difference.is_inside else ""
    if _is_epoch(recorded) and _is_epoch(now):
        recorded, now = str(recorded), str(now)
    if not isinstance(recorded, str) or not isinstance(now, str) or media.is_mark(recorded) or media.is_mark(now):
        return ""
    if not (pairs := _pair_spans(recorded, now)):
        return _describe_text_noise(recorded, now, is_inside=difference.is_inside)
    if any(is_setting(difference.path, recorded, *old.span()) or explain(old[0], new[0]) for old, new in pairs):
        return ""
    return " and ".join(dict.fromkeys(_NAMES[str(old.lastgroup)] for old, _ in pairs))


def _pair_spans(recorded: str, now: str) -> list[tuple[re.Match[str], re.Match[str]]]:
    """Return the spans that differ, as recorded and now; none where another part of the texts differs."""
    if _SPAN.sub(_mark, recorded) != _SPAN.sub(_mark, now):
        return []
    pairs = zip(_SPAN.finditer(recorded), _SPAN.finditer(now), strict=True)
    return [(old, new) for old, new in pairs if old[0] != new[0]]


def _explain_values(difference: Difference, explain: ExplainValue) -> str:
    """Return why the spans in which the two sides differ are not all new in their runs; "" where they are."""
    pairs = _pair_spans(str(difference.recorded), str(difference.now))
    return next(filter(None, (explain(old[0], new[0]) for old, new in pairs)), "")


def is_only_noise(difference: Difference) -> bool:
    """Return whether the place holds the noise and no other text, so that leaving it out hides nothing."""
    recorded = difference.recorded
    if difference.is_inside:
        return False
    return not isinstance(recorded, str) or not any(map(str.isalnum, _SPAN.sub("", recorded)))


def _describe_text_noise(recorded: str, now: str, *, is_inside: bool) -> str:
    if _is_place_for_mark(recorded, now) or _is_place_for_mark(now, recorded):
        return PLACE
    if is_inside or not isinstance(parse(recorded), NotJson):
        return ""
    _, old, new = texts.hunk(recorded, now)
    words, others = _WORD.findall(old), _WORD.findall(new)
    shuffled = words != others and Counter(words) == Counter(others)  # else only what stands between them differs
    return ORDER if shuffled and _is_member_list(old) and _is_member_list(new) else ""


def _is_place_for_mark(marked: str, plain: str) -> bool:
    """Whether `plain` names a place outright where `marked` has its mark, as it does with a name that is too common."""
    literals = _MARK.split(marked)
    return len(literals) > 1 and re.fullmatch(_NAME.join(map(re.escape, literals)), plain) is not None


def _is_member_list(text: str) -> bool:
    """Return whether a text may be the members of a set: separated by signs, or each on a line of its own."""
    rows = text.split("\n")
    return _SEPARATOR.search(text) is not None or (len(rows) > 1 and all(len(_WORD.findall(row)) <= 3 for row in rows))


def mask_spans(text: str) -> str:
    """Return `text` with the kind of each such span in its place: "<uuid>", "<clock>"."""
    return _SPAN.sub(lambda span: f"<{span.lastgroup}>", text)


def _mark(match: re.Match[str]) -> str:
    return f"\0{match.lastgroup}\0"


def _is_permuted(recorded: list[Json], now: list[Json]) -> bool:
    """The same plain values in another order; messages, tools and pictures have an order that means something."""
    if any(isinstance(item, (dict, list)) or media.is_mark(item) for item in recorded):
        return False
    return Counter(map(canonical, recorded)) == Counter(map(canonical, now))


def _is_epoch(value: object) -> bool:
    return type(value) in {int, float} and any(low < value < high for low, high in _EPOCH)  # type: ignore[operator]


@dataclass(frozen=True, slots=True)
class ContentChange:
    """What made one call another: `what` in a few words, `differences` with the telling ones first."""

    kind: Kind
    what: str
    cause: str = ""
    hints: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()


def classify_change(
    recorded: Call, now: Call, reader: Reader, differences: Differences, *, frozen: IsFrozen, explain: ExplainValue
) -> ContentChange:
    """Return what `differences`, the differences of two calls of one boundary, amount to.

    `frozen` says of a message that holds a tool's result whether that tool was recorded: then it cannot have changed.
    `explain` is that of `describe_noise`.
    """
    # Noise alone is reported as noise. Beside a real change it is no news, and is put last.
    names = {each.path: name for each in differences if (name := describe_noise(each, explain))}
    if differences and len(names) == len(differences):
        differences = tuple(each._replace(places=1) for each in differences)  # `what` names all of one text
        kind, what, cause, hints = _classify_noise(differences, names)
    elif function_of(recorded, reader) is not None:
        kind, what, cause, hints = Kind.ARGS, "the same arguments, written otherwise", "", ()
        if any(is_below(difference.path, "call") for difference in differences):
            kind, cause = Kind.MODEL, _MODEL_CAUSE
        else:
            differences = _sort_noise_last(differences, names)
        if differences:
            what = _describe(differences[0])
    else:
        readings = reader.read_call(recorded), reader.read_call(now)
        if _has_conversation(readings):
            differences = _sort_noise_last(differences, names)
            differences, (kind, what, cause, hints) = _classify_model(readings, differences, frozen=frozen)
        else:
            kind, what, cause, hints = _classify_request(differences)
        if kind in {Kind.REQUEST, Kind.PROMPT} and differences:
            cause = _explain_values(differences[0], explain) or cause
    return ContentChange(kind, f"{label(recorded, reader)}: {what}", cause, hints, differences)


def _has_conversation(readings: Readings) -> bool:
    """Return whether there is a prompt or a history in which a call may have changed."""
    kinds = {reading.kind for reading in readings}
    if kinds <= {"http", "mcp"}:
        return bool(readings[0].messages or readings[0].system)
    return not kinds <= {"embeddings", "rerank"}


def _classify_model(readings: Readings, differences: Differences, *, frozen: IsFrozen) -> tuple[Differences, Verdict]:
    """Return how a model call became another one, by the most telling section that differs.

    The differences are those given, the telling ones first.
    """
    if not differences:
        return differences, (Kind.REQUEST, "the same call, written otherwise", _SAME_CAUSE, ())
    # The members of `ReportSection` stand in the order of what says most; of one section the first place decides.
    ranked = sorted(((sections.find_section(difference, *readings), at) for at, difference in enumerate(differences)))
    of_history = tuple(differences[at] for where, at in ranked if where is ReportSection.HISTORY)
    differences, where = tuple(differences[at] for _, at in ranked), ranked[0][0]
    first = differences[0]
    is_dropped = any(difference.now is ABSENT and not difference.is_inside for difference in of_history)
    if where is ReportSection.PROMPT and is_dropped and sections.find_owner(first, readings) == "user":
        # Messages went, and what stands in their place reads like an edited one: a summary.
        where, of_history = ReportSection.HISTORY, (*of_history, first)
    what = _describe(first)
    hints: tuple[str, ...] = ()
    match where:
        case ReportSection.MODEL:
            kind, cause = Kind.MODEL, _ADDRESS_CAUSE if first.path == "url" else _MODEL_CAUSE
        case ReportSection.SCHEMA:
            kind, what = Kind.SCHEMA, f"{sections.find_tool_name(first, readings)}{what}"
            cause = _SCHEMA_ORDER_CAUSE if is_reordered(first) and len(differences) == 1 else _SCHEMA_CAUSE
        case ReportSection.PROMPT:
            whose = sections.find_owner(first, readings)
            kind, what, cause = Kind.PROMPT, f"{whose} text {what}", _explain_prompt(first, batched=whose == "user")
        case ReportSection.RESULT if frozen(sections.find_message(first, readings)):
            kind, what, cause = Kind.HISTORY, f"the agent reports a tool result in other words: {what}", _RENDER_CAUSE
        case ReportSection.RESULT:
            kind, what = Kind.RESULT, f"the tool result that it is told changed: {what}"
            cause, hints = _RESULT_CAUSE, (_FREEZE,)
        case ReportSection.HISTORY:
            kind, (what, cause) = Kind.HISTORY, _describe_history(of_history, readings)
        case ReportSection.FIELD | ReportSection.WIRE:
            return differences, _classify_sdk(differences)
    return differences, (kind, what, cause, hints)


def _explain_prompt(difference: Difference, *, batched: bool) -> str:
    """Return why a text of a prompt differs; `batched` texts may hold items that come in batches."""
    if is_reordered(difference):
        return ORDER_CAUSE
    if not isinstance(difference.recorded, str) or not isinstance(difference.now, str):
        return _PROMPT_CAUSE
    for word in _WORDS:
        old, new = word.findall(difference.recorded), word.findall(difference.now)
        before, after = Counter(old), Counter(new)
        if old != new and before == after:
            return ORDER_CAUSE
        # How many items a batch holds depends on timing: some more or less of them are no edit of the text.
        if batched and before and after and before != after and (before <= after or after <= before):
            return _BATCH_CAUSE
    return _PROMPT_CAUSE


def _describe_history(differences: Differences, readings: Readings) -> tuple[str, str]:
    """Return how messages that were sent before came otherwise, by the `differences` that say so, and why."""
    lost = [difference for difference in differences if difference.now is ABSENT and not difference.is_inside]
    if lost and len(differences) > len(lost):
        cause = "earlier messages gave way to others: the agent now summarises or rebuilds its history"
    elif lost:
        cause = "the agent sends fewer earlier messages: its memory trims, or a call that added them did not happen"
    elif any(difference.recorded is ABSENT and not difference.is_inside for difference in differences):
        cause = "the agent sends messages that the recording does not have: its loop adds them"
    elif any(difference.note.startswith("reordered") for difference in differences):
        cause = "the agent sends the same messages in another order"
    else:
        cause = "what the model said is the same, so the agent rewrites its words before it sends them back"
    first = (lost or differences)[0]
    whose = (
        "" if first.now is ABSENT or first.recorded is ABSENT else f"{sections.find_owner(first, readings)} message "
    )
    what = f"{first.path} changed, {texts.shorten(first.note, 60)}" if is_reordered(first) else _describe(first)
    return f"history: {whose}{what}", cause


def _classify_sdk(differences: Differences) -> Verdict:
    cause = (
        "fields that agents seldom set themselves: another version of the SDK sends them, or no longer does. "
        "Compare the versions in the snapshot's kit with those installed"
    )
    hints = tuple(
        f"accept it in all snapshots: agentreplay accept --rule '{path}=sent by another SDK version'"
        # The hint is a line for a shell, in which a path with quotes would not stand whole.
        if path.startswith("$") and "'" not in path
        else format_ignore_line(path, "sent by another SDK version")
        for path in dict.fromkeys(difference.rule_path for difference in differences[:2])
    )
    return Kind.SDK, _describe(differences[0]), cause, hints


def _classify_request(differences: Differences) -> Verdict:
    if not differences:
        return Kind.REQUEST, "the same request, written otherwise", _REQUEST_CAUSE, ()
    first = differences[0]
    if _AZURE_VERSION.match(f"{first.recorded}\0{first.now}"):
        return Kind.MODEL, _describe(first), _MODEL_CAUSE, ()
    return Kind.REQUEST, _describe(first), _REQUEST_CAUSE, ()


def _classify_noise(differences: Differences, names: Mapping[str, str]) -> Verdict:
    kinds = [*dict.fromkeys(kind for difference in differences for kind in names[difference.path].split(" and "))]
    noise = " and ".join(kinds)
    cause = f"both sides look like {noise}: such values differ in every run. {_ADVICE[kinds[0]]}"
    # A place that holds more than the noise would hide real changes, too.
    hints = tuple(
        format_ignore_line(difference.path, noise) for difference in differences[:2] if is_only_noise(difference)
    )
    return Kind.NOISE, f"{differences[0].path} differs only in {noise}", cause, hints


def format_ignore_line(path: str, reason: str) -> str:
    """Return the hint that names the ini line which takes a place out of the comparison, as ini files have it."""
    place = f"header:{path.removeprefix('headers.')}" if path.startswith("headers.") else path
    return f"or do not compare it: agentreplay_ignore = {place} = {reason}"


def _describe(difference: Difference) -> str:
    """One difference in a few words: where, and the shortest way to say what."""
    if difference.recorded is ABSENT or difference.now is ABSENT:
        return difference.note or f"{difference.path} {'added' if difference.recorded is ABSENT else 'dropped'}"
    if is_reordered(difference):
        return f"{difference.path} came in another order"
    if difference.note.startswith("[[redacted:"):
        return f"{difference.path}: {difference.note}"
    if difference.note:
        note = texts.shorten(difference.note, NOTE)
        if difference.path == "url" and len(note) > ADDRESS:
            note = " -> ".join(texts.excerpt(str(difference.recorded), str(difference.now), 32))
        return f"{difference.path} changed, {note}"
    sides = texts.shorten_pair(canonical(difference.recorded), canonical(difference.now), 24)
    return f"{difference.path} changed, {sides[0]} -> {sides[1]}"


def is_reordered(difference: Difference) -> bool:
    """Return whether both sides hold the same elements, in another order."""
    return difference.note.startswith("reordered [")


def _sort_noise_last(differences: Differences, names: Collection[str]) -> Differences:
    """Return the real differences first, those that look like noise last."""
    return tuple(sorted(differences, key=lambda difference: difference.path in names))


_SAME_CAUSE = "what it says is the same; its bytes differ, or an id that the client made ties it to another call"
_REQUEST_CAUSE = "your code now sends another request here"
_MODEL_CAUSE = "the model, its address or a parameter has another value in your code or configuration"
_ADDRESS_CAUSE = (
    "the model has another address: in your code, or by a variable such as OPENAI_BASE_URL or ANTHROPIC_BASE_URL, "
    "which may be unset now"
)
_SCHEMA_CAUSE = "what the model is told about your tools changed: a signature, a docstring, or which tools are given"
_SCHEMA_ORDER_CAUSE = (
    "the same tools are given in another order: tools that come from a set, or from a folder that is listed, have "
    "another order in each process. Sort them before they are sent; if the set is a library's, record and replay with "
    "PYTHONHASHSEED=0"
)
_WORDS = re.compile(r"[^\W\d]+"), re.compile(r"\w+")  # without numbers first: they may count what comes in parts
_PROMPT_CAUSE = "the prompt was edited, or something that is put into it changed"
ORDER_CAUSE = (
    "the same words in another order: what is put into the prompt was found, listed or finished in another order "
    "(search results, a folder, tasks, or a set, whose order PYTHONHASHSEED=0 keeps)"
)
_BATCH_CAUSE = "the prompt was edited, or the same items came in other batches (a timer, a limit on their number)"
STATE_CAUSE = "state that a frozen tool changes, whose code does not run in a replay; or else "
_RENDER_CAUSE = (
    "the tool's own result is the recorded one, so your code between the tool and this call writes it otherwise"
)
_RESULT_CAUSE = "no recorded call stands behind this result: the tool is not frozen, and gave something else this time"
_FREEZE = "freeze the tool in agentreplay_tools, and record again: your.module.the_tool"
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
