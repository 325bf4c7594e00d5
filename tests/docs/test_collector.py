"""The reader of pages is no rubber stamp: what a page must not show fails."""

from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "index.md"


@pytest.mark.parametrize(
    ("language", "text", "title"),
    [
        ("", "a drawing\n", ""),
        ("text", "some output\n", ""),
        ("sh", "pytest --replai=model\n", ""),
        ("sh", "agentreplay shw FILE\n", ""),
        ("sh", "agentreplay show\n", ""),
        ("sh", "pip install -e '.[tests]'\n", ""),
        ("sh", "curl example.com\n", ""),
        ("ini", "[pytest]\nagentreplay_tolls = shop.refund\n", ""),
        ("ini", "[pytest]\nagentreplay_clock = virtuall\n", "pytest.ini"),
        ("toml", '[tool.pytest.ini_options]\nagentreplay_ignore = ["$.x"]\n', ""),
        ("yaml", "jobs: {a: {steps: [{run: pytest --snapshot-rekord}]}}\n", ""),
        ("json", "{'a': 1}\n", ""),
        ("python", "assert 1 == 2\n", ""),
        ("python", "def broken(:\n", "shop.py"),
        ("diff", "-old\n+new\n", "shop.py"),
        ("diff", "-old\n+new\n", ""),
        ("console", "$ false\n", ""),
        ("console", "$ echo one\ntwo\n", ""),
        ("console", "$ printf 'one\\ntwo\\n'\none\n", ""),
        ("console", "output without a command\n", ""),
    ],
)
def test_what_is_wrong_fails(studio, block, language, text, title):
    room = studio(PAGE)
    (room.root / "shop.py").write_text("neither\n")
    with pytest.raises((Exception, pytest.fail.Exception)):
        room.one(block(language, text, title=title), 0)


def test_a_test_that_does_not_replay_fails(studio, block):
    room = studio(PAGE)
    room.one(block("python", "import time\ndef test_it(agentreplay):\n    agentreplay.tool(len)\n"), 0)
    with pytest.raises(AssertionError, match="not written in Python"):
        room.rest()


def test_a_block_is_left_out_with_a_reason_only(studio, block):
    studio(PAGE).one(block("", "a drawing\n", reason="a drawing of the rooms"), 0)
    with pytest.raises(AssertionError, match="say why"):
        studio(PAGE).one(block("", "a drawing\n", reason="later"), 0)


def test_what_differs_from_run_to_run_does_not_count(studio, block):
    room = studio(PAGE)
    shown = '$ echo "in 0.12s at 127.0.0.1:4711 on 2026-01-02"; pwd\nin 9.99s at 127.0.0.1:8000 on 2025-12-31\n'
    room.one(block("console", f"{shown}/home/you/shop\n"), 0)
    room.one(block("console", "$ seq 5\n1\n...\n5\n"), 1)
