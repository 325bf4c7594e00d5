"""What a tool gave when it ran beside its recorded answer, and what it asked for meanwhile.

Two results of one retrieval are compared chunk by chunk: gone, new, moved, scored otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.compare.diagnose.classify import is_reordered
from pytest_agentreplay.compare.diff import diff, texts
from pytest_agentreplay.compare.tolerance import TolerancePolicy, view
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.divergence import ABSENT, Difference, Divergence, Kind
from pytest_agentreplay.model.exchanges import Call, Exchange, Failure, Json, Outcome, ToolReply

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_agentreplay.compare.diagnose.progress import ReplayProgress
    from pytest_agentreplay.model.reading import Chunk


def explain_result(
    progress: ReplayProgress, x: Exchange, call: Call, now: Outcome, *, tolerances: TolerancePolicy
) -> Divergence | None:
    """Return how the result of `call`, recorded as `x`, differs now; None when it is near enough."""
    name = progress.name(x.call)
    tool = name.partition(" ")[2]
    recorded = _cut_items(x.outcome, now)
    differing = compare_results(read_result(recorded), tolerances.settle(tool, read_result(recorded), read_result(now)))
    if not differing:
        return None
    chunks = [progress.reader.read_chunks(reply) for reply in (recorded, now)] if x.call.boundary == "retrieval" else []
    moved = describe_moved_chunks(*chunks) if chunks and all(chunks) else ()
    first = differing[0]
    summary = f"{name}: {moved[0] if moved else describe_result(first)}"
    cause = "the tool was run for real beside its recorded result: the world behind it, or its code, has changed"
    hints = (f"or let it differ: agentreplay_tolerances = {tool} {first.rule_path} = ignore",)
    return progress.make_divergence(
        Kind.RESULT, summary, x, call, differing, cause=cause, hints=hints, detail=moved[1:]
    )


def explain_inner_call(progress: ReplayProgress, call: Call, root: Exchange) -> Divergence:
    """Why `call`, made inside the running tool `root`, is refused: it is frozen, and not recorded there."""
    place = f"inside {progress.name(root.call)}, where the recording does not have it"
    cause = "a tool that is verified runs for real, but models and tools that are not read stay frozen inside it"
    return progress.make_divergence(
        Kind.EXTRA, f"{progress.name(call)} called {place}", None, call, at=root, cause=cause
    )


def compare_results(recorded: Json, now: Json) -> tuple[Difference, ...]:
    """Return where two frozen results differ, by the paths that tolerances have."""
    if canonical(recorded) == canonical(now):
        return ()
    differing = diff(view(recorded), view(now))
    # `view` leaves types out: a tuple that became a list differs in nothing else.
    return differing or (Difference("$", recorded, now, "of another type"),)


def read_result(outcome: Outcome | None) -> Json:
    """Return what a function gave, as one value: its result, the items of a generator, or what it raised."""
    match outcome:
        case ToolReply(value, None, None):
            return value
        case ToolReply(None, tuple() as items, None):
            return list(items)
        case ToolReply(value, items, failure):
            items_too: dict[str, Json] = {} if items is None else {"items": list(items)}
            return {**items_too, **({"raised": _describe_raised(failure)} if failure else {"value": value})}
        case Failure():
            return {"raised": _describe_raised(outcome)}
        case _:
            return None


def _describe_raised(failure: Failure) -> str:
    return f"{failure.type.removeprefix('builtins.')}: {failure.message}".removesuffix(": ")


def _cut_items(recorded: Outcome | None, now: Outcome) -> Outcome | None:
    """Return the recorded items as far as they were asked for now."""
    if not (isinstance(recorded, ToolReply) and isinstance(now, ToolReply)) or recorded.items is None:
        return recorded
    # Who closes a generator early has asked for fewer items: the ones it did not give are no difference.
    if not now.closed or now.items is None or len(now.items) > len(recorded.items):
        return recorded
    return ToolReply(None, recorded.items[: len(now.items)])


def describe_result(first: Difference, what: str = "result") -> str:
    """Return the first difference of two results, or replies, in a few words."""
    if is_reordered(first):
        return f"{what}: {first.path} came in another order"
    sides = ("absent" if side is ABSENT else texts.shorten(canonical(side), 40) for side in (first.recorded, first.now))
    return f"{what} changed, {first.path} {texts.shorten(first.note, 60) or ' -> '.join(sides)}"


def describe_moved_chunks(recorded: Sequence[Chunk], now: Sequence[Chunk]) -> tuple[str, ...]:
    """A sentence for each change, in the order of the recorded ranking, new chunks last; empty when nothing changed."""
    before, after = _rank_hits(recorded), _rank_hits(now)
    changes = tuple(_describe_changes(before, after))
    same = {key: chunk for key, (_, chunk) in before.items()} == {key: chunk for key, (_, chunk) in after.items()}
    return (f"the chunks came in another order: {changes[0]}", *changes[1:]) if changes and same else changes


Ranked = dict[str, tuple[int, "Chunk"]]


def _rank_hits(chunks: Sequence[Chunk]) -> Ranked:
    """Return each chunk with its place, by what it is known by; of two alike the better one."""
    # A retrieval returns its hits best first, so of two the first has the rank of the chunk.
    ranked: Ranked = {}
    for place, chunk in enumerate(chunks, 1):
        ranked.setdefault(chunk.id or chunk.content, (place, chunk))
    return ranked


def _describe_changes(recorded: Ranked, now: Ranked) -> Iterator[str]:
    for key, (was, old) in recorded.items():
        if key not in now:
            yield f"chunk {old.name} is gone, was {format_ordinal(was)}"
            continue
        place, new = now[key]
        if place != was:
            yield f"chunk {old.name} is {format_ordinal(place)} now, was {format_ordinal(was)}"
        if old.score != new.score:
            yield f"chunk {old.name}: score {_format_score(old)} recorded, {_format_score(new)} now"
        if old.content != new.content:
            yield f"chunk {old.name}: its content changed"
    for key, (place, new) in now.items():
        if key not in recorded:
            yield f"chunk {new.name} is {format_ordinal(place)} now, and was not there"


def _format_score(chunk: Chunk) -> str:
    return "none" if chunk.score is None else f"{chunk.score:.6g}"


def format_ordinal(place: int) -> str:
    """Return a place as people say it: "1st", "2nd", "11th"."""
    ending = "th" if 10 < place % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place}{ending}"
