"""The figure of pytest's start: what a suite pays that does not use the plugin. Byte code is written beforehand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measuring import Row, middle, say

START_MS = 2
CLASHES = ("replay", "cassetteai", "snapshot", "agentreplay")
"""Plugins of tests/envs/main.txt that cannot be loaded beside ours, or beside each other."""

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


SUITE = """
import pytest

@pytest.mark.parametrize("n", range(10))
def test_plain(n):
    assert n + 1 > n
"""


def collecting(rounds=3):
    """Milliseconds of `pytest --co -q` in a suite that does not use us, rounds taking turns; gives the rows printed."""
    bare, ours = [], ["-p", "pytest_agentreplay.plugin"]
    everything = [word for name in CLASHES for word in ("-p", f"no:{name}")]
    ways = {
        "nothing loaded": (bare, False),
        "ours alone": (ours, False),
        "syrupy alone": (["-p", "syrupy"], False),
        "time-machine alone": (["-p", "time_machine"], False),
        "everything but ours": ([*everything, "-p", "no:pytest_agentreplay"], True),
        "everything": ([*everything, "-p", "pytest_agentreplay"], True),
    }
    taken = {name: [] for name in ways}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(5):
            Path(folder, f"test_{number}.py").write_text(SUITE, encoding="utf-8")
        for at in range(rounds + 1):
            for name, (words, autoload) in ways.items():
                took = collect(folder, words, autoload=autoload)
                if at:  # the first of each wrote the byte code
                    taken[name].append(took)
    rows = []
    for name, readings in taken.items():
        processor, wall = (middle(column) for column in zip(*readings, strict=True))
        low = min(reading[0] for reading in readings)
        rows.append((name, processor, low, wall))
    return rows


def collect(folder, words, *, autoload):
    """CPU and wall milliseconds of one fresh `pytest --co -q`."""
    environment = environment_of(folder)
    if autoload:
        del environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"]
    command = [sys.executable, "-c", TIMED, "--co", "-q", "-p", "no:cacheprovider", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True, timeout=60)
    reading = json.loads(done.stderr.splitlines()[-1])
    return reading["cpu"] * 1000, reading["wall"] * 1000


TIMED = """
import json, os, sys, time
began = time.perf_counter()
import pytest
status = pytest.main(sys.argv[1:])
took = {"cpu": time.process_time(), "wall": time.perf_counter() - began}
sys.stderr.write(json.dumps(took) + chr(10))
sys.stderr.flush()
os._exit(int(status))
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
    done = subprocess.run(
        [sys.executable, "probe.py", name],
        cwd=folder,
        env=environment_of(folder),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return json.loads(done.stdout.splitlines()[-1])


def environment_of(folder):
    """The environment of a process that is measured: nothing autoloaded, byte code kept in `folder`."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "AGENTREPLAY", "PYTHON"))}
    return kept | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPYCACHEPREFIX": str(Path(folder, "bytecode"))}


if __name__ == "__main__":
    began = time.monotonic()
    plugin([], rounds=5)
    print("| pytest --co -q, 50 tests | CPU, median | lowest | wall, median |\n| --- | --- | --- | --- |")
    for name, processor, low, wall in collecting():
        print(f"| {name} | {processor:.0f} ms | {low:.0f} ms | {wall:.0f} ms |")
    say(f"took {time.monotonic() - began:.0f} s")
