"""The settings: one row for each, from which flags, ini keys, keywords of the marker and the settings page are made."""

from __future__ import annotations

import re
from argparse import SUPPRESS
from typing import TYPE_CHECKING, Any, Literal

from pytest_agentreplay.settings import parsers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Setting:
    """One setting: the ways to give it, and what reads its value."""

    # Not a NamedTuple, whose code would be compiled at each start of pytest.
    name: str  # the keyword of the marker; behind "agentreplay_" the ini key, and the flag's name on pytest's options
    text: str  # what it does, with code in backticks, for the settings page
    flag: str = ""
    repeats: bool = False  # whether the flag may be given several times
    takes: str = ""  # what stands behind the flag or key, in capitals; nothing for a flag that takes no value
    ini: str = ""  # the type that pytest reads the ini key as; nothing without such a key
    default: Any = ""  # of the ini key
    # How a keyword of the marker, or a flag, changes the value of the ini file; nothing where there is no keyword.
    marker: Literal["", "replaces", "adds", "merges"] = ""
    # (value, where it stands: a flag, "FILE: agentreplay_NAME", or the marker) -> the value of the field, or a dict of
    # fields. Without a parser the code that needs the setting reads it.
    parse: Callable[[Any, str], Any] | None = None
    field: str = ""  # the field of `Settings`, where it has another name
    only: str = ""  # what the flag is for alone: "replays", "live runs", "live models" or "fuzzing"

    def __init__(self, name: str, text: str, **values: Any) -> None:
        """`values` are other fields."""
        vars(self).update(values, name=name, text=text)

    @property
    def help(self) -> str:
        """What it does, for `pytest --help`."""
        return self.text.replace("`", "")

    @property
    def key(self) -> str:
        """Its ini key, and the name of the flag's value on pytest's options."""
        return f"agentreplay_{self.name}"


