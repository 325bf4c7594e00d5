"""Whether a recording still stands for the agent of today: its age, retired models, other SDKs, other tools.

A recording that is stale replays as before. What it shows is another question.

Retired models are data, a row a day, from which on requests to them fail. An id that ends in "*" stands for all that
begin so. Read on 2026-11-27 from the pages named here, or from copies of them; a day that is still to come counts from
then on. A project adds rows of its own by `retired:` in `agentreplay_checks`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import TYPE_CHECKING, NamedTuple

from pytest_agentreplay.snapshots.kit import list_models, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_agentreplay.model.exchanges import Header

_ROWS: Mapping[str, Mapping[str, str]] = {
    "https://developers.openai.com/api/docs/deprecations": {
        "2023-03-23": "code-davinci-001 code-cushman-001 code-cushman-002",
        "2024-01-04": "text-ada-001 text-babbage-001 text-curie-001 text-davinci-001 text-davinci-002 text-davinci-003 "
        "ada babbage curie davinci code-davinci-002 text-davinci-edit-001 code-davinci-edit-001 text-similarity-* "
        "text-search-* code-search-*",
        "2024-09-13": "gpt-3.5-turbo-0301 gpt-3.5-turbo-0613 gpt-3.5-turbo-16k-0613",
        "2024-12-06": "gpt-4-vision-preview gpt-4-1106-vision-preview",
        "2025-06-06": "gpt-4-32k gpt-4-32k-0314 gpt-4-32k-0613",
        "2025-07-14": "gpt-4.5-preview",
        "2025-07-28": "o1-preview",
        "2025-10-10": "gpt-4o-realtime-preview-2024-10-01 gpt-4o-audio-preview-2024-10-01",
        "2025-10-27": "o1-mini text-moderation-007 text-moderation-stable text-moderation-latest",
        "2026-02-12": "codex-mini-latest",
        "2026-02-17": "chatgpt-4o-latest",
        "2026-03-26": "gpt-4-0314 gpt-4-0125-preview gpt-4-turbo-preview",
        "2026-05-07": "gpt-4o-realtime-preview gpt-4o-realtime-preview-2025-06-03 gpt-4o-realtime-preview-2024-12-17 "
        "gpt-4o-mini-realtime-preview gpt-4o-audio-preview gpt-4o-mini-audio-preview",
        "2026-05-12": "dall-e-2 dall-e-3",
        "2026-07-23": "computer-use-preview computer-use-preview-2025-03-11 gpt-4o-mini-search-preview-2025-03-11 "
        "gpt-4o-search-preview-2025-03-11 gpt-5-chat-latest gpt-5.1-chat-latest gpt-5-codex gpt-5.1-codex "
        "gpt-5.1-codex-max gpt-5.1-codex-mini gpt-5.2-codex gpt-audio-mini-2025-10-06 gpt-realtime-mini-2025-10-06 "
        "o3-deep-research o3-deep-research-2025-06-26 o4-mini-deep-research o4-mini-deep-research-2025-06-26",
        "2026-08-10": "gpt-5.2-chat-latest gpt-5.3-chat-latest",
        "2026-09-24": "sora-2 sora-2-pro sora-2-2025-10-06 sora-2-2025-12-08",
        "2026-09-28": "gpt-3.5-turbo-instruct gpt-3.5-turbo-1106 babbage-002 davinci-002",
        "2026-10-23": "gpt-3.5-turbo gpt-3.5-turbo-0125 gpt-4 gpt-4-0613 gpt-4-1106-preview gpt-4-turbo "
        "gpt-4-turbo-2024-04-09 gpt-4o-2024-05-13 gpt-4.1-nano gpt-4.1-nano-2025-04-14 gpt-image-1 o1 o1-2024-12-17 "
        "o1-pro o1-pro-2025-03-19 o3-mini o3-mini-2025-01-31 o4-mini o4-mini-2025-04-16",
        "2026-12-11": "gpt-5 gpt-5-2025-08-07 gpt-5-mini gpt-5-mini-2025-08-07 gpt-5-nano gpt-5-nano-2025-08-07",
        "2027-01-14": "gpt-4o-2024-08-06 gpt-4o-2024-11-20 gpt-4o-mini-2024-07-18 gpt-4.1-2025-04-14 "
        "gpt-4.1-mini-2025-04-14",
    },
    "https://platform.claude.com/docs/en/about-claude/model-deprecations": {
        "2024-11-06": "claude-1.0 claude-1.1 claude-1.2 claude-1.3 claude-instant-1.0 claude-instant-1.1 "
        "claude-instant-1.2",
        "2025-07-21": "claude-2.0 claude-2.1 claude-3-sonnet-20240229",
        "2025-10-28": "claude-3-5-sonnet-20240620 claude-3-5-sonnet-20241022",
        "2026-01-05": "claude-3-opus-20240229",
        "2026-02-19": "claude-3-7-sonnet-20250219 claude-3-5-haiku-20241022",
        "2026-04-20": "claude-3-haiku-20240307",
        "2026-06-15": "claude-opus-4-20250514 claude-sonnet-4-20250514",
        "2026-08-05": "claude-opus-4-1-20250805",
    },
    "https://ai.google.dev/palm_docs/deprecation": {
        "2024-08-15": "text-bison-001 chat-bison-001",
    },
    "https://cloud.google.com/vertex-ai/generative-ai/docs/deprecations/palm": {
        "2025-04-09": "text-bison@* text-bison-32k@002 text-unicorn@001 chat-bison@* chat-bison-32k@002 code-bison@* "
        "code-bison-32k@002 code-gecko@* codechat-bison@* codechat-bison-32k@002 textembedding-gecko@001 "
        "textembedding-gecko@002",
    },
    "https://cloud.google.com/vertex-ai/generative-ai/docs/deprecations/gemini-1.0-pro": {
        "2025-04-09": "gemini-1.0-pro-001 gemini-1.0-pro-vision-001",
    },
    "https://docs.cloud.google.com/vertex-ai/generative-ai/docs/learn/model-versions": {
        "2025-09-24": "gemini-1.5-pro-002",
    },
    "https://ai.google.dev/gemini-api/docs/deprecations": {
        "2025-12-02": "gemini-2.5-pro-preview-03-25 gemini-2.5-pro-preview-05-06 gemini-2.5-pro-preview-06-05",
        "2025-12-09": "gemini-2.0-flash-live-001 gemini-live-2.5-flash-preview",
        "2026-03-09": "gemini-3-pro-preview",
        "2026-06-25": "gemini-3-pro-image-preview gemini-3.1-flash-image-preview",
    },
    "https://firebase.google.com/docs/ai-logic/prompt-design": {
        "2026-06-01": "gemini-2.0-flash gemini-2.0-flash-001 gemini-2.0-flash-lite gemini-2.0-flash-lite-001",
    },
    "https://docs.cohere.com/changelog/2026-04-04-embed-v2-aya-8b-retirement": {
        "2026-04-04": "embed-english-v2.0 embed-english-light-v2.0 embed-multilingual-v2.0 c4ai-aya-expanse-8b "
        "c4ai-aya-vision-8b",
    },
    "https://docs.mistral.ai/models/mistral-medium-1-0-23-12": {
        "2025-06-16": "mistral-medium-2312",
    },
    "https://docs.mistral.ai/getting-started/models/models_overview": {
        "2025-11-30": "codestral-2501",
        "2025-12-31": "pixtral-12b-2409",
    },
}

RETIRED: Mapping[str, str] = {
    model: day for rows in _ROWS.values() for day, models in rows.items() for model in models.split()
}
"""The day, in ISO 8601, by the id of the model."""


class StaleFact(NamedTuple):
    """One thing that makes a recording stale: its kind, and the rest in words, equal for equal facts."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class RecordedFacts:
    """What of a recording can become stale: its day (ISO 8601), models asked, packages, parameters of frozen tools."""

    day: str = ""
    models: tuple[str, ...] = ()
    packages: dict[str, str] = field(default_factory=dict)
    signatures: dict[str, str] = field(default_factory=dict)


