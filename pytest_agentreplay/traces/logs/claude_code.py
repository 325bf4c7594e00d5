"""Sessions of Claude Code: JSON Lines of one or several, the export of a web session, what `claude -p` prints.

A row is what one side said. The rows are a tree: going back in a session makes a fork, and the newest branch counts.
One reply of the model may be several rows; what a sub-agent did stands beside ("isSidechain").
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.providers.anthropic import read_reply
from pytest_agentreplay.providers.lenient import arr, obj, objects, string
from pytest_agentreplay.providers.messages import add_message, find_tool_uses, normalize_message
from pytest_agentreplay.traces.assembling import whole
from pytest_agentreplay.traces.formats import Format, document_of, group_by
from pytest_agentreplay.traces.moments import extent, in_time, moment
from pytest_agentreplay.traces.trace import ModelCall, Source, ToolRun, Trace, TraceFault

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.traces.formats import Opened
    from pytest_agentreplay.traces.trace import Step

# There is no public schema: the fields are those of the sessions under tests/traces/traces/public/claude-code.
_SIDES = frozenset({"user", "assistant"})


def is_message(row: JsonObject) -> bool:
    """Whether a row is what one side said."""
    return string(row.get("type")) in _SIDES and isinstance(row.get("message"), dict)


def in_order(rows: list[JsonObject]) -> list[JsonObject]:
    """The rows as they stand; by their times where a row stands before the one that it answers."""
    seen: set[str] = set()
    ids = {string(row.get("uuid")) for row in rows}
    shuffled = False
    for row in rows:
        parent = string(row.get("parentUuid"))
        shuffled |= parent in ids and parent not in seen and parent != ""
        seen.add(string(row.get("uuid")))
    return in_time(rows) if shuffled else rows


def branch(rows: list[JsonObject]) -> tuple[list[JsonObject], int]:
    """The messages that lead to the last one, and how many were left out.

    A row whose parent is not there follows the one before it, and so does every row of a file that names none. Results
    of tools, and further pieces of a reply, belong to the branch that asked for them, wherever they hang in the tree.
    """
    parents = _parents(rows)
    at, kept = max(place for place, row in enumerate(rows) if is_message(row)), set[int]()
    while at >= 0:
        kept.add(at)
        at = parents[at]
    replies = {_reply_id(rows[place]) for place in kept} - {""}
    kept |= {place for place, row in enumerate(rows) if _reply_id(row) in replies}
    kept_blocks = [block for place in kept for block in blocks(rows[place])]
    asked_ids = {string(block.get("id")) for block in kept_blocks if block.get("type") == "tool_use"}
    for place, row in enumerate(rows):
        answered = {string(block.get("tool_use_id")) for block in blocks(row) if block.get("type") == "tool_result"}
        if answered and answered <= asked_ids:
            kept.add(place)
    messages = [place for place, row in enumerate(rows) if is_message(row)]
    taken = [rows[place] for place in messages if place in kept]
    return taken, len(messages) - len(taken)


def blocks(row: JsonObject) -> list[JsonObject]:
    """The blocks of the message in a row."""
    return objects(obj(row.get("message")).get("content"))


def _parents(rows: list[JsonObject]) -> list[int]:
    """For each row the place of the one before it, always a smaller one; -1 for the first."""
    places: dict[str, int] = {}
    parents: list[int] = []
    tree = any(string(row.get("parentUuid")) for row in rows)
    for place, row in enumerate(rows):
        parent_id = string(row.get("parentUuid")) or string(row.get("logicalParentUuid"))
        root = tree and not parent_id and "parentUuid" in row
        parents.append(-1 if root else places.get(parent_id, place - 1))
        if string(row.get("uuid")):
            places[string(row["uuid"])] = place
    return parents


def _reply_id(row: JsonObject) -> str:
    return string(obj(row.get("message")).get("id")) if row.get("type") == "assistant" else ""


_BY_PROGRAM = "<synthetic>"
"""The model of what the program itself says in the assistant's place."""


