"""Settings: command line, environment, marker and ini as one frozen value. Alone knows what wins over what.

Command line > `AGENTREPLAY` > marker > ini > default; lists of the marker are added to those of the ini file. `CI`
only tightens. Takes plain mappings, so that it is tested without pytest; loads nothing, since pytest always loads it.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, TypeAlias, dataclass_transform

from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.settings.parsers import (
    FIELDS,
    GROUPS,
    PARSERS,
    REDACT,
    REPLAY_TOOLS,
    SANDBOXES,
    checks_of,
    ci_of,
    directory,
    live_by_word,
    nearest,
    number,
    redact_of,
    refuse_unknown,
    rules_of,
    texts,
)
from pytest_agentreplay.settings.tables import INI, MARKER, OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from pytest_agentreplay.backends.order_permutations import OrderTrial
    from pytest_agentreplay.compare.live_result import Axes, ModelAxis, ToolsAxis
    from pytest_agentreplay.compare.tolerance import Tolerance, TolerancePolicy
    from pytest_agentreplay.model.exchanges import JsonObject
    from pytest_agentreplay.model.rules import Rule
    from pytest_agentreplay.redaction.policy import Policy
    from pytest_agentreplay.settings.live_runs import LiveRuns
    from pytest_agentreplay.settings.parsers import Clocks, Orders

__all__ = ["INI", "MARKER", "OPTIONS", "POLICY", "Mode", "Settings", "resolve"]

Mode: TypeAlias = Literal["record", "replay", "off"]

MODES: Mapping[str, Mode] = {"record": "record", "model": "replay", "live": "replay", "off": "off"}
POLICY = "agentreplay-policy.yaml"
"""The project's own policy, in its root; it counts where it is there."""
TOLERANCES = "agentreplay-tolerances.yaml"
"""The project's own tolerances, in its root likewise."""
EXPECTATIONS = ("reproduces",)
MISSING_NOT_ON_CI = (
    "--snapshot-record-missing is refused because CI is set: a test without a snapshot must fail there.\n"
    "Record on your machine and commit the snapshot."
)
NOT_ON_CI = (
    "recording is refused because CI is set: a job that records accepts any answer, a wrong one too.\n"
    "Record on your machine and commit the snapshot; a job that is meant to record sets agentreplay_ci = record"
)


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Values:
    """Named values that never change; each is that of the class until it is replaced.

    To make a NamedTuple or a dataclass of as many takes 0.7 ms, a fifth of what the plugin adds to pytest's start.
    """

    def __init__(self, **values: Any) -> None:
        """Raises TypeError for a name that the class has not."""
        if unknown := values.keys() - type(self).__annotations__.keys():
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(unknown))}")
        vars(self).update(values)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        """Refuse: values never change."""
        raise AttributeError(f"{name} cannot be set: say _replace")

    def __eq__(self, other: object) -> bool:
        """Return whether the other is of the same class, with equal values."""
        names = type(self).__annotations__
        return type(self) is type(other) and all(getattr(self, name) == getattr(other, name) for name in names)

    __hash__ = None  # type: ignore[assignment]

    def _replace(self, **values: Any) -> Self:
        """Return the same with other values. Raises TypeError for a name that the class has not."""
        return type(self)(**vars(self) | values)


