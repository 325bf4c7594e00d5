"""Settings: command line, environment, marker and ini as one frozen value. Alone knows what wins over what.

`table` has a row for each setting, `parsers` reads what people write, `live_runs` what holds for live runs. Takes plain
mappings, so that it is tested without pytest; loads nothing, since pytest always loads it.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.settings.parsers import MODES, make_rules, suggest_nearest
from pytest_agentreplay.settings.table import INI_KEYS, KEYWORDS, SETTINGS, in_toml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from pytest_agentreplay.backends.order_permutations import OrderTrial
    from pytest_agentreplay.compare.live_result import Axes, ModelAxis, ToolsAxis
    from pytest_agentreplay.compare.tolerance import Tolerance, TolerancePolicy
    from pytest_agentreplay.model.exchanges import JsonObject
    from pytest_agentreplay.model.rules import Rule
    from pytest_agentreplay.redaction.policy import Policy
    from pytest_agentreplay.settings.live_runs import LiveRuns
    from pytest_agentreplay.settings.parsers import Clocks, Mode, Orders, Pairs
    from pytest_agentreplay.settings.table import Setting

# The project's own policy and tolerances, in its root; they hold where they are there.
POLICY = "agentreplay-policy.yaml"
TOLERANCES = "agentreplay-tolerances.yaml"
NOT_ON_CI = (
    "recording is refused because CI is set: a job that records accepts any answer, a wrong one too.\n"
    "Record on your machine and commit the snapshot; a job that is meant to record sets agentreplay_ci = record"
)
MISSING_NOT_ON_CI = (
    "--snapshot-record-missing is refused because CI is set: a test without a snapshot must fail there.\n"
    "Record on your machine and commit the snapshot."
)
ACCEPT_NOT_ON_CI = (
    "accepting changed requests is refused because CI is set: nobody looks at what is accepted there.\n"
    "Accept on your machine and commit the snapshot."
)


class Settings:
    """What holds for the session, or for one test (`for_test`): values that never change.

    Each is that of the class until it is replaced. A NamedTuple or a dataclass of as many would take 0.7 ms to make, a
    fifth of what the plugin adds to pytest's start.
    """

    mode: Mode = "replay"
    # What the command line or the environment says of the mode, where it does: no marker changes one that is named.
    typed: Literal["", "record", "missing", "convert", "model", "live", "off"] = ""
    strict: bool = False  # whether edited snapshots are refused
    on_ci: bool = False
    ci: frozenset[str] = frozenset()  # what is allowed there: "record", "live"
    toml: bool = False  # whether the file that configures pytest is one of TOML
    paths: tuple[str, ...] = ()
    # (import path, "read", "write" or "live", perhaps with " as " and the shown name, or "model" or "retrieval" and the
    # name of a model), and for tools of frameworks (shown name, "read" or "live").
    tools: Pairs = ()
    replay_tools: ToolsAxis = "frozen"
    off_script: Pairs = ()  # (tool, what a live run does with calls that are not recorded)
    record_missing: bool = False  # whether a test that has no snapshot is recorded
    converts: bool = False  # whether it is recorded from what vcrpy plays
    record_from: int = 0  # the turn from which on a recording asks the real model, negative from the end; 0: always
    replay_break: int = 0  # the turn at which a replay stops in the debugger; 0: none
    expect: Literal["", "reproduces"] = ""
    # The reason for taking changed requests under old replies; the kinds of changes that are taken, all where there are
    # none; whether nothing is written.
    adopt: str = ""
    adopt_codes: tuple[str, ...] = ()
    adopt_dry: bool = False
    model: ModelAxis = "frozen"
    released: frozenset[str] | None = None  # the layers that a line-up releases in this run (see `Axes`)
    live_runs: LiveRuns | None = None  # how many there are, and what they may cost
    changes: tuple[str, ...] = ()  # of requests to models in live runs: "NAME=VALUE"
    tolerances: tuple[Tolerance, ...] = ()
    judges: Pairs = ()  # (key, "module:function")
    ignored: Pairs = ()  # (what may differ, reason)
    strict_keys: bool = False  # whether a replay fails whose requests differ in fields that are not compared
    clock: Clocks = "stepped"
    waits: bool = False  # whether replies take as long as they took, as the clock `paced` has it
    order: Orders = "auto"
    permutations: int = 0  # in how many other orders of answers a test is replayed too
    trial: OrderTrial | None = None  # which of these this is
    seed: int | None = None
    env: tuple[str, ...] = ()
    kept_files: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    matched_headers: tuple[str, ...] = ()
    places: bool = True
    redact: tuple[str, ...] = ()  # words and files, beyond the shipped secrets
    policy: Policy | None = None  # these files, and that of the project, once somebody has read them
    allow_hosts: tuple[str, ...] = ()
    allow_subprocess: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    sandbox: str = "off"
    runners: Pairs = ()  # (key, "module:function")
    timeout: float = 120  # seconds that each of these may take
    neighbours: int = 0  # on how many a fixed case is tried
    invariants: tuple[str, ...] = ()  # "module:function", each true in every neighbour of a recording
    fuzz: int = 0  # on how many neighbours of its recording each test is replayed too
    fuzz_seed: int = 0
    directory: str = "__agent_snapshots__"
    prove: bool = True
    unused: str = "warn"
    max_bytes: int = 1_000_000
    largest: int = 32 * 1024 * 1024
    stale_days: int = 180  # the age from which on a snapshot is stale
    retired_models: Pairs = ()  # (id, day), beyond the shipped table

    def __init__(self, **values: Any) -> None:
        """Raises TypeError for a name that the class has not."""
        if unknown := values.keys() - Settings.__annotations__.keys():
            raise TypeError(f"there is no setting {', '.join(sorted(unknown))}")
        vars(self).update(values)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        """Refuse: values never change."""
        raise AttributeError(f"{name} cannot be set: say _replace")

    def __eq__(self, other: object) -> bool:
        """Return whether all values are equal."""
        return all(getattr(self, name) == getattr(other, name, self) for name in Settings.__annotations__)

    __hash__ = None  # type: ignore[assignment]

    def _replace(self, **values: Any) -> Settings:
        """Return the same with other values. Raises TypeError for a name that the class has not."""
        return Settings(**vars(self) | values)

    @property
    def read_tools(self) -> tuple[str, ...]:
        """The tools of frameworks that change nothing, by shown name."""
        return tuple(name for name, how in self.tools if "." not in name and how == "read")

    def list_declared(self, *words: str) -> tuple[tuple[str, str], ...]:
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
        return tuple(rule for text, reason in self.ignored for rule in make_rules(text, reason))

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

    def format_message(self, message: str) -> str:
        """Return a message that ends with a setting, that setting in the form of the project's file."""
        return in_toml(message) if self.toml else message

    def for_test(self, markers: Sequence[Mapping[str, Any]], *, proving: bool = False) -> Settings:
        """Return the settings of one test: `markers` holds the keywords of its markers, the closest first.

        `proving` replays whatever the mode is. Raises SettingsError for a keyword or value that is invalid.
        """
        settings = self
        for keywords in reversed(markers):
            for keyword in keywords:
                if keyword not in KEYWORDS:
                    nearest = suggest_nearest(keyword, KEYWORDS)
                    raise SettingsError(f"@pytest.mark.agentreplay has no keyword {keyword!r}{nearest}")
            settings = apply_source(settings, keywords, lambda row: f"@pytest.mark.agentreplay({row.name}=...)")
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
        if self.mode == "off":
            return "agentreplay: OFF, everything runs LIVE and nothing is recorded"
        if self.mode == "record":
            what = "RECORDING, model LIVE, tools LIVE"
            if self.record_from:
                reads = ", reads LIVE" * (self.replay_tools == "live")
                what = f"FORKING into pending runs, model LIVE from turn {self.record_from} on{reads}, else frozen"
            return f"agentreplay: {what}, clock {clock}, network OPEN"
        tools = {"frozen": "tools frozen", "checked": "read tools CHECKED", "live": "read tools LIVE"}[
            self.replay_tools
        ]
        if live := sum(how.partition(" ")[0] == "live" for _, how in self.tools):
            tools += f" but {live} LIVE"
        auto = ", by the kernel if every test replays" if sys.platform == "linux" else ", not by the kernel"
        network = "offline" + {"off": "", "require": " by the kernel"}.get(self.sandbox, auto)
        if parts := self.live_parts():
            network = f"network OPEN to {' and to '.join(parts)}"
        network += f", open to {', '.join(self.allow_hosts)}" if self.allow_hosts else ""
        network += "; tests without a snapshot are RECORDED LIVE" * self.record_missing
        return f"agentreplay: model {self.model.replace('live', 'LIVE')}, {tools}, clock {clock}, {network}"


