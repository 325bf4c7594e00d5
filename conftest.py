"""What holds for every test of the repository: how properties are tried, and which modules run in which environment."""

from __future__ import annotations

import ast
import compileall
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Generator

# A job in the background is started with SIGINT ignored, and its children inherit that: the tests that interrupt a
# process would wait for nothing.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

UNMARKED = ["main", "lowest"]
"""Where a module without a mark runs: it needs no more than the plugin."""
ROOT = Path(__file__).parent
ONCE = {
    "architecture",
    "backends",
    "capture",
    "captured_runs",
    "compare",
    "docs",
    "hostile",
    "intercept",
    "model",
    "ordering",
    "providers",
    "redaction",
    "report",
    "snapshots",
    "traces",
    "values",
}
"""Rooms of `tests` that touch no library whose releases differ, or need many: without a mark they run in main alone."""
ENVIRONMENTS = sorted(file.stem for file in ROOT.glob("tests/envs/*.txt"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the choice of the environment and of the lane."""
    parser.addoption("--env", choices=ENVIRONMENTS, default="main", help="the environment of tests/envs that this is")
    parser.addoption("--exhaustive", action="store_true", help="run the tests that are marked exhaustive too")


def pytest_configure(config: pytest.Config) -> None:
    """Have a property that fails fail again for the next person: no clock decides, the same examples come each time.

    Also compile the package, once for all processes of the suite.
    """
    examples = 400 if config.getoption("exhaustive") else 40
    settings.register_profile("house", derandomize=True, deadline=None, max_examples=examples)
    settings.load_profile("house")
    if not hasattr(config, "workerinput"):
        # Children write no byte code, and some shells forbid it: then each of them would compile all that it imports.
        compileall.compile_dir(ROOT / "pytest_agentreplay", quiet=2)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what starts processes by a fixture, and leave out every case of a class but one unless all are asked for."""
    for item in items:
        if not {"project", "shared_project"}.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("process")
    if config.getoption("exhaustive"):
        return
    left_out = [item for item in items if item.get_closest_marker("exhaustive")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("exhaustive")]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out, unread, the modules and cases of other environments: what they import is not here."""
    if collection_path.name == "case.yaml":
        return config.getoption("env") not in UNMARKED or None
    if collection_path.suffix != ".py" or collection_path.name == "conftest.py" or not collection_path.is_file():
        return None
    return config.getoption("env") not in environments_of(collection_path) or None


def environments_of(module: Path) -> list[str]:
    """The names in the `pytest.mark.env(...)` of a module, read without running it."""
    source = module.read_text(encoding="utf-8")
    rooms = module.relative_to(ROOT).parent.parts
    unmarked = UNMARKED if ONCE.isdisjoint(rooms) else ["main"]
    if "pytest.mark.env(" not in source:
        return unmarked
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.env":
            names = [ast.literal_eval(name) for name in node.args]
            if unknown := sorted({*names} - {*ENVIRONMENTS}):
                raise pytest.UsageError(f"{module}: tests/envs has no {', '.join(unknown)}.txt")
            return names
    return unmarked


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, pytest.CollectReport]:
    """A module that collects nothing checks nothing: in CI that is a failure, whatever made it so."""
    report = yield
    whole = os.environ.get("CI") and not collector.config.getoption(
        "lf", default=False
    )  # --last-failed leaves modules out on purpose
    if whole and isinstance(collector, pytest.Module) and not report.failed and not report.result:
        why = report.longrepr[2] if report.skipped else "it holds no test"
        report.outcome, report.longrepr = "failed", f"{collector.nodeid} collected nothing: {why}"
    return report
