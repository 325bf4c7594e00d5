"""What stands beside the messages of a span: whose run it was, its tags and metadata, counts of tokens, errors.

Metadata is read without what the tracer noted of its own surroundings. Counts of tokens get the names of the
conventions, whatever a platform calls them. An error is a traceback, a repr, "Class: message", a struct, or the JSON
text of one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.providers.lenient import arr, counts, obj, objects, parse_text, string
from pytest_agentreplay.traces.trace import TraceFault

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Json, JsonObject

NAMES = {
    "user": ("user_id", "userId", "user", "user.id", "enduser.id", "langfuse_user_id", "end_user_id", "end_user"),
    "session": (
        *("gen_ai.conversation.id", "session_id", "sessionId", "session", "thread_id", "threadId", "conversation_id"),
        *("conversationId", "session.id", "langfuse_session_id", "conversation"),
    ),
    "tenant": ("tenant", "tenant_id", "tenantId", "tenant.id", "organization_id", "org_id", "customer_id"),
}
_KNOWN = frozenset(name for names in NAMES.values() for name in names)

_ENVIRONMENT = re.compile(r"^[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+$")
_SECRET = re.compile(
    r"api[-_]?key|secret|passw|authorization|cookie|credential|(?:public|private|access)[-_]?key|token$", re.IGNORECASE
)
_TRACERS = ("ls_", "lc_", "langgraph_", "checkpoint_", "__", "mlflow.", "weave")
_DEEPEST = 12


def about(root: JsonObject, *others: JsonObject, user: str = "", session: str = "") -> dict[str, Any]:
    """What metadata tells of a run: whose it was from any span, the root first; the rest from the root alone.

    `user` and `session` are those that a platform keeps in a field of its own; they win.
    """
    rest = {name: value for name, value in root.items() if name not in _KNOWN and not name.startswith(_TRACERS)}
    own = {name: value for name, value in (("user", user), ("session", session)) if value}
    return {**subject(root, *others), **own, "metadata": _clean(rest)}


def subject(*objects_of_run: JsonObject) -> dict[str, Any]:
    """The fields of a `Trace` that say whose it was, by the first of the objects that tells each."""
    return {field: find_named(objects_of_run, names) for field, names in NAMES.items()}


def _clean(value: Json, depth: int = 0) -> Json:
    """Metadata without environment variables, and without what is called as keys and passwords are."""
    if depth > _DEEPEST:
        return None
    if isinstance(value, dict):
        kept = {
            name: member for name, member in value.items() if not (_ENVIRONMENT.match(name) or _SECRET.search(name))
        }
        return {name: _clean(member, depth + 1) for name, member in kept.items()}
    return [_clean(item, depth + 1) for item in value] if isinstance(value, list) else value


def texts(value: Json) -> tuple[str, ...]:
    """The texts in a list."""
    return tuple(filter(None, map(string, arr(value))))


def find_named(tables: tuple[JsonObject, ...], names: tuple[str, ...]) -> str:
    """Return the first of these fields, in any of the objects, that is a text or a whole number; "" for none."""
    values = (table.get(name) for table in tables for name in names)
    return next(
        (str(value) for value in values if string(value) or (isinstance(value, int) and not isinstance(value, bool))),
        "",
    )


_COUNTS = {
    "input_tokens": (
        *("input_tokens", "prompt_tokens", "num_input_tokens", "promptTokens", "input", "promptTokenCount", "prompt"),
    ),
    "output_tokens": (
        *("output_tokens", "completion_tokens", "num_output_tokens", "completionTokens", "output"),
        *("candidatesTokenCount", "completion"),
    ),
    "cache_read.input_tokens": (
        *("prompt_cached_tokens", "cache_read_input_tokens", "input_cache_read", "input_cached_tokens"),
        *("prompt_details.cache_read", "cached_input_tokens", "cache_read.input_tokens"),
    ),
    "cache_creation.input_tokens": (
        *("cache_creation_input_tokens", "input_cache_creation", "cache_write_input_tokens"),
        *("prompt_details.cache_write", "cache_creation.input_tokens", "cache_write.input_tokens"),
    ),
    "reasoning.output_tokens": (
        *("completion_reasoning_tokens", "output_reasoning", "output_reasoning_tokens", "reasoning_output_tokens"),
        *("completion_details.reasoning", "reasoning.output_tokens", "reasoning_tokens"),
    ),
}
_INWARD = ("input_token_details", "input_tokens_details", "prompt_tokens_details")
_OUTWARD = ("output_token_details", "output_tokens_details", "completion_tokens_details")
_DETAILS = {
    "cache_read.input_tokens": (_INWARD, ("cache_read", "cached_tokens")),
    "cache_creation.input_tokens": (_INWARD, ("cache_creation",)),
    "reasoning.output_tokens": (_OUTWARD, ("reasoning", "reasoning_tokens")),
}
"""Counts that may stand in an object of their own: its names, and those of the count in it."""


def usage(*candidates: Json) -> dict[str, int]:
    """Return the counts of the first candidate that counts anything."""
    return next((tokens for candidate in candidates if (tokens := _count_tokens(obj(candidate)))), {})


def restore_usage(reply: JsonObject, usage: Json) -> JsonObject:
    """Return a reply with the usage that its API would have sent, made of LangChain's `usage_metadata`."""
    read = _count_tokens(obj(usage))
    if "usage" in reply or not {"input_tokens", "output_tokens"} <= read.keys():
        return reply
    input_tokens, made = read["input_tokens"], read["output_tokens"]
    cached, thought = read.get("cache_read.input_tokens", 0), read.get("reasoning.output_tokens", 0)
    is_chat = "choices" in reply
    if is_chat or reply.get("object") == "response":
        inward, outward = ("prompt_tokens", "completion_tokens") if is_chat else ("input_tokens", "output_tokens")
        counted: JsonObject = {inward: input_tokens, outward: made, "total_tokens": input_tokens + made}
        # The Responses API tells details of nothing, too.
        counted |= {f"{inward}_details": {"cached_tokens": cached}} if cached or not is_chat else {}
        counted |= {f"{outward}_details": {"reasoning_tokens": thought}} if thought or not is_chat else {}
    else:
        written = read.get("cache_creation.input_tokens", 0)
        counted = {"input_tokens": input_tokens - cached - written, "output_tokens": made}
        counted |= {"cache_read_input_tokens": cached} if cached else {}
        counted |= {"cache_creation_input_tokens": written} if written else {}
    return {**reply, "usage": counted}


