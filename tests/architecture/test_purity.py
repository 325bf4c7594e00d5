"""The pure rooms know no world: the libraries they may import, and the calls they may not make."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "pytest_agentreplay"
NAME = "pytest_agentreplay"
PURE = ("core", "dialects", "codec", "policies")
FILES = sorted(file for room in PURE for file in (PACKAGE / room).rglob("*.py"))

VALUES = {
    "__future__",
    "abc",
    "array",
    "base64",
    "binascii",
    "builtins",
    "bisect",
    "codecs",
    "collections",
    "contextlib",
    "copy",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "enum",
    "fractions",
    "functools",
    "gzip",
    "hashlib",
    "inspect",
    "ipaddress",
    "itertools",
    "json",
    "math",
    "operator",
    "pathlib",
    "re",
    "string",
    "struct",
    "threading",
    "types",
    "typing",
    "unicodedata",
    "urllib",
    "uuid",
    "zlib",
    "zoneinfo",
}
"""Standard-library modules that hold values and transforms. Some have a worldly side, which ONLY and WORLDLY close."""

LIBRARIES: dict[str, set[str]] = {
    "codec/strict_yaml.py": {"yaml"},
    "policies/__init__.py": {"pydantic", "jsonpath_ng"},
    "policies/form.py": {"pydantic"},
    "policies/patterns.py": {"re2"},
    "core/regexes.py": {"warnings"},
    "core/redaction/packed.py": {"bz2", "io", "lzma", "zipfile"},  # of texts in memory
    "core/content_coding.py": {"importlib"},  # of brotli and zstd, whichever library is there
}
"""Libraries that only turn text into values, and the one module that uses each of them."""

ONLY: dict[str, set[str]] = {
    "builtins": set(),  # as a table of classes, through vars()
    "threading": {"Lock", "RLock"},
    "urllib": {"parse"},
    "pathlib": {"PurePath", "PurePosixPath", "PureWindowsPath", "Path", "PosixPath", "WindowsPath"},
}
"""What may be used of a module whose rest is the world."""

CALLS = {"open", "print", "input", "exec", "eval", "compile", "breakpoint", "__import__"}
WORLDLY = {
    "datetime.now", "datetime.utcnow", "datetime.today", "date.today", "uuid.uuid1", "uuid.uuid4", "uuid.getnode", "uuid1", "uuid4",
    "gzip.open", "codecs.open", "inspect.stack", "inspect.currentframe", "inspect.getsource", "inspect.getsourcefile", "Path.cwd", "Path.home",
}  # fmt: skip
PATH_ACTS = {
    "read_text", "read_bytes", "write_text", "write_bytes", "exists", "is_file", "is_dir", "stat", "iterdir", "rglob", "unlink", "mkdir", "expanduser",
}  # fmt: skip


def impurities(tree: ast.AST) -> list[tuple[int, str]]:
    """Everything in a module that reaches out of it: (line, what)."""
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names):
                found += [
                    (node.lineno, f"import {a.name}")
                    for a in names
                    if a.name not in VALUES | {"urllib.parse", "collections.abc", NAME}
                ]
                found += [
                    (node.lineno, f"import {a.name}: name what is used of it")
                    for a in names
                    if a.name in ONLY and a.name not in {"builtins", "threading", "pathlib"}
                ]
            case ast.ImportFrom(module, names) if not (module or "").startswith(NAME):
                top = (module or "").partition(".")[0]
                if top not in VALUES or (top == "urllib" and module != "urllib.parse"):
                    found.append((node.lineno, f"from {module} import"))
                elif module in ONLY:
                    found += [(node.lineno, f"{module}.{a.name}") for a in names if a.name not in ONLY[module]]
            case ast.Call(ast.Name(name)) if name in CALLS or name in WORLDLY:
                found.append((node.lineno, f"{name}()"))
            case ast.Attribute(ast.Name(owner), name) if owner in ONLY and name not in ONLY[owner]:
                found.append((node.lineno, f"{owner}.{name}"))
            case ast.Call(ast.Attribute(owner, name)) if (
                ".".join([ast.unparse(owner).rpartition(".")[2], name]) in WORLDLY or name in PATH_ACTS
            ):
                found.append((node.lineno, f"{ast.unparse(node.func)}()"))
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_a_pure_room_reaches_for_nothing(file):
    name = file.relative_to(PACKAGE).as_posix()
    found = [
        f"{name}:{line} {what}"
        for line, what in impurities(ast.parse(file.read_text(encoding="utf-8")))
        if what.removeprefix("from ").removeprefix("import ").partition(" ")[0].partition(".")[0]
        not in LIBRARIES.get(name, ())
    ]
    assert not found, "\n".join(found)


def test_yaml_is_read_in_one_place():
    files = [
        f for f in PACKAGE.rglob("*.py") if re.search(r"^\s*(import|from) yaml\b", f.read_text("utf-8"), re.MULTILINE)
    ]
    assert [f.relative_to(PACKAGE).as_posix() for f in files] == ["codec/strict_yaml.py"]


@pytest.mark.parametrize(
    "source",
    [
        "import os",
        "import time",
        "from random import Random",
        "import sys",
        "from io import BytesIO",
        "import pytest",
        "import httpx",
        "from threading import Thread",
        "threading.Event()",
        "from urllib.request import urlopen",
        "open('a')",
        "print(1)",
        "datetime.now()",
        "datetime.datetime.now(tz)",
        "uuid.uuid4()",
        "Path('a').read_text()",
        "inspect.stack()",
    ],
)
def test_the_search_sees_the_world(source):
    assert impurities(ast.parse(source))


@pytest.mark.parametrize(
    "source",
    [
        "from pytest_agentreplay.core.model import Run",
        "from collections.abc import Iterator",
        "from threading import Lock",
        "lock = threading.Lock()",
        "from urllib.parse import urlsplit",
        "datetime.fromisoformat(text)",
        "uuid.UUID(text)",
        "inspect.signature(fn)",
        "gzip.decompress(data)",
    ],
)
def test_the_search_leaves_values_alone(source):
    assert not impurities(ast.parse(source))


def test_errors_import_nothing_of_ours():
    assert f"from {NAME}" not in (PACKAGE / "errors.py").read_text(encoding="utf-8")
