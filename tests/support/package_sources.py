"""The package as its source reads: where it lies, and the syntax tree of each module, parsed once and only if asked for."""

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAME = "pytest_agentreplay"
PACKAGE = ROOT / NAME


@functools.cache
def trees():
    """Return the syntax trees by path inside the package, such as `model/exchanges.py`."""
    files = sorted(PACKAGE.rglob("*.py"))
    return {file.relative_to(PACKAGE).as_posix(): ast.parse(file.read_text(encoding="utf-8")) for file in files}
