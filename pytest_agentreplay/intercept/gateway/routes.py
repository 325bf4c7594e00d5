"""Where the model calls of a child go: the variables that SDKs read their base URL from, and what stands behind them.

Data first: one row a variable, one a provider. A variable without a standing upstream (an Azure resource, a proxy of
one's own) is set only where it was set before, or where the recording has such calls.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pytest_agentreplay.compare.matching.address import is_loopback, split
from pytest_agentreplay.model.exchanges import HttpCall

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_agentreplay.model.exchanges import Call

DUMMY = "agentreplay-no-key-is-needed"
"""A key for SDKs that refuse to start without one."""


@dataclass(frozen=True, slots=True)
class Provider:
    """Who is called: the start of its paths behind the base URL, and the variables that its SDKs want to be set.

    `paths` finds where the base URL of a recorded call ends. `keys` have their dummy values.
    """

    name: str
    paths: str
    keys: tuple[tuple[str, str], ...] = ()


PROVIDERS: tuple[Provider, ...] = (
    Provider(
        "openai",
        r"/(?:chat/completions|responses|completions|embeddings|models(?!/[^/]+:\w+Content)|images|audio|moderations|files|batches"
        r"|conversations|vector_stores|assistants|threads)\b",
        (("OPENAI_API_KEY", DUMMY),),
    ),
    Provider("azure", r"/openai/(?:deployments|v1|responses)\b", (("AZURE_OPENAI_API_KEY", DUMMY),)),
    Provider("anthropic", r"/v1/(?:messages|complete|models|files)\b", (("ANTHROPIC_API_KEY", DUMMY),)),
    Provider("foundry", r"/v1/messages\b", (("ANTHROPIC_FOUNDRY_API_KEY", DUMMY),)),
    Provider("gemini", r"/(?:upload/)?v1(?:beta|alpha)?/(?:models|tunedModels|files)\b", (("GEMINI_API_KEY", DUMMY),)),
    Provider("vertex", r"/v1(?:beta1|alpha)?/(?:projects|publishers)/"),
    Provider("vertex-anthropic", r"/projects/[^/]+/locations/[^/]+/publishers/anthropic/"),
    Provider(
        "bedrock",
        r"/model/[^/]+/(?:converse|invoke)",
        (("AWS_ACCESS_KEY_ID", "AKIAAGENTREPLAYDUMMY"), ("AWS_SECRET_ACCESS_KEY", DUMMY)),
    ),
    Provider("groq", r"/openai/v1/", (("GROQ_API_KEY", DUMMY),)),
    Provider("cohere", r"/v[12]/(?:chat(?!/completions)|embed|rerank|generate|classify)\b", (("CO_API_KEY", DUMMY),)),
    Provider("mistral", r"/v1/(?:chat/completions|fim|agents|embeddings|ocr)\b", (("MISTRAL_API_KEY", DUMMY),)),
    Provider("ollama", r"/api/(?:chat|generate|embed|embeddings|tags|show|ps|version)\b"),
    Provider("huggingface", r"/(?:v1/chat/completions|hf-inference/|models/)", (("HF_TOKEN", DUMMY),)),
    Provider("huggingface-hub", r"/api/models/"),
    Provider("sts", r"/?\?Action="),
)
"""Every provider that has a variable."""
_NAMES = frozenset(provider.name for provider in PROVIDERS)

VARIABLES: tuple[tuple[str, str, str], ...] = (
    ("OPENAI_BASE_URL", "openai", "https://api.openai.com/v1"),
    ("OPENAI_API_BASE", "openai", "https://api.openai.com/v1"),
    ("OPENAI_WEBSOCKET_BASE_URL", "openai", "wss://api.openai.com/v1"),
    ("AZURE_OPENAI_ENDPOINT", "azure", ""),
    ("AZURE_OPENAI_BASE_URL", "azure", ""),
    ("AZURE_API_BASE", "azure", ""),
    ("ANTHROPIC_BASE_URL", "anthropic", "https://api.anthropic.com"),
    ("ANTHROPIC_API_URL", "anthropic", "https://api.anthropic.com"),
    ("ANTHROPIC_API_BASE", "anthropic", "https://api.anthropic.com"),
    ("ANTHROPIC_BEDROCK_BASE_URL", "bedrock", "https://bedrock-runtime.{region}.amazonaws.com"),
    ("ANTHROPIC_VERTEX_BASE_URL", "vertex-anthropic", "https://{location}aiplatform.googleapis.com/v1"),
    ("ANTHROPIC_FOUNDRY_BASE_URL", "foundry", ""),
    ("ANTHROPIC_AWS_BASE_URL", "anthropic", ""),
    ("ANTHROPIC_BEDROCK_MANTLE_BASE_URL", "bedrock", ""),
    ("ANTHROPIC_GOOGLE_CLOUD_BASE_URL", "vertex-anthropic", ""),
    ("GOOGLE_GEMINI_BASE_URL", "gemini", "https://generativelanguage.googleapis.com"),
    ("GOOGLE_VERTEX_BASE_URL", "vertex", "https://{location}aiplatform.googleapis.com"),
    ("GEMINI_API_BASE", "gemini", ""),
    ("GROQ_BASE_URL", "groq", "https://api.groq.com"),
    ("GROQ_API_BASE", "groq", "https://api.groq.com/openai/v1"),
    ("CO_API_URL", "cohere", "https://api.cohere.com"),
    ("CO_BASE_URL", "cohere", "https://api.cohere.com"),
    ("COHERE_API_BASE", "cohere", ""),
    ("MISTRAL_API_BASE", "mistral", "https://api.mistral.ai/v1"),
    ("OLLAMA_HOST", "ollama", "http://127.0.0.1:11434"),
    ("OLLAMA_BASE_URL", "ollama", "http://127.0.0.1:11434/v1"),
    ("OLLAMA_API_BASE", "ollama", "http://127.0.0.1:11434"),
    ("HF_ENDPOINT", "huggingface-hub", "https://huggingface.co"),
    ("HF_INFERENCE_ENDPOINT", "huggingface", "https://router.huggingface.co"),
    ("HF_API_BASE", "huggingface", ""),
    ("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "bedrock", "https://bedrock-runtime.{region}.amazonaws.com"),
    ("AWS_BEDROCK_BASE_URL", "bedrock", ""),
    ("AWS_BEDROCK_RUNTIME_ENDPOINT", "bedrock", "https://bedrock-runtime.{region}.amazonaws.com"),
    ("BEDROCK_API_BASE", "bedrock", ""),
    ("AWS_STS_ENDPOINT", "sts", ""),
)
"""Variable, provider, and the base URL that its SDK has without it ("" where there is no standing one)."""

UNREACHABLE: dict[str, str] = {
    "mistralai": 'Mistral(server_url=...) takes agentreplay.gateway.through("https://api.mistral.ai")',
    "WebSockets": "realtime APIs are met in process only",
    "gRPC": "google-cloud and other gRPC clients have no HTTP to divert; make the child use REST",
}
"""What no variable diverts, and what to do about it."""

_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_SCOPE = re.compile(r"Credential=[^/]+/\d{8}/([a-z0-9-]+)/")
_LOCATION = re.compile(r"/locations/([a-z0-9-]+)/")


@dataclass(slots=True)
class Routes:
    """The routes of one child: names that stand in the gateway's paths, and the base URL behind each."""

    bases: dict[str, str] = field(default_factory=dict, repr=False)
    variables: dict[str, str] = field(default_factory=dict, repr=False)

    def add(self, name: str, base: str) -> str:
        """The path at which the gateway stands for `base`: a route of its own for each host, the base's path kept."""
        parts = urlsplit(base)
        origin = f"{parts.scheme}://{parts.netloc}"
        number, route = 1, name
        while self.bases.setdefault(route, origin) != origin:
            number += 1
            route = f"{name}-{number}"
        return f"/p/{route}{parts.path.rstrip('/')}"

    def upstream(self, route: str, rest: str, headers: Iterable[tuple[str, str]], environ: Mapping[str, str]) -> str:
        """The URL that `rest`, a path below `route`, stands for. Raises KeyError for a route that there is not."""
        base = self.bases[route]
        if "{region}" in base:
            signed = next((value for name, value in headers if name.lower() == "authorization"), "")
            match = _SCOPE.search(signed)
            set_here = (environ[name] for name in _REGIONS if name in environ)
            base = base.replace("{region}", match[1] if match else next(set_here, "us-east-1"))
        elif "{location}" in base:
            match = _LOCATION.search(rest)
            base = base.replace("{location}", f"{match[1]}-" if match and match[1] != "global" else "")
        return base + rest


