"""The pure packages know no world: the libraries they may import, and the calls they may not make."""

from __future__ import annotations

import ast

from tests.support.package_sources import NAME, nodes_of, trees
from tests.support.tables import words

PURE = (
    "model/", "values/", "snapshots/codec/", "snapshots/kit", "redaction/", "compare/", "backends/",
    "providers/",
)  # fmt: skip

VALUES = words(
    "__future__ abc array base64 binascii builtins bisect codecs collections contextlib copy dataclasses datetime decimal "
    "difflib enum fractions functools gzip hashlib inspect ipaddress itertools json math operator pathlib re statistics string "
    "struct threading types typing unicodedata urllib uuid zlib zoneinfo"
)
"""Standard-library modules that hold values and transforms. Some have a worldly side, which ONLY and WORLDLY close."""
LIBRARIES: dict[str, set[str]] = {
    "snapshots/codec/strict_yaml.py": {"yaml"},  # the only module that reads YAML
    "snapshots/codec/yaml_text.py": {"yaml"},  # the only one that writes it
    "redaction/policies/__init__.py": {"pydantic"},
    "model/path_parsing.py": {"jsonpath_ng"},
    "redaction/pii.py": {"importlib"},  # of python-stdnum, where it is there
    "redaction/regexes.py": {"re2", "warnings"},
    "redaction/packed.py": {"bz2", "io", "lzma", "zipfile"},  # of texts in memory
    "compare/tolerance/__init__.py": {"csv"},  # of lines in memory
    "providers/__init__.py": {"importlib"},  # of its own modules, by the names in its table
    "providers/others.py": {"importlib", "warnings"},  # of the providers of other packages, whichever are installed
    "model/content_coding.py": {"importlib"},  # of brotli and zstd, whichever library is there
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
WORLDLY = words(
    "datetime.now datetime.utcnow datetime.today date.today uuid.uuid1 uuid.uuid4 uuid.getnode uuid1 uuid4 gzip.open "
    "codecs.open inspect.stack inspect.currentframe inspect.getsource inspect.getsourcefile Path.cwd Path.home"
)
PATH_ACTS = words(
    "read_text read_bytes write_text write_bytes exists is_file is_dir stat iterdir rglob unlink mkdir expanduser"
)


def impurities(tree: ast.AST) -> list[tuple[int, str]]:
    """Everything in a module that reaches out of it: (line, what)."""
    found = []
    for node in nodes_of(tree, ast.Import, ast.ImportFrom, ast.Call, ast.Attribute):
        match node:
            case ast.Import(names):
                allowed = VALUES | {"urllib.parse", "collections.abc", NAME}
                found += [(node.lineno, f"import {a.name}") for a in names if a.name not in allowed | {"urllib"}]
                found += [(node.lineno, "import urllib: name what is used of it") for a in names if a.name == "urllib"]
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


def test_a_pure_package_reaches_for_nothing():
    found = [
        f"{path}:{line} {what}"
        for path, tree in trees().items()
        if path.startswith(PURE)
        for line, what in impurities(tree)
        if what.removeprefix("from ").removeprefix("import ").partition(" ")[0].partition(".")[0]
        not in LIBRARIES.get(path, ())
    ]
    assert not found, "\n".join(found)


def test_yaml_is_read_in_one_place_and_written_in_one():
    for path, tree in trees().items():
        imports = [alias.name for node in nodes_of(tree, ast.Import) for alias in node.names]
        imports += [node.module or "" for node in nodes_of(tree, ast.ImportFrom)]
        assert ("yaml" in imports) == (path in {"snapshots/codec/strict_yaml.py", "snapshots/codec/yaml_text.py"}), path


def test_the_search_sees_the_world_and_leaves_values_alone():
    worldly = (
        *("import os", "import time", "from random import Random", "import sys", "from io import BytesIO", "print(1)"),
        *("import pytest", "import httpx", "from threading import Thread", "threading.Event()", "open('a')"),
        *("from urllib.request import urlopen", "datetime.now()", "datetime.datetime.now(tz)", "uuid.uuid4()"),
        *("Path('a').read_text()", "inspect.stack()", "import urllib"),
    )
    plain = (
        *("from pytest_agentreplay.model.exchanges import Run", "from collections.abc import Iterator"),
        *("from threading import Lock", "lock = threading.Lock()", "from urllib.parse import urlsplit"),
        *("datetime.fromisoformat(text)", "uuid.UUID(text)", "inspect.signature(fn)", "gzip.decompress(data)"),
    )
    assert [source for source in (*worldly, *plain) if impurities(ast.parse(source))] == [*worldly]
