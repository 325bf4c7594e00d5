"""Parsers of settings: each returns the value that a person has written, or refuses it.

A parser takes the value and the name of the place where it stands, which errors repeat: a flag ("--redact"), an ini key
behind its file ("pytest.ini: agentreplay_redact"), or a keyword of the marker ("@pytest.mark.agentreplay(redact=...)").
Every refusal is a SettingsError that says what to write instead.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pytest_agentreplay.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_agentreplay.compare.tolerance import Tolerance
    from pytest_agentreplay.model.rules import Rule

Clocks: TypeAlias = Literal["stepped", "real", "virtual"]
Mode: TypeAlias = Literal["record", "replay", "off"]
Orders: TypeAlias = Literal["auto", "recorded", "free", "loose"]
Pairs: TypeAlias = tuple[tuple[str, str], ...]

MODES: Mapping[str, Mode] = {"record": "record", "model": "replay", "live": "replay", "off": "off"}
CLOCKS = ("stepped", "real", "virtual", "paced")
EFFECTS = ("read", "write", "live")
MODELS = ("model", "retrieval")
ON_CI = ("record", "live")
REDACT = ("pii", "strict")
OFF_SCRIPT = ("stop", "stub", "live")
TOOLS = ("frozen", "checked", "live")


def refuse_unknown(name: str, word: object, words: Sequence[str], hint: str = "") -> None:
    """Raise SettingsError when `word` is none of `words`, with what to write instead."""
    if word not in words:
        instead = f": {hint}" if hint else suggest_nearest(str(word), words)
        raise SettingsError(f"{name} does not take {word!r}{instead}")


def suggest_nearest(word: str, words: Sequence[str]) -> str:
    """Return the end of an error's sentence: the nearest right word, or all of them."""
    from difflib import get_close_matches

    close = get_close_matches(word, words, n=1)
    return f": did you mean {close[0]}?" if close else f": it is one of {', '.join(words)}"


def make_word_parser(*words: str) -> Callable[[Any, str], Any]:
    """Return a parser of a setting that takes one of several words."""

    def parse_word(value: Any, name: str) -> Any:
        refuse_unknown(name, value, words)
        return value

    return parse_word


parse_order = make_word_parser("auto", "recorded", "free", "loose")


def parse_mode(value: Any, name: str) -> dict[str, Any]:
    """Return the fields that a mode sets; an ini file or a marker, where empty is the default, sets fewer modes."""
    if name.startswith(("--", "the environment")):
        words = [word for word in MODES if name != "--replay" or word != "record"]
        refuse_unknown(name, value, words, "record with --snapshot-record" if value == "record" else "")
        return type_mode(value)
    hint = "recording is asked for each time, with --snapshot-record" if value == "record" else ""
    if value == "live":
        hint = "the model goes live only because the command line says so: type --replay=live, or set AGENTREPLAY=live"
    refuse_unknown(name, value or "model", ("model", "off"), hint)
    return {"mode": MODES[value or "model"]}


def type_mode(word: str, **fields: Any) -> dict[str, Any]:
    """Return the fields of a mode that the command line or the environment names."""
    return {"typed": word, "mode": MODES.get(word, "replay"), "model": "live" if word == "live" else "frozen", **fields}


def parse_record(*_: object) -> dict[str, Any]:
    """Return the fields of a session that records every selected test."""
    return type_mode("record")


def parse_record_missing(*_: object) -> dict[str, Any]:
    """Return the fields of a session that records tests without a snapshot, and replays the others."""
    return type_mode("missing", record_missing=True)


def parse_record_from(value: str, name: str) -> dict[str, Any]:
    """Return the fields of a session that records from a turn on, which may count from the end."""
    return type_mode("record", record_from=parse_turn(value, name))


def parse_vcr(value: str, _: str) -> dict[str, Any]:
    """Return the fields of a session that records tests on vcrpy from what that plays; none for its other uses."""
    return type_mode("convert", record_missing=True, converts=True) if value == "convert" else {}


