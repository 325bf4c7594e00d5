"""A run as text for people: turn by turn what the model was newly told, what it answered, which tools ran; and its kit.

`transcript` holds no ids, times or names of lanes, so that two recordings of one behaviour read the same; `show` adds
them. What happened inside a tool call is part of that call; only `show` spells it out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.compare.diff.texts import shorten
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.exchanges import HttpReply
from pytest_agentreplay.model.paths import quote_word
from pytest_agentreplay.model.turns import turns
from pytest_agentreplay.providers import READER
from pytest_agentreplay.report.escape import escape_line, wrap_text
from pytest_agentreplay.report.transcript_writer import TranscriptWriter, escape_row, format_labelled
from pytest_agentreplay.snapshots.kit import list_unfrozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.compare.kit_fields import Kit
    from pytest_agentreplay.model.exchanges import Exchange, JsonObject, Run
    from pytest_agentreplay.model.turns import Turn
    from pytest_agentreplay.snapshots.codec import Snapshot

# Facts of a header that differ though the agent does the same, or that follow from the turns.
INCIDENTAL = frozenset({"recorded", "exchanges"})
STATUS, NAME = 10, 21  # columns of a field's status and name
ROWS = 3  # lines that one value takes at most


def write_transcript(run: Run) -> str:
    """Return the transcript of a run, ending in a newline. The same behaviour gives the same text.

    Lanes beside the first one stand in the order of their texts, since which of them began first is chance.
    """
    return write_turns(run, TranscriptWriter(run))


def write_textconv(snapshot: Snapshot) -> str:
    """Return a run as `git diff` shall compare it: the transcript with schemas, below the facts that say who answered.

    Without times, ids and counts of tokens, which differ in every recording.
    """
    run = snapshot.run
    rows = [*list_edit_notes(snapshot), *(row for name, row in format_facts(run) if name not in INCIDENTAL)]
    for kind in ("gaps", "adopted"):
        entries = run.header.kit.get(kind)
        rows += [f"{kind}: {canonical(entry)}" for entry in (entries if isinstance(entries, list) else ())]
    writer = TranscriptWriter(run, inner=True, review=True)
    return "\n".join(map(escape_row, rows)) + "\n\n" + write_turns(run, writer)


def write_turns(run: Run, writer: TranscriptWriter) -> str:
    """Return all turns, lane by lane, as `writer` writes them."""
    lanes: dict[str, list[str]] = {}
    for turn in turns(run, READER):
        lanes.setdefault(turn.lane, []).append("\n".join(writer.format_turn(turn)))
    first, *others = list(lanes.values()) or [["(no call was intercepted)"]]
    for number, texts in enumerate(sorted(others), 2):
        for head, newline, rest in (text.partition("\n") for text in texts):
            first.append(f"{head}  lane {number}{newline}{rest}")
    return "\n\n".join(first) + "\n"


def list_blocks(run: Run, *, spelled: bool = False) -> tuple[list[str], list[tuple[Turn, list[str]]]]:
    """Return the lines of the facts of a run, and each turn with its lines: numbers, lanes, attempts and durations.

    `spelled` asks for words where signs stand else: "call 2" for "#2".
    """
    numbers = {x.start: number for number, x in enumerate(run.exchanges, 1)}

    def note(x: Exchange) -> str:
        number = f"call {numbers[x.start]}" if spelled else f" #{numbers[x.start]}"
        attempt = f"attempt {x.attempt}" * (x.attempt > 1)
        chunks = len(x.outcome.cuts) if isinstance(x.outcome, HttpReply) else 0
        lane = f"{'lane ' * spelled}{x.lane}" * (x.lane != "main")
        notes = [number, format_duration(x), f"{chunks} chunks" * (chunks > 1), attempt, lane]
        sign = ", " if spelled else "  "
        return sign + sign.join(filter(None, notes))

    writer = TranscriptWriter(run, note, inner=True)
    facts = [escape_row(row) for _, row in format_facts(run)]
    return facts, [(turn, [*writer.format_turn(turn)]) for turn in turns(run, READER)]


def format_blocks(run: Run, width: int) -> tuple[str, list[tuple[int, str]]]:
    """Return the facts of a run, and each turn by its number, in lines cut to `width` columns."""
    facts, blocks = list_blocks(run)
    cut = [(turn.number, "\n".join(clip_rows(rows, width))) for turn, rows in blocks]
    return "\n".join(clip_rows(facts, width)), cut


def clip_rows(rows: Iterable[str], width: int) -> Iterator[str]:
    """Yield lines of at most `width` columns."""
    return (row if len(row) <= width else f"{row[: width - 3]}..." for row in rows)


def format_duration(x: Exchange) -> str:
    """Return how long a call took: "12 ms", "1.4 s"."""
    if x.timing.end is None:
        return "no end"
    took = (x.timing.end - x.timing.start) / 1e6
    return f"{took:.0f} ms" if took < 1000 else f"{took / 1000:.1f} s"


def format_facts(run: Run) -> Iterator[tuple[str, str]]:
    """Yield what the header says, each line with the name of its fact."""
    for name, text in list_header_facts(run):
        yield from ((name, row) for row in format_labelled(name, text))


def list_header_facts(run: Run) -> Iterator[tuple[str, str]]:
    """Yield names and texts of what the header says."""
    header = run.header
    yield "test", header.test
    if header.recorded:
        yield "recorded", header.recorded
    if isinstance(fork := header.kit.get("forked"), dict):
        yield "forked", ", ".join(f"{name} {value}" for name, value in fork.items())
    ending = [str(header.outcome[key]) for key in ("status", "type", "message") if header.outcome.get(key)]
    if ending[1:2] == ["failed"]:  # by what a service said, which raised nothing
        del ending[1]
    if ending:
        yield "outcome", f"{ending[0]} {': '.join(ending[1:])}".rstrip()
    models = header.kit.get("models")
    entries = [entry for entry in models if isinstance(entry, dict)] if isinstance(models, list) else []
    # An entry for each fingerprint of the provider's machines, which is no other model.
    yield from dict.fromkeys(("model", describe_model(entry)) for entry in entries)
    packages = header.kit.get("packages")
    if isinstance(packages, dict):
        yield "packages", ", ".join(f"{name} {version}" for name, version in packages.items())
    if unfrozen := list_unfrozen(header.kit):
        yield "not frozen", f"{', '.join(unfrozen)} (runs for real in a replay)"
    yield "exchanges", str(len(run.exchanges))


def list_edit_notes(snapshot: Snapshot, file: str = "") -> tuple[str, ...]:
    """Return the line that says of a snapshot that it was edited, and why that was accepted; none for an unedited one.

    Of an edit that was not accepted the line says which command shows the place in `file`.
    """
    if not snapshot.sealed:
        where = f"; to see where: agentreplay verify {quote_word(file)}" if file else ""
        return (escape_line(f"edited by hand, not accepted{where}"),)
    days = [f" ({revision['at']})" if revision.get("at") else "" for revision in snapshot.revisions]
    reasons = [f"{revision.get('reason', '')}{day}" for revision, day in zip(snapshot.revisions, days, strict=True)]
    # `verify --accept-edit` notes the day; a redaction and a new name of the test, which are no edits by hand, do not.
    what = "edited by hand, accepted" if any(days) else "sealed again"
    return (escape_line(f"{what}: {'; '.join(reasons)}"),) if reasons else ()


def describe_model(entry: JsonObject) -> str:
    """Return a model of the kit in words: "openai gpt-5 (served by gpt-5-2026-01)"."""
    requested, served = str(entry.get("model", "")), str(entry.get("served") or "")
    by = f" (served by {served})" if served not in {"", requested} else ""
    return f"{entry.get('provider', '')} {requested}{by}".strip()


def format_kit(kit: Kit, *, width: int = 80) -> str:
    """Return the kit in lines of `width` columns."""
    return "\n".join(format_kit_rows(kit, max(60, width)))


def format_kit_rows(kit: Kit, width: int) -> Iterator[str]:
    """Yield the lines of a kit."""
    yield f"{kit.grade.value} (grade {kit.grade.name.lower() if len(kit.grade.name) > 1 else kit.grade.name})"
    for reason in kit.reasons:
        yield from wrap_text(reason, width, "  - ")
    group = ""
    for field in kit.fields:
        if field.group != group:
            group = field.group
            yield ""
            yield group
        head = f"  {field.status.value:{STATUS}}{field.name:{NAME}}"
        room = width - len(head)
        yield from wrap_text(shorten(escape_line(field.value), ROWS * room * 4 // 5), width, head)


def dump_kit(kit: Kit) -> JsonObject:
    """Return the kit as JSON."""
    return {
        "grade": kit.grade.name.lower() if len(kit.grade.name) > 1 else kit.grade.name,
        "says": kit.grade.value,
        "reasons": list(kit.reasons),
        "fields": [
            {"group": field.group, "name": field.name, "status": field.status.value, "value": field.value}
            for field in kit.fields
        ],
    }
