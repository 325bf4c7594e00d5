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
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pytest_agentreplay.compare.tolerance import Tolerance
    from pytest_agentreplay.model.rules import Rule

Mode: TypeAlias = Literal["record", "replay", "off"]
Pairs: TypeAlias = tuple[tuple[str, str], ...]
Prices: TypeAlias = tuple[tuple[str, tuple[float, float]], ...]

# What people type -> the mode. "missing" and "convert", which flags of their own type, replay what is recorded.
MODES: Mapping[str, Mode] = {"record": "record", "model": "replay", "live": "replay", "off": "off"}
REDACT = ("pii", "strict")
# What live runs take, each with a number of its kind: these are examples in errors, and no defaults.
RATES = "p0=0.95 p1=0.80 alpha=0.05 beta=0.10"
BUDGET = "calls=100 tokens=50000 usd=2.00 assumed_output=4096"
# Numbers and names as people write them; `\d` and `\w` take those of every language, as `int` and Python do.
POSITIVE = r"0*[1-9]\d*"
DECIMAL = r"(\d+\.?\d*)"
DOTTED = r"[^\W\d]\w*(\.[^\W\d]\w*)*"


def check_word(name: str, word: Any, words: Sequence[str], hint: str = "") -> Any:
    """Return `word`. Raises SettingsError when it is none of `words`, with what to write instead."""
    if word not in words:
        instead = f": {hint}" if hint else suggest_nearest(str(word), words)
        raise SettingsError(f"{name} does not take {word!r}{instead}")
    return word


def suggest_nearest(word: str, words: Sequence[str]) -> str:
    """Return the end of an error's sentence: the nearest right word, or all of them."""
    from difflib import get_close_matches

    close = get_close_matches(word, words, n=1)
    return f": did you mean {close[0]}?" if close else f": it is one of {', '.join(words)}"


def make_word_parser(*words: str) -> Callable[[Any, str], Any]:
    """Return a parser of a setting that takes one of several words."""
    return lambda value, name: check_word(name, value, words)


parse_order = make_word_parser("auto", "recorded", "free", "loose")


def parse_mode(value: Any, name: str) -> dict[str, Any]:
    """Return the fields that a mode sets; an ini file or a marker sets fewer modes than the command line."""
    is_typed = name.startswith(("--", "the environment"))
    words = [word for word in MODES if name != "--replay" or word != "record"] if is_typed else ["model", "off"]
    hints = {
        "record": "recording is asked for each time, with --snapshot-record",
        "live": "the model goes live only because the command line says so: say --replay=live, or set AGENTREPLAY=live",
    }
    check_word(name, value, words, hints.get(value, ""))
    return type_mode(value) if is_typed else {"mode": MODES[value]}


def type_mode(word: str, **fields: Any) -> dict[str, Any]:
    """Return the fields of a mode that the command line or the environment names."""
    mode, model = MODES.get(word, "replay"), "live" if word == "live" else "frozen"
    return {"typed": word, "mode": mode, "model": model, "record_missing": word in {"missing", "convert"}, **fields}


def make_mode_parser(word: str) -> Callable[[Any, str], dict[str, Any]]:
    """Return the parser of a flag that asks for a mode by itself."""
    return lambda *_: type_mode(word)


def parse_vcr(value: str, _: str) -> dict[str, Any]:
    """Return the fields of a session that records tests on vcrpy from what that plays; none for its other uses."""
    return type_mode("convert") if value == "convert" else {}


def parse_clock(value: Any, name: str) -> dict[str, Any]:
    """Return one of the clocks, and whether answers take as long as they took: `paced` is `stepped`, and they do."""
    check_word(name, value, ("stepped", "real", "virtual", "paced"))
    return {"clock": "stepped" if value == "paced" else value, "waits": value == "paced"}


def parse_switch(value: Any, _: str) -> bool:
    """Return whether a setting is on; pytest has read the word."""
    return bool(value)


