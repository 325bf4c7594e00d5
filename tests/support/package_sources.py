"""The package as its source reads: where it lies, and the syntax tree of each module, parsed once."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAME = "pytest_agentreplay"
PACKAGE = ROOT / NAME
TREES = {
    file.relative_to(PACKAGE).as_posix(): ast.parse(file.read_text(encoding="utf-8"))
    for file in sorted(PACKAGE.rglob("*.py"))
}
"""By path inside the package, such as `core/model.py`."""
