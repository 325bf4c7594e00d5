"""Whose run it was: user, session, tenant and tags under all the names that instrumentations and programs give them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_agentreplay.dialects.lenient import obj
from pytest_agentreplay.interchange.spans import content
from pytest_agentreplay.interchange.spans.dotted_keys import at, tree, under

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_agentreplay.core.model import Json, JsonObject
    from pytest_agentreplay.interchange.spans.span import Span

_MARKS = "traceloop.association.properties."
_USER = ("user.id", "enduser.id", "langfuse.user.id", "gen_ai.user.id", f"{_MARKS}user_id", "metadata.user_id")
_SESSION = (
    *("gen_ai.conversation.id", "session.id", "langfuse.session.id", f"{_MARKS}session_id", f"{_MARKS}thread_id"),
    *(f"{_MARKS}conversation_id", "metadata.session_id", "metadata.thread_id"),
)
_TENANT = (
    *("tenant.id", "tenant", "tenant_id", f"{_MARKS}tenant", f"{_MARKS}tenant_id", "langfuse.trace.metadata.tenant"),
    *("metadata.tenant", "metadata.tenant_id", "langfuse.trace.metadata.tenant_id"),
)
_TAGS = ("tag.tags", "langfuse.trace.tags", "langfuse.tags", f"{_MARKS}tags", "tags")
_METADATA = ("langfuse.trace.metadata.", _MARKS, "metadata.")
_RESOURCE = ("service.name", "service.version", "deployment.environment.name", "deployment.environment")


def whose(spans: Sequence[Span]) -> dict[str, Any]:
    """The fields of a `Trace` that say whose it was; the first span that tells one wins, so the root stands first."""
    held = [span.attributes | _metadata(span.attributes) for span in spans]
    resource = next((span.resource for span in spans if span.resource), {})
    tags = next((found for one in held if (found := tree(one, *_TAGS)) is not None), None)
    metadata = {
        name: value for one in reversed(held) for prefix in _METADATA for name, value in under(one, prefix).items()
    }
    return {
        "user": _word(held, _USER),
        "session": _word(held, _SESSION),
        "tenant": _word([*held, resource], _TENANT),
        "tags": content.words(tags),
        "metadata": {name: tree({"": value}, "") for name, value in metadata.items()}
        | {name: resource[name] for name in _RESOURCE if name in resource},
    }


def _metadata(held: JsonObject) -> JsonObject:
    """What OpenInference keeps as JSON under `metadata`, by dotted names."""
    return {f"metadata.{name}": value for name, value in obj(tree(held, "metadata")).items()}


def _word(held: Sequence[JsonObject], names: Sequence[str]) -> str:
    for one in held:
        found: Json = at(one, *names)
        told = tree({"": found}, "") if isinstance(found, str) and found[:1] == '"' else found
        if told not in (None, ""):
            return str(told)
    return ""
