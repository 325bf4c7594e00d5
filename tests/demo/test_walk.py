"""`agentreplay demo` in an environment whose plugins cannot live together: theirs is not the demo's matter."""

import os
import subprocess
import sys

import pytest

from pytest_agentreplay.demo.walk import NEW_LINE, OLD_LINE, lay_out

pytestmark = pytest.mark.env("main")


def started(folder, *words):
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "AGENTREPLAY", "COV"))}
    command = [sys.executable, "-m", *words]
    return subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, encoding="utf-8", timeout=120
    )


def test_the_demo_walks_where_other_plugins_clash(tmp_path):
    clash = started(tmp_path, "pytest", "--co")
    assert "conflicting option string" in clash.stderr, "nothing clashes here, so this test says nothing"
    walked = started(tmp_path, "pytest_agentreplay", "demo", "--dir", str(tmp_path / "shop"))
    assert walked.returncode == 0, walked.stdout + walked.stderr
    assert "[AR-PROMPT] turn" in walked.stdout


def demo(folder, *words):
    done = started(folder, "pytest_agentreplay", "demo", "--dir", str(folder / "shop"), *words)
    return done.returncode, done.stdout + done.stderr


def test_a_second_demo_keeps_what_the_reader_edited(tmp_path):
    shop = tmp_path / "shop"
    assert demo(tmp_path)[0] == 0
    assert demo(tmp_path)[0] == 0, "nobody has edited anything"

    agent = shop / "shop.py"
    edited = agent.read_text(encoding="utf-8").replace("cheerful", "stern")
    agent.write_text(edited, encoding="utf-8")
    (shop / "test_mine.py").write_text("def test_mine(): pass\n", encoding="utf-8")
    snapshots = {file: file.read_bytes() for file in shop.rglob("*.snapshot.json")}
    code, said = demo(tmp_path)
    assert code == 125, said
    assert "holds your edits (shop.py, test_mine.py), which the demo would write over" in said
    assert f"cd {shop} && pytest" in said
    assert agent.read_text(encoding="utf-8") == edited
    assert {file: file.read_bytes() for file in shop.rglob("*.snapshot.json")} == snapshots

    (shop / "test_mine.py").unlink()
    code, said = demo(tmp_path, "--force")
    assert code == 0, said
    assert "stern" not in agent.read_text(encoding="utf-8")


def test_undoing_the_edit_of_the_demo_is_no_edit(tmp_path):
    lay_out(tmp_path)
    agent = tmp_path / "shop.py"
    before = agent.read_text(encoding="utf-8")
    agent.write_text(before.replace(OLD_LINE, NEW_LINE), encoding="utf-8")
    (tmp_path / "ledger.txt").write_text("refund\n", encoding="utf-8")
    (tmp_path / ".idea").mkdir()
    lay_out(tmp_path)
    assert agent.read_text(encoding="utf-8") == before
    assert not (tmp_path / "ledger.txt").exists()