def steps(rows: list[JsonObject], agent: str = "") -> list[Step]:
    """The steps in order; the pieces of one reply are one call, where its first piece stands."""
    replies = [(_reply(row, place), row) for place, row in enumerate(rows) if row.get("type") == "assistant"]
    pieces = group_by(replies, lambda reply: reply[0])
    open_runs: dict[str, ToolRun] = {}
    before: list[JsonObject] = []
    steps_so_far: list[Step] = []
    for place, row in enumerate(rows):
        if row.get("type") == "user":
            before = [] if row.get("isCompactSummary") is True else before  # from here on the model saw the summary
            steps_so_far += _ran(row, open_runs)
            add_message(before, normalize_message(obj(row.get("message"))))
        elif obj(row.get("message")).get("model") == _BY_PROGRAM and row.get("isApiErrorMessage") is not True:
            add_message(before, normalize_message(obj(row.get("message"))))
        elif (own := pieces.pop(_reply(row, place), None)) is not None:
            call, uses = _call([piece for _, piece in own], before)
            steps_so_far.append(replace(call, agent=agent))
            open_runs |= {use.call_id: replace(use, agent=agent) for use in uses}
            if call.reply is not None:
                add_message(before, call.reply)
    return steps_so_far


def last_text(rows: list[JsonObject]) -> Json:
    """What the assistant said last in words."""
    for row in reversed(rows):
        if row.get("type") == "assistant" and row.get("isApiErrorMessage") is not True:
            content = obj(row.get("message")).get("content")
            texts = [string(block.get("text")) for block in blocks(row) if block.get("type") == "text"]
            if text := string(content) or "\n".join(filter(None, texts)):
                return text
    return None


def _reply(row: JsonObject, place: int) -> str:
    return string(obj(row.get("message")).get("id")) or f"#{place}"


def _call(rows: list[JsonObject], before: list[JsonObject]) -> tuple[ModelCall, list[ToolRun]]:
    """The call whose reply these rows are, and the tools that it asks for."""
    replies = [obj(row.get("message")) for row in rows]
    content: list[Json] = []
    seen: set[str] = set()
    for message in replies:
        value = message.get("content")
        listed: list[Json] = value if isinstance(value, list) else [{"type": "text", "text": value}]
        for block in listed:
            if (key := canonical(block)) not in seen:  # a row may say again what an earlier one said
                seen.add(key)
                content.append(block)
    reading = read_reply({**replies[-1], "content": content})
    times = [moment(row.get("timestamp")) for row in rows]
    reply = normalize_message({"role": "assistant", "content": content})
    failed = rows[0].get("isApiErrorMessage") is True  # what stands there is the program's word for the error
    call = ModelCall(
        provider="anthropic",
        dialect="anthropic",
        model="" if failed else reading.model,
        messages=tuple(before),
        reply=reply | {"finish_reason": next(iter(reading.finish_reasons), "")}
        if arr(reply["parts"]) and not failed
        else None,
        response_model="" if failed else reading.model,
        response_id=reading.response_id,
        finish_reasons=reading.finish_reasons,
        usage={} if failed else reading.usage,
        fault=TraceFault(message=reading.text) if failed else None,
        started=times[0],
        ended=times[-1],
        id=string(rows[0].get("uuid")),
        parent=string(rows[0].get("parentUuid")),
    )
    uses = find_tool_uses({"role": "assistant", "content": content})
    return call, [ToolRun(name=use.name, call_id=use.id, arguments=use.arguments, started=times[-1]) for use in uses]


def _ran(row: JsonObject, open_runs: dict[str, ToolRun]) -> list[ToolRun]:
    """The tools whose results a row tells; what the program keeps beside a result says more than the model saw."""
    message = normalize_message(obj(row.get("message")))
    results = [part for part in objects(message["parts"]) if part.get("type") == "tool_call_response"]
    runs: list[ToolRun] = []
    for part in results:
        run = open_runs.pop(string(part.get("id")), None)
        if run is None:
            continue
        seen = part.get("response")
        beside = row.get("toolUseResult")
        text = seen if isinstance(seen, str) else canonical(seen)
        runs.append(
            replace(
                run,
                seen=seen,
                result=seen if beside is None or len(results) > 1 else beside,
                fault=TraceFault(message=text) if part.get("is_error") is True else None,
                ended=moment(row.get("timestamp")),
                id=string(row.get("uuid")),
            )
        )
    return runs


_OTHERS = (
    *("summary", "system", "queue-operation", "file-history-snapshot", "progress", "custom-title"),
    *("attachment", "result"),
)
_LOSSES = ("neither instructions nor tools nor parameters of the requests",)


