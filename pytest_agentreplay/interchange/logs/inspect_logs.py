"""Logs of Inspect: `.json`, and `.eval`, an archive of a header and a file a sample. One sample and epoch is one run.

A log says each thing once: a request points into a table of messages, and a long text stands among the attachments.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.dialects import genai
from pytest_agentreplay.dialects.lenient import arr, obj, objects, rest, string
from pytest_agentreplay.errors import TraceError, TraceIncomplete
from pytest_agentreplay.interchange.assembling import whole
from pytest_agentreplay.interchange.endings import word
from pytest_agentreplay.interchange.formats import Format
from pytest_agentreplay.interchange.logs.inspect_events import steps, steps_of_messages
from pytest_agentreplay.interchange.logs.pairs import fault, known
from pytest_agentreplay.interchange.moments import moment
from pytest_agentreplay.interchange.trace import ModelCall, Source, Trace

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Json, JsonObject
    from pytest_agentreplay.interchange.formats import Opened
    from pytest_agentreplay.interchange.trace import TraceFault

_ATTACHED = "attachment://"
_EVENTLESS = "the sample has no events of its model calls: tools, parameters and times of the requests are not known"
_HEADERS = ("header.json", "_journal/start.json")


def _fits_json(opened: Opened) -> bool:
    log = obj(opened.rows[0]) if len(opened.rows) == 1 else {}
    return isinstance(log.get("eval"), dict) and isinstance(log.get("plan"), dict) and "status" in log


def _fits_archive(opened: Opened) -> bool:
    return opened.members is not None and any(name in opened.members for name in _HEADERS)


def _read(opened: Opened) -> list[Trace]:
    log, samples = _parts(opened)
    found = [_sample(opened, log, sample) for sample in samples]
    if not found:
        said = string(obj(log.get("error")).get("message"))
        msg = f"the evaluation ended with an error before a sample did: {said!r:.200}" if said else ""
        raise TraceIncomplete(msg or "holds no samples: leave out --no-log-samples", file=opened.file)
    return found


def _parts(opened: Opened) -> tuple[JsonObject, list[JsonObject]]:
    """The header, and the samples."""
    if opened.members is None:
        log = obj(next(iter(opened.rows), None))
        return log, objects(log.get("samples"))
    header = next((name for name in _HEADERS if name in opened.members), "")
    if not header:
        raise TraceError("has no header.json: it is no log of Inspect", file=opened.file)
    samples = sorted(name for name in opened.members if name.startswith("samples/") and name.endswith(".json"))
    return _member(opened, header), [_member(opened, name) for name in samples]


def _member(opened: Opened, name: str) -> JsonObject:
    assert opened.members is not None
    try:
        return obj(json.loads(opened.members[name]))
    except (ValueError, RecursionError):
        raise TraceError("is no JSON", file=opened.file, place=name) from None


def _sample(opened: Opened, log: JsonObject, sample: JsonObject) -> Trace:
    attached = obj(sample.get("attachments"))
    lost: list[str] = []
    sample = obj(_attached(rest(sample, "attachments"), attached, lost))
    about, metadata = obj(log.get("eval")), obj(sample.get("metadata"))
    found = steps(sample)
    calls = [step for step in found if isinstance(step, ModelCall)]
    eventless = not calls
    if eventless:
        found = steps_of_messages(sample, about.get("model")) or found
    near = bool(calls) and all(call.request is not None for call in calls)
    source = Source(
        format="inspect",
        version=str(log.get("version") or ""),
        file=opened.file,
        id=string(sample.get("uuid")),
        fidelity="body-json" if near else "semantic",
    )
    losses = ["neither headers nor the bytes of the wire"]
    losses += [_EVENTLESS] if eventless else []
    losses += [f"{len(lost)} attachments are not in the log"] if lost else []
    broke = sample.get("error")
    limit = obj(sample.get("limit"))
    return whole(
        Trace(
            source=source,
            id=string(sample.get("uuid")) or f"{sample.get('id')}-{sample.get('epoch')}",
            name=string(about.get("task")),
            status="error" if broke or log.get("status") == "error" else word(log.get("status")),
            started=moment(sample.get("started_at")),
            ended=moment(sample.get("completed_at")),
            user=known(metadata, "user_id", "user"),
            session=known(metadata, "session_id", "conversation_id", "thread_id"),
            tenant=known(metadata, "tenant", "tenant_id"),
            tags=tuple(map(str, arr(log.get("tags")))),
            metadata={
                "sample": sample.get("id"),
                "epoch": sample.get("epoch"),
                "target": sample.get("target"),
                **metadata,
            },
            input=_input(sample.get("input")),
            output=string(obj(sample.get("output")).get("completion")) or None,
            fault=_fault(broke or log.get("error")),
            limits=f"{limit.get('type')} limit {limit.get('limit')}" if limit else "",
            grades={name: obj(score).get("value") for name, score in obj(sample.get("scores")).items()},
            steps=tuple(found),
            losses=tuple(losses),
            missing=() if any(isinstance(step, ModelCall) for step in found) else ("messages of model calls",),
        )
    )


def _input(given: Json) -> Json:
    """What the sample was given: a text, or messages."""
    return [genai.message(item) for item in given] if isinstance(given, list) else given


def _fault(error: Json) -> TraceFault | None:
    if not error:
        return None
    told = fault(error)
    return replace(told, traceback=string(obj(error).get("traceback")))


def _attached(value: Json, attached: JsonObject, lost: list[str]) -> Json:
    """`value` with the texts that it only names."""
    if isinstance(value, str):
        if not value.startswith(_ATTACHED):
            return value
        found = attached.get(value.removeprefix(_ATTACHED))
        if found is None:
            lost.append(value)
        return value if found is None else found
    if isinstance(value, list):
        return [_attached(item, attached, lost) for item in value]
    if isinstance(value, dict):
        return {name: _attached(item, attached, lost) for name, item in value.items()}
    return value


FORMATS = (
    Format("inspect-eval", "log of Inspect (.eval)", 1, _fits_archive, _read),
    Format("inspect", "log of Inspect (.json)", 21, _fits_json, _read),
)
