"""Every way out that we know of is tried for real: what Python tells of is refused at L1, everything at L3."""

import importlib
import os
import re
import sys
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("L3 and half of the probes are Linux's", allow_module_level=True)

pytestmark = [pytest.mark.env("main", "clients"), pytest.mark.process]

sys.path.insert(0, str(Path(__file__).parents[1] / "safety"))
probes = importlib.import_module("probes")


@pytest.fixture(scope="module")
def prober():
    with probes.Prober() as one:
        yield one


def names(heard):
    there = set(probes.here())
    return [
        pytest.param(name, marks=() if name in there else pytest.mark.skip(f"needs {' '.join(probe.needs) or 'root'}"))
        for name, probe in probes.PROBES.items()
        if probe.heard is heard
    ]


@pytest.mark.parametrize("name", names(heard=True))
def test_what_python_tells_of_is_refused_by_the_guard(prober, name):
    probe = probes.PROBES[name]
    assert prober.verdict(name, "open").through, "a probe that never comes through shows nothing"
    for level in ("L1", "L3"):
        through, said = prober.verdict(name, level)
        assert not through, (level, said)
        told = int(said.pop("ledger"))
        assert told >= len(probe.contexts) if probe.told else told == 0, (level, said)
        assert name == "swallowed" or all(word.startswith("refused") for word in said.values()), (level, said)


@pytest.mark.parametrize("name", names(heard=False))
def test_what_nobody_tells_of_is_refused_by_the_kernel(prober, name):
    for level in ("open", "L1"):
        assert prober.verdict(name, level).through, f"{level}: not what the documents say"
    through, said = prober.verdict(name, "L3")
    assert not through, said


def test_clients_in_c_and_rust_are_tried_where_they_are(request):
    """In CI a library that is missing there is a failure, and no skip."""
    if request.config.getoption("env") == "clients":
        assert {name for name, probe in probes.PROBES.items() if probe.needs} <= set(probes.here())
    assert os.environ.get("CI", "") == "" or sum(1 for _ in probes.here()) >= 40


def test_the_page_names_every_probe_with_its_level():
    page = (Path(__file__).parents[2] / "docs/reference/network-guard.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*) \| (refused|passes)\b[^|]* \| ([^|]+) \|$", page, re.MULTILINE)
    shown = {name: (l1 == "refused", l3 != "passes") for cell, l1, l3 in rows for name in re.findall(r"`(.+?)`", cell)}
    shown.pop("except")
    assert shown == {name: (probe.heard, True) for name, probe in probes.PROBES.items()}
