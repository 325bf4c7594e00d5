"""The runs in a file of LangSmith: a row each, nested in each other, in a list, or as the requests that made them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.dialects.lenient import arr, merge_later, obj, objects, rest, string

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.core.model import Json, JsonObject

_MARKS = ("dotted_order", "parent_run_id", "child_runs", "child_run_ids", "session_name", "session_id", "trace_id")
_LISTS = ("runs", "post", "patch", "data", "items")


def is_run(row: JsonObject) -> bool:
    """Whether a row is a run."""
    return string(row.get("run_type")) != "" and any(name in row for name in _MARKS)


def fits(rows: Iterable[Json]) -> bool:
    """Whether any of the rows is a run, holds runs, or is a request that made one."""
    return any(is_run(run) for run in _flat(rows))


def traces(rows: Iterable[Json]) -> dict[str, list[JsonObject]]:
    """The runs by the id of their trace; those of one id, from several requests, are one run."""
    merged: dict[str, JsonObject] = {}
    for number, run in enumerate(_flat(rows)):
        known = string(run.get("id")) or f"row {number + 1}"
        merged[known] = _merged(merged[known], run) if known in merged else {**run, "id": known}
    found: dict[str, list[JsonObject]] = {}
    for run in merged.values():
        if string(run.get("run_type")):
            found.setdefault(_trace(run, merged), []).append(run)
    return found


def _trace(run: JsonObject, known: dict[str, JsonObject]) -> str:
    """The id of a run's trace: its own word, else the first of its dotted order, else the run it hangs from."""
    seen: set[str] = set()
    while True:
        told = string(run.get("trace_id")) or string(run.get("dotted_order")).partition(".")[0][-36:]
        above = known.get(string(run.get("parent_run_id")))
        if told or above is None or string(above.get("id")) in seen:
            return told or string(run.get("id"))
        seen.add(string(above.get("id")))
        run = above


def _flat(rows: Iterable[Json]) -> list[JsonObject]:
    """Every run in the rows, children after parents; what was posted comes before what patched it."""
    posted: list[JsonObject] = []
    patched: list[JsonObject] = []
    waiting: list[tuple[Json, bool]] = [(row, False) for row in reversed([*rows])]
    while waiting:
        row, patch = waiting.pop()
        if isinstance(row, list):
            waiting += [(one, patch) for one in reversed(row)]
            continue
        found = obj(row)
        if isinstance(found.get("body"), dict | list) and "run_type" not in found:
            waiting.append((found["body"], string(found.get("method")) == "PATCH"))
        elif "run_type" in found or (patch and "id" in found):
            children = objects(found.get("child_runs"))
            (patched if patch else posted).append(rest(found, "child_runs"))
            waiting += [(_child(one, found), patch) for one in reversed(children)]
        else:
            lists = [(name, arr(found[name])) for name in _LISTS if isinstance(found.get(name), list)]
            waiting += [(one, patch or name == "patch") for name, held in reversed(lists) for one in reversed(held)]
    return [*posted, *patched]


def _child(run: JsonObject, parent: JsonObject) -> JsonObject:
    told = {"parent_run_id": parent.get("id"), "trace_id": parent.get("trace_id") or parent.get("id")}
    return run | {name: value for name, value in told.items() if not run.get(name)}


def _merged(known: JsonObject, later: JsonObject) -> JsonObject:
    """A run with what a later request says of it; what the later one leaves empty stays."""
    inner = {name: value for name, value in later.items() if name in {"extra", "metadata"} and isinstance(value, dict)}
    later = later | {name: _merged(obj(known.get(name)), value) for name, value in inner.items()}
    return merge_later(known, later, empty=(None, {}, [], ""))
