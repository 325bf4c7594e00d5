"""The settings: one row for each, from which fields, flags, ini keys, keywords of the marker and the page are made."""

from __future__ import annotations

import re
from argparse import SUPPRESS
from typing import TYPE_CHECKING, Any, Literal

from pytest_agentreplay.settings import parsers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pytest_agentreplay.backends.budget import ModelBudget
    from pytest_agentreplay.backends.order_permutations import OrderTrial
    from pytest_agentreplay.compare.live_result import ModelAxis, ToolsAxis
    from pytest_agentreplay.compare.tolerance import Tolerance
    from pytest_agentreplay.redaction.policy import Policy
    from pytest_agentreplay.settings.parsers import Mode, Pairs, Prices


class Setting:
    """One setting: the ways to give it, what reads its value, and the value of its field where nobody gives one."""

    # Not a NamedTuple, whose code would be compiled at each start of pytest.
    name: str  # the keyword of the marker
    key: str  # the ini key, and the name of the flag's value on pytest's options: "agentreplay_" and the name
    text: str  # what it does, with code in backticks, for the settings page
    help: str  # the same, for `pytest --help`
    default: Any = ()
    flag: str = ""
    repeats: bool = False  # whether the flag may be given several times
    takes: str = ""  # what stands behind the flag or key, in capitals; nothing for a flag that takes no value
    ini: str = ""  # the type that pytest reads the ini key as; nothing without such a key
    # How a keyword of the marker, or a flag, changes the value of the ini file; nothing where there is no keyword.
    marker: Literal["", "replaces", "adds", "merges"] = ""
    # (value, where it stands: a flag, "FILE: agentreplay_NAME", or the marker) -> the value of the field, or a dict of
    # fields. Without a parser the code that needs the setting reads it.
    parse: Callable[[Any, str], Any] | None = None
    only: str = ""  # what the flag is for alone: "replays", "live runs", "live models" or "fuzzing"

    def __init__(self, text: str, **values: Any) -> None:
        """`values` are other attributes; the name is that in the class below."""
        vars(self).update(values, text=text, help=text.replace("`", ""))

    def __set_name__(self, _: type, name: str) -> None:
        self.name, self.key = name, f"agentreplay_{name}"


setting: Any = Setting  # a field has the type of its value, not that of its row