def parse_clock(value: Any, name: str) -> dict[str, Any]:
    """Return one of the clocks, and whether answers take as long as they took: `paced` is `stepped`, and they do."""
    refuse_unknown(name, value, CLOCKS)
    return {"clock": "stepped" if value == "paced" else value, "waits": value == "paced"}


def parse_switch(value: Any, _: str) -> bool:
    """Return whether a setting is on; pytest has read the word."""
    return bool(value)


def parse_number(value: Any, name: str) -> int | None:
    """Return a whole number of at least 0; None for nothing."""
    text = str(value).strip().replace("_", "")
    if text and not text.isdecimal():
        raise SettingsError(f"{name} takes a whole number, not {value!r}")
    return int(text) if text else None


def parse_count(value: Any, name: str) -> int:
    """Return a whole number of at least 0, which is what nothing counts as."""
    return parse_number(value, name) or 0


def parse_limit(value: Any, name: str) -> int:
    """Return how many at most: True for as many as is usual, False for none."""
    if value is True:
        from pytest_agentreplay.backends.order_permutations import LIMIT

        return LIMIT
    if not isinstance(value, int) or value < 0:
        raise SettingsError(f"{name} takes how many orders to try, like 120, or True; not {value!r}")
    return int(value)


def parse_turn(value: str, name: str) -> int:
    """Return the number of a turn; that from which on is recorded may count from the end."""
    takes, sign = ("a turn like 3, or -1 for the last one", "-") if name == "--record-from" else ("a turn like 3", "")
    digits = value.removeprefix(sign)
    if not (digits.isdecimal() and int(digits)):
        raise SettingsError(f"{name} takes {takes}, not {value!r}")
    return int(value)


def parse_directory(value: Any, name: str) -> str:
    """Return the folder of snapshots, relative to the tests; never syrupy's, which deletes what it does not know."""
    text = str(value).strip().strip("/")
    parts = text.replace("\\", "/").split("/")
    if not text or str(value).startswith(("/", "\\")) or ":" in text or ".." in parts:
        raise SettingsError(f"{name}: {value!r} is no folder beside tests; write __agent_snapshots__")
    if "__snapshots__" in parts:
        why = "belongs to syrupy, whose --snapshot-update deletes foreign files there"
        raise SettingsError(f"{name}: __snapshots__ {why}; write __agent_snapshots__")
    return text


def parse_texts(value: Any, name: str) -> tuple[str, ...]:
    """Return a list of strings, as it is written in code."""
    # A string is none: it would be a list of its letters.
    if isinstance(value, (list, tuple, set, frozenset)) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise SettingsError(f"{name} takes a list of strings, not {value!r}")


def parse_pairs(value: Any, name: str) -> Pairs:
    """Return lines `left = right` (or `left  # right`, as reports suggest it), or a mapping of left to right."""
    if isinstance(value, dict):
        return tuple((str(left), str(right)) for left, right in value.items())
    lines = parse_texts(value, name)
    if not lines:  # most sessions: they load no language of paths
        return ()
    from pytest_agentreplay.model.path_parsing import split_path

    return tuple(split_path(line, " = " if " = " in line else " #") for line in lines)


