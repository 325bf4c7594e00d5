"""Ini + marker + flag + environment -> one frozen `Settings`. Alone knows precedence; takes mappings, knows no pytest.

Command line > environment AGENTREPLAY > marker > ini > default. `CI` only tightens. Imported at every pytest start, so
it imports the standard library and our errors, nothing else.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pytest_agentreplay.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Mode: TypeAlias = Literal["record", "replay", "off"]
MODES: dict[str, Mode] = {"record": "record", "model": "replay", "off": "off"}
CLOCKS = ("stepped", "real")
NOT_YET = {
    "live": "a real model on frozen tools is not there yet; --replay=model is",
    "verify": "tools that run and are compared are not there yet; --replay-tools=frozen is",
}

OPTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "--snapshot-record",
        {
            "action": "store_true",
            "dest": "agentreplay_record",
            "help": "run the selected tests live and write their agent snapshots; each is replayed once as a proof",
        },
    ),
    (
        "--replay",
        {
            "dest": "agentreplay_replay",
            "metavar": "MODE",
            "help": "model: serve every model and tool reply from the snapshots (also the default, but strict about "
            "edited files); off: pass everything through, record nothing",
        },
    ),
    (
        "--agentreplay-mode",
        {
            "dest": "agentreplay_mode",
            "metavar": "MODE",
            "help": "the same in one flag that no other plugin owns: record, model or off",
        },
    ),
    (
        "--replay-tools",
        {"dest": "agentreplay_tools_mode", "metavar": "HOW", "help": "what tools do in replay: frozen (default)"},
    ),
    (
        "--agentreplay-no-prove",
        {"action": "store_true", "dest": "agentreplay_no_prove", "help": "do not replay new recordings at once"},
    ),
    ("--agentreplay-adopt", {"dest": "agentreplay_adopt", "help": "==SUPPRESS=="}),
)

INI: tuple[tuple[str, dict[str, Any]], ...] = (
    ("agentreplay_mode", {"type": "string", "default": "", "help": "what `pytest` does without a flag: model or off"}),
    (
        "agentreplay_dir",
        {"type": "string", "default": "__agent_snapshots__", "help": "folder of the snapshots, beside the tests"},
    ),
    ("agentreplay_paths", {"type": "linelist", "default": [], "help": "folders whose tests take part without asking"}),
    (
        "agentreplay_tools",
        {
            "type": "linelist",
            "default": [],
            "help": "tools by import path, `shop.tools.lookup = read` or `shop.mail.*`",
        },
    ),
    ("agentreplay_ci_record", {"type": "bool", "default": False, "help": "allow recording although CI is set"}),
    ("agentreplay_prove", {"type": "bool", "default": True, "help": "replay each new recording at once, offline"}),
    ("agentreplay_clock", {"type": "string", "default": "stepped", "help": "the clock agents see: stepped or real"}),
    ("agentreplay_places", {"type": "bool", "default": True, "help": "store directories, host and user as marks"}),
    (
        "agentreplay_ignore",
        {"type": "linelist", "default": [], "help": "body fields to watch, not match: `$.path = reason`"},
    ),
    ("agentreplay_headers", {"type": "linelist", "default": [], "help": "further header names that may be stored"}),
    ("agentreplay_env", {"type": "linelist", "default": [], "help": "environment variables that may be stored"}),
    ("agentreplay_allow_hosts", {"type": "linelist", "default": [], "help": "hosts that stay open in replay"}),
    ("agentreplay_allow_subprocess", {"type": "linelist", "default": [], "help": "programs that may run in replay"}),
    ("agentreplay_max_bytes", {"type": "string", "default": "1MB", "help": "snapshots above this size are named"}),
)

MARKER_KEYWORDS = ("mode", "expect", "clock", "ignore", "allow_hosts", "allow_subprocess", "places", "seed", "tools")


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds for a test. `stated` says that somebody typed the mode; `strict` that an edited snapshot is an error.

    `tools` are (import path, "read" or "write"), `ignore` (JSON path, reason), `max_bytes` is in bytes.
    """

    mode: Mode = "replay"
    stated: bool = False
    ci: bool = False
    directory: str = "__agent_snapshots__"
    paths: tuple[str, ...] = ()
    tools: tuple[tuple[str, Literal["read", "write"]], ...] = ()
    prove: bool = True
    clock: Literal["stepped", "real"] = "stepped"
    places: bool = True
    ignore: tuple[tuple[str, str], ...] = ()
    headers: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    allow_hosts: tuple[str, ...] = ()
    allow_subprocess: tuple[str, ...] = ()
    max_bytes: int = 1_000_000
    expect: Literal["", "reproduces"] = ""
    seed: int | None = None
    adopt: str = ""

    @property
    def strict(self) -> bool:
        """Whether an edit that nobody sealed is an error rather than a warning."""
        return self.ci or self.stated

    def headline(self) -> str:
        """The header line: the whole matrix, in capitals where something is real."""
        match self.mode:
            case "record":
                how = "RECORDING: model LIVE, tools LIVE, network OPEN"
            case "off":
                return "agentreplay: OFF: model LIVE, tools LIVE, clock real, network OPEN; nothing is recorded"
            case _:
                how = "model frozen, tools frozen, network closed (L1)"
        return f"agentreplay: {how}, clock {self.clock}"

    def covers(self, path: Path, root: Path) -> bool:
        """Whether the test file `path` lies in a folder whose tests take part without asking."""
        return any(path.is_relative_to(root / folder) for folder in self.paths)

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The variables that may be stored; none unless named."""
        return {name: environ[name] for name in self.env if name in environ}

    def for_test(self, markers: Sequence[Mapping[str, Any]], *, proving: bool = False) -> Settings:
        """The settings of one test: its markers, closest first, below the command line. Raises SettingsError."""
        chosen: dict[str, Any] = {}
        for marker in reversed(markers):
            chosen |= {name: marked(name, value) for name, value in marker.items()}
        chosen.pop("tools", None)
        mode = chosen.pop("mode", None)
        if mode is not None and not self.stated:
            chosen["mode"] = mode
        if "ignore" in chosen:
            chosen["ignore"] = (*self.ignore, *chosen["ignore"])
        if "allow_hosts" in chosen:
            chosen["allow_hosts"] = (*self.allow_hosts, *chosen["allow_hosts"])
        if "allow_subprocess" in chosen:
            chosen["allow_subprocess"] = (*self.allow_subprocess, *chosen["allow_subprocess"])
        if proving:
            chosen["mode"] = "replay"
        return replace(self, **chosen)


def resolve(*, options: Mapping[str, Any], ini: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
    """The settings of a session. Raises SettingsError for what cannot be meant."""
    ci = environ.get("CI", "").lower() not in {"", "0", "false"}
    mode, stated = chosen_mode(options, environ.get("AGENTREPLAY", ""), str(ini["agentreplay_mode"] or ""))
    adopt = options.get("agentreplay_adopt") or ""
    if ci and (mode == "record" or adopt) and not ini["agentreplay_ci_record"]:
        raise SettingsError(
            f"recording on CI is refused: CI={environ['CI']} is set, and a snapshot made here would bless itself.\n"
            "Record at your desk and commit the snapshot, or set the ini key agentreplay_ci_record = true."
        )
    tools_mode = options.get("agentreplay_tools_mode") or "frozen"
    if tools_mode != "frozen":
        raise SettingsError(f"--replay-tools={tools_mode}: {not_yet(tools_mode, ('frozen',))}")
    return Settings(
        mode=mode,
        stated=stated,
        ci=ci,
        directory=folder(str(ini["agentreplay_dir"])),
        paths=tuple(ini["agentreplay_paths"]),
        tools=tuple(tool(line) for line in ini["agentreplay_tools"]),
        prove=bool(ini["agentreplay_prove"]) and not options.get("agentreplay_no_prove"),
        clock=clock("ini key agentreplay_clock", ini["agentreplay_clock"]),
        places=bool(ini["agentreplay_places"]),
        ignore=tuple(ignored("ini key agentreplay_ignore", line) for line in ini["agentreplay_ignore"]),
        headers=tuple(name.lower() for name in ini["agentreplay_headers"]),
        env=tuple(ini["agentreplay_env"]),
        allow_hosts=tuple(ini["agentreplay_allow_hosts"]),
        allow_subprocess=tuple(ini["agentreplay_allow_subprocess"]),
        max_bytes=size(str(ini["agentreplay_max_bytes"])),
        adopt=adopt,
    )


def chosen_mode(options: Mapping[str, Any], variable: str, ini: str) -> tuple[Mode, bool]:
    """The mode, and whether somebody typed it. Two flags that mean different things are refused."""
    typed: dict[str, Mode] = {}
    if options.get("agentreplay_record"):
        typed["--snapshot-record"] = "record"
    if (value := options.get("agentreplay_replay")) is not None:
        if value == "record":
            raise SettingsError("--replay=record: recording is --snapshot-record")
        typed[f"--replay={value}"] = mode_named(f"--replay={value}", value)
    if (value := options.get("agentreplay_mode")) is not None:
        typed[f"--agentreplay-mode={value}"] = mode_named(f"--agentreplay-mode={value}", value)
    if len(set(typed.values())) > 1:
        raise SettingsError(f"{' and '.join(typed)}: choose one; a run is recorded or replayed, never both")
    if typed:
        return next(iter(typed.values())), True
    if variable:
        return mode_named(f"environment variable AGENTREPLAY={variable}", variable), True
    if ini == "record":
        raise SettingsError("ini key agentreplay_mode = record: recording is asked for by hand, with --snapshot-record")
    return (mode_named(f"ini key agentreplay_mode = {ini}", ini), False) if ini else ("replay", False)


def mode_named(where: str, word: str) -> Mode:
    """The mode that `word` names."""
    if word not in MODES:
        raise SettingsError(f"{where}: {not_yet(word, MODES)}")
    return MODES[word]


def not_yet(word: str, known: Iterable[str]) -> str:
    """What to say about a word that means nothing here, or not yet."""
    return NOT_YET.get(word) or unknown(word, known)


def unknown(word: str, known: Iterable[str]) -> str:
    """What to say about an unknown word: the nearest known one, or all."""
    words = sorted(known)
    near = difflib.get_close_matches(word, words, 1)
    return f"did you mean {near[0]}?" if near else f"use one of {', '.join(words)}"


def check_ini_keys(keys: Iterable[str], file: str) -> None:
    """Raise SettingsError for a key that starts like ours and is none."""
    known = [key for key, _ in INI]
    for key in keys:
        if key.startswith("agentreplay") and key not in known:
            raise SettingsError(f"{file}: unknown ini key {key}; {unknown(key, known)}")


def marked(name: str, value: Any) -> Any:
    """The value of one marker keyword. Raises SettingsError naming it."""
    where = f"@pytest.mark.agentreplay({name}={value!r})"
    match name:
        case "mode":
            if value == "record":
                raise SettingsError(f"{where}: recording is asked for by hand, with --snapshot-record")
            return mode_named(where, value)
        case "expect":
            if value != "reproduces":
                raise SettingsError(f'{where}: the only expectation is "reproduces"')
            return value
        case "clock":
            return clock(where, value)
        case "ignore":
            lines = [value] if isinstance(value, str) else list(value)
            return tuple(ignored(where, line) for line in lines)
        case "allow_hosts" | "allow_subprocess":
            return (value,) if isinstance(value, str) else tuple(value)
        case "places":
            return bool(value)
        case "seed":
            if not isinstance(value, int):
                raise SettingsError(f"{where}: a seed is a whole number")
            return value
        case "tools":
            if value != "frozen":
                raise SettingsError(f"{where}: {not_yet(str(value), ('frozen',))}")
            return value
        case _:
            raise SettingsError(f"{where}: unknown keyword; {unknown(name, MARKER_KEYWORDS)}")


def clock(where: str, value: Any) -> Literal["stepped", "real"]:
    """A clock by its name."""
    if value == "virtual":
        raise SettingsError(f"{where}: the virtual clock is not there yet; stepped is")
    if value not in CLOCKS:
        raise SettingsError(f"{where} = {value}: {unknown(str(value), CLOCKS)}")
    return value  # type: ignore[no-any-return]


def ignored(where: str, line: str) -> tuple[str, str]:
    """A line "$.path = reason"; the reason is not optional, because an ignored field is a hole."""
    path, _, reason = line.partition("=")
    if not path.strip().startswith("$") or not reason.strip():
        raise SettingsError(f'{where}: "{line}" needs the form "$.path = why it may differ unseen"')
    return path.strip(), reason.strip()


def tool(line: str) -> tuple[str, Literal["read", "write"]]:
    """A line "shop.tools.lookup = read"; write unless said otherwise."""
    path, _, effects = (part.strip() for part in line.partition("="))
    if effects not in {"", "read", "write"}:
        raise SettingsError(f'ini key agentreplay_tools: "{line}": effects are read or write')
    if "." not in path:
        raise SettingsError(f'ini key agentreplay_tools: "{line}": give an import path like shop.tools.refund')
    return path, "read" if effects == "read" else "write"


def folder(name: str) -> str:
    """The name of the snapshots' folder. Never __snapshots__: syrupy deletes what it does not know there."""
    if not name or Path(name).is_absolute() or ".." in Path(name).parts or name == "__snapshots__":
        raise SettingsError(
            f"ini key agentreplay_dir = {name}: give a relative folder beside the tests, and not __snapshots__, "
            "where syrupy deletes files that it does not own"
        )
    return name


def size(text: str) -> int:
    """A size in bytes: "1MB", "500kB", "200000"."""
    plain = text.strip().lower().removesuffix("b")
    factor = {"k": 1_000, "m": 1_000_000, "g": 1_000_000_000}.get(plain[-1:], 1)
    try:
        return int(float(plain.rstrip("kmg")) * factor)
    except ValueError:
        raise SettingsError(f"ini key agentreplay_max_bytes = {text}: give a size like 1MB or 500kB") from None