class Fields:
    """The fields of `Settings`, each with its type and the row by which people give it, or a plain default.

    A row without a type is no field: it sets others, or the code that needs it reads it from pytest's options.
    """

    # fmt: off
    # What the command line or the environment says of the mode, where it does: no marker changes one that is named.
    # "convert" records tests without a snapshot from what vcrpy plays.
    typed: Literal["", "record", "missing", "convert", "model", "live", "off"] = ""
    strict: bool = False  # whether edited snapshots are refused
    on_ci: bool = False
    toml: bool = False  # whether the file that configures pytest is one of TOML
    model: ModelAxis = "frozen"
    released: frozenset[str] | None = None  # the layers that a line-up releases in this run (see `Axes`)
    # The reason for taking changed requests under old replies; the kinds of changes that are taken, all where there are
    # none; whether nothing is written.
    adopt: str = ""
    adopt_codes: tuple[str, ...] = ()
    adopt_dry: bool = False

    # Recording and replaying.
    record = Setting("run the selected tests live and write their snapshots", flag="--snapshot-record",
        parse=parsers.make_mode_parser("record"))
    record_missing: bool = setting("run the selected tests that have no snapshot live and write theirs; replay the "
        "others", flag="--snapshot-record-missing", default=False, parse=parsers.make_mode_parser("missing"))
    replay = Setting("`model` (the default): replies from the snapshot; `live`: the real model, tools frozen, compared "
        "with the snapshot under tolerances; `off`: run everything for real, record nothing", flag="--replay",
        takes="MODE", parse=parsers.parse_mode)
    mode: Mode = setting("as `--replay`, where another plugin owns that flag; takes `record` too. In ini file and "
        "marker: `model` or `off`", flag="--agentreplay-mode", takes="MODE", ini="string", default="replay",
        marker="replaces", parse=parsers.parse_mode)
    paths: tuple[str, ...] = setting("folders whose tests all opt in", ini="linelist", parse=parsers.parse_texts)
    record_from: int = setting("record from that turn on (-1: the last): earlier turns come from the snapshot",
        flag="--record-from", takes="TURN", default=0, parse=parsers.parse_record_from)
    replay_break: int = setting("stop in the debugger at the model call of that turn, with call, recorded, request, "
        "reply", flag="--replay-break", takes="TURN", default=0, only="replays", parse=parsers.parse_turn)

    # Tools: (import path, "read", "write" or "live", perhaps with " as " and the shown name, or "model" or "retrieval"
    # and the name of a model), and for tools of frameworks (shown name, "read" or "live").
    tools: Pairs = setting("functions to freeze: `shop.tools.lookup = read`; models, retrievers: `shop.llm.ask = model "
        "qwen`", ini="linelist", marker="merges", parse=parsers.parse_tools)
    replay_tools: ToolsAxis = setting("`frozen` (default): tool results from the snapshot; `checked`: read tools run "
        "too, results compared; `live`: the agent gets what read tools return now", flag="--replay-tools", takes="HOW",
        default="frozen", parse=parsers.make_word_parser("frozen", "checked", "live"))
    off_script: Pairs = setting("unrecorded calls of tools in live runs: `search = live`, `pay = stop`, `lookup = stub "
        "{}`", ini="linelist", marker="merges", parse=parsers.parse_off_script)

    # What is compared.
    ignore: Pairs = setting("what may differ: `$.path = reason`, `header:name = reason`, `query:name = reason`",
        ini="linelist", marker="merges", parse=parsers.parse_ignored)
    strict_keys: bool = setting("fail a replay whose requests differ in a field that a rule ignores or watches",
        flag="--strict-keys", default=False, parse=parsers.parse_switch)
    tolerances: tuple[Tolerance, ...] = setting("what results and live runs may differ in: `$.final = text(0.5)`",
        ini="linelist", marker="adds", parse=parsers.parse_tolerances)
    judges: Pairs = setting("functions that tolerances ask: `helpful = shop.checks:judge`", ini="linelist",
        parse=parsers.parse_functions)
    expect: Literal["", "reproduces"] = setting("`reproduces`: the test keeps its recorded failure, and is green while "
        "it recurs", marker="replaces", default="", parse=parsers.make_word_parser("reproduces"))

    # What is stored.
    env: tuple[str, ...] = ()
    kept_files: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    matched_headers: tuple[str, ...] = ()
    policy: Policy | None = None  # what `redact` names and the project's own file, once somebody has read them
    keep = Setting("what to keep: `env:SHOP_REGION`, `file:data/*.json`, `header:x-tenant`", ini="linelist",
        marker="adds", parse=parsers.parse_keep)
    redact: tuple[str, ...] = setting("what to redact beyond the shipped secrets: `pii`, `strict` or a policy file, "
        "several by commas", flag="--redact", repeats=True, takes="WHAT", ini="linelist", marker="adds",
        parse=parsers.parse_redact)
    places: bool = setting("store directories, host and user name as marks, and put back those of today", ini="bool",
        default=True, parse=parsers.parse_switch)

    # Clock, order and random numbers.
    waits: bool = False  # whether replies take as long as they took, as the clock `paced` has it
    trial: OrderTrial | None = None  # which of the permutations this is
    clock: Literal["stepped", "real", "virtual"] = setting("`stepped`, `real`, `virtual` or `paced`", takes="WORD",
        ini="string", default="stepped", marker="replaces", parse=parsers.parse_clock)
    order: Literal["auto", "recorded", "free", "loose"] = setting("order of replies: `auto`, `recorded`, `free` or "
        "`loose`", takes="WORD", ini="string", default="auto", marker="replaces", parse=parsers.parse_order)
    permutations: int = setting("replay the test in at most so many other orders of its answers too; `True` for 120",
        takes="N", default=0, marker="replaces", parse=parsers.parse_limit)
    seed: int | None = setting("seed of `random`, `uuid` and numpy; else by test id", takes="NUMBER", ini="string",
        default=None, marker="replaces", parse=parsers.parse_count)

    # Network and processes.
    allow_hosts: tuple[str, ...] = ()
    allow_subprocess: tuple[str, ...] = ()
    allow = Setting("what a replayed test may reach and start: `host:db:5432`, `program:git`", ini="linelist",
        marker="adds", parse=parsers.parse_allow)
    children: tuple[str, ...] = setting("child processes whose model calls are intercepted: `node *`", ini="linelist",
        marker="adds", parse=parsers.parse_texts)
    sandbox: str = setting("have the kernel refuse sockets too, to C code and children (Linux). `require`: or run "
        "nothing; `auto`: where every selected test replays; `off` (default)", flag="--agentreplay-sandbox",
        takes="HOW", default="off", parse=parsers.make_word_parser("auto", "require", "off"))

    # Live runs.
    rates: Mapping[str, float] = {}  # of the test that decides about them, where the ini file has others
    ledger: ModelBudget | None = None  # what is asked before each call of a live model
    replay_set: tuple[str, ...] = setting("change one thing in each request to a live model: `model=NAME`, "
        "`temperature=0`, `prompt=@FILE`", flag="--replay-set", repeats=True, takes="NAME=VALUE", only="live models",
        parse=parsers.parse_changes)
    replay_runs: int = setting("with `--replay=live`: how many live runs of each test, or `auto`: as many as its "
        "verdict needs", flag="--replay-runs", takes="N", default=1, only="live runs", parse=parsers.parse_runs)
    replay_budget: Mapping[str, float] = setting("what live runs may ask of models: `calls=100 tokens=50000 usd=2.00`; "
        "never exceeded", flag="--replay-budget", takes="LIMITS", default={}, only="live runs",
        parse=parsers.parse_budget)
    live = Setting("what decides about live runs, and limits: `p0=0.95 p1=0.80 calls=200 usd=2.00`",
        takes="NAME=VALUE", ini="string", parse=parsers.parse_live)
    prices: Prices = setting("dollars per million tokens: `gpt-5 = 1.25 in, 10 out`", ini="linelist",
        parse=parsers.parse_prices)
    ci: tuple[str, ...] = setting("what is allowed where `CI` is set: `record`, `live`", ini="linelist",
        parse=parsers.parse_ci)

    # Cases, fuzzing and captured runs.
    runners: Pairs = setting("what runs the cases: `refunds = shop.cases:run_refund`", ini="linelist",
        parse=parsers.parse_functions)
    timeout: float = setting("seconds that the runner of a case may take; `0`: any number", takes="NUMBER",
        ini="string", default=120, parse=parsers.parse_count)
    neighbours: int = setting("neighbours on which fixed cases are tried; 12 where `CI` is set, else 0", takes="NUMBER",
        ini="string", default=0, parse=parsers.parse_count)
    invariants: tuple[str, ...] = setting("functions that hold in every neighbour: `shop.checks:refunds_once`",
        ini="linelist", parse=parsers.parse_texts)
    fuzz: int = setting("replay each test on N neighbours of its recording too (other errors, streams, results, "
        "clocks), and check invariants", flag="--agentreplay-fuzz", takes="N", default=0, only="replays",
        parse=parsers.parse_count)
    fuzz_seed: int = setting("draw other neighbours (default: 0)", flag="--agentreplay-fuzz-seed", takes="SEED",
        default=0, only="fuzzing", parse=parsers.parse_count)
    runs = Setting("replay each captured run of a store (folder or URL) against the code of today",
        flag="--agentreplay-runs", takes="STORE")
    runs_strict = Setting("fail captured runs whose requests differ, or that cannot be replayed, too",
        flag="--agentreplay-runs-strict")
    sample: int = setting("of the captured runs take the N that differ most", flag="--agentreplay-sample", takes="N",
        default=0, parse=parsers.parse_sample)

    # Snapshots and pages.
    prove: bool = True
    unused: str = "warn"
    max_bytes: int = 1_000_000
    largest: int = 32 * 1024 * 1024
    stale_days: int = 180  # the age from which on a snapshot is stale
    retired_models: Pairs = ()  # (id, day), beyond the shipped table
    dir: str = setting("snapshot folder, beside tests", takes="FOLDER", ini="string", default="__agent_snapshots__",
        parse=parsers.parse_directory)
    checks = Setting("what is reported of snapshots: `unused = fail`, `unproved = ignore`, `old = 90d`, "
        "`retired:MODEL = DATE`, `large = 2MB`, `largest = 64MB`", flag="--agentreplay-checks", repeats=True,
        takes="WORD=VALUE", ini="linelist", parse=parsers.parse_checks)
    html = Setting("write pages into a folder: one for each test that diverges, one over all snapshots and cases",
        flag="--agentreplay-html", takes="DIR")

    # Suites on vcrpy.
    vcr = Setting("for suites on vcrpy. `audit`: report stale requests, change no test; `strict`: fail tests with "
        "stale requests; `convert`: write snapshots of what is played, and prove them", flag="--vcr", takes="WHAT",
        parse=parsers.parse_vcr)
    accept_stale = Setting("with `--vcr=audit`: keep the stale requests of today in agentreplay-vcr.json, where they "
        "fail no build; with `--vcr=convert`: convert their tests too", flag="--accept-stale")
    apply = Setting("with `--vcr=convert`: replace the marks of converted tests", flag="--apply")
    json = Setting("with `--vcr=audit`: print the audit as one line of JSON", flag="--json")
    # fmt: on


SETTINGS = [row for row in vars(Fields).values() if isinstance(row, Setting)]
DEFAULTS = {name: getattr(value := vars(Fields)[name], "default", value) for name in Fields.__annotations__}
"""The value of each field where nobody gives one."""
INTERNAL_FLAGS = "apart neighbours adopt-plan adopt trials live-into proof unused-into release"
"""Flags `--agentreplay-NAME` that this package gives to processes that it starts: no help lists them."""

INI_KEYS: dict[str, dict[str, Any]] = {row.key: {"type": row.ini, "help": row.help} for row in SETTINGS if row.ini}
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
