"""A passing replay imports what it uses: reports, recording, acceptance and other providers wait for who needs them."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

import pytest

from tests.support import forking
from tests.support.model_server import ModelServer

pytestmark = pytest.mark.env("main", "lowest")

MOST = 151
"""So many of our modules may a passing replay import; each costs some 0.3 ms of every session.

150 in the newest environment, 151 in the lowest. The last one is `volatile_reader`, for what stands apart in a file.
"""

NEVER = (
    "backends.adopt", "backends.verify", "cases", "cli", "compare.align", "compare.diagnose", "compare.diff", "compare.kit_drift", "compare.kit_fields",
    "compare.matching.near_calls",
    "intercept.gateway.gateway", "intercept.mcp", "intercept.ordering.release",
    "intercept.process.process_streams", "intercept.streams", "intercept.websocket", "plugin.cases",
    "plugin.orders", "plugin.proofs", "plugin.transcript", "providers.anthropic", "providers.encode",
    "providers.frames", "providers.gemini", "providers.messages", "providers.model_reply",
    "providers.others", "redaction.policies", "report.changes", "report.finding", "report.findings", "runs.accept",
    "runs.case_files", "runs.cases", "runs.child_session", "runs.command",
    "runs.partial_replay", "runs.recording_session", "runs.redact.final_scan",
    "runs.redact.rule_review", "runs.replay_kit", "runs.snapshot_selection", "snapshots.codec.dedup_writer",
    "snapshots.codec.journal", "snapshots.codec.seal", "snapshots.codec.strict_yaml", "snapshots.store.locks", "traces", "values",
    "values.failure",
)  # fmt: skip
"""Our modules and packages that only a failure, a recording, another provider or another command needs."""

FOREIGN = ("difflib", "jsonpath_ng", "rich", "syrupy", "tomllib", "yaml", "zipfile")
"""Libraries that those modules import; what pytest and the client of the test load by themselves does not count."""

KNOWN = """
clocks errors hookspec
backends backends.backend backends.call_index backends.replay
compare compare.matching compare.matching.address compare.matching.credentials compare.matching.equal_values
compare.matching.key
intercept intercept.environment intercept.environment.clock intercept.environment.debuggers
intercept.environment.machine intercept.environment.randomness intercept.http intercept.http.bodies
intercept.http.clients intercept.http.files intercept.http.http_wire intercept.http.httpx intercept.http.stdlib
intercept.network
intercept.network.child_events intercept.network.guard intercept.network.in_process intercept.network.sandbox
intercept.ordering intercept.ordering.anyio_trio intercept.ordering.overtime intercept.ordering.pausing
intercept.process intercept.process.anyio intercept.process.child_server intercept.process.child_start
intercept.registry intercept.session intercept.session.agents intercept.session.callers intercept.session.courses
intercept.session.exits intercept.session.hosts intercept.session.interceptions intercept.session.jobs
intercept.session.lanes intercept.session.other_plugins intercept.session.patching intercept.session.pending_call
intercept.session.session_parts intercept.session.thread_starts intercept.tools intercept.tools.redirections
model model.canonical_json model.content_coding model.divergence model.exchanges model.frames model.media model.paths
model.reading model.release_order model.rules model.turns
plugin plugin.collected plugin.conflicts plugin.conftests plugin.fixtures plugin.item_session plugin.keys
plugin.plain_imports plugin.reports plugin.runtest_hooks plugin.session_report
providers providers.dialect providers.hosts providers.lenient providers.openai_chat providers.rules
providers.streams
redaction redaction.detecting redaction.encodings redaction.header_redaction
redaction.headers redaction.known redaction.layouts redaction.named redaction.placeholders
redaction.places redaction.policy redaction.redaction redaction.rewriting redaction.run_values redaction.secret_names
redaction.shapes redaction.spans redaction.text_search redaction.vendors redaction.views
report report.escape report.notices report.session_notices report.summary
runs runs.late_calls runs.offline_session runs.redact runs.redact.redaction_setup runs.replay_session
runs.run_session runs.session_children runs.session_factory runs.session_tools runs.unused_snapshots
settings settings.parsers settings.table
snapshots snapshots.codec snapshots.codec.bodies snapshots.codec.dedup_reader snapshots.codec.fields
snapshots.codec.parsing snapshots.codec.seal_digest snapshots.codec.stored_exchange snapshots.codec.streams
snapshots.codec.styles snapshots.codec.v1 snapshots.codec.values snapshots.kit snapshots.store
snapshots.store.files snapshots.store.layout
snapshots.store.projects snapshots.store.snapshots snapshots.store.system
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
    environment = surroundings(url)
    command = [sys.executable, "session.py", "-p", "no:cacheprovider", "-q", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return set(json.loads((folder / "modules.json").read_text(encoding="utf-8")))


def surroundings(url):
    """Return the environment of a session: nothing of our caller's settings."""
    ours = ("COV_", "PYTEST_", "AGENTREPLAY", "PYTHONDONTWRITEBYTECODE", "CI")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    return kept | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "MODEL": url}


@pytest.fixture(scope="module")
def replayed(tmp_path_factory):
    """The modules that a replay of the test loads, and those that the test loads without us, with the model live."""
    folder = tmp_path_factory.mktemp("replay_start")
    (folder / "session.py").write_text(SESSION, encoding="utf-8")
    (folder / "test_calls.py").write_text(TEST, encoding="utf-8")
    with ModelServer(lambda _, number: f"hello {number}") as server:
        ours = ("-p", "pytest_agentreplay.plugin", "-o", "agentreplay_paths=.")
        bare = modules_of_a_session(folder, server.url)
        words = ("-p", "no:cacheprovider", "-q", *ours, "--snapshot-record", "--agentreplay-checks=unproved=ignore")
        recorded = forking.run("pytest", *words, cwd=folder, env=surroundings(server.url))
        assert recorded.returncode == 0, recorded.stdout + recorded.stderr
        return modules_of_a_session(folder, server.url, *ours, "--replay=model"), bare


def test_a_passing_replay_imports_few_modules(replayed):
    loaded, _ = replayed
    ours = {name.partition(".")[2] for name in loaded if name.partition(".")[0] == "pytest_agentreplay"}
    new = sorted(ours - {*KNOWN.split(), ""})
    print(f"{len(ours)} modules; new: {new}")
    assert "backends.replay" in ours, "nothing was replayed, so this test says nothing"
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
