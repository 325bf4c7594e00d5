"""Models that their providers have retired: data only, a row a model, with the day from which requests to it fail.

An id that ends in "*" stands for all that begin so. Read from the pages of the providers on 2026-11-27; `SOURCES` has
them. A project adds rows of its own by `agentreplay_retired_models`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SOURCES: Mapping[str, str] = {
    "openai": "https://platform.openai.com/docs/deprecations",
    "anthropic": "https://docs.anthropic.com/en/docs/about-claude/model-deprecations",
    "google": "https://ai.google.dev/gemini-api/docs/deprecations",
}

_ROWS: Mapping[str, Mapping[str, str]] = {
    "openai": {
        "2024-01-04": "text-davinci-002 text-davinci-003",
        "2024-09-13": "gpt-3.5-turbo-0301 gpt-3.5-turbo-0613 gpt-3.5-turbo-16k-0613",
        "2024-12-06": "gpt-4-vision-preview gpt-4-1106-vision-preview",
        "2025-06-06": "gpt-4-32k gpt-4-32k-0314 gpt-4-32k-0613",
        "2025-07-14": "gpt-4.5-preview",
        "2025-07-28": "o1-preview",
        "2025-10-27": "o1-mini",
        "2026-01-16": "codex-mini-latest",
        "2026-02-17": "chatgpt-4o-latest",
        "2026-07-23": "computer-use-preview gpt-4o-audio-preview-2024-12-17 gpt-4o-search-preview-2025-03-11 "
        "gpt-5-chat-latest gpt-5-codex gpt-5.1-chat-latest gpt-5.1-codex gpt-5.1-codex-max gpt-5.1-codex-mini "
        "gpt-5.2-codex o3-deep-research o4-mini-deep-research",
        "2026-08-10": "gpt-5.2-chat-latest gpt-5.3-chat-latest",
        "2026-10-23": "gpt-3.5-turbo gpt-3.5-turbo-0125 gpt-4 gpt-4-0613",
    },
    "anthropic": {
        "2024-11-06": "claude-1.* claude-instant-1.*",
        "2025-07-21": "claude-2.0 claude-2.1 claude-3-sonnet-20240229",
        "2025-10-28": "claude-3-5-sonnet-20240620 claude-3-5-sonnet-20241022",
        "2026-01-05": "claude-3-opus-20240229",
        "2026-06-15": "claude-sonnet-4-20250514 claude-opus-4-20250514",
    },
    "google": {
        "2025-02-15": "gemini-1.0-pro*",
        "2025-12-02": "gemini-2.5-pro-preview-*",
        "2025-12-09": "gemini-2.0-flash-live-001 gemini-live-2.5-flash-preview",
        "2026-03-09": "gemini-3-pro-preview",
    },
}

RETIRED: Mapping[str, str] = {
    model: day for rows in _ROWS.values() for day, models in rows.items() for model in models.split()
}
"""The day, in ISO 8601, by the id of the model."""
