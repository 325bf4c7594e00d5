"""Settings: command line, environment, marker and ini as one frozen value. Alone knows what wins over what.

`table` has a row for each setting, and `parsers` reads what people write. Takes plain mappings, so that it is tested
without pytest; loads nothing, since pytest always loads it.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.settings.parsers import BUDGET, MODES, make_rules, suggest_nearest
from pytest_agentreplay.settings.table import DEFAULTS, INI_KEYS, KEYWORDS, SETTINGS, Fields, in_toml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from pytest_agentreplay.backends.statistics import SequentialTest
    from pytest_agentreplay.compare.live_result import Axes
    from pytest_agentreplay.compare.tolerance import TolerancePolicy
    from pytest_agentreplay.model.exchanges import JsonObject
    from pytest_agentreplay.model.rules import Rule
    from pytest_agentreplay.redaction.policy import Policy
    from pytest_agentreplay.settings.table import Setting

    Values = Mapping[str, Any]

# The project's own policy and tolerances, in its root; they hold where they are there.
POLICY = "agentreplay-policy.yaml"
TOLERANCES = "agentreplay-tolerances.yaml"


class Settings(Fields):
    """What holds for the session, or for one test (`for_test`): values that never change.

    A NamedTuple or a dataclass of as many would take 0.7 ms to make, a fifth of what the plugin adds to pytest's start.
    """

    def __init__(self, **values: Any) -> None:
        """Raises TypeError for a name that is no field."""
        if unknown := values.keys() - DEFAULTS.keys():
            raise TypeError(f"there is no setting {', '.join(sorted(unknown))}")
        vars(self).update(DEFAULTS | values)  # never the class's attributes: these are rows

    def __setattr__(self, name: str, value: object) -> NoReturn:
        """Refuse: values never change."""
        raise AttributeError(f"{name} cannot be set: say _replace")

    def _replace(self, **values: Any) -> Settings:
        """Return the same with other values. Raises TypeError for a name that is no field."""
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
        return tuple(rule for text, reason in self.ignore for rule in make_rules(text, reason))

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

    @property
    def is_live(self) -> bool:
        """Whether a replay asks model or tools for real, and gives the agent what these say, or is of a line-up."""
        parts = self.model == "live" or self.replay_tools == "live" or self.released is not None
        return self.mode == "replay" and not self.record_missing and parts

    def make_test(self) -> SequentialTest:
        """Return the test that decides about live runs. Raises SettingsError for rates that make none."""
        from pytest_agentreplay.backends.statistics import SequentialTest

        return SequentialTest(**self.rates)

    def format_message(self, message: str) -> str:
        """Return a message that ends with a setting, that setting in the form of the project's file."""
        return in_toml(message) if self.toml else message

    def for_test(self, markers: Sequence[Values], *, proving: bool = False) -> Settings:
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
        frozen = settings.in_cell("FF")._replace(released=None)
        return frozen._replace(mode="replay", typed="", strict=False, record_missing=False, record_from=0)

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
        tools = self.replay_tools if cell[1] == "L" else "frozen"
        return self._replace(model="live" if cell[0] == "L" else "frozen", replay_tools=tools)

    def headline(self) -> str:
        """Return the session's header line: what is frozen, and in capitals what is not."""
        if self.mode == "off":
            return "agentreplay: OFF, everything runs LIVE and nothing is recorded"
        clock = "paced" if self.waits else "still between calls" if self.clock == "stepped" else self.clock
        if self.mode == "record":
            calls, network = "RECORDING, model LIVE, tools LIVE", "network OPEN"
            if self.record_from:
                reads = ", reads LIVE" * (self.replay_tools == "live")
                calls = f"FORKING into pending runs, model LIVE from turn {self.record_from} on{reads}, else frozen"
        else:
            tools = "tools frozen" if self.replay_tools == "frozen" else f"read tools {self.replay_tools.upper()}"
            if live := sum(how.partition(" ")[0] == "live" for _, how in self.tools):
                tools += f" but {live} LIVE"
            calls, network = f"model {self.model.replace('live', 'LIVE')}, {tools}", self._describe_network()
        return f"agentreplay: {calls}, clock {clock}, {network}"

    def _describe_network(self) -> str:
        """Return what of the network is open to a replay."""
        auto = ", by the kernel if every test replays" if sys.platform == "linux" else ", not by the kernel"
        network = "offline" + {"off": "", "require": " by the kernel", "auto": auto}[self.sandbox]
        if live := ["the model"] * (self.model == "live") + ["tools that read"] * (self.replay_tools == "live"):
            network = f"network OPEN to {' and to '.join(live)}"
        network += f", open to {', '.join(self.allow_hosts)}" if self.allow_hosts else ""
        return network + "; tests without a snapshot are RECORDED LIVE" * self.record_missing


def refuse_unknown_keys(ini_keys: Iterable[str], where: str) -> None:
    """Raise SettingsError for a key that looks like ours and is not.

    What all keys begin with makes none of them near. The name of a line is looked for in the examples of the keys.
    """
    prefix = "agentreplay_"
    for key in ini_keys:
        if key.startswith(prefix) and key not in INI_KEYS:
            from difflib import get_close_matches

            word, rows = key.removeprefix(prefix), [row for row in SETTINGS if row.ini]
            near = [f"a line of {row.key}" for row in rows if word in re.findall(r"\w+", row.help.partition(": ")[2])]
            near += [f"{prefix}{name}" for name in get_close_matches(word, [row.name for row in rows], n=1)]
            advice = f": did you mean {near[0]}?" if near else "; pytest --help lists all"
            raise SettingsError(f"{where}{key} is not a setting{advice}")