def refuse_unknown_keys(ini_keys: Iterable[str], where: str) -> None:
    """Raise SettingsError for a key that looks like ours and is not.

    What all keys begin with makes none of them near. The name of a line is looked for in the examples of the keys.
    """
    prefix = "agentreplay_"
    names = {name.removeprefix(prefix): name for name in INI_KEYS}
    for key in ini_keys:
        if key.startswith(prefix) and key not in INI_KEYS:
            from difflib import get_close_matches

            word = key.removeprefix(prefix)
            examples = {name: re.findall(r"\w+", row["help"].partition(": ")[2]) for name, row in INI_KEYS.items()}
            near = [f"a line of {name}" for name, words in examples.items() if word in words]
            near += [names[name] for name in get_close_matches(word, names, n=1)]
            advice = f": did you mean {near[0]}?" if near else "; pytest --help lists all"
            raise SettingsError(f"{where}{key} is not a setting{advice}")


def read_settings(
    options: Mapping[str, Any],
    ini: Mapping[str, Any],
    environ: Mapping[str, str],
    *,
    ini_keys: Iterable[str] = (),
    file: str = "",
    typed_words: Iterable[str] = (),
) -> Settings:
    """Return the settings of a session. `ini_keys` are those that stand in the ini `file`, known or not.

    `typed_words` are those of the command line, without what `addopts` adds.

    Raises SettingsError, which names the flag, variable or key and the nearest right word.
    """
    where = f"{file}: " if file else ""
    refuse_unknown_keys(ini_keys, where)
    table = {key: row["default"] for key, row in INI_KEYS.items()} | dict(ini)
    flags = {row.name: options.get(row.key) for row in SETTINGS if row.flag}
    flags = {name: value for name, value in flags.items() if value is not None and value is not False}
    word = environ.get("AGENTREPLAY", "").strip()
    settings = Settings(on_ci=environ.get("CI", "").strip().lower() not in {"", "0", "false", "no"})
    lines = {row.name: table[row.key] for row in SETTINGS if row.ini}
    settings = apply_source(settings, lines, lambda row: f"{where}{row.key}")
    settings = apply_source(settings, {"mode": word} if word else {}, lambda _: "the environment variable AGENTREPLAY")
    settings = apply_source(settings, flags, lambda row: row.flag)
    may_record = not settings.on_ci or "record" in settings.ci
    if settings.typed == "missing" and settings.on_ci:
        raise SettingsError(MISSING_NOT_ON_CI)
    if settings.typed in {"record", "convert"} and not may_record:
        raise SettingsError(NOT_ON_CI)
    reason, layers = options.get("agentreplay_adopt"), options.get("agentreplay_release")
    settings = settings._replace(
        adopt="" if reason is None else read_adopt(reason, settings, may_record=may_record),
        strict=settings.on_ci or settings.typed in {"model", "live"},
        neighbours=settings.neighbours if table["agentreplay_neighbours"] or not settings.on_ci else 12,
        toml=file.endswith(".toml"),
    )
    if layers is not None:  # of a line-up: what is live follows from the layers that it releases in this run
        released = frozenset(layers.split("|")) - {""}
        tools = "L" if any(name.startswith(("tool:", "retrieval")) for name in released) else "F"
        cell = ("L" if "model" in released else "F") + tools
        settings = settings._replace(released=released, replay_tools="live").in_cell(cell)
    mode: str = "record" if settings.record_missing else settings.mode
    if mode == "replay" and (settings.released is not None or settings.live_parts()):
        from pytest_agentreplay.settings.live_runs import read_live_runs

        refuses = settings.on_ci and settings.model == "live"
        live_runs = read_live_runs(flags, table, where, needs_leave=refuses, has_leave="live" in settings.ci)
        settings, mode = settings._replace(live_runs=live_runs), "live"
    refuse_conflicts(settings, flags, mode, typed_words)
    return settings if mode == "replay" else settings._replace(sandbox="off")


