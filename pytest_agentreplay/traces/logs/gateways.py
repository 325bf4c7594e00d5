"""What gateways and prompt platforms export of the calls that went through them: Helicone, PromptLayer.

Of PromptLayer there is what its SDK sends, the arguments of a call and its whole reply, whose own key ends here; and
what its REST API gives and takes: messages in the form of no provider ("blueprints"). `GET /api/public/v2/requests/ID`
has one blueprint for all that was said, the reply last; a body of `/log-request` has the reply apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.providers import genai
from pytest_agentreplay.providers.lenient import arr, obj, objects, rest, string
from pytest_agentreplay.traces.logs.pairs import Pair, call, fault, known
from pytest_agentreplay.traces.logs.runs import LogRow, rows_of_calls
from pytest_agentreplay.traces.moments import after, moment
from pytest_agentreplay.traces.platforms import bodies
from pytest_agentreplay.traces.platforms.span_facts import about, subject, texts, usage

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Json, JsonObject

_SESSION, _PATH, _NAME = "Helicone-Session-Id", "Helicone-Session-Path", "Helicone-Session-Name"
_HOSTS = {"OPENAI": "api.openai.com", "ANTHROPIC": "api.anthropic.com", "GROQ": "api.groq.com"}
_KINDS = frozenset({"chat", "completion"})


def _helicone(row: JsonObject) -> LogRow | None:
    """One row a request, with bodies only where they were asked for."""
    request, reply = genai.parsed(row.get("request_body")), genai.parsed(row.get("response_body"))
    if not isinstance(request, dict):
        return None
    properties = obj(row.get("request_properties"))
    session = string(properties.get(_SESSION))
    started, ended = moment(row.get("request_created_at")), moment(row.get("response_created_at"))
    later = started is not None and ended is not None and ended > started
    status = row.get("response_status")
    path = string(row.get("request_path"))
    host = _HOSTS.get(string(row.get("provider")).upper(), "")
    return LogRow(
        step=call(
            Pair(request, reply or None, status=status if isinstance(status, int) and status > 0 else 0),
            path if "://" in path else f"https://{host}{path}" if host and path.startswith("/") else "",
            started=started,
            ended=ended if later else after(started, row.get("delay_ms")),
            id=string(row.get("request_id")),
        ),
        run=f"{session} {string(properties.get(_PATH))}".strip() if session else "",
        name=string(properties.get(_NAME)),
        user=string(row.get("request_user_id")),
        session=session,
        tenant=string(properties.get("tenant")),
        metadata=rest(properties, _SESSION, _PATH, _NAME, "tenant"),
    )


def _sent_by_sdk(row: JsonObject) -> LogRow | None:
    request = genai.parsed(row.get("kwargs"))
    if not isinstance(request, dict):
        return None
    metadata = obj(row.get("metadata"))
    return LogRow(
        step=call(
            Pair(request, genai.parsed(row.get("request_response"))),
            started=moment(row.get("request_start_time")),
            ended=moment(row.get("request_end_time")),
            id=string(row.get("span_id")),
        ),
        tags=texts(row.get("tags")),
        metadata=metadata,
        **subject(metadata),
    )


def _is_blueprint(row: JsonObject) -> bool:
    typed = "provider" in row and string(obj(row.get("input")).get("type")) in _KINDS
    return typed or isinstance(row.get("prompt_blueprint"), dict)


def _blueprint(row: JsonObject) -> LogRow | None:
    if not _is_blueprint(row):
        return None
    blueprint = obj(row.get("prompt_blueprint"))
    template = obj(blueprint.get("prompt_template")) or obj(row.get("input"))
    model = obj(obj(blueprint.get("metadata")).get("model"))
    messages, reply = _messages(template, "user"), _messages(obj(row.get("output")), "assistant")
    if not reply and messages and obj(messages[-1]).get("role") == "assistant":
        messages, reply = messages[:-1], messages[-1:]
    parameters = obj(model.get("parameters")) or obj(row.get("parameters"))
    error = row.get("error_message")
    step = bodies.model_call(
        {"messages": messages, "tools": arr(template.get("tools")), **parameters},
        reply or None,
        provider=string(row.get("provider")) or string(model.get("provider")),
        model=string(row.get("model")) or string(model.get("name")),
        usage=usage(row),
        fault=fault({"type": row.get("error_type"), "message": error}) if error else None,
        started=moment(row.get("request_start_time")),
        ended=moment(row.get("request_end_time")),
        id=known(row, "request_id"),
    )
    if not step.messages:
        return None
    return LogRow(
        step=step,
        run=string(row.get("trace_id")),
        name=string(row.get("prompt_name")),
        tags=texts(row.get("tags")),
        **about(obj(row.get("metadata"))),
    )


def _messages(template: JsonObject, role: str) -> list[Json]:
    """The messages of a chat; the text of a completion as one."""
    if template.get("type") == "completion":
        return [{"role": role, "content": template.get("content")}]
    return [*objects(template.get("messages"))]


FORMATS = (
    rows_of_calls(
        "helicone",
        "export of Helicone",
        14,
        lambda row: {"request_path", "request_id", "request_created_at"} <= row.keys(),
        _helicone,
        "no tool has a record of its own",
        "a stream is kept as the whole that it amounts to",
        refusal="holds no bodies: export again with --include-body (a signed_body_url is not followed)",
        left_out="rows have no body and are left out",
    ),
    rows_of_calls(
        "promptlayer",
        "requests as PromptLayer's SDK sends them",
        15,
        lambda row: {"function_name", "provider_type", "kwargs", "request_response"} <= row.keys(),
        _sent_by_sdk,
        "no tool has a record of its own",
        "neither headers nor the bytes of the wire",
        refusal="holds no arguments of calls: log them with kwargs",
        left_out="rows are no calls of a model and left out",
    ),
    rows_of_calls(
        "promptlayer-requests",
        "requests of PromptLayer's REST API",
        15.1,
        _is_blueprint,
        _blueprint,
        "no tool has a record of its own",
        "messages are in PromptLayer's own form: neither the provider's body nor its response id and finish reason",
        refusal="its blueprints hold no messages: log `input` and `output` whole",
        left_out="rows hold no messages and are left out",
    ),
)