SETTINGS = (
    # Recording and replaying.
    Setting("record", "run the selected tests live and write their snapshots", flag="--snapshot-record",
            parse=parsers.parse_record),
    Setting("record_missing", "run the selected tests that have no snapshot live and write theirs; replay the others",
            flag="--snapshot-record-missing", parse=parsers.parse_record_missing),
    Setting("replay", "`model` (the default): replies from the snapshot; `live`: the real model, tools frozen, "
                      "compared with the snapshot under tolerances; `off`: run everything for real, record nothing",
            flag="--replay", takes="MODE", parse=parsers.parse_mode),
    Setting("mode", "as `--replay`, where another plugin owns that flag; takes `record` too. In ini file and marker: "
                    "`model` or `off`", flag="--agentreplay-mode", takes="MODE", ini="string", marker="replaces",
            parse=parsers.parse_mode),
    Setting("paths", "folders whose tests all opt in", ini="linelist", parse=parsers.parse_texts),
    Setting("record_from", "record from that turn on (-1: the last): earlier turns come from the snapshot",
            flag="--record-from", takes="TURN", parse=parsers.parse_record_from),
    Setting("replay_break", "stop in the debugger at the model call of that turn, with call, recorded, request, reply",
            flag="--replay-break", takes="TURN", only="replays", parse=parsers.parse_turn),
    # Tools.
    Setting("tools", "functions to freeze: `shop.tools.lookup = read`; models, retrievers: `shop.llm.ask = model qwen`",
            ini="linelist", marker="merges", parse=parsers.parse_tools),
    Setting("replay_tools", "`frozen` (default): tool results from the snapshot; `checked`: read tools run too, "
                            "results compared; `live`: the agent gets what read tools return now",
            flag="--replay-tools", takes="HOW", parse=parsers.make_word_parser(*parsers.TOOLS)),
    Setting("off_script", "unrecorded calls of tools in live runs: `search = live`, `pay = stop`, `lookup = stub {}`",
            ini="linelist", marker="merges", parse=parsers.parse_off_script),
    # What is compared.
    Setting("ignore", "what may differ: `$.path = reason`, `header:name = reason`, `query:name = reason`",
            ini="linelist", marker="merges", field="ignored", parse=parsers.parse_ignored),
    Setting("strict_keys", "fail a replay whose requests differ in a field that a rule ignores or watches",
            flag="--strict-keys", parse=parsers.parse_switch),
    Setting("tolerances", "what results and live runs may differ in: `$.final = text(0.5)`", ini="linelist",
            marker="adds", parse=parsers.parse_tolerances),
    Setting("judges", "functions that tolerances ask: `helpful = shop.checks:judge`", ini="linelist",
            parse=parsers.parse_functions),
    Setting("expect", "`reproduces`: the test keeps its recorded failure, and is green while it recurs",
            marker="replaces", parse=parsers.make_word_parser("reproduces")),
    # What is stored.
    Setting("keep", "what to keep: `env:SHOP_REGION`, `file:data/*.json`, `header:x-tenant`", ini="linelist",
            marker="adds", parse=parsers.parse_keep),
    Setting("redact", "what to redact beyond the shipped secrets: `pii`, `strict` or a policy file, several by commas",
            flag="--redact", repeats=True, takes="WHAT", ini="linelist", marker="adds", parse=parsers.parse_redact),
    Setting("places", "store directories, host and user name as marks, and put back those of today", ini="bool",
            default=True, parse=parsers.parse_switch),
    # Clock, order and random numbers.
    Setting("clock", "`stepped`, `real`, `virtual` or `paced`", takes="WORD", ini="string", default="stepped",
            marker="replaces", parse=parsers.parse_clock),
    Setting("order", "order of replies: `auto`, `recorded`, `free` or `loose`", takes="WORD", ini="string",
            default="auto", marker="replaces", parse=parsers.parse_order),
    Setting("permutations", "replay the test in at most so many other orders of its answers too; `True` for 120",
            takes="N", marker="replaces", parse=parsers.parse_limit),
    Setting("seed", "seed of `random`, `uuid` and numpy; else by test id", takes="NUMBER", ini="string",
            marker="replaces", parse=parsers.parse_number),
    # Network and processes.
    Setting("allow", "what a replayed test may reach and start: `host:db:5432`, `program:git`", ini="linelist",
            marker="adds", parse=parsers.parse_allow),
    Setting("children", "child processes whose model calls are intercepted: `node *`", ini="linelist", marker="adds",
            parse=parsers.parse_texts),
    Setting("sandbox", "have the kernel refuse sockets too, to C code and children (Linux). `require`: or run "
                       "nothing; `auto`: where every selected test replays; `off` (default)",
            flag="--agentreplay-sandbox", takes="HOW", parse=parsers.make_word_parser("auto", "require", "off")),
    # Live runs. Rows without a parser are read by `live_runs`, which sessions without live runs do not load.
    Setting("replay_set", "change one thing in each request to a live model: `model=NAME`, `temperature=0`, "
                          "`prompt=@FILE`", flag="--replay-set", repeats=True, takes="NAME=VALUE", field="changes",
            only="live models", parse=parsers.parse_changes),
    Setting("replay_runs", "with `--replay=live`: how many live runs of each test, or `auto`: as many as its verdict "
                           "needs", flag="--replay-runs", takes="N", only="live runs"),
    Setting("replay_budget", "what live runs may ask of models: `calls=100 tokens=50000 usd=2.00`; never exceeded",
            flag="--replay-budget", takes="LIMITS", only="live runs"),
    Setting("live", "what decides about live runs, and limits: `p0=0.95 p1=0.80 calls=200 usd=2.00`",
            takes="NAME=VALUE", ini="string"),
    Setting("prices", "dollars per million tokens: `gpt-5 = 1.25 in, 10 out`", ini="linelist"),
    Setting("ci", "what is allowed where `CI` is set: `record`, `live`", ini="linelist", parse=parsers.parse_ci),
    # Cases, fuzzing and captured runs.
    Setting("runners", "what runs the cases: `refunds = shop.cases:run_refund`", ini="linelist",
            parse=parsers.parse_functions),
    Setting("timeout", "seconds that the runner of a case may take; `0`: any number", takes="NUMBER", ini="string",
            default="120", parse=parsers.parse_count),
    Setting("neighbours", "neighbours on which fixed cases are tried; 12 where `CI` is set, else 0", takes="NUMBER",
            ini="string", parse=parsers.parse_count),
    Setting("invariants", "functions that hold in every neighbour: `shop.checks:refunds_once`", ini="linelist",
            parse=parsers.parse_texts),
    Setting("fuzz", "replay each test on N neighbours of its recording too (other errors, streams, results, clocks), "
                    "and check invariants", flag="--agentreplay-fuzz", takes="N", only="replays",
            parse=parsers.parse_count),
    Setting("fuzz_seed", "draw other neighbours (default: 0)", flag="--agentreplay-fuzz-seed", takes="SEED",
            only="fuzzing", parse=parsers.parse_count),
    Setting("runs", "replay each captured run of a store (folder or URL) against the code of today",
            flag="--agentreplay-runs", takes="STORE"),
    Setting("runs_strict", "fail captured runs whose requests differ, or that cannot be replayed, too",
            flag="--agentreplay-runs-strict"),
    Setting("sample", "of the captured runs take the N that differ most", flag="--agentreplay-sample", takes="N"),
    # Snapshots and pages.
    Setting("dir", "snapshot folder, beside tests", takes="FOLDER", ini="string", default="__agent_snapshots__",
            field="directory", parse=parsers.parse_directory),
    Setting("checks", "what is reported of snapshots: `unused = fail`, `unproved = ignore`, `old = 90d`, "
                      "`retired:MODEL = DATE`, `large = 2MB`, `largest = 64MB`", flag="--agentreplay-checks",
            repeats=True, takes="WORD=VALUE", ini="linelist", parse=parsers.parse_checks),
    Setting("html", "write pages into a folder: one for each test that diverges, one over all snapshots and cases",
            flag="--agentreplay-html", takes="DIR"),
    # Suites on vcrpy.
    Setting("vcr", "for suites on vcrpy. `audit`: report stale requests, change no test; `strict`: fail tests with "
                   "stale requests; `convert`: write snapshots of what is played, and prove them", flag="--vcr",
            takes="WHAT", parse=parsers.parse_vcr),
    Setting("accept_stale", "with `--vcr=audit`: keep the stale requests of today in agentreplay-vcr.json, where they "
                            "fail no build; with `--vcr=convert`: convert their tests too", flag="--accept-stale"),
    Setting("apply", "with `--vcr=convert`: replace the marks of converted tests", flag="--apply"),
    Setting("json", "with `--vcr=audit`: print the audit as one line of JSON", flag="--json"),
)  # fmt: skip
INTERNAL_FLAGS = "apart neighbours adopt-plan adopt trials live-into proof unused-into release"
"""Flags `--agentreplay-NAME` that this package gives to processes that it starts: no help lists them."""

