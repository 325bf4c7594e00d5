"""Our own waits and timings read `clocks`: a test may freeze what `time` shows, and must not freeze us."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "pytest_agentreplay"
OWN = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep"}
EXEMPT = {
    "clocks.py",
    "intercept/ordering/virtual_time.py",  # puts the time of the run in the place of theirs
}


def readings(tree):
    """The lines on which a function of `time` that only we need is named."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            yield node.lineno
        if isinstance(node, ast.Attribute) and node.attr in OWN and ast.unparse(node.value) == "time":
            yield node.lineno


@pytest.mark.parametrize("text", ["import time\ntime.sleep(1)", "from time import time", "now = time.monotonic"])
def test_a_reading_is_seen(text):
    assert [*readings(ast.parse(text))]


def test_only_clocks_reads_the_machine():
    files = [file.relative_to(PACKAGE).as_posix() for file in PACKAGE.rglob("*.py")]
    ours = [file for file in files if file not in EXEMPT and not file.startswith("demo/")]
    seen = [f"{file}:{line}" for file in ours for line in readings(ast.parse((PACKAGE / file).read_text("utf-8")))]
    assert seen == []
