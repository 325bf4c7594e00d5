"""Ids of fixtures that are wider than a test, in the place of test ids: "tests/conftest.py::@answers[gpt]".

The part before "::@" is the node whose tests share the fixture: a test file or class, or for session and package scope
the file that defines it (`conftest.py` of the folder). "tests/__init__.py::@setup_module" is the set-up of a package.
"""

from __future__ import annotations

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


def named(nodeid: str) -> str:
    """The fixture as reports name it: "fixture answers[gpt]"."""
    return f"fixture {nodeid.partition(MARK)[2]}"
