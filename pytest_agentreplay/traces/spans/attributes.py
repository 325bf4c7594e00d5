"""Attributes of spans: by dotted names, of providers, and whose run it was.

An exporter may keep names flat, spread a value over many names, or nest them. Providers have many names: one of them
gives the API that is spoken, and its names of parameters. User, session, tenant and tags stand under all the names that
instrumentations and programs give them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_agentreplay.providers.lenient import arr, obj, parse_text, string
from pytest_agentreplay.traces.platforms.span_facts import NAMES, find_named, usage
from pytest_agentreplay.traces.wire import without_absent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.traces.spans.span import Span


def flat(attributes: JsonObject) -> JsonObject:
    """The attributes, and whatever objects among them hold under its dotted name, wherever the names are split."""
    flattened, waiting = dict(attributes), [*attributes.items()]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict):
            inner = {f"{name}.{rest}": member for rest, member in value.items()}
            waiting += inner.items()
            for path, member in inner.items():
                flattened.setdefault(path, member)
    return flattened


def find_value(attributes: JsonObject, *names: str) -> Json:
    """Return the value of the first name that has one; None for none."""
    return next((value for name in names if (value := attributes.get(name)) is not None), None)


def text(attributes: JsonObject, *names: str) -> str:
    """The first text under `names`; "" for none."""
    return next((value for name in names if (value := string(attributes.get(name)))), "")


def tree(attributes: JsonObject, *names: str) -> Json:
    """The value of the first name that has one, JSON in a text parsed; one that is spread over names put together."""
    for name in names:
        value = attributes.get(name)
        if value is not None and not (isinstance(value, dict) and all(place[:1].isdigit() for place in value)):
            return parse_text(value)
        start = f"{name}."
        if spread := {key[len(start) :]: part for key, part in attributes.items() if key.startswith(start)}:
            return grown(spread)
    return None


def select_prefixed(attributes: JsonObject, prefix: str) -> JsonObject:
    """Return the attributes under `prefix`, without it; of an object among them only the object itself."""
    selected = {name[len(prefix) :]: value for name, value in attributes.items() if name.startswith(prefix)}
    prefixes = tuple(f"{name}." for name, value in selected.items() if isinstance(value, dict))
    return {name: value for name, value in selected.items() if not name.startswith(prefixes)} if prefixes else selected


def grown(value: Json) -> Json:
    """A value without dots in its names, where each is a path; numbers are places in a list."""
    return _grown({".".join(path): leaf for path, leaf in _leaves(value, ())}) if isinstance(value, dict) else value


def _leaves(value: Json, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Json]]:
    """What stands in objects and lists, with its path."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not members or not value:
        yield path, value
    for name, member in members:
        yield from _leaves(member, (*path, str(name)))


def _grown(spread: JsonObject) -> Json:
    """The value of which each leaf stands under its dotted path; numbers are places in a list."""
    leaves = {name: value for name, value in spread.items() if "." not in name}
    branches: dict[str, JsonObject] = {}
    for name, value in spread.items():
        head, dot, rest = name.partition(".")
        if dot and head not in leaves:
            branches.setdefault(head, {})[rest] = value
    grown: JsonObject = {**leaves, **{head: _grown(branch) for head, branch in branches.items()}}
    if all(head.isascii() and head.isdigit() and len(head) < 10 for head in grown):
        return [grown[head] for head in sorted(grown, key=int)]
    return grown


_LIKE_OPENAI = (
    *("openai", "azure", "azure.ai.openai", "az.ai.openai", "azure.ai.inference", "az.ai.inference", "openrouter"),
    *("mistral_ai", "mistralai", "groq", "deepseek", "perplexity", "x_ai", "xai", "azure_openai", "together"),
    "fireworks",
)
_GOOGLE = (
    *("gcp.gemini", "gcp.vertex.agent", "gcp.vertex_ai", "gcp.gen_ai", "gemini", "google", "vertex_ai", "vertexai"),
    *("google_genai", "google_vertexai"),
)
_DIALECTS = {
    **dict.fromkeys(_LIKE_OPENAI, "openai_chat"),
    "anthropic": "anthropic",
    **dict.fromkeys(("aws.bedrock", "aws_bedrock", "bedrock", "aws", "amazon_bedrock"), "bedrock"),
    **dict.fromkeys(_GOOGLE, "gemini"),
    "ollama": "ollama_chat",
    "cohere": "cohere",
}
_NEW_NAMES = {
    "az.ai.openai": "azure.ai.openai",
    "az.ai.inference": "azure.ai.inference",
    "aws_bedrock": "aws.bedrock",
    "aws": "aws.bedrock",
    **dict.fromkeys(("amazon-bedrock", "bedrock"), "aws.bedrock"),
    **dict.fromkeys(("azure", "azure-openai"), "azure.ai.openai"),
    "azureai": "azure.ai.inference",
    "vertex": "gcp.vertex_ai",
    "mistral": "mistral_ai",
    "xai": "x_ai",
    "mistralai": "mistral_ai",
    "vertexai": "gcp.vertex_ai",
}
_OPENAI_NAMES = {"stop_sequences": "stop", "choice.count": "n"}