def apply_source(settings: Settings, values: Mapping[str, Any], place: Callable[[Setting], str]) -> Settings:
    """Return the settings under what one source says; errors name the `place` of a value.

    Command line > environment `AGENTREPLAY` > marker > ini > default, so the ini file with the defaults comes first,
    then the command line, and last, for one test, its markers: these change no mode that was typed.
    """
    changes: dict[str, Any] = {}
    modes = {}
    for row in SETTINGS:
        if row.parse is None or row.name not in values:
            continue
        parsed = row.parse(values[row.name], place(row))
        fields = parsed if isinstance(parsed, dict) else {row.field or row.name: parsed}
        for field, value in fields.items():
            if row.marker == "adds":
                changes[field] = (*getattr(settings, field), *value)
            elif row.marker == "merges":  # of two lines about one tool or place the later holds
                changes[field] = tuple(dict((*getattr(settings, field), *value)).items())
            elif field != "mode" or "typed" in fields or settings.typed not in MODES:
                changes[field] = value
        if "typed" in fields:
            modes[row.flag if "record" in row.flag else f"{row.flag}={values[row.name]}"] = fields["typed"]
    if len({*modes.values()}) > 1:
        raise SettingsError(f"{' and '.join(modes)} ask for different things: give one of them")
    return settings._replace(**changes)


