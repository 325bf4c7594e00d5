"""Reading what people wrote in a setting: one word of several, lists, `left = right` lines, numbers, folders.

Every refusal is a SettingsError that names the flag, variable, key or keyword and says what to write instead.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from pytest_agentreplay.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_agentreplay.compare.tolerance import Tolerance
    from pytest_agentreplay.model.rules import Action, Rule

Clocks: TypeAlias = Literal["stepped", "real", "virtual"]
Orders: TypeAlias = Literal["auto", "recorded", "free", "loose"]

CLOCKS = ("stepped", "real", "virtual", "paced")
ORDERS = ("auto", "recorded", "free", "loose")
EFFECTS = ("read", "write", "live")
MODELS = ("model", "retrieval")
ON_CI = ("record", "live")
REPLAY_TOOLS = ("frozen", "checked", "live")
REDACT = ("pii", "strict")
OFF_SCRIPT = ("stop", "stub", "live")
SANDBOXES = ("auto", "require", "off")


def refuse_unknown(name: str, word: object, words: Sequence[str], hint: str = "") -> None:
    """Raise SettingsError when `word` is none of `words`, with what to write instead."""
    if word in words:
        return
    instead = f": {hint}" if hint else nearest(str(word), words)
    raise SettingsError(f"{name} does not take {word!r}{instead}")


def live_by_word(word: object) -> str:
    """Return why recording, or a live model, cannot be a standing setting."""
    if word == "live":
        return "the model goes live only because the command line says so: type --replay=live, or set AGENTREPLAY=live"
    return "recording is asked for each time, with --snapshot-record" if word == "record" else ""


def nearest(word: str, words: Sequence[str]) -> str:
    """Return the end of an error's sentence: the nearest right word, or all of them."""
    from difflib import get_close_matches

    close = get_close_matches(word, words, n=1)
    return f": did you mean {close[0]}?" if close else f": it is one of {', '.join(words)}"


def texts(value: object, name: str) -> tuple[str, ...]:
    """Return a list of strings, as it is written in code. One string is not a list of its letters."""
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
    lines = texts(value, name)
    if not lines:
        return []
    from pytest_agentreplay.model.path_parsing import split_path

    return [split_path(line, " = " if " = " in line else " #") for line in lines]


def tools_of(value: object, name: str) -> tuple[tuple[str, str], ...]:
    """(import path or shown name, how) of each tool, model and retriever: see `Settings.tools`."""
    tools = []
    for path, declared in pairs(value, name):
        where = f"{name}: {path}"
        if ":" in path:
            raise SettingsError(f"{where}: an import path has dots alone: write {path.replace(':', '.')}")
        effects, shown_as, tool = f" {declared} ".partition(" as ")
        effects = effects.strip() or "write"
        word = effects.partition(" ")[0]
        if path and "." not in path and declared:
            refuse_unknown(where, declared, ("read",) if "*" in path else ("read", "live"))
        elif "." not in path or not all(part.isidentifier() or part == "*" for part in path.split(".")):
            raise SettingsError(
                f"{name}: {path!r} is no import path; write a function like shop.tools.lookup_order = read, and a tool "
                "of a framework, by the name that the model knows, like lookup_order = read"
            )
        refuse_unknown(where, effects if word in EFFECTS else word, (*EFFECTS, *MODELS))
        if shown_as and word not in MODELS and (len(tool.split()) != 1 or path.endswith("*")):
            raise SettingsError(f"{where}: as gives one function the one name by which the model knows it")
        tools.append((path, declared if word in MODELS else f"{effects}{shown_as}{tool.strip()}"))
    return tuple(tools)


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


