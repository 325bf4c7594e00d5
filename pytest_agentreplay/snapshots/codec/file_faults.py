"""What is wrong with a file that people write (a policy, a case): in what words, and at which place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_agentreplay.model.json_paths import Place
    from pytest_agentreplay.snapshots.codec.strict_yaml import Document


def find_place(document: Document, path: Place) -> str:
    """Return line:column of the value at `path`, else of what is nearest above it; "" for none."""
    while path and path not in document.places:
        path = path[:-1]
    return document.places.get(path, "")


def format_path(path: Iterable[str | int]) -> str:
    """Return a path as people write one: observed[2].output."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def find_version_fault(members: Mapping[str, object], what: str, release: str) -> tuple[Place, str] | None:
    """Return where the `schemaVersion` of a file is wrong, and how; None if its major version is that of `release`.

    `what` stands before the version in the message: "a policy of version".
    """
    version = members.get("schemaVersion")
    if version is None:
        return (), f'says no version: begin with schemaVersion: "{release}"'
    if not isinstance(version, str) or not re.fullmatch(r"[0-9]{1,6}\.[0-9]{1,6}", version, re.ASCII):
        return ("schemaVersion",), f'a version is text like "{release}", in quotes'
    ours, theirs = (int(text.partition(".")[0]) for text in (release, version))
    if ours == theirs:
        return None
    advice = "pip install --upgrade frozen-agentreplay" if theirs > ours else f'write schemaVersion: "{release}"'
    return ("schemaVersion",), f"is {what} {version}, and this release reads {ours}.x: {advice}"


def suggest_word(word: object, words: Iterable[str]) -> str:
    """Return the end of a message about a word that nobody knows: the most similar one, else all that there are."""
    choices = [*words]
    return suggest_similar(word, choices) or (f": it is one of {', '.join(choices)}" if choices else "")


def suggest_similar(word: object, words: Iterable[str]) -> str:
    """Return the end of a message about a word that nobody knows: the most similar one, "" if none is."""
    from difflib import get_close_matches

    close = get_close_matches(str(word), [*words], n=1)
    return f": did you mean {close[0]}?" if close else ""
