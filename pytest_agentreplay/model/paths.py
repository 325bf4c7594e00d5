"""How messages write paths, ids of fixtures and commands.

Paths are shown with slashes on every system, so that what is said is the same on all of them.

A fixture that is wider than a test has an id in the place of a test's: "tests/conftest.py::@answers[gpt]".

The part before "::@" is the node whose tests share the fixture: a test file or class, or for session and package scope
the file that defines it (`conftest.py` of the folder). "tests/__init__.py::@setup_module" is the set-up of a package.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import PurePath


def relative_path(file: PurePath, here: PurePath) -> str:
    """`file` as people would type it in the folder `here`: from there when it lies below, else whole. Both absolute."""
    return (file.relative_to(here) if file.is_relative_to(here) else file).as_posix()


MARK = "::@"


def is_fixture(nodeid: str) -> bool:
    """Whether the snapshot of `nodeid` is that of a fixture."""
    return MARK in nodeid.partition("[")[0]


def scope_of(nodeid: str) -> str:
    """What to give pytest, so that every test which shares the fixture is run."""
    node = nodeid.partition(MARK)[0]
    folder, slash, name = node.rpartition("/")
    if name in {"conftest.py", "__init__.py"}:
        return folder if slash else "."
    return node


def name_fixture(nodeid: str) -> str:
    """Return the fixture as reports name it: "fixture answers[gpt]"."""
    return f"fixture {nodeid.partition(MARK)[2]}"


def accepting_edit(file: str) -> str:
    """Return the command that takes a snapshot which was edited on purpose."""
    return f"agentreplay verify {quote_word(file)} --accept-edit --reason WHY"


PLAIN = re.compile(r"[A-Za-z0-9_./:=+-]+")
ACTS = re.compile(r"""["\u201c-\u201e$`!\n]|\\(?=[\\"$`]|\Z)""")
"""What one of the shells would act on inside double quotes; PowerShell takes typographic ones for quotes, too."""


def quote_word(text: str) -> str:
    """Return `text` as one word for sh, cmd and PowerShell alike; a plain name stays as it is.

    Double quotes are the one pair that all three know. A text with `$`, a backquote, `!` or a double quote has none
    that suits them all: it comes in single quotes, which cmd does not know.
    """
    if PLAIN.fullmatch(text):
        return text
    if not ACTS.search(text):
        return f'"{text}"'
    return "'" + text.replace("'", "'\"'\"'") + "'"


_root = [""]
"""What leads to the root of the project, from where commands are typed: "", or a folder with a slash behind it."""


def type_from(root: str) -> None:
    """Have commands name tests by a path that leads over `root`, which is "." for who stands there."""
    _root[0] = "" if root == "." else f"{root}/"


def selecting(test: str) -> str:
    """What selects a test: its id, as one word; all of a function's where one parameter is a placeholder."""
    return quote_word(_root[0] + get_test_id(test))


def get_test_id(test: str) -> str:
    """Return the id of a test as pytest knows it; without parameters that only a placeholder stands for.

    For a fixture that is wider than a test: what holds the tests that share it.
    """
    if is_fixture(test):
        return scope_of(test)
    return test.partition("[")[0] if "[[redacted:" in test else test
