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
PROVIDERS = {
    "openai": "api.openai.com",
    "azure.ai.openai": "openai.azure.com cognitiveservices.azure.com",
    "azure.ai.inference": "services.ai.azure.com models.ai.azure.com inference.ai.azure.com models.github.ai",
    "anthropic": "api.anthropic.com",
    "aws.bedrock": "amazonaws.com api.aws",
    "gcp.vertex_ai": "aiplatform.googleapis.com",
    "gcp.gemini": "generativelanguage.googleapis.com",
    "cohere": "api.cohere.com api.cohere.ai",
    "deepseek": "api.deepseek.com",
    "groq": "api.groq.com",
    "mistral_ai": "api.mistral.ai codestral.mistral.ai",
    "perplexity": "api.perplexity.ai",
    "x_ai": "api.x.ai",
    "ibm.watsonx.ai": "ml.cloud.ibm.com",
    "moonshot_ai": "api.moonshot.ai",
    "openrouter": "openrouter.ai",
    "together_ai": "api.together.xyz api.together.ai",
    "fireworks_ai": "api.fireworks.ai",
    "cerebras": "api.cerebras.ai",
    "nvidia": "integrate.api.nvidia.com",
    "huggingface": "huggingface.co endpoints.huggingface.cloud",
    "ollama": "ollama.com",
    "voyage_ai": "api.voyageai.com",
    "jina_ai": "api.jina.ai",
}
"""A provider and its hosts, or the ends of them; elsewhere the path or the dialect says the provider."""

# Data residency: https://platform.openai.com/docs/guides/your-data, "eu.api.openai.com".
_OPENAI = re.compile(r"^([a-z]{2})\.api\.openai\.com$")
_LOCATION = re.compile(r"/locations/([^/]+)/")


# A run speaks to a handful of hosts, and each reading of a call asks for its own.
@lru_cache(maxsize=512)
def provider(host: str) -> str:
    """The provider at a host; "" when the table has none."""
    rows = ((name, end) for name, ends in PROVIDERS.items() for end in ends.split())
    return next((name for name, end in rows if host == end or host.endswith((f".{end}", f"-{end}"))), "")


def region(url: Url) -> str:
    """The region that a URL names, in its host or in its path; "" when it names none."""
    match = _OPENAI.search(url.host) or _LOCATION.search(url.path)
    return find_region(f"https://{url.host}/") or (match[1] if match else "")