def read_facts(header: Header) -> RecordedFacts:
    """Return the facts of a recording, from its header."""
    models = list_models(header.kit)
    packages, signatures = (table(header.kit, name) for name in ("packages", "signatures"))
    return RecordedFacts(
        header.recorded[:10],
        models,
        {name: version for name, version in packages.items() if isinstance(version, str)},
        {name: text for name, text in signatures.items() if isinstance(text, str)},
    )


def find_stale(
    facts: RecordedFacts,
    *,
    today: date,
    days: int,
    retired: Mapping[str, str] = RETIRED,
    installed: Mapping[str, str],
    signatures: Mapping[str, str],
) -> Iterator[StaleFact]:
    """Yield what makes a recording stale. `days` is the age from which on it is old (0: none is).

    `installed` and `signatures` are those of today; what they do not name is not compared.
    """
    if days and facts.day and facts.day < (today - timedelta(days=days)).isoformat():
        yield StaleFact("old", f"recorded more than {days} days ago")
    for model in facts.models:
        if (day := find_retirement(model, retired)) and day <= today.isoformat():
            yield StaleFact("model", f"asks {model}, retired {day}")
    for name, version in facts.packages.items():
        if name in installed and major(version) != major(installed[name]):
            yield StaleFact("sdk", f"recorded with {name} {major(version)}, installed is {major(installed[name])}")
    for name, text in facts.signatures.items():
        if name in signatures and signatures[name] != text:
            yield StaleFact("signature", f"tool {name} takes ({signatures[name]}), recorded ({text})")


def find_retirement(model: str, retired: Mapping[str, str]) -> str:
    """Return the day on which a model was, or will be, retired; "" for none. An exact id goes before a beginning."""
    if model in retired:
        return retired[model]
    # Rows of a project may name a family and an exception from it: the longest beginning says most.
    beginnings = [name for name in retired if name.endswith("*") and model.startswith(name[:-1])]
    return retired[max(beginnings, key=len)] if beginnings else ""


def major(version: str) -> str:
    """Return the part of a version that changes with an incompatible release: of 0.x the second number too."""
    # Semantic versioning lets any 0.x break its interface (https://semver.org/#spec-item-4), and SDKs do.
    first, _, rest = version.partition(".")
    return f"0.{rest.partition('.')[0]}" if first == "0" else first