def make_number_parser(takes: str, pattern: str, words: Mapping[str, int] = {}) -> Callable[[Any, str], int]:
    """Return a parser of whole numbers of a pattern, or of `words` for them; errors say what it `takes`."""

    def parse_number(value: Any, name: str) -> int:
        text = str(value).strip().replace("_", "")
        if text in words:
            return words[text]
        if not re.fullmatch(pattern, text):
            raise SettingsError(f"{name} takes {takes}, not {value!r}")
        return int(text)

    return parse_number


parse_count = make_number_parser("a whole number", r"\d+")
parse_turn = make_number_parser("a turn like 3", POSITIVE)
parse_turn_from_either_end = make_number_parser("a turn like 3, or -1 for the last one", f"-?{POSITIVE}")
parse_sample = make_number_parser("a number of at least 1", POSITIVE)
parse_runs = make_number_parser("auto or a number of runs above zero", POSITIVE, {"auto": 0})
# 120 is `order_permutations.LIMIT`, which no start of pytest loads.
parse_limit = make_number_parser("how many orders to try, like 120, or True", r"\d+", {"True": 120, "False": 0})


def parse_record_from(value: str, name: str) -> dict[str, Any]:
    """Return the fields of a session that records from a turn on, which may count from the end."""
    return type_mode("record", record_from=parse_turn_from_either_end(value, name))


def parse_amounts(text: str, name: str, example: str = BUDGET) -> dict[str, float]:
    """Return amounts above zero by unit, "calls=100 usd=2.00". Units, and which are whole, are those of `example`."""
    units = dict(word.split("=") for word in example.split())
    amounts = {}
    for word in text.split() or [""]:  # an empty text, as of a variable that is not set, is not "no limit"
        unit, _, amount = word.partition("=")
        check_word(name, unit, [*units], "" if word else f"write one or more of {example}")
        if unit in amounts:
            raise SettingsError(f"{name}: {unit} is given twice: give one value")
        kind, pattern = ("whole ", r"\d+(\.0*)?") if units[unit].isdecimal() else ("", DECIMAL)
        limit = " and below 1" if units[unit].startswith("0.") else ""
        if not re.fullmatch(pattern, amount) or not float(amount) or (limit and float(amount) >= 1):
            takes = f"a {kind}number above zero{limit}, like {unit}={units[unit]}"
            raise SettingsError(f"{name}: {word!r}: {unit} takes {takes}")
        amounts[unit] = float(amount)
    return amounts


def parse_budget(value: str, name: str) -> dict[str, Any]:
    """Return what live runs may ask of models, by unit, as a field of the settings."""
    return {"replay_budget": parse_amounts(value, name)}


def parse_live(value: str, name: str) -> dict[str, Any]:
    """Return the rates of the test that decides about live runs, and what these may cost, by field of the settings."""
    amounts = parse_amounts(value, name, f"{RATES} {BUDGET}")
    rates = {unit: amounts.pop(unit) for unit in ("p0", "p1", "alpha", "beta") if unit in amounts}
    return {"rates": rates, "replay_budget": amounts}


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
    from pytest_agentreplay.model.path_parsing import split_path

    return tuple(split_path(line, " = " if " = " in line else " #") for line in parse_texts(value, name))


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


def read_rows(read: Callable[..., Any], rows: Iterable[tuple[str, ...]], name: str) -> tuple[Any, ...]:
    """Return what `read` makes of each row; where it refuses one, the error begins with the name of the place."""
    try:
        return tuple(read(*row) for row in rows)
    except SettingsError as error:
        raise SettingsError(f"{name}: {error}") from error


def make_pair_parser(read: Callable[[str, str], Any]) -> Callable[[Any, str], tuple[Any, ...]]:
    """Return a parser of lines `left = right`, each of which `read` reads or refuses."""
    return lambda value, name: read_rows(read, parse_pairs(value, name), name)


