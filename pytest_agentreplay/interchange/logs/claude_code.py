"""Sessions of Claude Code: JSON Lines of one or several, the export of a web session, what `claude -p` prints.

A row is what one side said. The rows are a tree: going back in a session makes a fork, and the newest branch counts.
One reply of the model may be several rows; what a sub-agent did stands beside ("isSidechain").
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pytest_agentreplay.dialects.lenient import arr, obj, objects, string
from pytest_agentreplay.interchange.assembling import whole
from pytest_agentreplay.interchange.formats import Format
from pytest_agentreplay.interchange.logs.claude_rows import branch, in_order, is_message
from pytest_agentreplay.interchange.logs.claude_steps import last_text, steps
from pytest_agentreplay.interchange.moments import moment
from pytest_agentreplay.interchange.trace import Source, Trace, TraceFault

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Json, JsonObject
    from pytest_agentreplay.interchange.formats import Opened

_OTHERS = (
    *("summary", "system", "queue-operation", "file-history-snapshot", "progress", "custom-title"),
    *("attachment", "result"),
)
_LOSSES = ("neither instructions nor tools nor parameters of the requests",)


def _rows(opened: Opened) -> list[Json]:
    only = opened.rows[0] if len(opened.rows) == 1 else None
    listed = only if isinstance(only, list) else arr(obj(only).get("loglines"))
    return [_kept(row) for row in listed or opened.rows]


def _kept(row: Json) -> Json:
    """A row under the names of a session's file, where `claude -p` has printed it."""
    told = obj(row)
    if "session_id" not in told or "sessionId" in told:
        return row
    inside = string(told.get("parent_tool_use_id"))
    return {**told, "sessionId": told["session_id"], **({"isSidechain": True, "agentId": inside} if inside else {})}


def _fits(opened: Opened) -> bool:
    if len(opened.rows) == 1 and isinstance(obj(opened.rows[0]).get("loglines"), list):
        return True
    return any(is_message(row) and ("sessionId" in row or "parentUuid" in row) for row in objects(_rows(opened))[:200])


def _read(opened: Opened) -> list[Trace]:
    given = _rows(opened)
    # Rows of other kinds hold no message, but the tree leads through them.
    rows = [row for row in objects(given) if is_message(row) or "uuid" in row]
    about = [row for row in objects(given) if string(row.get("type")) in _OTHERS]
    told = [row for row in objects(given) if is_message(row) or string(row.get("type")) in _OTHERS]
    junk = opened.junk + len(given) - len(told)
    sessions: dict[str, list[JsonObject]] = {}
    known = next((string(row.get("sessionId")) for row in rows if row.get("sessionId")), "")
    for row in rows:
        sessions.setdefault(string(row.get("sessionId")) or known, []).append(row)
    sessions = {name: found for name, found in sessions.items() if any(map(is_message, found))}
    losses = (*_LOSSES, *((f"{junk} rows are no messages and left out",) if junk else ()))
    titles = [said for row in about if (said := string(row.get("summary")))]
    title = titles[-1] if titles and len(sessions) == 1 else ""
    ends = {string(row.get("sessionId")): row for row in about if row.get("type") == "result"}
    return [
        _session(opened, name, found, losses, title=title, end=ends.get(name, {})) for name, found in sessions.items()
    ]


def _session(
    opened: Opened, name: str, rows: list[JsonObject], losses: tuple[str, ...], *, title: str, end: JsonObject
) -> Trace:
    ordered = in_order(rows)
    beside = [row for row in ordered if row.get("isSidechain") is True]
    main = [row for row in ordered if row.get("isSidechain") is not True]
    told = main if any(map(is_message, main)) else beside
    kept, left = branch(told)
    own = [*losses]
    if left:
        own.append(f"{left} rows are of branches that were gone back on: the newest branch is taken")
    found = steps(kept)
    if beside and told is not beside:
        found += [
            step for agent, chain in _sub_agents(beside) for step in steps(list(filter(is_message, chain)), agent=agent)
        ]
        found.sort(key=lambda step: step.started or 0)
        own.append("what sub-agents did stands among the steps, under their names")
    times = [at for row in ordered if (at := moment(row.get("timestamp"))) is not None]
    version = next((string(row.get("version")) for row in rows if row.get("version")), "")
    failed = end.get("is_error") is True
    return whole(
        Trace(
            source=Source(format="claude-code", version=version, file=opened.file, id=name),
            id=name,
            name=title[:120],
            status="error" if failed else "ok" if end else "",
            fault=TraceFault(string(end.get("subtype")), string(end.get("result"))) if failed else None,
            started=min(times, default=None),
            ended=max(times, default=None),
            session=name,
            metadata=_metadata(rows),
            output=last_text(kept),
            steps=tuple(found),
            losses=tuple(own),
        )
    )


def _sub_agents(rows: list[JsonObject]) -> list[tuple[str, list[JsonObject]]]:
    """The rows of each sub-agent: those that hang together, under the id that one of them names, else a number."""
    groups: list[list[JsonObject]] = []
    places: dict[str, int] = {}
    for row in rows:
        parent = string(row.get("parentUuid"))
        place = places.get(parent, places.get(string(row.get("agentId")), len(groups) - bool(parent and groups)))
        if place == len(groups):
            groups.append([])
        groups[place].append(row)
        places |= {name: place for name in (string(row.get("uuid")), string(row.get("agentId"))) if name}
    named = [next(filter(None, (string(row.get("agentId")) for row in group)), "") for group in groups]
    return [
        (name or f"sub-agent {number}", group)
        for number, (name, group) in enumerate(zip(named, groups, strict=True), 1)
    ]


def _metadata(rows: list[JsonObject]) -> JsonObject:
    """Where most of the session was: the folder and the branch of git."""
    found: JsonObject = {}
    for name in ("cwd", "gitBranch"):
        said = Counter(string(row.get(name)) for row in rows if string(row.get(name)))
        if said:
            found[name] = said.most_common(1)[0][0]
    return found


FORMATS = (Format("claude-code", "session of Claude Code", 23, _fits, _read),)
