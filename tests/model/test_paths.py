"""Paths and test ids as messages tell them. The rules of each shell are written out: none but sh is on every machine."""

from __future__ import annotations

import re
import shlex
from pathlib import PurePosixPath, PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.model.paths import quote_word, relative_path

WORDS = {
    "tests/test_a.py::test_b": "tests/test_a.py::test_b", "C:/shop/tests/x.json": "C:/shop/tests/x.json",
    "t.py::test[a b]": '"t.py::test[a b]"', "t.py::test[a,b]": '"t.py::test[a,b]"', "@t.py": '"@t.py"',
    "t.py::test[it's]": '"t.py::test[it\'s]"', r"t.py::test[\xe9]": r'"t.py::test[\xe9]"',
    "t.py::test[$x]": "'t.py::test[$x]'", "t.py::test[\u201cx\u201d]": "'t.py::test[\u201cx\u201d]'",
    "t.py::test[\\": "'t.py::test[\\'", "": '""',
}  # fmt: skip


def test_a_word_is_quoted_where_it_has_to_be():
    assert {text: quote_word(text) for text in WORDS} == WORDS


def by_windows(line):
    """One word as the C library of Windows reads it: double quotes, and backslashes only in front of one."""
    if not line.startswith('"'):
        return line
    inner = line[1:-1]
    assert line.endswith('"')
    assert '"' not in inner
    assert not inner.endswith("\\")
    return inner


def by_powershell(line):
    """One word as PowerShell reads it: `$` and backquote act in double quotes, nothing acts in single ones."""
    if line.startswith("'"):
        return line[1:-1].replace("''", "'")
    if line.startswith('"'):
        assert not re.search("[$`\u201c\u201d\u201e]", line)
        return line[1:-1]
    assert not re.search(r"[\s,;@(){}|&<>#]", line), "acts as a bare word"
    return line


PIECES = st.sampled_from([*"a[]()/\\\"'`$!%^&|<>;,@# ~*?{}=:é\u201c\u2019", "::", "test_a", "\\\\", "\\x"])


@given(st.lists(PIECES, max_size=8).map("".join))
def test_every_shell_reads_the_word_back(text):
    word = quote_word(text)
    assert shlex.split(word) == [text]
    if not word.startswith("'"):
        assert by_windows(word) == by_powershell(word) == text
    elif "'" not in text and '"' not in text:
        assert by_powershell(word) == text


@pytest.mark.parametrize(
    ("kind", "file", "here", "told"),
    [
        (PurePosixPath, "/shop/tests/x.json", "/shop", "tests/x.json"),
        (PurePosixPath, "/shop/tests/x.json", "/shop/src", "/shop/tests/x.json"),
        (PureWindowsPath, r"C:\Shop\tests\x.json", r"C:\Shop", "tests/x.json"),
        (PureWindowsPath, r"c:\shop\Tests\x.json", r"C:\Shop", "Tests/x.json"),
        (PureWindowsPath, r"C:\Shop\x.json", r"D:\Shop", "C:/Shop/x.json"),
        (PureWindowsPath, r"\\server\share\x.json", r"C:\Shop", "//server/share/x.json"),
    ],
)
def test_a_path_is_told_alike_on_every_system(kind, file, here, told):
    assert relative_path(kind(file), kind(here)) == told
