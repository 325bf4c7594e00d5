"""PromptLayer's requests as its REST API gives and takes them: messages in the form of no provider ("blueprints").

`GET /api/public/v2/requests/ID` has one blueprint for all that was said, the reply last; a body of `/log-request` has
the reply apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.dialects.lenient import arr, obj, objects, string
from pytest_agentreplay.errors import TraceIncomplete
from pytest_agentreplay.interchange.formats import Format
from pytest_agentreplay.interchange.logs import runs, tables
from pytest_agentreplay.interchange.logs.pairs import fault, known
from pytest_agentreplay.interchange.logs.runs import LogRow
from pytest_agentreplay.interchange.moments import moment
from pytest_agentreplay.interchange.platforms import bodies
from pytest_agentreplay.interchange.platforms.about import about
from pytest_agentreplay.interchange.platforms.usage import usage
from pytest_agentreplay.interchange.trace import Source

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Json, JsonObject
    from pytest_agentreplay.interchange.formats import Opened
    from pytest_agentreplay.interchange.trace import Trace

_KINDS = frozenset({"chat", "completion"})
_LOSSES = (
    "no tool has a record of its own",
    "messages are in PromptLayer's own form: neither the provider's body nor its response id and finish reason",
)


def _is_request(row: JsonObject) -> bool:
    return isinstance(row.get("prompt_blueprint"), dict) or (
        "provider" in row and string(obj(row.get("input")).get("type")) in _KINDS
    )


def _fits(opened: Opened) -> bool:
    return any(map(_is_request, tables.rows(opened)[:50]))


def _read(opened: Opened) -> list[Trace]:
    rows = tables.rows(opened)
    found = [_row(row) for row in rows if _is_request(row)]
    told = [row for row in found if row.step.messages]  # type: ignore[union-attr]
    if not told:
        raise TraceIncomplete("its blueprints hold no messages: log `input` and `output` whole", file=opened.file)
    losses = [*_LOSSES]
    if left := len(rows) - len(told) + opened.junk:
        losses.append(f"{left} rows hold no messages and are left out")
    return runs.traces(told, Source(format="promptlayer-requests", file=opened.file), *losses)


def _row(row: JsonObject) -> LogRow:
    blueprint = obj(row.get("prompt_blueprint"))
    template = obj(blueprint.get("prompt_template")) or obj(row.get("input"))
    model = obj(obj(blueprint.get("metadata")).get("model"))
    asked, told = _split(_messages(template, "user"), _messages(obj(row.get("output")), "assistant"))
    parameters = obj(model.get("parameters")) or obj(row.get("parameters"))
    error = row.get("error_message")
    step = bodies.model_call(
        {"messages": asked, "tools": arr(template.get("tools")), **parameters},
        told,
        provider=string(row.get("provider")) or string(model.get("provider")),
        model=string(row.get("model")) or string(model.get("name")),
        usage=usage(row),
        fault=fault({"type": row.get("error_type"), "message": error}) if error else None,
        started=moment(row.get("request_start_time")),
        ended=moment(row.get("request_end_time")),
        id=known(row, "request_id"),
    )
    return LogRow(
        step=step,
        run=string(row.get("trace_id")),
        name=string(row.get("prompt_name")),
        tags=tables.texts(row.get("tags")),
        **about(obj(row.get("metadata"))),
    )


def _messages(template: JsonObject, role: str) -> list[Json]:
    """The messages of a chat; the text of a completion as one."""
    if template.get("type") == "completion":
        return [{"role": role, "content": template.get("content")}]
    return [*objects(template.get("messages"))]


def _split(asked: list[Json], told: list[Json]) -> tuple[list[Json], Json]:
    """What was asked and what came back: where that has no place of its own, it is what the assistant said last."""
    if not told and asked and obj(asked[-1]).get("role") == "assistant":
        asked, told = asked[:-1], asked[-1:]
    return asked, told or None


FORMATS = (Format("promptlayer-requests", "requests of PromptLayer's REST API", 15.1, _fits, _read),)
