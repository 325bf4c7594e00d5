"""What is reported of a policy that is invalid."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.redaction.policies.form import MOST_RULES

if TYPE_CHECKING:
    from collections.abc import Iterable

INSTEAD = re.compile(r"[!#$%()*+,./0-9:;=?@A-Z\[\]^_`a-z{|}~ -]+")


def mistakable(text: str) -> str | None:
    """Why a text could be taken for something else than a placeholder, with what to write; None if it cannot."""
    if text.count("{n}") != 1:
        return "write {n} once, for the number"
    rest = text.replace("{n}", "")
    if "redacted" not in rest.lower():
        return "let it hold the word redacted, like user{n}@redacted.invalid"
    if re.search(r"[0-9]\{n\}|\{n\}[0-9]", text):
        return "put no digit beside {n}"
    if "{{" in text or "}}" in text or not INSTEAD.fullmatch(text):
        return "leave out quotes, backslashes, &, <, >, {{ and }}, and what is not ASCII"
    if "[[redacted:" in text:
        return "those of the shipped rules begin so"
    return None


def shown(path: tuple[str | int, ...]) -> str:
    """A path as people write one: patterns[2].regex."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def said_of(wrong: Any) -> str:
    """What pydantic has found, in our words where they are plainer."""
    words = {
        "bool_type": "is true or false",
        "string_type": "is text; put it in quotes",
        "list_type": "is a list: one line with - for each",
        "dict_type": "is keys and values",
        "model_type": "is keys and values",
        "too_long": f"holds more than {MOST_RULES}",
        "string_pattern_mismatch": "is written with lower-case letters, digits and -, at most 40",
        "string_too_long": "is too long",
        "string_too_short": "is empty",
    }
    return words.get(wrong["type"], str(wrong["msg"]))


def nearest(word: str, words: Iterable[str]) -> str:
    """The end of an error's sentence: the nearest right word, or all of them."""
    close = get_close_matches(word, [*words], n=1)
    return f": did you mean {close[0]}?" if close else f": it is one of {', '.join(words)}"
