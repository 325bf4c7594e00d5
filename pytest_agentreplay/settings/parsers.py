"""Reading what people wrote in a setting: one word of several, lists, `left = right` lines, numbers, folders.

Every refusal is a SettingsError that names the flag, variable, key or keyword and says what to write instead.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from pytest_agentreplay.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_agentreplay.core.rules import Action, Rule
    from pytest_agentreplay.core.tolerance import Tolerance

Clocks: TypeAlias = Literal["stepped", "real", "virtual"]
Orders: TypeAlias = Literal["auto", "recorded", "free", "loose"]

CLOCKS = ("stepped", "real", "virtual")
ORDERS = ("auto", "recorded", "free", "loose")
EFFECTS = ("read", "write", "live")
REPLAY_TOOLS = ("frozen", "checked", "live")
REDACT = ("pii", "strict")
OFF_SCRIPT = ("stop", "stub", "live")
SANDBOXES = ("auto", "require", "off")
DAY = re.compile(r"\d{4}-\d\d-\d\d")
UNUSED = ("warn", "fail", "ignore")


def refuse_unknown(name: str, word: object, words: Sequence[str], hint: str = "") -> None:
    """Raise SettingsError when `word` is none of `words`, with what to write instead."""
    if word in words:
        return
    instead = f": {hint}" if hint else nearest(str(word), words)
    raise SettingsError(f"{name} does not take {word!r}{instead}")


def live_by_word(word: object) -> str:
    """Why recording, or a live model, cannot be a standing setting."""
    if word == "live":
        return "the model goes live only because the command line says so: type --replay=live, or set AGENTREPLAY=live"
    return "recording is asked for each time, with --snapshot-record" if word == "record" else ""


def nearest(word: str, words: Sequence[str]) -> str:
    """The end of an error's sentence: the nearest right word, or all of them."""
    from difflib import get_close_matches

    close = get_close_matches(word, words, n=1)
    return f": did you mean {close[0]}?" if close else f": it is one of {', '.join(words)}"


def texts(value: object, name: str) -> tuple[str, ...]:
    """A list of strings, as it is written in code. One string is not a list of its letters."""
    if isinstance(value, str) or not isinstance(value, (list, tuple, set, frozenset)):
        raise SettingsError(f"{name} takes a list of strings, not {type(value).__name__}")
    for item in value:
        if not isinstance(item, str):
            raise SettingsError(f"{name} takes a list of strings, and {item!r} is none")
    return tuple(value)


def pairs(value: object, name: str) -> list[tuple[str, str]]:
    """Lines `left = right` (or `left  # right`, as reports suggest it), or a mapping of left to right."""
    if isinstance(value, dict):
        return [(str(left), str(right)) for left, right in value.items()]
    found = []
    for line in texts(value, name):
        left, _, right = line.partition(" = " if " = " in line else " #")
        found.append((left.strip(), right.strip()))
    return found


def tools_of(value: object, name: str) -> tuple[tuple[str, str], ...]:
    """(import path, effects) of each tool; effects are write unless said otherwise: "read", "write as lookup_order"."""
    tools = []
    for path, declared in paths_of(value, name, "read"):
        effects, shown_as, tool = f" {declared} ".partition(" as ")
        effects = effects.strip() or "write"
        refuse_unknown(f"{name}: {path}", effects, EFFECTS)
        if shown_as and (len(tool.split()) != 1 or path.endswith("*")):
            raise SettingsError(f"{name}: {path}: as gives one function the one name by which the model knows it")
        tools.append((path, f"{effects}{shown_as}{tool.strip()}"))
    return tuple(tools)


def paths_of(value: object, name: str, example: str = "my-model") -> tuple[tuple[str, str], ...]:
    """(import path, what is said of it) of each function."""
    found = pairs(value, name)
    for path, _ in found:
        if not all(part.isidentifier() or part == "*" for part in path.split(".")) or "." not in path:
            raise SettingsError(
                f"{name}: {path!r} is no import path; write it like shop.tools.lookup_order = {example}"
            )
    return tuple(found)


def runners_of(value: object, name: str) -> tuple[tuple[str, str], ...]:
    """(key, import path) of each runner of cases, or judge of tolerances: `refunds = shop.cases:run_refund`."""
    found = pairs(value, name)
    kind = "judge" if name.endswith("judges") else "runner"
    for key, path in found:
        module, _, function = path.partition(":")
        if not key or not all(part.isidentifier() for part in (*module.split("."), *function.split("."))):
            line = f"{key} = {path}" if path else key
            raise SettingsError(f"{name}: {line!r} names no {kind}; write it like refunds = shop.cases:run_refund")
    return tuple(found)


def headers_of(value: object, name: str) -> tuple[tuple[str, str], ...]:
    """(header, "match" where another value is a divergence, else "")."""
    headers = pairs(value, name)
    for header, match in headers:
        if match not in {"", "match"}:
            raise SettingsError(f"{name}: {header} = {match}: write {header}, or {header} = match")
    return tuple(headers)


def ignored_of(value: object, name: str) -> tuple[tuple[str, str], ...]:
    """(what may differ, reason); a reason is wanted."""
    ignored = pairs(value, name)
    for place, reason in ignored:
        if not reason:
            raise SettingsError(f"{name}: say why {place} may differ: {place} = the reason")
        try:
            rules_of(place, reason)
        except SettingsError as error:
            raise SettingsError(f"{name}: the line {place!r}: {error}") from error
    return tuple(ignored)


