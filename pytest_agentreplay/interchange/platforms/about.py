"""Whose run it was, and what else was noted of it, without what the tracer noted of its own surroundings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.dialects.lenient import arr, string

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Json, JsonObject

NAMES = {
    "user": ("user_id", "userId", "user", "user.id", "enduser.id", "langfuse_user_id", "end_user_id", "end_user"),
    "session": (
        *("session_id", "sessionId", "session", "thread_id", "threadId", "conversation_id", "conversationId"),
        *("session.id", "langfuse_session_id", "gen_ai.conversation.id", "conversation"),
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


def subject(*told: JsonObject) -> dict[str, Any]:
    """The fields of a `Trace` that say whose it was, by the first of the objects that tells each."""
    return {field: first_named(told, names) for field, names in NAMES.items()}


def _clean(value: Json, depth: int = 0) -> Json:
    """Metadata without environment variables, and without what is called as keys and passwords are."""
    if depth > _DEEPEST:
        return None
    if isinstance(value, dict):
        kept = {name: one for name, one in value.items() if not (_ENVIRONMENT.match(name) or _SECRET.search(name))}
        return {name: _clean(one, depth + 1) for name, one in kept.items()}
    return [_clean(one, depth + 1) for one in value] if isinstance(value, list) else value


def texts(value: Json) -> tuple[str, ...]:
    """The texts in a list."""
    return tuple(filter(None, map(string, arr(value))))


def first_named(told: tuple[JsonObject, ...], names: tuple[str, ...]) -> str:
    """Return the first of these fields, in any of the objects, that is a text or a whole number; "" for none."""
    found = (one.get(name) for one in told for name in names)
    return next((str(one) for one in found if string(one) or (isinstance(one, int) and not isinstance(one, bool))), "")
