"""Langfuse: traces with their observations, as its page and its API give them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.dialects.lenient import arr, obj, rest, string
from pytest_agentreplay.errors import TraceIncomplete
from pytest_agentreplay.interchange.formats import Format
from pytest_agentreplay.interchange.moments import moment
from pytest_agentreplay.interchange.platforms import faults, finals, langfuse_observations, langfuse_rows
from pytest_agentreplay.interchange.platforms.about import about
from pytest_agentreplay.interchange.platforms.tree import SNIFFED, run
from pytest_agentreplay.interchange.trace import Source, Trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.core.model import JsonObject
    from pytest_agentreplay.interchange.formats import Opened

_LOST = (
    "Langfuse keeps of a call what its integration read of it: fingerprint, finish reason, response id and the request "
    "as it was sent are lost wherever the framework's own attributes do not hold them"
)
_INVENTED = "Langfuse writes a value for parameters that nobody set; at these values they are left out: {names}"
_DEPLOYED = ("release", "version", "environment")
_OTEL = ("attributes", "resourceAttributes", "scope")
_HINT = (
    "export it with input and output (GET /api/public/traces/ID, or fields=core,basic,io of the observations), without "
    "`mask`, and with capture of both left on (LANGFUSE_OBSERVE_DECORATOR_IO_CAPTURE_ENABLED)"
)
_IDS = "it names its observations by id alone: get it with GET /api/public/traces/ID, which holds them whole"


def _fits(opened: Opened) -> bool:
    return langfuse_rows.fits(opened.rows[:SNIFFED])


def _read(opened: Opened, beside: Iterable[Opened] = ()) -> Iterator[Trace]:
    traces: dict[str, JsonObject] = {}
    observations: dict[str, JsonObject] = {}
    as_is: set[str] = set()
    for file in (opened, *beside):
        named, seen = langfuse_rows.read(file.rows)
        traces |= named
        observations |= seen
        as_is |= seen.keys() if langfuse_rows.plain(seen.values()) else set()
    held: dict[str, list[JsonObject]] = {known: [] for known in traces}
    only = next(iter(traces)) if len(traces) == 1 else ""
    for one in observations.values():
        held.setdefault(string(one.get("traceId")) or only, []).append(one)
    for known, found in held.items():
        found.sort(key=lambda one: moment(one.get("startTime")) or 0)
        plain = any(string(one["id"]) in as_is for one in found)
        yield _trace(known, traces.get(known, {}), found, opened.file, as_is=plain)


def _trace(known: str, told: JsonObject, found: list[JsonObject], file: str, *, as_is: bool) -> Trace:
    if not found and arr(told.get("observations")):
        raise TraceIncomplete(_IDS, file=file, place=f"trace {known}")
    ids = {string(one.get("id")) for one in found}
    root = next((one for one in found if string(one.get("parentObservationId")) not in ids), {})
    failed = faults.fault(root.get("statusMessage")) if root.get("level") == "ERROR" else None
    ends = [langfuse_rows.value(root, side, as_is=as_is) for side in ("input", "output")]
    own = [langfuse_rows.twice(told, side, as_is=as_is) for side in ("input", "output")]
    taken = all(one is None or one == end for one, end in zip(own, ends, strict=True))
    names = dict.fromkeys(name for one in found for name in langfuse_observations.invented(one))
    trace = Trace(
        source=Source(format="langfuse", version=_version(root), file=file, id=known),
        id=known,
        name=string(told.get("name")) or string(root.get("name")),
        status="error" if root.get("level") == "ERROR" else "ok" if root.get("endTime") else "",
        started=moment(told.get("timestamp")),
        tags=tuple(tag for tag in arr(told.get("tags")) if isinstance(tag, str)),
        input=finals.given(ends[0] if own[0] is None else own[0]),
        output=finals.final(ends[1] if own[1] is None else own[1]),
        fault=failed,
        grades=langfuse_rows.scores(told),
        losses=(_LOST, *([_INVENTED.format(names=", ".join(names))] if names else [])),
        **about(
            _noted(told) | {name: told[name] for name in _DEPLOYED if told.get(name)},
            *map(_noted, found),
            user=string(told.get("userId")),
            session=string(told.get("sessionId")),
        ),
    )
    spans = [langfuse_observations.span(one, as_is=as_is) for one in found]
    return run(trace, spans, hint=_HINT, root=string(root.get("id")) if taken else "")


def _noted(told: JsonObject) -> JsonObject:
    """The metadata of a trace or an observation, without what OpenTelemetry noted of itself."""
    return rest(langfuse_rows.table(told, "metadata"), *_OTEL)


def _version(root: JsonObject) -> str:
    """The library that made the trace, and its version."""
    scope = obj(langfuse_rows.table(root, "metadata").get("scope"))
    return f"{string(scope.get('name'))} {string(scope.get('version'))}".strip()


LANGFUSE = Format("langfuse", "traces of Langfuse", 9, _fits, _read, together="langfuse")