def _count_tokens(fields: JsonObject) -> dict[str, int]:
    tokens = {name: _first_count(fields, names) for name, names in _COUNTS.items()}
    for name, (places, inner_names) in _DETAILS.items():
        if tokens[name] is None:
            inner = next((obj(fields[place]) for place in places if isinstance(fields.get(place), dict)), {})
            tokens[name] = _first_count(inner, inner_names)
    return counts((name, value) for name, value in tokens.items() if value is not None)


def _first_count(fields: JsonObject, names: tuple[str, ...]) -> Json:
    return next(
        (int(value) for name in names if _is_whole(value := fields.get(name)) and isinstance(value, int | float)), None
    )


def _is_whole(value: Json) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())


_TRACEBACK = "Traceback (most recent call last)"
_NAME = r"(?:[A-Za-z_][\w]*\.)*[A-Za-z_]\w*"
_SAID = re.compile(rf"^({_NAME})(?:: (.*))?$", re.DOTALL)
_REPR = re.compile(rf"^({_NAME})\((.*)\)$", re.DOTALL)
_RAISED = re.compile(rf"^({_NAME})(?:: (.*))?$", re.MULTILINE)
_CLASS = re.compile(r"(?:Error|Exception|Exceeded|Warning|Interrupt|Tripwire\w*|Timeout|Exit)$|^[A-Z](?=\w*$)\w*?[a-z]")
_STATUS = re.compile(r"\b(?:Error code|status[ _]code)\D{0,3}(\d{3})\b")


def fault(value: Json) -> TraceFault | None:
    """The error that a field tells; None where it tells none."""
    parsed_value = parse_text(value)
    if isinstance(parsed_value, dict):
        return _of_struct(parsed_value) if parsed_value else None
    parsed_value = parsed_value if isinstance(parsed_value, str) else value
    if not isinstance(parsed_value, str) or not parsed_value.strip():
        return None
    return _of_text(parsed_value.strip())


def call_fields(failure: TraceFault | None) -> dict[str, Any]:
    """Return the fields of a model call that failed: the error, and the HTTP status that its message names, else 0."""
    match = _STATUS.search(failure.message[:1000]) if failure is not None else None
    return {"fault": failure, "status": int(match[1]) if match else 0}


def _of_struct(fields: JsonObject) -> TraceFault:
    """A struct under any of the names that platforms give to type, message and traceback."""
    inner = next((obj(fields[name]) for name in ("error", "exception") if isinstance(fields.get(name), dict)), fields)
    kind = next(filter(None, (string(inner.get(name)) for name in ("type", "exception_type", "name", "class"))), "")
    message = next(filter(None, (string(inner.get(name)) for name in ("message", "error", "detail", "msg"))), "")
    frames = next((inner[name] for name in ("traceback", "stacktrace", "stack_trace", "stack") if inner.get(name)), "")
    text = frames if isinstance(frames, str) else "\n".join(map(_frame, objects(arr(frames))))
    line = TraceFault("", message) if kind else _of_line(message)
    return TraceFault(kind.rpartition(".")[2] or line.type, line.message, text)


def _frame(fields: JsonObject) -> str:
    line = fields.get("line_number", fields.get("lineno", "?"))
    where = f'  File "{string(fields.get("filename"))}", line {line}, in {string(fields.get("function_name")) or "?"}'
    return f"{where}\n    {string(fields.get('text'))}" if fields.get("text") else where


def _of_text(text: str) -> TraceFault:
    head, mark, tail = text.partition(_TRACEBACK)
    if mark:
        raised = _RAISED.findall(tail)
        kind, message = raised[-1] if raised else ("", "")
        line = _of_line(head.strip())
        return TraceFault(line.type or kind.rpartition(".")[2], line.message or message.strip(), mark + tail)
    return _of_line(text)


def _of_line(text: str) -> TraceFault:
    """`RefundError('no')`, `shop.RefundError: no`, or a message alone."""
    for form in (_REPR, _SAID):
        if (match := form.match(text)) and _CLASS.search(kind := match[1].rpartition(".")[2]):
            return TraceFault(kind, _unquote(match[2] or ""))
    return TraceFault("", text)


def _unquote(message: str) -> str:
    """Return the message in a repr's parentheses: the text between the quotes, where it is one text."""
    quote = message[:1]
    if quote in {"'", '"'} and len(message) > 1 and message.endswith(quote) and f"{quote}, " not in message:
        return message[1:-1].replace("\\n", "\n").replace(f"\\{quote}", quote)
    return message