class Settings(Values):
    """What holds for the session, or for one test (`for_test`).

    `strict` refuses edited snapshots. `typed` names what the command line or the environment has set, which no marker
    changes. `tools` holds (import path, "read", "write" or "live" and perhaps " as " and the shown name, or "model" or
    "retrieval" and the name of a model) and (shown name, "read" or "live"), `runners` (key, "module:function"),
    `timeout` the seconds that each of these may take, `tolerances` (tool and place, what may differ), `off_script`
    (tool, what a live run does with calls that are not recorded), `changes` (what a live
    run changes in requests to models, "NAME=VALUE"), `ignored` (what may differ, reason). `released` are the layers
    that a line-up releases in this run (see `Axes`). `adopt` is the reason for taking changed requests under old
    replies, `adopt_codes` the kinds of changes that are taken (all where it is empty), `adopt_dry` writes nothing.
    `record_missing` records a test that has no snapshot. `record_from` is the turn from which a recording asks the
    real model, negative from the end (0: it asks for all). `waits` lets replies take as long as they took, as the clock
    `paced` does. `permutations` says in how many other orders of answers a test is replayed too, `trial` which one of
    them this is. `redact` names
    what is taken off beyond the shipped secrets (words, files); `policy` is that, read and joined with the project's
    own, None as long as nobody has. `toml` says whether the file that configures pytest is one of TOML.
    `live_runs` says how many live runs there are, and what they may cost. `strict_keys` fails a replay whose requests
    differ in fields that are not compared. `invariants` name functions of the project, "module:function", that hold in
    every neighbour of a recording, `fuzz` is the seed and number of the neighbours on which each test is replayed too,
    `neighbours` the number of those on which a fixed case is tried. `replay_break` is the turn at which a replay stops
    in the debugger, 0 for none. `stale_days` is the age from which on a snapshot is stale, `retired_models` are (id,
    day) beyond the shipped table.
    """

    mode: Mode = "replay"
    strict: bool = False
    typed: frozenset[str] = frozenset()
    directory: str = "__agent_snapshots__"
    paths: tuple[str, ...] = ()
    tools: tuple[tuple[str, str], ...] = ()
    runners: tuple[tuple[str, str], ...] = ()
    timeout: float = 120
    model: ModelAxis = "frozen"
    replay_tools: ToolsAxis = "frozen"
    live_runs: LiveRuns | None = None
    released: frozenset[str] | None = None
    tolerances: tuple[Tolerance, ...] = ()
    judges: tuple[tuple[str, str], ...] = ()
    off_script: tuple[tuple[str, str], ...] = ()
    changes: tuple[str, ...] = ()
    prove: bool = True
    clock: Clocks = "stepped"
    order: Orders = "auto"
    waits: bool = False
    seed: int | None = None
    expect: Literal["", "reproduces"] = ""
    allow_hosts: tuple[str, ...] = ()
    allow_subprocess: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    kept_files: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    matched_headers: tuple[str, ...] = ()
    ignored: tuple[tuple[str, str], ...] = ()
    places: bool = True
    max_bytes: int = 1_000_000
    largest: int = 32 * 1024 * 1024
    adopt: str = ""
    adopt_codes: tuple[str, ...] = ()
    adopt_dry: bool = False
    record_missing: bool = False
    converts: bool = False
    record_from: int = 0
    unused: str = "warn"
    children: tuple[str, ...] = ()
    sandbox: str = "off"
    on_ci: bool = False
    permutations: int = 0
    trial: OrderTrial | None = None
    redact: tuple[str, ...] = ()
    policy: Policy | None = None
    toml: bool = False
    strict_keys: bool = False
    invariants: tuple[str, ...] = ()
    fuzz: tuple[int, int] = (0, 0)
    neighbours: int = 0
    replay_break: int = 0
    stale_days: int = 180
    retired_models: tuple[tuple[str, str], ...] = ()

    @property
    def read_tools(self) -> tuple[str, ...]:
        """The tools of frameworks that change nothing, by shown name."""
        return tuple(name for name, how in self.tools if "." not in name and how == "read")

    def declared(self, *words: str) -> tuple[tuple[str, str], ...]:
        """Return the functions that `tools` declares by one of these words, and all that it says of each."""
        return tuple(row for row in self.tools if "." in row[0] and row[1].split()[0] in words)

    @property
    def redacted(self) -> Policy:
        """What is taken off beyond the shipped secrets."""
        from pytest_agentreplay.redaction.policy import PLAIN, Policy, join_policies

        return join_policies(self.policy or PLAIN, Policy(pii="pii" in self.redact, strict="strict" in self.redact))

    @property
    def rules(self) -> tuple[Rule, ...]:
        """What may differ, as rules for matching. Raises SettingsError for a path that is none."""
        return tuple(rule for text, reason in self.ignored for rule in rules_of(text, reason))

    @property
    def near(self) -> TolerancePolicy:
        """What results of verified tools, and a live run, may differ in."""
        from pytest_agentreplay.compare.tolerance import TolerancePolicy

        return TolerancePolicy(self.tolerances)

    @property
    def axes(self) -> Axes:
        """Which of model and tools a replay asks for real."""
        from pytest_agentreplay.compare.live_result import Axes

        return Axes(self.model, self.replay_tools, self.released)

    def written(self, message: str) -> str:
        """Return a message that ends with a setting, that setting in the form of the project's file."""
        if not self.toml:
            return message
        from pytest_agentreplay.settings.tables import in_toml

        return in_toml(message)

    def for_test(self, markers: Sequence[Mapping[str, object]], *, proving: bool = False) -> Settings:
        """Return the settings of one test: `markers` holds the keywords of its markers, the closest first.

        `proving` replays whatever the mode is. Raises SettingsError for a keyword or value that is invalid.
        """
        settings = self
        for keywords in reversed(markers):
            settings = marked(settings, keywords)
        if not proving:
            return settings
        frozen = settings._replace(model="frozen", replay_tools="frozen", released=None)
        return frozen._replace(mode="replay", strict=False, record_missing=False, converts=False, record_from=0)

    def covers(self, path: Path, root: Path) -> bool:
        """Return whether the test file at `path` opted in by its folder."""
        return any(path.is_relative_to(root / folder) for folder in self.paths)

    def environment(self, environ: Mapping[str, str]) -> JsonObject:
        """Return the variables that may be stored."""
        from pytest_agentreplay.redaction.secret_names import allowed_environment

        return dict(allowed_environment(environ, (*self.env, *self.redacted.environment)))

    def reaches(self) -> str:
        """Return what a replay needs a network for, in words; "" for nothing."""
        if self.allow_hosts:
            return f"may reach {', '.join(self.allow_hosts)}"
        return "has children, which reach their gateway by loopback" if self.children else ""

    def in_cell(self, cell: str) -> Settings:
        """Return the settings of a run of one cell (see `Axes`): no more is live than here."""
        tools: ToolsAxis = self.replay_tools if cell[1] == "L" else "frozen"
        return self._replace(model="live" if cell[0] == "L" else "frozen", replay_tools=tools)

    def live_parts(self) -> list[str]:
        """Return what a replay asks for real, and gives to the agent; checked tools are only compared."""
        return ["the model"] * (self.model == "live") + ["tools that read"] * (self.replay_tools == "live")

    def headline(self) -> str:
        """Return the session's header line: what is frozen, and in capitals what is not."""
        clock = "paced" if self.waits else "still between calls" if self.clock == "stepped" else self.clock
        match self.mode:
            case "record" if self.record_from:
                parts = f"model LIVE from turn {self.record_from} on" + ", reads LIVE" * (self.replay_tools == "live")
                return f"agentreplay: FORKING into pending runs, {parts}, else frozen, clock {clock}, network OPEN"
            case "record":
                return f"agentreplay: RECORDING, model LIVE, tools LIVE, clock {clock}, network OPEN"
            case "off":
                return "agentreplay: OFF, everything runs LIVE and nothing is recorded"
            case "replay":
                hosts = f", open to {', '.join(self.allow_hosts)}" if self.allow_hosts else ""
                tools = {"frozen": "tools frozen", "checked": "read tools CHECKED"}.get(
                    self.replay_tools, "read tools LIVE"
                )
                live = sum(how.partition(" ")[0] == "live" for _, how in self.tools)
                tools += f" but {live} LIVE" if live else ""
                if reached := self.live_parts():
                    model = "LIVE" if self.model == "live" else "frozen"
                    opened = f"network OPEN to {' and to '.join(reached)}"
                    return f"agentreplay: model {model}, {tools}, clock {clock}, {opened}{hosts}"
                auto = ", by the kernel if every test replays" if sys.platform == "linux" else ", not by the kernel"
                level = {"off": "", "require": " by the kernel"}.get(self.sandbox, auto)
                frozen = f"model frozen, {tools}, clock {clock}, offline{level}{hosts}"
                missing = "; tests without a snapshot are RECORDED LIVE" if self.record_missing else ""
                return f"agentreplay: {frozen}{missing}"


