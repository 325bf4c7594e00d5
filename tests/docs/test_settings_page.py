"""The settings page: its tables are made of the rows in `settings.table`, and what the rows do not say is in reach.

`AGENTREPLAY_WRITE_GOLDEN=1 pytest tests/docs/test_settings_page.py` writes the tables anew.
"""

from __future__ import annotations

import os
import re

from pytest_agentreplay.settings.table import SETTINGS
from tests.support.pages import ROOT

PAGE = ROOT / "docs" / "reference" / "settings.md"
TABLE = re.compile(r"(<!-- settings: (\w+) -->\n).*?(<!-- /settings -->)", re.DOTALL)
TAKES = {"linelist": "lines", "bool": "true or false"}
MODES = {"replay": "model"}
"""Mode -> the word for it in an ini file."""
DETAILS = {
    "replay_tools": "../how-to/freeze-tools.md#check-that-tools-still-return-what-was-recorded",
    "replay_set": "../how-to/compare-models.md",
    "record_from": "../how-to/fork-a-run.md",
    "replay_break": "../how-to/debug.md#stop-at-a-turn",
    "replay_runs": "../how-to/live-runs.md#several-runs-one-verdict",
    "replay_budget": "../how-to/live-runs.md#limit-the-cost",
    "strict_keys": "rules.md#what-differed-all-the-same",
    "redact": "policy.md",
    "sandbox": "network-guard.md#the-sandbox",
    "checks": "#lines-of-agentreplay_checks",
    "html": "../how-to/pages.md",
    "runs": "../how-to/replay-real-runs.md",
    "runs_strict": "../how-to/replay-real-runs.md#two-levels",
    "sample": "../how-to/replay-real-runs.md#as-many-as-you-can-wait-for",
    "vcr": "../how-to/from-vcrpy.md",
    "accept_stale": "../how-to/from-vcrpy.md#1-audit",
    "apply": "../how-to/from-vcrpy.md#3-convert",
    "json": "#the-audit-as-json",
    "fuzz": "../how-to/fuzz-a-fix.md",
    "paths": "#opting-in",
    "tools": "#lines-of-agentreplay_tools",
    "off_script": "#lines-of-agentreplay_off_script",
    "ignore": "rules.md",
    "tolerances": "../how-to/tolerances.md",
    "judges": "../how-to/tolerances.md#judges-and-embeddings",
    "keep": "#lines-of-agentreplay_keep",
    "clock": "#words-of-agentreplay_clock",
    "order": "../explanation/order.md",
    "allow": "network-guard.md",
    "children": "../how-to/other-processes.md",
    "live": "#names-of-agentreplay_live",
    "prices": "../how-to/live-runs.md#limit-the-cost",
    "ci": "../how-to/run-in-ci.md#what-ci-changes",
    "runners": "../how-to/run-a-case.md",
    "timeout": "../how-to/run-a-case.md#a-runner-that-hangs",
    "neighbours": "../how-to/fuzz-a-fix.md#in-ci",
    "invariants": "../how-to/fuzz-a-fix.md#invariants-of-your-own",
    "permutations": "../how-to/find-a-race.md",
}
"""Setting -> the section that says more."""


def name(row, text):
    """Return the name of a setting as a link to what says more about it."""
    return f"[`{text}`]({DETAILS[row.name]})" if row.name in DETAILS else f"`{text}`"


def make_tables():
    """Return the lines of each table of the page, by its name."""
    flags = [
        (name(row, f"{row.flag}{'=' * bool(row.takes)}{row.takes}"), row.text)
        for row in SETTINGS
        if row.flag and not row.ini
    ]
    keys = [
        (
            name(row, row.key),
            ", ".join(f"`{word}`" for word in (f"{row.name}=" * bool(row.marker), row.flag) if word),
            TAKES.get(row.ini, row.takes.lower()),
            f"`{MODES.get(row.default, str(row.default).lower())}`" if row.default else "",
            row.text,
        )
        for row in SETTINGS
        if row.ini
    ]
    keywords = [(name(row, row.name), row.text) for row in SETTINGS if row.marker and not row.ini]
    tables = {
        "flags": [("flag", "what it does"), *flags],
        "keys": [("key", "marker, flag", "takes", "default", "what it says"), *keys],
        "keywords": [("keyword", "what it says"), *keywords],
    }
    return {
        table: "".join(f"| {' | '.join(cells)} |\n" for cells in (rows[0], ("---",) * len(rows[0]), *rows[1:]))
        for table, rows in tables.items()
    }


def test_the_tables_are_those_that_the_rows_make():
    assert DETAILS.keys() <= {row.name for row in SETTINGS}
    text, tables = PAGE.read_text(encoding="utf-8"), make_tables()
    assert TABLE.findall(text), "the marks of the tables are gone"
    made = TABLE.sub(lambda mark: f"{mark[1]}{tables[mark[2]]}{mark[3]}", text)
    if os.environ.get("AGENTREPLAY_WRITE_GOLDEN"):
        PAGE.write_text(made, encoding="utf-8")
        return
    assert text == made, "type: AGENTREPLAY_WRITE_GOLDEN=1 pytest tests/docs/test_settings_page.py"
