"""The tables of flags, ini keys and marker keywords: name, type, default, help. The plugin adds them as they are."""

from __future__ import annotations

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
           "model: every model and tool reply from the snapshot (the default, said aloud: edited snapshots are "
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
    option("--replay-until", "TURN",
           "with --snapshot-record: recorded turns before TURN (-1: the last), then the real model; a pending run"),
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
    switch("--agentreplay-no-prove", "do not replay new recordings at the end of the session"),
    option("--agentreplay-fuzz", "N",
           "replay each test on N neighbours of its recording too (errors of the network, other streams, results and "
           "clocks), and check invariants"),
    option("--agentreplay-fuzz-seed", "SEED", "draw other neighbours (default: 0)"),
    option("--agentreplay-neighbours", "FILE"),
    option("--agentreplay-adopt-plan", "FILE"),
    option("--agentreplay-adopt", "REASON"),
    option("--agentreplay-trials", "FILE"),
    option("--agentreplay-live-into", "FILE"),
    option("--agentreplay-proof", "FILE"),
    option("--agentreplay-unused-into", "FILE"),
    option("--agentreplay-release", "LAYERS"),
)  # fmt: skip
"""Flag and the keywords of its `addoption`."""

INI: tuple[Row, ...] = tuple((key, {"type": kind, "default": default, "help": about}) for key, kind, default, about in (
    ("agentreplay_mode", "string", "", "model or off, where no flag says otherwise"),
    ("agentreplay_dir", "string", "__agent_snapshots__", "snapshot folder, beside tests"),
    ("agentreplay_paths", "linelist", [], "folders whose tests all opt in"),
    ("agentreplay_tools", "linelist", [], "tools to freeze: shop.tools.lookup = read"),
    ("agentreplay_runners", "linelist", [], "what runs the cases: refunds = shop.cases:run_refund"),
    ("agentreplay_neighbours", "string", "", "neighbours on which fixed cases are tried; 12 where CI is set, else 0"),
    ("agentreplay_invariants", "linelist", [], "functions that hold in every neighbour: shop.checks:refunds_once"),
    ("agentreplay_timeout", "string", "120", "seconds that the runner of a case may take; 0: any number"),
    ("agentreplay_read_tools", "linelist", [], "tools of frameworks that change nothing, by shown name"),
    ("agentreplay_tolerances", "linelist", [], "what results and live runs may differ in: $.final = text(0.5)"),
    ("agentreplay_judges", "linelist", [], "functions that tolerances ask: helpful = shop.checks:judge"),
    ("agentreplay_off_script", "linelist", [], "unrecorded calls of tools in live runs: search = live"),
    ("agentreplay_live", "string", "", "what decides about live runs: p0=0.95 p1=0.80 alpha=0.05 beta=0.10"),
    ("agentreplay_budget", "string", "", "limits of live runs: calls=100 tokens=50000 usd=2.00"),
    ("agentreplay_prices", "linelist", [], "dollars per million tokens: gpt-5 = 1.25 in, 10 out"),
    ("agentreplay_ci_live", "bool", False, "allow live runs where CI is set"),
    ("agentreplay_models", "linelist", [], "models in this process: shop.llm.ask = qwen"),
    ("agentreplay_retrievals", "linelist", [], "retrievers in this process: shop.store.search = embedding-model"),
    ("agentreplay_ci_record", "bool", False, "allow recording where CI is set"),
    ("agentreplay_prove", "bool", True, "replay new recordings offline, at the end"),
    ("agentreplay_clock", "string", "stepped", "stepped, real or virtual"),
    ("agentreplay_order", "string", "auto", "order of replies: auto, recorded, free or loose"),
    ("agentreplay_waits", "bool", False, "let replies take as long as they did"),
    ("agentreplay_seed", "string", "", "seed of random and uuid; else by test id"),
    ("agentreplay_allow_hosts", "linelist", [], "hosts a replayed test may reach"),
    ("agentreplay_allow_subprocess", "linelist", [], "programs it may start"),
    ("agentreplay_sandbox", "string", "off", "the kernel refuses sockets too: require, auto or off"),
    ("agentreplay_children", "linelist", [], "children whose model calls are met: node *"),
    ("agentreplay_env", "linelist", [], "environment variables to keep in snapshots"),
    ("agentreplay_fixtures", "linelist", [], "files that tests depend on: data/*.json"),
    ("agentreplay_headers", "linelist", [], "headers to keep, beyond the shipped list"),
    ("agentreplay_redact", "linelist", [], "what to take off beyond the shipped secrets: pii, strict, FILE"),
    ("agentreplay_ignore", "linelist", [], "what may differ: $.path = reason"),
    ("agentreplay_places", "bool", True, "store directories, host and user as marks"),
    ("agentreplay_unused", "string", "warn", "unused snapshots: warn, fail or ignore"),
    ("agentreplay_stale_days", "string", "180", "age in days from which on a snapshot is stale; 0: none is"),
    ("agentreplay_retired_models", "linelist", [], "models that are retired, beyond the shipped table: ID = DATE"),
    ("agentreplay_max_bytes", "string", "1000000", "warn about larger snapshots"),
    ("agentreplay_largest", "string", "33554432", "refuse larger snapshots, in bytes"),
))  # fmt: skip
"""Key and the keywords of its `addini`."""

MARKER = (
    *("mode", "tools", "read_tools", "tolerances", "off_script", "models", "retrievals", "ignore", "clock", "seed"),
    *("expect", "order", "orders", "waits"),
    *("allow_hosts", "allow_subprocess", "children", "fixtures", "places", "redact"),
)
"""The keywords of `@pytest.mark.agentreplay`."""
