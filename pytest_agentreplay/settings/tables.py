"""The tables of flags, ini keys and marker keywords: name, type, default, help. The plugin adds them as they are.

Messages show a setting in the form of the file that configures pytest (`in_toml`).
"""

from __future__ import annotations

import re
from argparse import SUPPRESS
from typing import Any, TypeAlias

Row: TypeAlias = tuple[str, dict[str, Any]]


def switch(flag: str, about: str) -> Row:
    """Return the row of a flag without a value."""
    return flag, {"action": "store_true", "dest": destination(flag), "default": False, "help": about}


def option(flag: str, metavar: str, about: str = SUPPRESS, *, action: str = "store") -> Row:
    """Return the row of a flag with a value. One without a help text is given to child processes of this package."""
    return flag, {"action": action, "metavar": metavar, "dest": destination(flag), "default": None, "help": about}


def destination(flag: str) -> str:
    """Return the name of a flag's value: agentreplay_record for "--snapshot-record"."""
    name = flag.removeprefix("--").removeprefix("snapshot-").removeprefix("agentreplay-")
    return f"agentreplay_{name.replace('-', '_')}"


OPTIONS: tuple[Row, ...] = (
    switch("--snapshot-record", "run the selected tests live and write their snapshots"),
    switch("--snapshot-record-missing",
           "run the selected tests that have no snapshot live and write theirs; replay the others"),
    option("--replay", "MODE",
           "model: every model and tool reply from the snapshot (the default; if typed, edited snapshots are "
           "errors); live: the real model, tools frozen, compared with the snapshot under tolerances; off: run "
           "everything for real, record nothing"),
    option("--agentreplay-mode", "MODE",
           "the same as --replay, for when another plugin owns that flag; also takes record"),
    option("--replay-tools", "HOW",
           "frozen: tool results from the snapshot (the default); checked: read tools run too, results compared; "
           "live: the agent gets what read tools return now, compared as well"),
    option("--replay-set", "NAME=VALUE",
           "with --replay=live, change one thing in each request to a model: model=NAME, temperature=0, prompt=@FILE; "
           "several by several flags",
           action="append"),
    option("--record-from", "TURN",
           "record from that turn on (-1: the last): turns before it come from the snapshot; makes a pending run"),
    option("--replay-break", "TURN",
           "stop in the debugger at the model call of that turn, with call, recorded, request and reply at hand"),
    option("--replay-runs", "N",
           "with --replay=live: how many live runs of each test, or auto: as many as its verdict needs (default: 1)"),
    option("--replay-budget", "LIMITS",
           'what live runs may ask of models: "calls=100 tokens=50000 usd=2.00"; never exceeded'),
    switch("--strict-keys", "fail a replay whose requests differ in a field that a rule ignores or watches"),
    option("--redact", "WHAT",
           "take more off than the shipped secrets: pii, strict, or a policy file; several by commas, or again",
           action="append"),
    option("--agentreplay-sandbox", "HOW",
           "have the kernel refuse sockets too, to C code and children (Linux). require: or run nothing; "
           "auto: where every selected test replays; off (the default)"),
    option("--agentreplay-checks", "WORD=VALUE",
           "goes before the setting: unused=warn|fail|ignore, unproved=warn|ignore, old=180d, large=1MB, largest=32MB",
           action="append"),
    option("--agentreplay-html", "DIR",
           "write pages into a folder: one for each test that diverges, one over all snapshots and cases"),
    option("--agentreplay-runs", "STORE",
           "replay each captured run of a store (folder or URL) against the code of today; without paths these alone"),
    switch("--agentreplay-runs-strict", "fail captured runs whose requests differ, or that cannot be replayed, too"),
    option("--agentreplay-sample", "N", "of the captured runs take the N that differ most"),
    option("--vcr", "WHAT",
           "for suites on cassettes of vcrpy. audit: compare each played request with the recorded one, and change no "
           "test; strict: fail the test of a request that is not the recorded one; convert: write snapshots of what is "
           "played, and prove them"),
    switch("--accept-stale",
           "with --vcr=audit: keep the stale requests of today in agentreplay-vcr.json, where they fail no build; with "
           "--vcr=convert: convert tests whose requests have changed too, with the requests of today"),
    switch("--apply", "with --vcr=convert: replace the marks of converted tests"),
    switch("--json", "with --vcr=audit: print the audit as one line of JSON"),
    option("--agentreplay-fuzz", "N",
           "replay each test on N neighbours of its recording too (errors of the network, other streams, results and "
           "clocks), and check invariants"),
    option("--agentreplay-fuzz-seed", "SEED", "draw other neighbours (default: 0)"),
    *(option(f"--agentreplay-{name}", "VALUE") for name in (
        "apart", "neighbours", "adopt-plan", "adopt", "trials", "live-into", "proof", "unused-into", "release")),
)  # fmt: skip
"""Flag and the keywords of its `addoption`."""

