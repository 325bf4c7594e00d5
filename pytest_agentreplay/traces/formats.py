"""Who reads which trace: the formats, and the choice among them by what a file holds.

Others add theirs under the entry point `agentreplay.formats`: each is the dotted name of a `Format`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypeVar

from pytest_agentreplay.errors import TraceUnknown
from pytest_agentreplay.providers.lenient import obj, objects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.traces.trace import Trace

Item = TypeVar("Item")
Key = TypeVar("Key")

MOST = 1000
"""Items of a list that a format is known by; who reads the file later reads them all."""


_DEEPEST = 3
"""Wrappings around all that a file holds."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A trace file as far as any format can read it.

    Attributes:
        file: The name as shown.
        data: The bytes, unpacked.
        rows: The JSON values: one for a JSON or YAML file, one a line for JSON Lines, one each for values that follow
            each other.
        members: The files of a zip archive, by name; None for another file.
        junk: How many lines are no JSON.
    """

    file: str
    data: bytes
    rows: tuple[Json, ...] = ()
    members: dict[str, bytes] | None = None
    junk: int = 0


@dataclass(frozen=True, slots=True)
class Format:
    """One format of one tool.

    Attributes:
        name: What `--from` takes, such as "langsmith-runs".
        title: What people read, such as "runs of LangSmith".
        rank: Where several formats fit, the lowest wins; two of one rank are ambiguous.
        fits: Returns whether a file is of this format, and never raises.
        read: Returns every run in the file, in order. Raises TraceError, or TraceIncomplete with the setting that was
            off.
        together: A word. Files that are given together (logs of the same spans), whose formats have the same word, are
            read as one: `read` of the first by rank takes the others as its second argument.
    """

    name: str
    title: str
    rank: float
    fits: Callable[[Opened], bool]
    read: Callable[..., Iterable[Trace]]
    together: str = ""


_IDENTITIES = (
    *("id", "uuid", "call_id", "tool_call_id", "request_id", "requestId", "response_id", "span_id", "spanId"),
    *("timestamp", "time", "ts", "created_at", "started_at", "start_time", "startTime", "startedDateTime"),
    *("request_start_time", "request_created_at", "logging_time"),
)
"""What a row is told from another one by: its own id, or its time."""


def drop_repeated(rows: Iterable[Json]) -> list[Json]:
    """Return the rows without those that repeat one exactly, its id or time included: exported twice, done once."""
    seen: set[int] = set()
    kept: list[Json] = []
    for row in rows:
        if isinstance(row, dict) and any(row.get(name) for name in _IDENTITIES):
            written = hash(json.dumps(row, sort_keys=True))
            if written in seen:
                continue
            seen.add(written)
        kept.append(drop_repeated(row) if isinstance(row, list) else row)
    return kept


_WRAPPERS = (
    *("data", "rows", "runs", "traces", "spans", "events", "items", "results", "records", "entries", "logs"),
    *("sessions", "calls", "requests", "content", "trace"),
)


def layers(opened: Opened) -> Iterator[Opened]:
    """The file as it is, then without what an answer of an API or a script has put around all that it holds."""
    yield opened
    for _ in range(_DEEPEST):
        contents = [_unwrap(row) for row in opened.rows]
        if not contents or any(content is None for content in contents):
            return
        opened = replace(opened, rows=tuple(row for content in contents for row in content or ()))
        yield opened


def _unwrap(row: Json) -> list[Json] | None:
    """Return what a list holds, or an object under the only name for it; None for any other object."""
    if isinstance(row, list):
        return row
    fields = obj(row)
    values = [fields[name] for name in _WRAPPERS if isinstance(fields.get(name), list | dict)]
    return None if len(values) != 1 else values[0] if isinstance(values[0], list) else values


def document_of(opened: Opened) -> JsonObject:
    """Return the only object in a file; {} for a file of several values, or of another one."""
    return obj(opened.rows[0]) if len(opened.rows) == 1 else {}


def list_objects(rows: Iterable[Json]) -> list[JsonObject]:
    """Return the objects among rows, and in lists among them."""
    return [item for row in rows for item in objects(row if isinstance(row, list) else [row])]


def find_rows(
    rows: Iterable[Json], is_wanted: Callable[[JsonObject], bool], names: Iterable[str]
) -> Iterator[JsonObject]:
    """Yield the rows that `is_wanted` takes, also those in lists, and under any of `names` in other rows."""
    waiting = [*rows][::-1]
    while waiting:
        row = waiting.pop()
        fields = obj(row)
        if isinstance(row, list):
            waiting += row[::-1]
        elif is_wanted(fields):
            yield fields
        else:
            waiting += [fields[name] for name in names if isinstance(fields.get(name), list | dict)]


def group_by(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Return the items by the `key` of each, in the order in which they stand."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def choose(opened: Opened, formats: Iterable[Format], format_name: str = "") -> Format:
    """The format of `opened`, or the one called `format_name`. Raises TraceUnknown for none, or for several."""
    by_rank = sorted(formats, key=lambda candidate: candidate.rank)
    if format_name:
        if (by_name := next((candidate for candidate in by_rank if candidate.name == format_name), None)) is not None:
            return by_name
        near = get_close_matches(format_name, [candidate.name for candidate in by_rank], 1)
        advice = f": did you mean {near[0]}?" if near else f"; {_join_names(by_rank)}"
        raise TraceUnknown(f"there is no format {format_name!r}{advice}", file=opened.file)
    begun = replace(opened, rows=tuple(_begun(row, 3) for row in opened.rows[:MOST]))
    chosen = next((candidate for candidate in by_rank if candidate.fits(begun)), None)
    if chosen is None:
        raise TraceUnknown(
            f"no format fits what it holds; name it with --from: {_join_names(by_rank)}", file=opened.file
        )
    first = [
        candidate
        for candidate in by_rank
        if candidate.rank == chosen.rank and (candidate is chosen or candidate.fits(begun))
    ]
    if len(first) > 1:
        raise TraceUnknown(f"several formats fit; name one with --from: {_join_names(first)}", file=opened.file)
    return chosen


def _begun(value: Json, depth: int) -> Json:
    """A value whose lists are cut, as deep as a file lists its runs."""
    if isinstance(value, list):
        return [_begun(item, depth - 1) for item in value[:MOST]] if depth else value[:MOST]
    if isinstance(value, dict) and depth:
        return {name: _begun(item, depth - 1) for name, item in value.items()}
    return value


def _join_names(formats: Iterable[Format]) -> str:
    return ", ".join(candidate.name for candidate in formats)
