"""Lines of settings in messages, in the form of the file that configures pytest."""

from __future__ import annotations

import json
import re

from pytest_agentreplay.settings.tables import INI_TYPES

LINE = re.compile(r"\b(agentreplay_\w+)( = |:\s+)((?!\[?\")\S.*)$")  # what is in quotes is TOML already


def in_toml(text: str) -> str:
    """Return a message whose last words are a setting, with that setting as TOML has it.

    A message has it as ini files do: "agentreplay_ignore = $.at = a clock", "add to agentreplay_tools: shop.refund".
    """
    return LINE.sub(quoted_value, text)


def quoted_value(line: re.Match[str]) -> str:
    """Return a setting with its value in quotes, in an array where the key takes several."""
    key, between, value = line.groups()
    if INI_TYPES.get(key, "bool") == "bool":
        return line[0]
    text = json.dumps(value, ensure_ascii=False)
    return f"{key}{between}[{text}]" if between == " = " and INI_TYPES[key] == "linelist" else f"{key}{between}{text}"