def _rows(opened: Opened) -> list[Json]:
    only = opened.rows[0] if len(opened.rows) == 1 else None
    listed = only if isinstance(only, list) else arr(obj(only).get("loglines"))
    return [_rename_fields(row) for row in listed or opened.rows]


def _rename_fields(row: Json) -> Json:
    """Return a row under the names of a session's file, where `claude -p` has printed it."""
    fields = obj(row)
    if "session_id" not in fields or "sessionId" in fields:
        return row
    inside = string(fields.get("parent_tool_use_id"))
    return {**fields, "sessionId": fields["session_id"], **({"isSidechain": True, "agentId": inside} if inside else {})}


def _is_session(opened: Opened) -> bool:
    if isinstance(document_of(opened).get("loglines"), list):
        return True
    return any(is_message(row) and ("sessionId" in row or "parentUuid" in row) for row in objects(_rows(opened))[:200])


def _read_sessions(opened: Opened) -> list[Trace]:
    every = _rows(opened)
    # Rows of other kinds hold no message, but the tree leads through them.
    rows = [row for row in objects(every) if is_message(row) or "uuid" in row]
    about = [row for row in objects(every) if string(row.get("type")) in _OTHERS]
    known_rows = [row for row in objects(every) if is_message(row) or string(row.get("type")) in _OTHERS]
    junk = opened.junk + len(every) - len(known_rows)
    session_id = next((string(row.get("sessionId")) for row in rows if row.get("sessionId")), "")
    sessions = group_by(rows, lambda row: string(row.get("sessionId")) or session_id)
    sessions = {name: session_rows for name, session_rows in sessions.items() if any(map(is_message, session_rows))}
    losses = (*_LOSSES, *((f"{junk} rows are no messages and left out",) if junk else ()))
    titles = [text for row in about if (text := string(row.get("summary")))]
    title = titles[-1] if titles and len(sessions) == 1 else ""
    ends = {string(row.get("sessionId")): row for row in about if row.get("type") == "result"}
    return [
        _session(opened, name, session_rows, losses, title=title, end=ends.get(name, {}))
        for name, session_rows in sessions.items()
    ]


def _session(
    opened: Opened, name: str, rows: list[JsonObject], losses: tuple[str, ...], *, title: str, end: JsonObject
) -> Trace:
    ordered = in_order(rows)
    beside = [row for row in ordered if row.get("isSidechain") is True]
    main = [row for row in ordered if row.get("isSidechain") is not True]
    rows_of_run = main if any(map(is_message, main)) else beside
    kept, left = branch(rows_of_run)
    own = [*losses]
    if left:
        own.append(f"{left} rows are of branches that were gone back on: the newest branch is taken")
    session_steps = steps(kept)
    if beside and rows_of_run is not beside:
        session_steps += [
            step for agent, chain in _sub_agents(beside) for step in steps(list(filter(is_message, chain)), agent=agent)
        ]
        session_steps.sort(key=lambda step: step.started or 0)
        own.append("what sub-agents did stands among the steps, under their names")
    version = next((string(row.get("version")) for row in rows if row.get("version")), "")
    failed = end.get("is_error") is True
    return whole(
        Trace(
            source=Source(format="claude-code", version=version, file=opened.file, id=name),
            id=name,
            name=title[:120],
            status="error" if failed else "ok" if end else "",
            fault=TraceFault(string(end.get("subtype")), string(end.get("result"))) if failed else None,
            session=name,
            metadata=_metadata(rows),
            output=last_text(kept),
            steps=tuple(session_steps),
            losses=tuple(own),
            **extent(ordered),
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
    names = [next(filter(None, (string(row.get("agentId")) for row in group)), "") for group in groups]
    return [
        (name or f"sub-agent {number}", group)
        for number, (name, group) in enumerate(zip(names, groups, strict=True), 1)
    ]


def _metadata(rows: list[JsonObject]) -> JsonObject:
    """Where most of the session was: the folder and the branch of git."""
    texts = {name: list(filter(None, (string(row.get(name)) for row in rows))) for name in ("cwd", "gitBranch")}
    return {name: Counter(values).most_common(1)[0][0] for name, values in texts.items() if values}


FORMATS = (Format("claude-code", "session of Claude Code", 23, _is_session, _read_sessions),)