def routes_for(environ: Mapping[str, str], recorded: Iterable[Call] = ()) -> Routes:
    """The routes of a child that would have run in `environ`, whose calls may be the `recorded` ones."""
    routes = Routes()
    seen = bases_in(recorded)
    for variable, provider, usual in VARIABLES:
        base = environ.get(variable) or seen.get(provider) or usual
        if base and (variable in environ or usual or provider in seen):
            routes.variables[variable] = routes.add(provider, complete_base(base, usual))
    return routes


def complete_base(base: str, usual: str) -> str:
    """Return a base URL with its scheme: OLLAMA_HOST may be a host and a port alone."""
    if "://" in base:
        return base
    return f"{urlsplit(usual).scheme or 'https'}://{base}"


def bases_in(recorded: Iterable[Call]) -> dict[str, str]:
    """Provider -> the base URL that recorded calls to it have, where that is none of the usual ones.

    A host that nobody knows may stand for any provider whose paths it has; one that was called itself needs no other.
    """
    hosts = ((split(base).host, provider) for _, provider, base in VARIABLES if base and "{" not in base)
    usual = {host: provider for host, provider in hosts if not is_loopback(host)}
    urls = [call.url.partition("?")[0] for call in recorded if isinstance(call, HttpCall)]
    called = {usual.get(split(url).host) for url in urls}
    bases: dict[str, str] = {}
    for url in urls:
        host = split(url).host
        if host in usual:
            continue
        owners = {"azure", "foundry"} if host.endswith(".azure.com") else set(_NAMES)
        for provider in PROVIDERS:
            if provider.name in owners - called - bases.keys():
                start = re.search(provider.paths, url)
                if start is not None:
                    bases[provider.name] = url[: start.start()]
    return bases