INI: tuple[Row, ...] = tuple((key, {"type": kind, "default": default, "help": about}) for key, kind, default, about in (
    ("agentreplay_mode", "string", "", "model or off, where no flag says otherwise"),
    ("agentreplay_paths", "linelist", [], "folders whose tests all opt in"),
    ("agentreplay_tools", "linelist", [],
     "tools: shop.tools.lookup = read; models and retrievers that are functions: shop.llm.ask = model qwen"),
    ("agentreplay_off_script", "linelist", [], "unrecorded calls of tools in live runs: search = live"),
    ("agentreplay_ignore", "linelist", [], "what may differ: $.path = reason"),
    ("agentreplay_tolerances", "linelist", [], "what results and live runs may differ in: $.final = text(0.5)"),
    ("agentreplay_judges", "linelist", [], "functions that tolerances ask: helpful = shop.checks:judge"),
    ("agentreplay_keep", "linelist", [], "what to keep: env:SHOP_REGION, file:data/*.json, header:x-tenant"),
    ("agentreplay_redact", "linelist", [], "what to take off beyond the shipped secrets: pii, strict, FILE"),
    ("agentreplay_clock", "string", "stepped", "stepped, real, virtual or paced"),
    ("agentreplay_order", "string", "auto", "order of replies: auto, recorded, free or loose"),
    ("agentreplay_seed", "string", "", "seed of random and uuid; else by test id"),
    ("agentreplay_places", "bool", True, "store directories, host and user as marks"),
    ("agentreplay_allow", "linelist", [], "what a replayed test may reach and start: host:db:5432, program:git"),
    ("agentreplay_children", "linelist", [], "children whose model calls are met: node *"),
    ("agentreplay_live", "string", "", "what decides about live runs, and limits: p0=0.95 p1=0.80 calls=200 usd=2.00"),
    ("agentreplay_prices", "linelist", [], "dollars per million tokens: gpt-5 = 1.25 in, 10 out"),
    ("agentreplay_ci", "linelist", [], "what is allowed where CI is set: record, live"),
    ("agentreplay_runners", "linelist", [], "what runs the cases: refunds = shop.cases:run_refund"),
    ("agentreplay_timeout", "string", "120", "seconds that the runner of a case may take; 0: any number"),
    ("agentreplay_neighbours", "string", "", "neighbours on which fixed cases are tried; 12 where CI is set, else 0"),
    ("agentreplay_invariants", "linelist", [], "functions that hold in every neighbour: shop.checks:refunds_once"),
    ("agentreplay_dir", "string", "__agent_snapshots__", "snapshot folder, beside tests"),
    ("agentreplay_checks", "linelist", [],
     "what is reported of snapshots: unused = fail, unproved = ignore, old = 90d, retired:MODEL = DATE, large = 2MB"),
))  # fmt: skip
"""Key and the keywords of its `addini`, in the order of the settings page."""
INI_TYPES: dict[str, str] = {key: options["type"] for key, options in INI}

MARKER = (
    *("mode", "tools", "tolerances", "off_script", "ignore", "clock", "seed", "expect", "order", "permutations"),
    *("allow", "children", "keep", "redact"),
)
"""The keywords of `@pytest.mark.agentreplay`."""


LINE = r"\b(agentreplay_\w+)( = |:\s+)((?!\[?\")\S.*)$"  # what is in quotes is TOML already


def in_toml(text: str) -> str:
    """Return a message whose last words are a setting, with that setting as TOML has it.

    A message has it as ini files do: "agentreplay_ignore = $.at = a clock", "add to agentreplay_tools: shop.refund".
    """
    return re.sub(LINE, quoted_value, text)


def quoted_value(line: re.Match[str]) -> str:
    """Return a setting with its value in quotes, in an array where the key takes several."""
    key, between, value = line.groups()
    if INI_TYPES.get(key, "bool") == "bool":
        return line[0]
    from json import dumps  # pytest loads this module always

    text = dumps(value, ensure_ascii=False)
    return f"{key}{between}[{text}]" if between == " = " and INI_TYPES[key] == "linelist" else f"{key}{between}{text}"
