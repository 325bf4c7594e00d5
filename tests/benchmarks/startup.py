"""The figure of pytest's start: what a suite pays that does not use the plugin. Byte code is written beforehand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from measuring import Row, middle, say

START_MS = 2

PROBE = """
import importlib, json, sys, time
import pytest
from _pytest.config import get_config

name = sys.argv[1]
config = get_config()
loaded = set(sys.modules)
began = time.process_time()
plugin = importlib.import_module(name)
imported = time.process_time()
config.pluginmanager.register(plugin, name)
registered = time.process_time()
ours = set(sys.modules) - loaded
config.parse(["-p", "no:cacheprovider", "."])
loaded = set(sys.modules)  # what pytest itself loads while it parses is not ours
before = time.process_time()
if hasattr(plugin, "pytest_configure"):
    plugin.pytest_configure(config)
configured = time.process_time()
print(json.dumps({
    "import": imported - began, "register": registered - imported, "configure": configured - before,
    "new": sorted(ours | set(sys.modules) - loaded),
}))
"""


def plugin(rows, rounds=15):
    """New modules, and milliseconds to import and register, of our plugin and of pytest-recording."""
    with tempfile.TemporaryDirectory() as folder:
        mine, other = [], []
        for _ in range(rounds + 1):
            mine.append(probe(folder, "pytest_agentreplay.plugin"))
            other.append(probe(folder, "pytest_recording.plugin"))
    mine, other = mine[1:], other[1:]  # the first of each wrote the byte code
    took, configured = middle(map(total, mine)), middle(reading["configure"] * 1000 for reading in mine)
    foreign = [name for name in mine[0]["new"] if not name.startswith("pytest_agentreplay")]
    rows.append(
        Row(
            "7 pytest start, plugin unused",
            "new modules; import and registration; in brackets: configuration",
            vcrpy=f"pytest-recording: {len(other[0]['new'])} modules, {middle(map(total, other)):.1f} ms",
            ours=f"{len(mine[0]['new'])} modules, {len(foreign)} not ours, {took:.2f} ms (+{configured:.2f})",
            bound=f"ours only; {START_MS} ms",
            holds=not foreign and took <= START_MS,
        )
    )
    say(f"{rows[-1].figure}: {rows[-1].ours}; {', '.join(mine[0]['new'])}; {rows[-1].vcrpy}")


def total(reading):
    """Milliseconds of import and registration."""
    return (reading["import"] + reading["register"]) * 1000


def probe(folder, name):
    """One fresh process."""
    Path(folder, "probe.py").write_text(PROBE)
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "AGENTREPLAY", "PYTHON"))
    }
    environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPYCACHEPREFIX": str(Path(folder, "bytecode"))}
    done = subprocess.run(
        [sys.executable, "probe.py", name],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return json.loads(done.stdout.splitlines()[-1])