def read_tool(path: str, line: str) -> tuple[str, str]:
    """Return (import path or shown name, how) of a tool, model or retriever: see `Settings.tools`."""
    if ":" in path:
        raise SettingsError(f"{path}: an import path has dots alone: write {path.replace(':', '.')}")
    effects, shown_as, tool = f" {line} ".partition(" as ")
    effects = effects.strip() or "write"
    word = effects.partition(" ")[0]
    if path and "." not in path and line:
        check_word(path, line, ("read",) if "*" in path else ("read", "live"))
    elif "." not in path or not all(part.isidentifier() or part == "*" for part in path.split(".")):
        raise SettingsError(
            f"{path!r} is no import path; write a function like shop.tools.lookup_order = read, and a tool of a "
            "framework, by the name that the model knows, like lookup_order = read"
        )
    check_word(path, word, ("read", "write", "live", "model", "retrieval"))
    if word in {"model", "retrieval"}:
        return path, line
    check_word(path, effects, ("read", "write", "live"))
    if shown_as and (len(tool.split()) != 1 or path.endswith("*")):
        raise SettingsError(f"{path}: as gives one function the one name by which the model knows it")
    return path, f"{effects}{shown_as}{tool.strip()}"


def read_policy(tool: str, policy: str) -> tuple[str, str]:
    """Return a tool, and what a live run does with its calls that are not recorded: "stop", "live", "stub" and JSON."""
    word, _, answer = policy.partition(" ")
    check_word(tool or policy, word, ("stop", "stub", "live"))
    if not tool or not (is_json(answer) if word == "stub" else not answer):
        line = f"{tool} = {policy}" if policy else tool
        raise SettingsError(f'{line!r}: write it like lookup = stub {{"status": "late"}}, or search = live')
    return tool, policy


def is_json(text: str) -> bool:
    """Return whether a text is one value of JSON."""
    from json import loads

    try:
        loads(text)
    except ValueError:
        return False
    return True


def read_function(key: str, path: str) -> tuple[str, str]:
    """Return the key and the import path of a runner of cases, or a judge: `refunds = shop.cases:run_refund`."""
    if not key or not re.fullmatch(f"{DOTTED}:{DOTTED}", path):
        line = f"{key} = {path}" if path else key
        raise SettingsError(f"{line!r} names no function; write it like refunds = shop.cases:run_refund")
    return key, path


def read_ignored(place: str, reason: str) -> tuple[str, str]:
    """Return what may differ, and the reason, which is required."""
    if not reason:
        raise SettingsError(f"say why {place} may differ: {place} = the reason")
    read_rows(make_rules, [(place, reason)], f"the line {place!r}")
    return place, reason


def read_price(model: str, text: str) -> tuple[str, tuple[float, float]]:
    """Return a pattern of model names, and the dollars for a million tokens of input and of output."""
    price = re.fullmatch(rf"{DECIMAL}\s+in[\s,]+{DECIMAL}\s+out", text)
    if price is None:
        wrong = [word for word in re.findall(r"[^\W\d]+", text) if word not in {"in", "out"}]
        why = f": {wrong[0]!r} is neither in nor out" if wrong else ""
        raise SettingsError(f"{model!r} has no price{why}; write dollars per million tokens: gpt-5 = 1.25 in, 10 out")
    return model, (float(price[1]), float(price[2]))


parse_tools = make_pair_parser(read_tool)
parse_off_script = make_pair_parser(read_policy)
parse_functions = make_pair_parser(read_function)
parse_ignored = make_pair_parser(read_ignored)
parse_prices = make_pair_parser(read_price)


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
    action = "equal" if pattern else "drop"
    if part in {"host", "path"} and bool(colon) is not bool(pattern):
        path, action = path if colon else "*", "equal"
    elif part in {"header", "query"}:
        path = path.lower()
    else:
        scopes, part, path = ("http", "tool"), "body", place
    source = "agentreplay_ignore"
    return tuple(Rule(scope, part, path, action, reason, source, pattern=pattern) for scope in scopes)  # type: ignore[arg-type]


