"""Which provider and which region a host stands for, by the names of the OTel GenAI conventions."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from pytest_agentreplay.snapshots.kit import find_region

if TYPE_CHECKING:
    from pytest_agentreplay.compare.matching.address import Url

# Hosts as the references of the providers and their SDKs have them; the names are those of `gen_ai.provider.name`,
# https://opentelemetry.io/docs/specs/semconv/registry/attributes/gen-ai/, where it lists the provider.
PROVIDERS: tuple[tuple[str, str], ...] = (
    ("api.openai.com", "openai"),
    ("openai.azure.com", "azure.ai.openai"),
    ("cognitiveservices.azure.com", "azure.ai.openai"),
    ("services.ai.azure.com", "azure.ai.inference"),
    ("models.ai.azure.com", "azure.ai.inference"),
    ("inference.ai.azure.com", "azure.ai.inference"),
    ("models.github.ai", "azure.ai.inference"),
    ("api.anthropic.com", "anthropic"),
    ("amazonaws.com", "aws.bedrock"),
    ("api.aws", "aws.bedrock"),
    ("aiplatform.googleapis.com", "gcp.vertex_ai"),
    ("generativelanguage.googleapis.com", "gcp.gemini"),
    ("api.cohere.com", "cohere"),
    ("api.cohere.ai", "cohere"),
    ("api.deepseek.com", "deepseek"),
    ("api.groq.com", "groq"),
    ("api.mistral.ai", "mistral_ai"),
    ("codestral.mistral.ai", "mistral_ai"),
    ("api.perplexity.ai", "perplexity"),
    ("api.x.ai", "x_ai"),
    ("ml.cloud.ibm.com", "ibm.watsonx.ai"),
    ("api.moonshot.ai", "moonshot_ai"),
    ("openrouter.ai", "openrouter"),
    ("api.together.xyz", "together_ai"),
    ("api.together.ai", "together_ai"),
    ("api.fireworks.ai", "fireworks_ai"),
    ("api.cerebras.ai", "cerebras"),
    ("integrate.api.nvidia.com", "nvidia"),
    ("huggingface.co", "huggingface"),
    ("endpoints.huggingface.cloud", "huggingface"),
    ("ollama.com", "ollama"),
    ("api.voyageai.com", "voyage_ai"),
    ("api.jina.ai", "jina_ai"),
)
"""Host, or the end of it, and the provider that serves it; elsewhere the path or the dialect says the provider."""

# Data residency: https://platform.openai.com/docs/guides/your-data, "eu.api.openai.com".
_OPENAI = re.compile(r"^([a-z]{2})\.api\.openai\.com$")
_LOCATION = re.compile(r"/locations/([^/]+)/")


# A run speaks to a handful of hosts, and each reading of a call asks for its own.
@lru_cache(maxsize=512)
def provider(host: str) -> str:
    """The provider at a host; "" when the table has none."""
    return next((name for end, name in PROVIDERS if host == end or host.endswith((f".{end}", f"-{end}"))), "")


def region(url: Url) -> str:
    """The region that a URL names, in its host or in its path; "" when it names none."""
    match = _OPENAI.search(url.host) or _LOCATION.search(url.path)
    return find_region(f"https://{url.host}/") or (match[1] if match else "")