def resolve(
    options: Mapping[str, Any],
    ini: Mapping[str, Any],
    environ: Mapping[str, str],
    *,
    written: Iterable[str] = (),
    file: str = "",
    typed_words: Iterable[str] = (),
) -> Settings:
    """Return the settings of a session. `written` are the keys that stand in the ini `file`, known or not.

    `typed_words` are those of the command line, without what `addopts` adds.

    Raises SettingsError, which names the flag, variable or key and the nearest right word.
    """
    where = f"{file}: " if file else ""
    table = {key: options_of["default"] for key, options_of in INI} | dict(ini)
    refuse_unknown_keys(written, table, where)
    allowed_on_ci = ci_of(table["agentreplay_ci"], f"{where}agentreplay_ci")
    word, typed = mode_of(options, table, environ, where)
    mode = MODES[word]
    on_ci = environ.get("CI", "").strip().lower() not in {"", "0", "false", "no"}
    if mode == "record" and on_ci and "record" not in allowed_on_ci:
        raise SettingsError(NOT_ON_CI)
    missing = record_missing_of(options, on_ci=on_ci, allowed="record" in allowed_on_ci)
    lives = "record" if missing else mode
    adopt = adopt_of(options.get("agentreplay_adopt"), word, refused=on_ci and "record" not in allowed_on_ci)
    replay_tools: Any = options.get("agentreplay_replay_tools") or "frozen"
    refuse_unknown("--replay-tools", replay_tools, REPLAY_TOOLS)
    until = turn_of(options.get("agentreplay_record_from"), "--record-from", "a turn like 3, or -1 for the last one")
    if replay_tools != "frozen" and (lives != "replay" or adopt) and not (until and replay_tools == "live"):
        what = "changed requests are accepted" if adopt else f"the mode is {lives}"
        raise SettingsError(f"--replay-tools={replay_tools} compares with a recording, but {what}: take one of them")
    model: ModelAxis = "live" if word == "live" else "frozen"
    if (layers := options.get("agentreplay_release")) is not None:
        layers = frozenset(layers.split("|")) - {""}
        model = "live" if "model" in layers else "frozen"
        replay_tools = "live" if any(name.startswith(("tool:", "retrieval")) for name in layers) else "frozen"
    live = lives == "replay" and (layers is not None or "live" in {model, replay_tools})
    live_runs = None
    if live:
        from pytest_agentreplay.settings.live_runs import live_runs_of

        live_runs = live_runs_of(options, table, where, on_ci=on_ci and model == "live")
    elif layers is None and (
        flag := next((each for each in ("runs", "budget") if options.get(f"agentreplay_replay_{each}")), "")
    ):
        raise SettingsError(f"--replay-{flag} is for live runs: add --replay=live")
    typed_changes = options.get("agentreplay_replay_set") or ()
    changes = tuple(["=".join(map(str.strip, text.split("=", 1))) for text in typed_changes])
    if changes and (word != "live" or missing):
        raise SettingsError(f"--replay-set {changes[0]}: changes what a live model is asked: add --replay=live")
    sandbox = sandbox_of(options.get("agentreplay_sandbox"), "live" if live else lives, typed_words)
    neighbours = number(table["agentreplay_neighbours"], f"{where}agentreplay_neighbours")
    read: dict[str, Any] = {}
    for key, value in table.items():
        if parse := PARSERS.get(setting := key.removeprefix("agentreplay_")):
            read[FIELDS.get(setting, setting)] = parse(value, where + key)
        elif parse_group := GROUPS.get(setting):
            read |= parse_group(value, where + key)
    read |= checks_of(options.get("agentreplay_checks") or (), "--agentreplay-checks")
    return Settings(
        mode=mode,
        model=model,
        released=layers,
        live_runs=live_runs,
        strict=on_ci or (typed and mode == "replay"),
        typed=frozenset({"mode"} if typed else ()),
        directory=directory(table["agentreplay_dir"], where),
        timeout=number(table["agentreplay_timeout"], f"{where}agentreplay_timeout") or 0,
        replay_tools=replay_tools,
        changes=changes,
        sandbox=sandbox,
        on_ci=on_ci,
        places=bool(table["agentreplay_places"]),
        adopt=adopt,
        record_missing=missing,
        converts=is_converting(options),
        record_from=until,
        redact=redact_of(options.get("agentreplay_redact") or (), table["agentreplay_redact"], file),
        toml=file.endswith(".toml"),
        fuzz=fuzz_of(options, lives),
        replay_break=break_of(options.get("agentreplay_replay_break"), "live" if live else lives),
        neighbours=(12 if on_ci else 0) if neighbours is None else neighbours,
        strict_keys=bool(options.get("agentreplay_strict_keys")),
        **read,
    )


