"""The tables of flags, ini keys and marker keywords: name, type, default, help. The plugin adds them as they are."""

from __future__ import annotations

from argparse import SUPPRESS
from typing import Any

OPTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("--snapshot-record", {
        "action": "store_true", "dest": "agentreplay_record", "default": False,
        "help": "run the selected tests live and write their snapshots",
    }),
    ("--snapshot-record-missing", {
        "action": "store_true", "dest": "agentreplay_record_missing", "default": False,
        "help": "run the selected tests that have no snapshot live and write theirs; replay the others",
    }),
    ("--replay", {
        "metavar": "MODE", "dest": "agentreplay_replay", "default": None,
        "help": "model: every model and tool reply from the snapshot (the default, said aloud: edited snapshots are "
                "errors); off: run everything for real, record nothing",
    }),
    ("--agentreplay-mode", {
        "metavar": "MODE", "dest": "agentreplay_mode", "default": None,
        "help": "the same as --replay, for when another plugin owns that flag; also takes record",
    }),
    ("--replay-tools", {
        "metavar": "HOW", "dest": "agentreplay_replay_tools", "default": None,
        "help": "frozen: tool results from the snapshot (the default); verify: read tools run too, results compared",
    }),
    ("--redact", {
        "metavar": "WHAT", "dest": "agentreplay_redact", "action": "append", "default": None,
        "help": "take more off than the shipped secrets: pii, strict, or a policy file; several by commas, or again",
    }),
    ("--agentreplay-sandbox", {
        "metavar": "HOW", "dest": "agentreplay_sandbox", "default": None,
        "help": "have the kernel refuse sockets too, to C code and children (Linux). require: or run nothing; "
                "auto: where every selected test replays; off (the default)",
    }),
    ("--agentreplay-no-prove", {
        "action": "store_true", "dest": "agentreplay_no_prove", "default": False,
        "help": "do not replay new recordings at the end of the session",
    }),
    ("--agentreplay-adopt-plan", {
        "metavar": "FILE", "dest": "agentreplay_adopt_plan", "default": None, "help": SUPPRESS,
    }),
    ("--agentreplay-adopt", {
        "metavar": "REASON", "dest": "agentreplay_adopt", "default": None, "help": SUPPRESS,
    }),
    ("--agentreplay-trials", {
        "metavar": "FILE", "dest": "agentreplay_trials", "default": None, "help": SUPPRESS,
    }),
    ("--agentreplay-proof", {
        "metavar": "FILE", "dest": "agentreplay_proof", "default": None, "help": SUPPRESS,
    }),
    ("--agentreplay-unused-into", {
        "metavar": "FILE", "dest": "agentreplay_unused_into", "default": None, "help": SUPPRESS,
    }),
)  # fmt: skip
"""Flag and the keywords of its `addoption`."""

INI: tuple[tuple[str, dict[str, Any]], ...] = (
    ("agentreplay_mode", {"type": "string", "default": "", "help": "model or off, where no flag says otherwise"}),
    ("agentreplay_dir", {"type": "string", "default": "__agent_snapshots__", "help": "snapshot folder, beside tests"}),
    ("agentreplay_paths", {"type": "linelist", "default": [], "help": "folders whose tests all opt in"}),
    ("agentreplay_tools", {"type": "linelist", "default": [], "help": "tools to freeze: shop.tools.lookup = read"}),
    ("agentreplay_runners", {
        "type": "linelist", "default": [], "help": "what runs the cases: refunds = shop.cases:run_refund",
    }),
    ("agentreplay_timeout", {
        "type": "string", "default": "120", "help": "seconds that the runner of a case may take; 0: any number",
    }),
    ("agentreplay_read_tools", {
        "type": "linelist", "default": [], "help": "tools of frameworks that change nothing, by shown name",
    }),
    ("agentreplay_tolerances", {
        "type": "linelist", "default": [], "help": "what a verified result may differ in: search $[*].score = 0.01",
    }),
    ("agentreplay_models", {"type": "linelist", "default": [], "help": "models in this process: shop.llm.ask = qwen"}),
    ("agentreplay_retrievals", {
        "type": "linelist", "default": [], "help": "retrievers in this process: shop.store.search = embedding-model",
    }),
    ("agentreplay_ci_record", {"type": "bool", "default": False, "help": "allow recording where CI is set"}),
    ("agentreplay_prove", {"type": "bool", "default": True, "help": "replay new recordings offline, at the end"}),
    ("agentreplay_clock", {"type": "string", "default": "stepped", "help": "stepped, real or virtual"}),
    ("agentreplay_order", {
        "type": "string", "default": "auto", "help": "order of replies: auto, recorded, free or loose",
    }),
    ("agentreplay_waits", {"type": "bool", "default": False, "help": "let replies take as long as they did"}),
    ("agentreplay_seed", {"type": "string", "default": "", "help": "seed of random and uuid; else by test id"}),
    ("agentreplay_allow_hosts", {"type": "linelist", "default": [], "help": "hosts a replayed test may reach"}),
    ("agentreplay_allow_subprocess", {"type": "linelist", "default": [], "help": "programs it may start"}),
    ("agentreplay_sandbox", {
        "type": "string", "default": "off", "help": "the kernel refuses sockets too: require, auto or off",
    }),
    ("agentreplay_children", {"type": "linelist", "default": [], "help": "children whose model calls are met: node *"}),
    ("agentreplay_env", {"type": "linelist", "default": [], "help": "environment variables to keep in snapshots"}),
    ("agentreplay_fixtures", {"type": "linelist", "default": [], "help": "files that tests depend on: data/*.json"}),
    ("agentreplay_headers", {"type": "linelist", "default": [], "help": "headers to keep, beyond the shipped list"}),
    ("agentreplay_redact", {
        "type": "linelist", "default": [], "help": "what to take off beyond the shipped secrets: pii, strict, FILE",
    }),
    ("agentreplay_ignore", {"type": "linelist", "default": [], "help": "what may differ: $.path = reason"}),
    ("agentreplay_places", {"type": "bool", "default": True, "help": "store directories, host and user as marks"}),
    ("agentreplay_unused", {"type": "string", "default": "warn", "help": "unused snapshots: warn, fail or ignore"}),
    ("agentreplay_max_bytes", {"type": "string", "default": "1000000", "help": "warn about larger snapshots"}),
    ("agentreplay_largest", {"type": "string", "default": "33554432", "help": "refuse larger snapshots, in bytes"}),
)  # fmt: skip
"""Key and the keywords of its `addini`."""

MARKER = (
    *("mode", "tools", "read_tools", "tolerances", "models", "retrievals", "ignore", "clock", "seed", "expect"),
    *("order", "orders", "waits"),
    *("allow_hosts", "allow_subprocess", "children", "fixtures", "places", "redact"),
)
"""The keywords of `@pytest.mark.agentreplay`."""
