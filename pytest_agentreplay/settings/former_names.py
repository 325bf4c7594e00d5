"""Former names of ini keys and marker keywords, and their values as lines of those that took their place.

0.2 reads them no more. Loaded only where one of them is written.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.settings.parsers import number, pairs, stale_of, texts
from pytest_agentreplay.settings.tables import INI

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Renamed: TypeAlias = tuple[str, ...]
"""Lines of a report about a former name: that it goes, and each line to write instead."""

PREFIX = "agentreplay_"
CALLED = "@pytest.mark.agentreplay({}=...)"
TYPES: Mapping[str, str] = {key: options["type"] for key, options in INI}


class FormerName(NamedTuple):
    """The type of an ini key, what took its place, and its value as lines of that, for an error by the given name."""

    type: str
    new: str
    lines: Callable[[Any, str], list[Any]]


def declare(word: str) -> Callable[[Any, str], list[Any]]:
    """Return what makes lines of tools of "path = name"."""
    return lambda value, name: [f"{path} = {word} {model}".rstrip() for path, model in pairs(value, name)]


def prefix(kind: str) -> Callable[[Any, str], list[Any]]:
    """Return what names the kind at the beginning of each line."""
    return lambda value, name: [f"{kind}:{line}" for line in texts(value, name)]


def say(word: str) -> Callable[[Any, str], list[Any]]:
    """Return what makes a word of a yes."""
    return lambda value, _: [word] * bool(value)


def declare_read(value: object, name: str) -> list[Any]:
    """Return the lines of tools that change nothing; a dot would make an import path of a shown name."""
    return [f"{shown.replace('.', '*')} = read" for shown in texts(value, name)]


def check_retired(value: Any, name: str) -> list[Any]:
    """Return the lines of retired models as they are. Raises SettingsError by the name that is written."""
    stale_of(value, name)
    return list(value)


FORMER: Mapping[str, FormerName] = {
    "read_tools": FormerName("linelist", "tools", declare_read),
    "models": FormerName("linelist", "tools", declare("model")),
    "retrievals": FormerName("linelist", "tools", declare("retrieval")),
    "allow_hosts": FormerName("linelist", "allow", prefix("host")),
    "allow_subprocess": FormerName("linelist", "allow", prefix("program")),
    "env": FormerName("linelist", "keep", prefix("env")),
    "fixtures": FormerName("linelist", "keep", prefix("file")),
    "headers": FormerName("linelist", "keep", prefix("header")),
    "ci_record": FormerName("bool", "ci", say("record")),
    "ci_live": FormerName("bool", "ci", say("live")),
    "waits": FormerName("bool", "clock", say("paced")),
    "budget": FormerName("string", "live", lambda value, _: value.split()),
    "stale_days": FormerName("string", "stale", lambda value, name: [f"days = {number(value, name) or 0}"]),
    "retired_models": FormerName("linelist", "stale", check_retired),
    "largest": FormerName(
        "string", "max_bytes", lambda value, name: [str(number(word, name)) for word in value.split()]
    ),
    "sandbox": FormerName("string", "sandbox", lambda value, _: [f"--agentreplay-sandbox={value}"] * (value != "off")),
    "orders": FormerName("", "permutations", lambda value, _: [value]),
    "places": FormerName("", "places", lambda value, _: [bool(value)]),
}
"""Former name of an ini key, or of a marker keyword -> what it is now. The last two are keywords alone."""
INI_TYPES = {PREFIX + name: former.type for name, former in FORMER.items() if former.type}
ALL_TYPES = {**TYPES, **INI_TYPES}
"""Each ini key that is read, and its type."""
KEYWORDS = (
    *("read_tools", "models", "retrievals", "allow_hosts", "allow_subprocess", "fixtures", "waits", "orders", "places"),
)


def fold_keys(table: Mapping[str, Any], where: str) -> tuple[dict[str, Any], tuple[Renamed, ...]]:
    """Return the values of ini keys by their present names, and what to write instead. Raises SettingsError."""
    folded, renamed = dict(table), []
    for key in [key for key in INI_TYPES if key in table]:
        former = FORMER[key.removeprefix(PREFIX)]
        new = PREFIX + former.new
        lines = former.lines(table[key], where + key)
        if new == key:  # the sandbox: a flag
            advice = [f"add to addopts: {line}" for line in lines]
        elif lines and is_said_twice(former.new, table[new], lines):
            raise SettingsError(f"{where}{key} and {new} are both given: move what the former name says into {new}")
        else:
            del folded[key]
            folded[new] = merge(former.new, folded[new], lines)
            listed = TYPES[new] == "linelist"
            advice = [f"add to {new}: {line}" for line in lines] if listed else [f"{new} = {folded[new]}"] * bool(lines)
        renamed.append(advise(key, advice))
    return folded, tuple(renamed)


def fold_keywords(keywords: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[Renamed, ...]]:
    """Return the keywords of a marker by their present names, and what to write instead. Raises SettingsError."""
    folded, renamed = {key: value for key, value in keywords.items() if key not in KEYWORDS}, []
    for key in [key for key in KEYWORDS if key in keywords]:
        new, name = FORMER[key].new, CALLED.format(key)
        lines = FORMER[key].lines(keywords[key], name)
        if new in keywords and new != key and lines and is_said_twice(new, keywords[new], lines):
            raise SettingsError(f"{name} and {new} are both given: move what the former name says into {new}")
        if key == "waits" and not lines:
            folded["waits"], lines = False, ["stepped"]
        else:
            folded[new] = merge(new, folded.get(new, ""), lines)
        value = lines if isinstance(folded.get(new), list) else lines[0]
        written = json.dumps(value, ensure_ascii=False) if isinstance(value, list | str) else repr(value)
        advice = f"agentreplay_places = {str(value).lower()}" if key == "places" else f"{new}={written}"
        renamed.append(advise(name, [advice]))
    return folded, tuple(renamed)


def fold_written(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the values of ini keys by their present names, and of those that are not written the defaults."""
    return fold_keys({key: options["default"] for key, options in INI} | dict(table), where)[0]


def advise(name: str, lines: list[str]) -> Renamed:
    """Return what a report says about a former name; without lines its value is the default."""
    instead = "write instead:" if lines else "leave it out, since it says the default"
    return f"renamed   {name} works until 0.2; {instead}", *(f"          {line}" for line in lines)


def is_said_twice(key: str, present: Any, lines: list[Any]) -> bool:
    """Return whether a key says already what a former name says too."""
    match key:
        case "tools":  # it is older than what it took over
            names = dict(pairs(present, key))
            return any(path in names for path, _ in pairs(lines, key))
        case "clock":
            return present not in {"", "stepped"}
        case "live":
            return any(f"{line.partition('=')[0]}=" in present for line in lines)
        case "max_bytes":
            return len(present.split()) > 1
    return bool(present)


def merge(key: str, present: Any, lines: list[Any]) -> Any:
    """Return the value of a key, and what a former name adds to it."""
    if key in {"clock", "permutations", "places"}:
        return lines[0] if lines else present
    if key in {"live", "max_bytes"}:
        return " ".join([present or "0" * (key == "max_bytes"), *lines]).strip()
    before = [f"{left} = {right}" for left, right in present.items()] if isinstance(present, dict) else present or []
    return [*before, *lines]