def keys_for(
    environ: Mapping[str, str], routes: Routes, recorded: Iterable[Call], *, replaying: bool
) -> dict[str, str]:
    """The keys that a child gets: none that is real while replaying, and one wherever it would not start without.

    Which keys are set may decide which provider an agent takes: none is set for a provider that was never called.
    """
    called = bases_in(recorded).keys() | {_provider_of(call, routes) for call in recorded}
    keys: dict[str, str] = {}
    for provider in PROVIDERS:
        here = provider.name in called
        if not replaying:
            base = routes.bases.get(provider.name, "")
            here = is_loopback(urlsplit(base).hostname or "") and provider.name != "ollama"
        keys |= {key: dummy for key, dummy in provider.keys if (replaying if key in environ else here)}
    if replaying and "AWS_ACCESS_KEY_ID" in keys and not any(name in environ for name in _REGIONS):
        keys["AWS_DEFAULT_REGION"] = "us-east-1"
    return keys


def _provider_of(call: Call, routes: Routes) -> str | None:
    """The provider whose host `call` goes to."""
    if not isinstance(call, HttpCall):
        return None
    host = split(call.url).host
    for name, base in routes.bases.items():
        pattern = re.escape(urlsplit(base).hostname or "").replace(r"\{region\}", "[a-z0-9-]+")
        if re.fullmatch(pattern.replace(r"\{location\}", "(?:[a-z0-9-]+-)?"), host):
            return re.sub(r"-\d+$", "", name)
    return None