def parse_tolerances(value: Any, name: str) -> tuple[Tolerance, ...]:
    """Return what may differ, and where."""
    from pytest_agentreplay.compare.tolerance import Level, parse

    level = Level.TEST if name.startswith("@") else Level.INI
    return make_pair_parser(lambda place, how: parse(place, how, level=level, source=name))(value, name)


def parse_allow(value: Any, name: str) -> dict[str, Any]:
    """Return what a replayed test may reach and start, by field of the settings."""
    from pytest_agentreplay.intercept.session.hosts import HostRule

    kinds = parse_kinds(value, name, {"host": "host:db:5432", "program": "program:git"})
    read_rows(HostRule.parse, zip(kinds["host"]), name)  # refuses here, where the place is known
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


def parse_ci(value: Any, name: str) -> tuple[str, ...]:
    """Return what is allowed where `CI` is set: words, on one line or several."""
    words = " ".join(parse_texts(value, name)).replace(",", " ").split()
    return tuple(check_word(name, word, ("record", "live")) for word in words)


def parse_redact(value: Any, name: str) -> tuple[str, ...]:
    """Return what is redacted beyond the shipped secrets: words and policy files; of a test, words alone."""
    if name.startswith("@"):
        words = parse_texts([value] if isinstance(value, str) else value, name)
        for word in words:
            check_word(name, word, REDACT, "a test takes pii or strict; files are for --redact")
        if "pii" in words:
            from pytest_agentreplay.redaction.pii import require_checks

            require_checks(name)
        return words
    words = tuple(word.strip() for line in parse_texts(value, name) for word in line.split(","))
    folder = os.path.dirname(name.rpartition(": ")[0])  # noqa: PTH120  settings load nothing
    paths = tuple(word if word in REDACT else os.path.join(folder, word) for word in words)  # noqa: PTH118  as above
    for word, path in zip(words, paths, strict=True):
        if path not in REDACT and not os.path.isfile(path):  # noqa: PTH113  as above
            raise SettingsError(f"{name} takes pii, strict or a policy file, and there is no file {word!r}")
    return paths


def parse_changes(value: Sequence[str], _: str) -> tuple[str, ...]:
    """Return what a live run changes in requests to models, each as NAME=VALUE without spaces around the sign."""
    return tuple("=".join(map(str.strip, text.split("=", 1))) for text in value)


def parse_checks(value: Any, name: str) -> dict[str, Any]:
    """Return what is reported of snapshots, by field of the settings; only what the lines name.

    `unused = fail`, `unproved = ignore`, `old = 90d`, `retired:MODEL = DATE`, `large = 2MB`, `largest = 64MB`.
    """
    from pytest_agentreplay.model.sizes import parse_size

    # Field, what to write, and what reads it: None for what it does not take.
    checks: dict[str, tuple[str, str, Callable[[str], Any]]] = {
        "unused": ("unused", "warn, fail or ignore", {"warn": "warn", "fail": "fail", "ignore": "ignore"}.get),
        "unproved": ("prove", "warn or ignore", {"warn": True, "ignore": False}.get),
        "old": ("stale_days", "180d", lambda age: int(age.rstrip("d")) if re.fullmatch(r"\d+d?", age) else None),
        "large": ("max_bytes", "1MB", parse_size),
        "largest": ("largest", "32MB", parse_size),
        "retired:MODEL": ("retired_models", "2026-01-31", lambda day: re.fullmatch(r"\d{4}-\d\d-\d\d", day) and day),
    }
    fields: dict[str, Any] = {}
    for line in parse_texts(value, name):
        word, _, text = map(str.strip, line.partition("="))
        model = word.removeprefix("retired:").strip() if word.startswith("retired:") else ""
        check = "retired:MODEL" if model else word
        check_word(name, check, [*checks])
        field, example, read = checks[check]
        result = read(text)
        if result is None:
            raise SettingsError(f"{name}: {line!r}: write {word} = {example}")
        fields[field] = (*fields.get(field, ()), (model, result)) if model else result
    return fields
