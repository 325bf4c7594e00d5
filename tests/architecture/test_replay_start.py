"""A passing replay imports what it uses: reports, recording, acceptance and other providers wait for who needs them."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

import pytest

from pytest_agentreplay.demo.server import ModelServer

pytestmark = pytest.mark.env("main", "lowest")

MOST = 143
"""So many of our modules may a passing replay import; each costs some 0.3 ms of every session."""

NEVER = (
    "case_files", "cases", "cases_run", "cli", "codec.dedup_writer", "codec.encode", "codec.journal", "codec.seal",
    "codec.strict_yaml", "core.align", "core.backends.adopt", "core.backends.verify", "core.diagnose", "core.diff",
    "core.failure", "core.serialize", "dialects.anthropic", "dialects.encode", "dialects.frames", "dialects.gemini",
    "dialects.messages", "intercept.gateway.gateway", "intercept.mcp", "intercept.ordering.release",
    "intercept.process.process_streams", "intercept.streams", "intercept.websocket", "interchange", "plugin.cases",
    "plugin.orders", "plugin.proofs", "policies", "project_setup",
    "redact.final_scan", "redact.residual", "redact.rule_review", "report.findings", "report.finding",
    "runs.accept", "runs.child_session", "runs.command", "runs.partial_replay", "runs.recording_session",
    "runs.replay_kit", "runs.snapshot_selection", "store.locks", "store.signatures", "transcript",
)  # fmt: skip
"""Our modules and packages that only a failure, a recording, another provider or another command needs."""

FOREIGN = ("difflib", "jsonpath_ng", "rich", "syrupy", "tomllib", "yaml", "zipfile")
"""Libraries that those modules import; what pytest and the client of the test load by themselves does not count."""

KNOWN = """
clocks conftests errors hookspec
codec codec.bodies codec.decode codec.dedup_reader codec.lines codec.parsing codec.seal_digest codec.streams
codec.styles codec.v1 codec.values
core core.backends core.canonical_json core.content_coding core.divergence core.frames core.kit core.matching
core.media core.model core.paths core.reading core.redaction core.release_order core.rules core.turns
core.backends.backend core.backends.replay
core.matching.address core.matching.wiring
core.redaction.channels core.redaction.credentials core.redaction.detecting core.redaction.encodings
core.redaction.headers core.redaction.known core.redaction.named core.redaction.packed core.redaction.placeholders
core.redaction.places core.redaction.policy core.redaction.rewriting core.redaction.secret_names
core.redaction.vendors
dialects dialects.dialect dialects.generic dialects.hosts dialects.lenient dialects.openai_chat dialects.rules
dialects.streams
intercept intercept.environment intercept.http intercept.network intercept.ordering intercept.process
intercept.registry intercept.session intercept.tools
intercept.environment.clock intercept.environment.debuggers intercept.environment.machine
intercept.environment.randomness
intercept.http.bodies intercept.http.files intercept.http.http_wire intercept.http.httpx intercept.http.stdlib
intercept.network.child_events intercept.network.guard intercept.network.in_process intercept.network.sandbox
intercept.ordering.overtime intercept.ordering.pausing intercept.ordering.anyio_trio
intercept.process.anyio intercept.process.child_server intercept.process.child_start
intercept.session.agents intercept.session.callers intercept.session.courses intercept.session.exits
intercept.session.hosts intercept.session.interceptions intercept.session.jobs intercept.session.lanes
intercept.session.other_plugins intercept.session.patching intercept.session.pending_call
intercept.session.session_parts intercept.session.thread_starts
intercept.tools.call_again intercept.tools.deferred_unpatching
plugin plugin.collected plugin.conflicts plugin.fixtures plugin.item_session plugin.plain_imports plugin.reports
plugin.runtest_hooks plugin.session_report plugin.keys
redact redact.redaction_factory
report report.escape report.notices report.session_notices report.summary
runs runs.late_calls runs.offline_session runs.session_children
runs.replay_session runs.run_session runs.session_factory runs.session_tools runs.unused_snapshots
settings settings.parsers settings.tables
store store.dependency_hashes store.display_path store.files store.layout store.projects store.snapshots store.system
"""
"""The modules that a passing replay imported when this test was written: a message names those that came since."""

TEST = """
import os, httpx2

def test_two_calls():
    for number in range(2):
        body = {"model": "m", "messages": [{"role": "user", "content": f"say {number}"}]}
        httpx2.post(os.environ["MODEL"] + "/v1/chat/completions", json=body).raise_for_status()
"""

SESSION = """
import json, sys
import pytest

status = pytest.main(sys.argv[1:])
with open("modules.json", "w") as out:
    json.dump(sorted(sys.modules), out)
sys.exit(status)
"""


def modules_of_a_session(folder, url, *words):
    """Run the test in a fresh process; return the names of the modules that were loaded at its end."""
    environment = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("COV_", "PYTEST_", "AGENTREPLAY", "PYTHONDONTWRITEBYTECODE", "CI"))
    }
    environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "MODEL": url}
    command = [sys.executable, "session.py", "-p", "no:cacheprovider", "-q", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return set(json.loads((folder / "modules.json").read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def replayed(tmp_path_factory):
    """The modules that a replay of the test loads, and those that the test loads without us, with the model live."""
    folder = tmp_path_factory.mktemp("replay_start")
    (folder / "session.py").write_text(SESSION, encoding="utf-8")
    (folder / "test_calls.py").write_text(TEST, encoding="utf-8")
    with ModelServer(lambda _, number: f"hello {number}") as server:
        ours = ("-p", "pytest_agentreplay.plugin", "-o", "agentreplay_paths=.")
        bare = modules_of_a_session(folder, server.url)
        modules_of_a_session(folder, server.url, *ours, "--snapshot-record")
        return modules_of_a_session(folder, server.url, *ours, "--replay=model"), bare


def test_a_passing_replay_imports_few_modules(replayed):
    loaded, _ = replayed
    ours = {name.partition(".")[2] for name in loaded if name.partition(".")[0] == "pytest_agentreplay"}
    new = sorted(ours - {*KNOWN.split(), ""})
    print(f"{len(ours)} modules; new: {new}")
    assert "core.backends.replay" in ours, "nothing was replayed, so this test says nothing"
    assert len(ours) <= MOST, f"{len(ours)} modules of ours; new are {', '.join(new)}: import them where they are used"


def test_what_is_never_imported_exists():
    gone = [name for name in NEVER if importlib.util.find_spec(f"pytest_agentreplay.{name}") is None]
    assert not gone, "renamed or removed: the next test would say nothing about these"


def test_a_passing_replay_imports_nothing_that_it_does_not_use(replayed):
    loaded, bare = replayed
    ours = {name.partition(".")[2] for name in loaded if name.partition(".")[0] == "pytest_agentreplay"}
    wrong = {name for name in ours if any(f"{name}.".startswith(f"{never}.") for never in NEVER)}
    assert not wrong, f"{', '.join(sorted(wrong))}: import them inside the function that needs them"
    foreign = {name.partition(".")[0] for name in loaded - bare}
    assert not foreign & set(FOREIGN), "a library that a passing replay does not use"