def read_adopt(reason: str, settings: Settings, *, may_record: bool) -> str:
    """Return why every recorded reply still holds under changed requests. Raises SettingsError where none is served."""
    if not may_record:
        raise SettingsError(ACCEPT_NOT_ON_CI)
    if settings.mode != "replay" or settings.typed not in {"", "model"}:
        conflict = f"but the mode is {settings.typed or settings.mode}: take one of them"
        raise SettingsError(f"--agentreplay-adopt serves recorded replies, {conflict}")
    if not reason.strip():
        raise SettingsError("--agentreplay-adopt: say why every recorded reply still holds")
    return reason.strip()


def refuse_conflicts(settings: Settings, flags: Mapping[str, Any], mode: str, typed_words: Iterable[str]) -> None:
    """Raise SettingsError for a flag that is for another mode, or needs another flag."""
    tools, sandbox = settings.replay_tools, "--agentreplay-sandbox"
    compares = mode in {"replay", "live"} and not settings.adopt
    if tools != "frozen" and not compares and not (settings.record_from and tools == "live"):
        what = "changed requests are accepted" if settings.adopt else f"the mode is {mode}"
        raise SettingsError(f"--replay-tools={tools} compares with a recording, but {what}: take one of them")
    # In `addopts` the sandbox holds for each replay of a project, and hinders no recording.
    if flags.get("sandbox") == "require" and mode != "replay" and any(word.startswith(sandbox) for word in typed_words):
        raise SettingsError(f"{sandbox}=require closes the network, but the mode is {mode}: take one of them")
    there = {"replays": mode == "replay", "live runs": mode == "live", "live models": settings.typed == "live"}
    there |= {"": True, "fuzzing": "fuzz" in flags}
    instead = {"replays": f", but the mode is {mode}: take one of them", "fuzzing": ": add --agentreplay-fuzz=N"}
    for row in SETTINGS:
        if row.name in flags and not there[row.only]:
            value = flags[row.name][0] if row.repeats else flags[row.name]
            how = instead.get(row.only, ": add --replay=live")
            raise SettingsError(f"{row.flag}={value} is for {row.only}{how}")