def sandbox_of(option: str | None, mode: str, typed_words: Iterable[str]) -> str:
    """Return whether the kernel is to close the network too: in replays. Typed for another session it is invalid."""
    name, word = "--agentreplay-sandbox", option or "off"
    refuse_unknown(name, word, SANDBOXES)
    if word == "require" and mode != "replay" and any(typed.startswith(name) for typed in typed_words):
        raise SettingsError(f"{name}=require closes the network, but the mode is {mode}: take one of them")
    return word if mode == "replay" else "off"


def refuse_unknown_keys(written: Iterable[str], known: Mapping[str, Any], where: str) -> None:
    """Raise SettingsError for a key that looks like ours and is not.

    What all keys begin with makes none of them near. The name of a line is looked for in the examples of the keys.
    """
    prefix = "agentreplay_"
    names = {name.removeprefix(prefix): name for name in known}
    for key in written:
        if key.startswith(prefix) and key not in known:
            from difflib import get_close_matches

            word = key.removeprefix(prefix)
            near = [
                f"a line of {name}" for name, row in INI if word in re.findall(r"\w+", row["help"].partition(": ")[2])
            ]
            near += [names[name] for name in get_close_matches(word, names, n=1)]
            advice = f": did you mean {near[0]}?" if near else "; pytest --help lists all"
            raise SettingsError(f"{where}{key} is not a setting{advice}")