def parse_kinds(value: Any, name: str, examples: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return what lines `kind:name` name, by kind. Raises SettingsError for a kind that has no example."""
    kinds: dict[str, tuple[str, ...]] = dict.fromkeys(examples, ())
    for line in parse_texts(value, name):
        kind, _, item = map(str.strip, line.partition(":"))
        if kind not in kinds or not item:
            likely = "" if kind in kinds else suggest_nearest(kind, [*kinds]).removesuffix("?")
            raise SettingsError(f"{name}: {line!r}{likely}; write it like {' or '.join(examples.values())}")
        kinds[kind] += (item,)
    return kinds


def parse_tools(value: Any, name: str) -> Pairs:
    """Return (import path or shown name, how) of each tool, model and retriever: see `Settings.tools`."""
    tools = []
    for path, line in parse_pairs(value, name):
        where = f"{name}: {path}"
        if ":" in path:
            raise SettingsError(f"{where}: an import path has dots alone: write {path.replace(':', '.')}")
        effects, shown_as, tool = f" {line} ".partition(" as ")
        effects = effects.strip() or "write"
        word = effects.partition(" ")[0]
        if path and "." not in path and line:
            refuse_unknown(where, line, ("read",) if "*" in path else ("read", "live"))
        elif "." not in path or not all(part.isidentifier() or part == "*" for part in path.split(".")):
            raise SettingsError(
                f"{name}: {path!r} is no import path; write a function like shop.tools.lookup_order = read, and a tool "
                "of a framework, by the name that the model knows, like lookup_order = read"
            )
        refuse_unknown(where, effects if word in EFFECTS else word, (*EFFECTS, *MODELS))
        if shown_as and word not in MODELS and (len(tool.split()) != 1 or path.endswith("*")):
            raise SettingsError(f"{where}: as gives one function the one name by which the model knows it")
        tools.append((path, line if word in MODELS else f"{effects}{shown_as}{tool.strip()}"))
    return tuple(tools)


def parse_off_script(value: Any, name: str) -> Pairs:
    """Return (tool, what a live run does with its calls that are not recorded): "stop", "live", or "stub" and JSON."""
    rows = parse_pairs(value, name)
    for tool, policy in rows:
        word, _, answer = policy.partition(" ")
        refuse_unknown(f"{name}: {tool or policy}", word, OFF_SCRIPT)
        if not tool or not (is_json(answer) if word == "stub" else not answer):
            line = f"{tool} = {policy}" if policy else tool
            raise SettingsError(f'{name}: {line!r}: write it like lookup = stub {{"status": "late"}}, or search = live')
    return rows


def is_json(text: str) -> bool:
    """Return whether a text is one value of JSON."""
    from json import loads

    try:
        loads(text)
    except ValueError:
        return False
    return True


def parse_functions(value: Any, name: str) -> Pairs:
    """Return (key, import path) of each runner of cases, or judge of tolerances: `refunds = shop.cases:run_refund`."""
    functions = parse_pairs(value, name)
    kind = "judge" if name.endswith("judges") else "runner"
    for key, path in functions:
        module, _, function = path.partition(":")
        if not key or not all(part.isidentifier() for part in (*module.split("."), *function.split("."))):
            line = f"{key} = {path}" if path else key
            raise SettingsError(f"{name}: {line!r} names no {kind}; write it like refunds = shop.cases:run_refund")
    return functions


def parse_ignored(value: Any, name: str) -> Pairs:
    """Return (what may differ, reason); a reason is required."""
    ignored = parse_pairs(value, name)
    for place, reason in ignored:
        if not reason:
            raise SettingsError(f"{name}: say why {place} may differ: {place} = the reason")
        try:
            make_rules(place, reason)
        except SettingsError as error:
            raise SettingsError(f"{name}: the line {place!r}: {error}") from error
    return ignored


def make_rules(place: str, reason: str) -> tuple[Rule, ...]:
    """Return the rules of a line of `agentreplay_ignore`. Raises SettingsError.

    "header:x-run", "query:ts" and "$.user" may differ. "host: PATTERN", "path: PATTERN" and "PLACE ~ REGEX" say which
    values are equal. "$.user" is a place in bodies and in arguments of tools.
    """
    from pytest_agentreplay.model.rules import Rule

    if place.endswith(" ~"):
        raise SettingsError("a regular expression is missing after the ~")
    place, _, pattern = (part.strip() for part in place.partition(" ~ "))
    part, colon, path = map(str.strip, place.partition(":"))
    scopes: tuple[str, ...] = ("http",)
    is_equal = bool(pattern)
    if part in {"host", "path"} and bool(colon) is not bool(pattern):
        path, is_equal = path if colon else "*", True
    elif part in {"header", "query"}:
        path = path.lower()
    else:
        scopes, part, path = ("http", "tool"), "body", place
    action, source = "equal" if is_equal else "drop", "agentreplay_ignore"
    return tuple(Rule(scope, part, path, action, reason, source, pattern=pattern) for scope in scopes)  # type: ignore[arg-type]


def parse_tolerances(value: Any, name: str) -> tuple[Tolerance, ...]:
    """Return what may differ, and where."""
    rows = parse_pairs(value, name)
    if not rows:
        return ()
    from pytest_agentreplay.compare.tolerance import Level, parse

    level = Level.TEST if name.startswith("@") else Level.INI
    try:
        return tuple(parse(place, how, level=level, source=name) for place, how in rows)
    except SettingsError as error:
        raise SettingsError(f"{name}: {error}") from error


def parse_allow(value: Any, name: str) -> dict[str, Any]:
    """Return what a replayed test may reach and start, by field of the settings."""
    kinds = parse_kinds(value, name, {"host": "host:db:5432", "program": "program:git"})
    return {"allow_hosts": kinds["host"], "allow_subprocess": kinds["program"]}


def parse_keep(value: Any, name: str) -> dict[str, Any]:
    """Return variables, files and headers that are kept, by field of the settings."""
    examples = {"env": "env:SHOP_REGION", "file": "file:data/*.json", "header": "header:x-tenant = match"}
    kinds = parse_kinds(value, name, examples)
    headers = parse_pairs(kinds["header"], name)
    for header, match in headers:
        if match not in {"", "match"}:
            raise SettingsError(f"{name}: header:{header} = {match}: write header:{header}, or header:{header} = match")
    fields = {"env": kinds["env"], "kept_files": kinds["file"]}
    fields["matched_headers"] = tuple(header.lower() for header, match in headers if match)
    return fields | {"headers": tuple(header for header, match in headers if not match)}


def parse_ci(value: Any, name: str) -> frozenset[str]:
    """Return what is allowed where `CI` is set: words, on one line or several."""
    words = " ".join(parse_texts(value, name)).replace(",", " ").split()
    for word in words:
        refuse_unknown(name, word, ON_CI)
    return frozenset(words)


def parse_redact(value: Any, name: str) -> tuple[str, ...]:
    """Return what is redacted beyond the shipped secrets: words and policy files; of a test, words alone."""
    if name.startswith("@"):
        words = parse_texts([value] if isinstance(value, str) else value, name)
        for word in words:
            refuse_unknown(name, word, REDACT, "a test takes pii or strict; files are for --redact")
        if "pii" in words:
            from pytest_agentreplay.redaction.pii import require_checks

            require_checks(name)
        return words
    words = tuple(word.strip() for line in value for word in line.split(","))
    for word in words:
        if not word or word.startswith("-"):  # the next flag, where this one has no value
            raise SettingsError(f"{name} takes pii, strict or a policy file, not {word!r}")
    folder = os.path.dirname(name.rpartition(": ")[0])  # noqa: PTH120  settings load nothing
    return tuple(word if word in REDACT else os.path.join(folder, word) for word in words)  # noqa: PTH118  as above


def parse_changes(value: Sequence[str], _: str) -> tuple[str, ...]:
    """Return what a live run changes in requests to models, each as NAME=VALUE without spaces around the sign."""
    return tuple("=".join(map(str.strip, text.split("=", 1))) for text in value)


def parse_checks(value: Any, name: str) -> dict[str, Any]:
    """Return what is reported of snapshots, by field of the settings; only what the lines name.

    `unused = fail`, `unproved = ignore`, `old = 90d`, `retired:MODEL = DATE`, `large = 2MB`, `largest = 64MB`.
    """
    if not (lines := parse_texts(value, name)):
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
        if word.startswith("retired:"):
            model = word.partition(":")[2].strip()
            if not model or not re.fullmatch(r"\d{4}-\d\d-\d\d", amount):
                raise SettingsError(f"{name}: {line!r}: write the day of a model like retired:my-model = 2026-01-31")
            fields["retired_models"] = (*fields.get("retired_models", ()), (model, amount))
            continue
        refuse_unknown(name, word, (*readers, "retired:MODEL"))
        field, example, read = readers[word]
        fields[field] = read(amount)
        if fields[field] is None:
            raise SettingsError(f"{name}: {line!r}: write {word} = {example}")
    return fields
