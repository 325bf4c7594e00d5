"""What people install: every file of the package, the licence, the two entry points, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from configparser import ConfigParser

import pytest

from tests.support.package_sources import PACKAGE, ROOT

pytestmark = pytest.mark.process
CACHES = {"__pycache__", ".mypy_cache", ".ruff_cache"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = out.glob("*.whl")
    with zipfile.ZipFile(file) as opened:
        yield opened


def test_the_wheel_holds_the_package_whole_and_nothing_else(wheel):
    here = {f.relative_to(ROOT).as_posix() for f in PACKAGE.rglob("*") if f.is_file() and not CACHES & set(f.parts)}
    there = set(wheel.namelist())
    assert {name for name in there if ".dist-info/" not in name} == here
    assert "pytest_agentreplay/py.typed" in there


def test_the_wheel_carries_its_licence_and_its_entry_points(wheel):
    names = {name.partition(".dist-info/")[2]: name for name in wheel.namelist() if ".dist-info/" in name}
    assert wheel.read(names["licenses/LICENSE"]).decode() == (ROOT / "LICENSE").read_text(encoding="utf-8")
    entry_points = ConfigParser()
    entry_points.read_string(wheel.read(names["entry_points.txt"]).decode())
    assert dict(entry_points["pytest11"]) == {"pytest_agentreplay": "pytest_agentreplay.plugin"}
    assert dict(entry_points["console_scripts"]) == {"agentreplay": "pytest_agentreplay.cli:script"}
    metadata = wheel.read(names["METADATA"]).decode()
    assert "Name: frozen-agentreplay" in metadata
    assert "Requires-Python: >=3.11" in metadata