def kinds_of(value: object, name: str, examples: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return what lines `kind:name` name, by kind. Raises SettingsError for a kind that has no example."""
    kinds: dict[str, tuple[str, ...]] = dict.fromkeys(examples, ())
    for line in texts(value, name):
        kind, _, named = map(str.strip, line.partition(":"))
        if kind not in kinds or not named:
            likely = "" if kind in kinds else nearest(kind, [*kinds]).removesuffix("?")
            raise SettingsError(f"{name}: {line!r}{likely}; write it like {' or '.join(examples.values())}")
        kinds[kind] += (named,)
    return kinds


def allow_of(value: object, name: str) -> dict[str, Any]:
    """Return what a replayed test may reach and start, by field of the settings."""
    kinds = kinds_of(value, name, {"host": "host:db:5432", "program": "program:git"})
    return {"allow_hosts": kinds["host"], "allow_subprocess": kinds["program"]}


def keep_of(value: object, name: str) -> dict[str, Any]:
    """Variables, files and headers that are kept, by field of the settings."""
    examples = {"env": "env:SHOP_REGION", "file": "file:data/*.json", "header": "header:x-tenant = match"}
    kinds = kinds_of(value, name, examples)
    headers = pairs(kinds["header"], name)
    for header, match in headers:
        if match not in {"", "match"}:
            raise SettingsError(f"{name}: header:{header} = {match}: write header:{header}, or header:{header} = match")
    kept, matched = (tuple(header for header, match in headers if bool(match) is wish) for wish in (False, True))
    matched = tuple(map(str.lower, matched))
    return {"env": kinds["env"], "kept_files": kinds["file"], "headers": kept, "matched_headers": matched}


def ci_of(value: object, name: str) -> frozenset[str]:
    """Return what is allowed where `CI` is set: words, on one line or several."""
    words = " ".join(texts(value, name)).replace(",", " ").split()
    for word in words:
        refuse_unknown(name, word, ON_CI)
    return frozenset(words)


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
    from pytest_agentreplay.model.rules import Rule

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
    """Return what may differ, and where; read here, so that a session does not start with a wrong one."""
    rows = pairs(value, name)
    if not rows:
        return ()
    from pytest_agentreplay.compare.tolerance import Level, parse

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
            raise SettingsError(f'{name}: {line!r}: write it like lookup = stub {{"status": "late"}}, or search = live')
    return rows


def clock_of(value: object, name: str) -> dict[str, Any]:
    """One of the clocks, and whether answers take as long as they took: `paced` is `stepped`, and they do."""
    refuse_unknown(name, value, CLOCKS)
    return {"clock": "stepped" if value == "paced" else value, "waits": value == "paced"}


def order_of(value: object, name: str) -> Orders:
    """One of the orders."""
    refuse_unknown(name, value, ORDERS)
    return cast("Orders", value)


def limit_of(value: object, name: str) -> int:
    """Return how many at most: True for as many as is usual, False for none."""
    if value is True:
        from pytest_agentreplay.backends.order_permutations import LIMIT

        return LIMIT
    if not isinstance(value, int) or value < 0:
        raise SettingsError(f"{name} takes how many orders to try, like 120, or True; not {value!r}")
    return int(value)


def redact_of(flags: Sequence[str], lines: Sequence[str], file: str) -> tuple[str, ...]:
    """Return the words and policy files of the flag and the ini key; a file of the ini stands beside the ini `file`."""
    typed = [word.strip() for flag in flags for word in flag.split(",")]
    for word in (*typed, *lines):
        if not word or word.startswith("-"):
            raise SettingsError(f"--redact takes pii, strict or a policy file, not {word!r}")
    folder = os.path.dirname(file)  # noqa: PTH120  settings load nothing
    return (*typed, *(line if line in REDACT else os.path.join(folder, line) for line in lines))  # noqa: PTH118  as above


def number(value: object, name: str) -> int | None:
    """Return a whole number of at least 0; None for nothing."""
    text = str(value).strip().replace("_", "")
    if not text:
        return None
    if not text.isdecimal():
        raise SettingsError(f"{name} takes a whole number, not {value!r}")
    return int(text)


def checks_of(value: object, name: str) -> dict[str, Any]:
    """Return what is reported of snapshots, by field of the settings; only what the lines name.

    `unused = fail`, `unproved = ignore`, `old = 90d`, `retired:MODEL = DATE`, `large = 2MB`, `largest = 64MB`.
    """
    if not (lines := texts(value, name)):
        return {}
    from pytest_agentreplay.model.sizes import parse_size

    readers: dict[str, tuple[str, str, Callable[[str], Any]]] = {  # field, what to write, what reads it
        "unused": ("unused", "warn, fail or ignore", {"warn": "warn", "fail": "fail", "ignore": "ignore"}.get),
        "unproved": ("prove", "warn or ignore", {"warn": True, "ignore": False}.get),
        "old": ("stale_days", "180d", lambda text: int(days) if (days := text.removesuffix("d")).isdecimal() else None),
        "large": ("max_bytes", "1MB", parse_size),
        "largest": ("largest", "32MB", parse_size),
    }
    fields: dict[str, Any] = {}
    for line in lines:
        word, _, amount = map(str.strip, line.partition("="))
        kind, _, model = map(str.strip, word.partition(":"))
        if kind != "retired":
            refuse_unknown(name, word, (*readers, "retired:MODEL"))
            field, example, read = readers[word]
            if (setting := read(amount)) is None:
                raise SettingsError(f"{name}: {line!r}: write {word} = {example}")
            fields[field] = setting
        elif model and re.fullmatch(r"\d{4}-\d\d-\d\d", amount):
            fields["retired_models"] = (*fields.get("retired_models", ()), (model, amount))
        else:
            raise SettingsError(f"{name}: {line!r}: write the day of a model like retired:my-model = 2026-01-31")
    return fields


def directory(value: object, where: str) -> str:
    """Return the folder of snapshots, relative to the tests; never syrupy's, which deletes what it does not know."""
    text = str(value).strip().strip("/")
    parts = text.replace("\\", "/").split("/")
    if not text or str(value).startswith(("/", "\\")) or ":" in text or ".." in parts:
        raise SettingsError(f"{where}agentreplay_dir: {value!r} is no folder beside tests; write __agent_snapshots__")
    if "__snapshots__" in parts:
        raise SettingsError(
            f"{where}agentreplay_dir: __snapshots__ belongs to syrupy, whose --snapshot-update deletes foreign files "
            "there; write __agent_snapshots__"
        )
    return text


PARSERS: Mapping[str, Callable[[object, str], Any]] = {
    "order": order_of, "permutations": limit_of, "seed": number, "tolerances": tolerances_of, "tools": tools_of,
    "off_script": off_script_of, "ignore": ignored_of, "runners": runners_of, "judges": runners_of, "paths": texts,
    "children": texts, "invariants": texts,
}  # fmt: skip
"""Ini key or keyword of a marker -> what its value is."""
GROUPS: Mapping[str, Callable[[object, str], dict[str, Any]]] = {
    "allow": allow_of, "keep": keep_of, "clock": clock_of, "checks": checks_of,
}  # fmt: skip
"""Ini key or keyword -> its values by field, for those that stand for several fields."""
FIELDS = {"ignore": "ignored"}
"""The field of a key that has another name."""
