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

PLAIN = "def test_plain():\n    assert 1 + 1 == 2\n"
SESSION = """
import json, sys
import pytest

status = pytest.main(sys.argv[1:])
with open("modules.json", "w") as out:
    json.dump({"status": int(status), "modules": sorted(sys.modules)}, out)
"""

WITHOUT_AND_WITH = """
import json, sys
import pytest

modules = []
for ours in [], ["-p", "pytest_agentreplay"]:
    status = pytest.main([*sys.argv[1:], *ours])
    modules.append(sorted(sys.modules))
    if status:
        sys.exit(status)
with open("modules.json", "w") as out:
    json.dump(modules, out)
"""
"""The same suite without the plugin and then with it, in one process."""

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
    (folder / "test_plain.py").write_text(PLAIN, encoding="utf-8")
    done = fresh(folder, "session.py", "-p", "no:cacheprovider", *arguments, "test_plain.py", autoload=autoload)
    result = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    assert result["status"] == 0, done.stdout + done.stderr
    return set(result["modules"])


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    """The folder of a suite, which holds the byte code of all its processes too."""
    folder = tmp_path_factory.mktemp("suite")
    (folder / "both.py").write_text(WITHOUT_AND_WITH, encoding="utf-8")
    (folder / "test_plain.py").write_text(PLAIN, encoding="utf-8")
    return folder


@pytest.mark.parametrize("words", [[], ["--co", "-q"], ["--help"]], ids=["run", "collect", "help"])
def test_a_suite_that_does_not_use_the_plugin_loads_only_the_plugin(suite, words):
    done = fresh(suite, "both.py", "-p", "no:cacheprovider", *words, "test_plain.py")
    assert done.returncode == 0, done.stdout + done.stderr
    without, beside = json.loads((suite / "modules.json").read_text(encoding="utf-8"))
    held({*beside} - {*without})


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
