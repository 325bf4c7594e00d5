"""Whether a new recording says what the snapshot before it says, ids, dates and durations aside.

Then the previous file is kept to the byte: it is a true recording of the same behaviour, and its diff is empty.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.core.align import divergences
from pytest_agentreplay.core.matching import Matching
from pytest_agentreplay.core.matching.address import content
from pytest_agentreplay.core.model import HttpReply, Timing, ToolCall
from pytest_agentreplay.dialects import READER, RULES

if TYPE_CHECKING:
    from pytest_agentreplay.codec import Snapshot
    from pytest_agentreplay.core.model import Exchange, Json, JsonObject, Run

INCIDENTAL_FACTS = frozenset({"clock", "trace", "git"})
"""Facts of a kit that differ though the agent does the same: durations, ids of today's trace, the commit."""

INCIDENTAL_FIELDS = frozenset({"id", "created", "created_at", "completed_at", "createTime", "usage", "usageMetadata"})
"""Fields of replies, at any depth, that the APIs of models fill anew for each reply."""

EMPTY_CALL = ToolCall("")


def unchanged(previous: Snapshot, new: Run) -> bool:
    """Return whether `new` differs from a sealed snapshot in incidental values alone."""
    old = previous.run
    return (
        previous.sealed
        and not previous.notes
        and not previous.revisions
        and old.header.seed == new.header.seed
        and old.header.outcome == new.header.outcome
        and facts(old.header.kit) == facts(new.header.kit)
        and [shape(x) for x in old.exchanges] == [shape(x) for x in new.exchanges]
        and [reply(x) for x in old.exchanges] == [reply(x) for x in new.exchanges]
        and not divergences(old, new, READER, matching=Matching(READER, RULES))
    )


def facts(kit: JsonObject) -> JsonObject:
    """Return what of a kit is compared: versions, models, settings; not the port of a model on this machine."""
    kept = {name: value for name, value in kit.items() if name not in INCIDENTAL_FACTS}
    if isinstance(clock := kit.get("clock"), dict):
        kept["clock"] = clock.get("mode")
    if isinstance(models := kit.get("models"), list):
        kept["models"] = [without_port(entry) for entry in models]
    return kept


def without_port(entry: Json) -> Json:
    """Return the entry of a model with the host's name alone."""
    if not isinstance(entry, dict):
        return entry
    return {**entry, "host": str(entry.get("host", "")).partition(":")[0]}


def shape(x: Exchange) -> Exchange:
    """Return where an exchange stands in its run, without what was asked, what came back and how long it took."""
    return replace(x, call=EMPTY_CALL, outcome=None, timing=Timing())


def reply(x: Exchange) -> Json:
    """Return what is compared of a reply over HTTP: status, type and content, without the fields that are ever new."""
    outcome = x.outcome
    if not isinstance(outcome, HttpReply):
        return None
    kinds: list[Json] = [value for name, value in outcome.headers if name.lower() == "content-type"]
    body_content = content(outcome.headers, outcome.body)
    if body_content.kind != "bytes":
        return [outcome.status, kinds, without_incidental(body_content.tree)]
    return [outcome.status, kinds, [event(line) for line in body_content.data.decode("utf-8", "replace").splitlines()]]


def event(line: str) -> Json:
    """Return a line of a stream; of an event in JSON its content."""
    try:
        return without_incidental(json.loads(line.removeprefix("data:")))
    except ValueError:
        return line


def without_incidental(tree: Json) -> Json:
    """Return a tree without ids, dates and counts of tokens."""
    if isinstance(tree, list):
        return [without_incidental(value) for value in tree]
    if not isinstance(tree, dict):
        return tree
    return {
        name: without_incidental(value)
        for name, value in tree.items()
        if name not in INCIDENTAL_FIELDS and not name.endswith(("_id", "_at", "Id"))
    }