def read_settings(
    options: Values, ini: Values, environ: Mapping[str, str], *, file: str = "", typed_words: Iterable[str] = ()
) -> Settings:
    """Return the settings of a session.

    `ini` has the keys that stand in the ini `file`, also unknown ones. `typed_words` are those of the command line,
    without what `addopts` adds.

    Raises SettingsError, which names the flag, variable or key and the nearest right word.
    """
    where = f"{file}: " if file else ""
    refuse_unknown_keys(ini, where)
    lines = {row.name: ini[row.key] for row in SETTINGS if row.key in ini}
    flags = {row.name: options[row.key] for row in SETTINGS if row.flag and options.get(row.key) not in (None, False)}
    word = environ.get("AGENTREPLAY", "").strip()
    on_ci = environ.get("CI", "").strip().lower() not in {"", "0", "false", "no"}
    settings = Settings(on_ci=on_ci, neighbours=12 if on_ci else 0, toml=file.endswith(".toml"))
    settings = apply_source(settings, lines, lambda row: f"{where}{row.key}")
    settings = apply_source(settings, {"mode": word} if word else {}, lambda _: "the environment variable AGENTREPLAY")
    settings = apply_source(settings, flags, lambda row: row.flag)
    strict, adopt = on_ci or settings.typed in {"model", "live"}, options.get("agentreplay_adopt") or ""
    settings = settings._replace(strict=strict, adopt=adopt)
    if (layers := options.get("agentreplay_release")) is not None:  # of a line-up: what is live follows from them
        released = frozenset(layers.split("|")) - {""}
        tools = any(name.startswith(("tool:", "retrieval")) for name in released)
        cell = ("L" if "model" in released else "F") + ("L" if tools else "F")
        settings = settings._replace(released=released, replay_tools="live").in_cell(cell)
    refuse_on_ci(settings)
    mode = "record" if settings.record_missing else "live" if settings.is_live else settings.mode
    refuse_conflicts(settings, flags, mode, typed_words)
    if settings.is_live:
        settings.make_test()  # now, not after the first run: rates that make no test are refused
    return settings if mode == "replay" else settings._replace(sandbox="off")


def apply_source(settings: Settings, values: Values, place: Callable[[Setting], str]) -> Settings:
    """Return the settings under what one source says; errors name the `place` of a value.

    Command line > environment `AGENTREPLAY` > marker > ini > default, so the ini file comes first, then the command
    line, and last, for one test, its markers: these change no mode that was typed.
    """
    changes: dict[str, Any] = {}
    modes = {}
    for row in SETTINGS:
        if row.parse is None or row.name not in values:
            continue
        if row.ini == "string" and isinstance(values[row.name], list):  # pytest gives what TOML has, and only warns
            raise SettingsError(f"{place(row)} takes a string, not {values[row.name]}: write it without the brackets")
        parsed = row.parse(values[row.name], place(row))
        fields = parsed if isinstance(parsed, dict) else {row.name: parsed}
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


def refuse_on_ci(settings: Settings) -> None:
    """Raise SettingsError for what a job may not do where `CI` is set, unless `agentreplay_ci` allows it."""
    may_record, may_go_live = "record" in settings.ci, "live" in settings.ci and settings.replay_budget
    live = f"sets agentreplay_ci = live and a budget, like agentreplay_live = {BUDGET}"
    refusals = (
        (settings.typed == "missing", "--snapshot-record-missing", "a test without a snapshot must fail there.",
         "Record on your machine and commit the snapshot."),
        (settings.typed in {"record", "convert"} and not may_record, "recording",
         "a job that records accepts any answer, a wrong one too.",
         "Record on your machine and commit the snapshot; a job that is meant to record sets agentreplay_ci = record"),
        (settings.adopt and not may_record, "accepting changed requests", "nobody looks at what is accepted there.",
         "Accept on your machine and commit the snapshot."),
        (settings.model == "live" and not may_go_live, "a live run",
         "it sends prompts to a real model, and costs money.", f"A job that is meant to do so {live}"),
    )  # fmt: skip
    for applies, what, why, instead in refusals:
        if settings.on_ci and applies:
            raise SettingsError(f"{what} is refused because CI is set: {why}\n{instead}")


def refuse_conflicts(settings: Settings, flags: Values, mode: str, typed_words: Iterable[str]) -> None:
    """Raise SettingsError for a flag that is for another mode, needs another flag, or has no value."""
    tools, sandbox = settings.replay_tools, "--agentreplay-sandbox"
    if settings.adopt and (settings.mode != "replay" or settings.typed not in {"", "model"}):
        conflict = f"but the mode is {settings.typed or settings.mode}: take one of them"
        raise SettingsError(f"--agentreplay-adopt serves recorded replies, {conflict}")
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
        if row.name in flags and not str(flags[row.name]).strip():  # as of a variable that is not set
            raise SettingsError(f"{row.flag} has no value: write {row.flag}={row.takes}: {row.help}")
        if row.name in flags and not there[row.only]:
            value = flags[row.name][0] if row.repeats else flags[row.name]
            raise SettingsError(f"{row.flag}={value} is for {row.only}{instead.get(row.only, ': add --replay=live')}")
