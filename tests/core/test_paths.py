from __future__ import annotations

from pathlib import PurePosixPath, PureWindowsPath

import pytest

from pytest_agentreplay.core.paths import near


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
    assert near(kind(file), kind(here)) == told
