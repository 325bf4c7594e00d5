"""The reader of pages is no rubber stamp: what a page must not show fails."""

import pytest

from tests.support.pages import ROOT, Block

pytestmark = pytest.mark.process


def block(language, text, title="", reason=""):
    return Block("here:1", language, title, reason, text)


@pytest.fixture
def page(play):
    return play(ROOT / "docs" / "index.md")


def test_what_is_wrong_fails(page):
    (page.root / "shop.py").write_text("neither\n")
    for wrong in (
        block("", "a drawing\n"),
        block("text", "some output\n"),
        block("sh", "pytest --replai=model\n"),
        block("sh", "agentreplay shw FILE\n"),
        block("sh", "agentreplay show\n"),
        block("sh", "pip install -e '.[tests]'\n"),
        block("sh", "curl example.com\n"),
        block("ini", "[pytest]\nagentreplay_tolls = shop.refund\n"),
        block("ini", "[pytest]\nagentreplay_clock = virtuall\n", "pytest.ini"),
        block("toml", '[tool.pytest.ini_options]\nagentreplay_ignore = ["$.x"]\n'),
        block("yaml", "jobs: {a: {steps: [{run: pytest --snapshot-rekord}]}}\n"),
        block("json", "{'a': 1}\n"),
        block("python", "assert 1 == 2\n"),
        block("python", "def broken(:\n", "shop.py"),
        block("python", "def broken(:\n", reason="it needs a library"),
        block("diff", "-old\n+new\n", "shop.py"),
        block("diff", "-old\n+new\n"),
        block("console", "$ false\n"),
        block("console", "$ pytest --nonsense\n"),
        block("console", "$ echo one\ntwo\n"),
        block("console", "$ printf 'one\\ntwo\\n'\none\n"),
        block("console", "output without a command\n"),
    ):
        with pytest.raises((Exception, pytest.fail.Exception)):
            page.one(wrong, 0)


def test_a_test_that_does_not_replay_fails(page):
    text = "def test_it(agentreplay):\n    assert agentreplay.mode == 'record'\n"
    page.one(block("python", text), 0)
    with pytest.raises(AssertionError, match="== 'record'"):
        page.rest()


def test_a_block_is_left_out_with_a_reason_only(page):
    page.one(block("", "a drawing\n", reason="a drawing of the rooms"), 0)
    with pytest.raises(AssertionError, match="say why"):
        page.one(block("", "a drawing\n", reason="later"), 0)


def test_what_differs_from_run_to_run_does_not_count(page):
    shown = '$ echo "in 0.12s at 127.0.0.1:4711 on 2026-01-02"; pwd\nin 9.99s at 127.0.0.1:8000 on 2025-12-31\n'
    page.one(block("console", f"{shown}/home/you/shop\n"), 0)
    page.one(block("console", "$ seq 5\n1\n...\n5\n"), 1)