def normalize_provider(provider: str) -> str:
    """Return a provider by its name in the conventions, however it was spelled."""
    name = provider.lower()
    return _NEW_NAMES.get(name, name if name in _DIALECTS else provider)


def dialect(provider: str, api: str = "") -> str:
    """The API that a provider is spoken to in; "" unknown. `api` is the word of an instrumentation for it."""
    dialect_name = _DIALECTS.get(provider.lower(), "")
    return "openai_responses" if dialect_name == "openai_chat" and api.startswith("response") else dialect_name


def parameters(spoken: str, fields: JsonObject) -> JsonObject:
    """Parameters of a request under the names of the API."""
    names = _OPENAI_NAMES if spoken in {"", "openai_chat"} else {}
    return {names.get(name, name): value for name, value in without_absent(fields).items() if value is not None}


def finish_reason(spoken: str, word: str) -> str:
    """A finish reason in the provider's word: the conventions say "tool_call" for all of them."""
    words_of_apis = {"openai_chat": "tool_calls", "anthropic": "tool_use", "bedrock": "tool_use"}
    return words_of_apis.get(spoken, word) if word == "tool_call" else word


def usage_under(attributes: JsonObject, prefix: str) -> dict[str, int]:
    """The counts of tokens whose names begin with `prefix`."""
    return usage(
        {name.removeprefix(prefix): number(value) for name, value in attributes.items() if name.startswith(prefix)}
    )


def number(value: Json) -> Json:
    """A text that is a number as that number: some exporters make a text of everything."""
    written = parse_text(value) if isinstance(value, str) and len(value) < 20 else value
    return written if isinstance(written, int | float) else value


_MARKS = "traceloop.association.properties."
_PREFIXES = ("", "langfuse.", "gen_ai.", _MARKS, "metadata.", "langfuse.trace.metadata.")
_SUBJECT = {field: tuple(f"{prefix}{name}" for prefix in _PREFIXES for name in NAMES[field]) for field in NAMES}
_TAGS = ("tag.tags", "langfuse.trace.tags", "langfuse.tags", f"{_MARKS}tags", "tags")
_METADATA = ("langfuse.trace.metadata.", _MARKS, "metadata.")
_RESOURCE = ("service.name", "service.version", "deployment.environment.name", "deployment.environment")


def read_subject(spans: Sequence[Span]) -> dict[str, Any]:
    """Return the fields of a `Trace` that say whose it was; the first span that has one wins: the root is first."""
    tables = [
        # OpenInference keeps JSON under `metadata`.
        span.attributes | {f"metadata.{name}": value for name, value in obj(tree(span.attributes, "metadata")).items()}
        for span in spans
    ]
    resource = next((span.resource for span in spans if span.resource), {})
    tags = next((value_of_tags for table in tables if (value_of_tags := tree(table, *_TAGS)) is not None), None)
    metadata = {
        name: value
        for table in reversed(tables)
        for prefix in _METADATA
        for name, value in select_prefixed(table, prefix).items()
    }
    return {
        **{field: _word((*tables, resource), names) for field, names in _SUBJECT.items()},
        "tags": words(tags),
        "metadata": {name: tree({"": value}, "") for name, value in metadata.items()}
        | {name: resource[name] for name in _RESOURCE if name in resource},
    }


def _word(tables: tuple[JsonObject, ...], names: tuple[str, ...]) -> str:
    word = find_named(tables, names)
    return str(tree({"": word}, "")) if word.startswith('"') else word


def words(value: Json) -> tuple[str, ...]:
    """The texts in a list, or a text alone."""
    return tuple(filter(None, map(string, arr(value) or [value])))