def rules_of(place: str, reason: str) -> tuple[Rule, ...]:
    """Return the rules of a line of `agentreplay_ignore`. Raises SettingsError.

    "header:x-run", "query:ts" and "$.user" may differ. "host: PATTERN", "path: PATTERN" and "PLACE ~ REGEX" say which
    values are equal. "$.user" is a place in bodies and in arguments of tools.
    """
    from pytest_agentreplay.core.rules import Rule

    if place.endswith(" ~"):
        raise SettingsError("a regular expression is missing after the ~")
    place, _, pattern = (part.strip() for part in place.partition(" ~ "))
    kind, colon, name = place.partition(":")
    source = "agentreplay_ignore"
    if place in {"host", "path"} and pattern:
        return (Rule("http", place, "*", "equal", reason, source, pattern=pattern),)  # type: ignore[arg-type]
    if kind in {"host", "path"} and colon and not pattern:
        return (Rule("http", kind, name.strip(), "equal", reason, source),)  # type: ignore[arg-type]
    action: Action = "equal" if pattern else "drop"
    if kind in {"header", "query"}:
        return (Rule("http", kind, name.strip().lower(), action, reason, source, pattern=pattern),)  # type: ignore[arg-type]
    return tuple(Rule(scope, "body", place, action, reason, source, pattern=pattern) for scope in ("http", "tool"))


def tolerances_of(value: object, name: str) -> tuple[Tolerance, ...]:
    """What may differ, and where; read here, so that a session does not start with a wrong one."""
    rows = pairs(value, name)
    if not rows:
        return ()
    from pytest_agentreplay.core.tolerance import Level, parse

    level = Level.TEST if name.startswith("@") else Level.INI
    try:
        return tuple(parse(place, how, level=level, source=name) for place, how in rows)
    except SettingsError as error:
        raise SettingsError(f"{name}: {error}") from error


def off_script_of(value: object, name: str) -> tuple[tuple[str, str], ...]:
    """(tool, what a live run does with its calls that are not recorded): "stop", "live", or "stub" and JSON."""
    rows = tuple(pairs(value, name))
    for tool, policy in rows:
        word, _, answer = policy.partition(" ")
        refuse_unknown(f"{name}: {tool or policy}", word, OFF_SCRIPT)
        readable = bool(tool and not answer and word != "stub")
        if word == "stub":
            from contextlib import suppress
            from json import loads

            with suppress(ValueError):
                loads(answer)
                readable = True
        if not readable:
            line = f"{tool} = {policy}" if policy else tool
            raise SettingsError(
                f'{name}: {line!r}: write it like lookup = stub {{"status": "shipped"}}, or search = live'
            )
    return rows


def clock_of(value: object, name: str) -> Clocks:
    """One of the clocks."""
    refuse_unknown(name, value, CLOCKS)
    return cast("Clocks", value)


def order_of(value: object, name: str) -> Orders:
    """One of the orders."""
    refuse_unknown(name, value, ORDERS)
    return cast("Orders", value)


def limit_of(value: object, name: str) -> int:
    """How many at most: True for as many as is usual, False for none."""
    if value is True:
        from pytest_agentreplay.core.order_permutations import LIMIT

        return LIMIT
    if not isinstance(value, int) or value < 0:
        raise SettingsError(f"{name} takes how many orders to try, like 120, or True; not {value!r}")
    return int(value)


def redact_of(flags: Sequence[str], lines: Sequence[str], file: str) -> tuple[str, ...]:
    """The words and policy files of the flag and the ini key; a file of the ini stands beside the ini `file`."""
    typed = [word.strip() for flag in flags for word in flag.split(",")]
    for word in (*typed, *lines):
        if not word or word.startswith("-"):
            raise SettingsError(f"--redact takes pii, strict or a policy file, not {word!r}")
    folder = os.path.dirname(file)  # noqa: PTH120  settings load nothing
    return (*typed, *(line if line in REDACT else os.path.join(folder, line) for line in lines))  # noqa: PTH118  as above


def number(value: object, name: str) -> int | None:
    """A whole number of at least 0; None for nothing."""
    text = str(value).strip().replace("_", "")
    if not text:
        return None
    if not text.isdecimal():
        raise SettingsError(f"{name} takes a whole number, not {value!r}")
    return int(text)


def days_of(value: object, name: str) -> int:
    """A number of days, 0 for any. Raises SettingsError."""
    return number(value, name) or 0


def retired_of(value: object, name: str) -> dict[str, str]:
    """The day on which a model was retired, by its id: `my-model = 2026-01-31`. Raises SettingsError."""
    rows = dict(pairs(value, name))
    for model, day in rows.items():
        if not DAY.fullmatch(day):
            raise SettingsError(f"{name}: {model} = {day}: write the day like my-model = 2026-01-31")
    return rows


def directory(value: object, where: str) -> str:
    """The folder of snapshots, relative to the tests; never syrupy's, which deletes what it does not know."""
    text = str(value).strip().strip("/")
    parts = text.replace("\\", "/").split("/")
    if not text or str(value).startswith(("/", "\\")) or ":" in text or ".." in parts:
        raise SettingsError(
            f"{where}agentreplay_dir: {value!r} is no folder beside the tests; write __agent_snapshots__"
        )
    if "__snapshots__" in parts:
        raise SettingsError(
            f"{where}agentreplay_dir: __snapshots__ belongs to syrupy, whose --snapshot-update deletes foreign files "
            "there; write __agent_snapshots__"
        )
    return text