def mode_of(
    options: Mapping[str, Any], ini: Mapping[str, Any], environ: Mapping[str, str], where: str
) -> tuple[str, bool]:
    """Return the word for the mode, of `MODES`, and whether the command line or the environment said it."""
    flags = list_mode_flags(options)
    for flag, word in flags.items():
        words = ("model", "live", "off") if flag == "--replay" else tuple(MODES)
        refuse_unknown(flag, word, words, "record with --snapshot-record" if word == "record" else "")
    if len(set(flags.values())) > 1:
        both = " and ".join(flag if "record" in flag else f"{flag}={word}" for flag, word in flags.items())
        raise SettingsError(f"{both} ask for different things: give one of them")
    if flags:
        return next(iter(flags.values())), True
    if word := environ.get("AGENTREPLAY", "").strip():
        refuse_unknown("the environment variable AGENTREPLAY", word, tuple(MODES))
        return word, True
    if word := str(ini["agentreplay_mode"]).strip():
        refuse_unknown(f"{where}agentreplay_mode", word, ("model", "off"), live_by_word(word))
        return word, False
    return "model", False


def list_mode_flags(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the word for the mode that each flag of the command line says."""
    typed = {"--replay": options.get("agentreplay_replay"), "--agentreplay-mode": options.get("agentreplay_mode")}
    recording = {"--snapshot-record": "agentreplay_record", "--record-from": "agentreplay_record_from"}
    flags = {flag: str(word) for flag, word in typed.items() if word is not None}
    return flags | {flag: "record" for flag, key in recording.items() if options.get(key)}


def fuzz_of(options: Mapping[str, Any], mode: Mode) -> tuple[int, int]:
    """Return the seed and the number of neighbours. Raises SettingsError where nothing is replayed."""
    count, seed = (options.get(f"agentreplay_{name}") for name in ("fuzz", "fuzz_seed"))
    if count is None and seed is not None:
        raise SettingsError(f"--agentreplay-fuzz-seed={seed} draws neighbours: add --agentreplay-fuzz=N")
    if count is None:
        return 0, 0
    if mode != "replay":
        raise SettingsError(f"--agentreplay-fuzz={count} replays neighbours of recordings, but the mode is {mode}")
    return number(seed or 0, "--agentreplay-fuzz-seed") or 0, number(count, "--agentreplay-fuzz") or 0


def is_converting(options: Mapping[str, Any]) -> bool:
    """Return whether tests on vcrpy are recorded from what it plays."""
    return options.get("agentreplay_vcr") == "convert"


def record_missing_of(options: Mapping[str, Any], *, on_ci: bool, allowed: bool) -> bool:
    """Return whether tests without a snapshot are recorded. Raises SettingsError on CI, and beside another mode."""
    flag = "--vcr=convert" if is_converting(options) else "--snapshot-record-missing"
    if flag == "--snapshot-record-missing" and not options.get("agentreplay_record_missing"):
        return False
    others = [*list_mode_flags(options), *["accepting changed requests"] * bool(options.get("agentreplay_adopt"))]
    if other := next(iter(others), ""):
        raise SettingsError(f"{flag} and {other} ask for different things: give one of them")
    if on_ci and not (is_converting(options) and allowed):
        raise SettingsError(NOT_ON_CI if is_converting(options) else MISSING_NOT_ON_CI)
    return True


def break_of(word: str | None, mode: str) -> int:
    """Return the turn at which a replay stops, 0 for none. Raises SettingsError for what is no turn, or no replay."""
    if word is not None and mode != "replay":
        raise SettingsError(f"--replay-break={word} stops a replay, but the mode is {mode}: take one of them")
    return turn_of(word, "--replay-break", "a turn like 3")


def turn_of(word: str | None, flag: str, takes: str) -> int:
    """Return a turn, 0 for none; negative ones count from the end, where `takes` says so. Raises SettingsError."""
    number = (word or "").removeprefix("-" if "-1" in takes else "")
    if word is not None and not (number.isdecimal() and int(number)):
        raise SettingsError(f"{flag} takes {takes}, not {word!r}")
    return int(word or 0)


def adopt_of(reason: str | None, word: str, *, refused: bool) -> str:
    """Return why every recorded reply still holds under changed requests, or "" when nobody says so."""
    if reason is None:
        return ""
    if refused:
        raise SettingsError(
            "accepting changed requests is refused because CI is set: nobody looks at what is accepted there.\n"
            "Accept on your machine and commit the snapshot."
        )
    if word != "model":
        raise SettingsError(f"--agentreplay-adopt serves recorded replies, but the mode is {word}: take one of them")
    if not reason.strip():
        raise SettingsError("--agentreplay-adopt: say why every recorded reply still holds")
    return reason.strip()


def marked(settings: Settings, keywords: Mapping[str, object]) -> Settings:
    """`settings` under the keywords of one marker."""
    changes: dict[str, Any] = {}
    for key, value in keywords.items():
        name = f"@pytest.mark.agentreplay({key}=...)"
        match key:
            case "mode":
                refuse_unknown(name, value, ("model", "off"), live_by_word(value))
                if "mode" not in settings.typed:
                    changes["mode"] = MODES[str(value)]
            case "clock":
                changes |= GROUPS[key](value, name)
            case "order" | "permutations" | "seed":
                changes[key] = PARSERS[key](value, name)
            case "allow" | "keep":
                more = GROUPS[key](value, name).items()
                changes |= {field: (*getattr(settings, field), *values) for field, values in more}
            case "tools" | "ignore" | "off_script":
                field = FIELDS.get(key, key)
                changes[field] = tuple(dict((*getattr(settings, field), *PARSERS[key](value, name))).items())
            case "tolerances" | "children":
                changes[key] = (*getattr(settings, key), *PARSERS[key](value, name))
            case "expect":
                refuse_unknown(name, value, EXPECTATIONS)
                changes["expect"] = value
            case "redact":
                words = (value,) if isinstance(value, str) else texts(value, name)
                for word in words:
                    refuse_unknown(name, word, REDACT, "a test takes pii or strict; files are for --redact")
                if "pii" in words:
                    from pytest_agentreplay.redaction.pii import require_checks

                    require_checks(name)
                changes[key] = (*settings.redact, *words)
            case _:
                raise SettingsError(f"@pytest.mark.agentreplay has no keyword {key!r}{nearest(key, MARKER)}")
    return settings._replace(**changes)
