"""A suite that does not use the plugin pays nothing: the set of modules that loading it adds."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.env("main", "lowest")

PLUGIN = {
    f".plugin{module}" for module in ("", ".conflicts", ".plain_imports", ".runtest_hooks", ".session_report", ".keys")
}
OURS = {f"pytest_agentreplay{module}" for module in ("", ".settings", ".errors", ".hookspec", *PLUGIN)}
"""The plugin, what it reads its options with, and the errors that these two raise: none of them imports a library."""
STDLIB: set[str] = {"email.feedparser", "email.parser"} if pytest.version_tuple < (9,) else set()
"""Modules of the standard library that pytest loads for us alone: 8.4 reads the metadata of a plugin that is named."""

SESSION = """
import json, sys, time
import pytest

began = time.perf_counter()
status = pytest.main(sys.argv[1:])
took = time.perf_counter() - began
with open("modules.json", "w") as out:
    json.dump({"status": int(status), "modules": sorted(sys.modules)}, out)
"""

IMPORT = """
import time
from _pytest.config import get_config
get_config()
began = time.perf_counter()
import pytest_agentreplay.plugin
print(f"{(time.perf_counter() - began) * 1000:.2f}")
"""


CLASHES = [word for name in ("replay", "cassetteai", "snapshot", "agentreplay") for word in ("-p", f"no:{name}")]
"""What of tests/envs cannot be loaded beside the rest."""


def fresh(folder, *command, autoload=False):
    """Run Python in a fresh process, without our caller's settings and with byte code kept in the folder."""
    environment = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("COV_", "PYTEST_", "AGENTREPLAY", "PYTHONDONTWRITEBYTECODE"))
    }
    environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    if autoload:
        del environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"]
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def session(folder, *arguments, autoload=False):
    """Run a suite of one test in a fresh process; gives the names of the modules that were loaded at its end."""
    (folder / "session.py").write_text(SESSION, encoding="utf-8")
    (folder / "test_plain.py").write_text("def test_plain():\n    assert 1 + 1 == 2\n", encoding="utf-8")
    done = fresh(folder, "session.py", "-p", "no:cacheprovider", *arguments, "test_plain.py", autoload=autoload)
    result = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    assert result["status"] == 0, done.stdout + done.stderr
    return set(result["modules"])


def test_a_suite_that_does_not_use_the_plugin_loads_only_the_plugin(tmp_path):
    new = session(tmp_path, "-p", "pytest_agentreplay") - session(tmp_path)
    took = sorted(float(fresh(tmp_path, "-c", IMPORT).stdout) for _ in range(3))[1]
    print(f"import of the plugin: {took} ms")
    held(new)


@pytest.mark.parametrize("words", [["--co", "-q"], ["--help"]], ids=["collect", "help"])
def test_collecting_and_helping_load_only_the_plugin(tmp_path, words):
    held(session(tmp_path, "-p", "pytest_agentreplay", *words) - session(tmp_path, *words))


def held(new):
    """The law, on the modules that our plugin adds to a session."""
    print(f"new modules at start: {', '.join(sorted(new))}")
    assert "pytest_agentreplay.plugin" in new, "the entry point was not loaded, so this test says nothing"
    foreign = {name for name in new if not name.startswith("pytest_agentreplay")}
    ours = {name for name in new - foreign if not name.startswith("pytest_agentreplay.settings.")}
    assert ours <= OURS, "the plugin loads only its settings; whatever else is ours waits for a test that uses it"
    assert not {name for name in foreign if name.partition(".")[0] not in sys.stdlib_module_names}, (
        "a third-party module"
    )
    assert foreign <= STDLIB, "pytest has not paid for these; load them where they are used"