INI_KEYS = {
    row.key: {"type": row.ini, "default": [] if row.ini == "linelist" else row.default, "help": row.help}
    for row in SETTINGS
    if row.ini
}
"""Ini key -> the keywords of its `addini`."""
KEYWORDS = [row.name for row in SETTINGS if row.marker]
"""Those of `@pytest.mark.agentreplay`."""

LINE = r"\b(agentreplay_\w+)( = |:\s+)((?!\[?\")\S.*)$"  # what is in quotes is TOML already


def list_options() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each flag with the keywords of its `addoption`."""
    for setting in SETTINGS:
        value: dict[str, Any] = {"action": "store_true", "default": False}
        if setting.takes:  # never with `nargs="?"`: an optional value swallows the path of a test
            value = {"action": "append" if setting.repeats else "store", "metavar": setting.takes}
        if setting.flag:
            yield setting.flag, {"dest": setting.key, "help": setting.help, **value}
    for name in INTERNAL_FLAGS.split():
        yield f"--agentreplay-{name}", {"dest": f"agentreplay_{name.replace('-', '_')}", "help": SUPPRESS}


def in_toml(text: str) -> str:
    """Return a message whose last words are a setting, with that setting as TOML has it.

    A message has it as ini files do: "agentreplay_ignore = $.at = a clock", "add to agentreplay_tools: shop.refund".
    """
    return re.sub(LINE, quote_value, text)


def quote_value(line: re.Match[str]) -> str:
    """Return a setting with its value in quotes, in an array where the key takes several."""
    key, between, value = line.groups()
    ini_type = INI_KEYS[key]["type"] if key in INI_KEYS else "bool"
    if ini_type == "bool":
        return line[0]
    from json import dumps  # pytest loads this module always

    text = dumps(value, ensure_ascii=False)
    return f"{key}{between}[{text}]" if between == " = " and ini_type == "linelist" else f"{key}{between}{text}"
