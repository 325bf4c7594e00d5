"""Texts that some tracers write where others write JSON: the repr of a Python value, read as what it shows."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from pytest_agentreplay.core.canonical_json import NotJson, canonical, parse

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Json

_LONGEST = 100_000


def read(text: str) -> Json:
    """The value of a text that is JSON or the repr of one; else the text. Nothing in it is called, or looked up."""
    tree = parse(text)
    if not isinstance(tree, NotJson):
        return tree
    if not text.startswith(("{", "[", "(")) or len(text) > _LONGEST:
        return text
    try:
        value = ast.literal_eval(text)
        canonical(value)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return text
    found: Json = value
    return found
