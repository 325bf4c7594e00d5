"""`agentreplay demo` in an environment whose plugins cannot live together: theirs is not the demo's matter."""

import os
import sys
from importlib.metadata import entry_points

import pytest

from pytest_agentreplay import cli
from pytest_agentreplay.cli.demo.walk import LOCAL_SHOP, NEW_LINE, OLD_LINE, SHOP, lay_out
from tests.support import forking

pytestmark = [pytest.mark.env("main"), pytest.mark.process]


def test_the_demo_walks_where_other_plugins_clash(tmp_path):
    installed = {plugin.name for plugin in entry_points(group="pytest11")}
    assert installed >= {"syrupy", "snapshot"}, "nothing clashes here, so this test says nothing"
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "AGENTREPLAY", "COV"))}
    walked = forking.run("pytest_agentreplay", "demo", "--dir", str(tmp_path / "shop"), cwd=tmp_path, env=environ)
    assert walked.returncode == 0, walked.stdout + walked.stderr
    assert "[AR-PROMPT] turn" in walked.stdout


def test_where_the_local_model_is_not_installed_the_demo_says_what_installs_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    assert cli.main(["demo", "--model", "local", "--dir", str(tmp_path / "shop")]) == 125
    assert capsys.readouterr().err.endswith(': pip install "frozen-agentreplay[local]"\n')
    assert not (tmp_path / "shop").exists()


def test_a_second_demo_keeps_what_the_reader_edited_unless_forced(tmp_path, capsys):
    lay_out(tmp_path)
    agent, mine = tmp_path / "shop.py", tmp_path / "test_mine.py"
    snapshot = tmp_path / "__agent_snapshots__/test_shop/test_a.snapshot.json"
    snapshot.parent.mkdir(parents=True)
    snapshot.touch()
    before = agent.read_text(encoding="utf-8")
    agent.write_text(before.replace("cheerful", "stern").replace("brief", "stern"), encoding="utf-8")
    mine.touch()
    edited = agent.read_text(encoding="utf-8")
    assert edited != before
    assert cli.main(["demo", "--dir", str(tmp_path)]) == 125
    said = capsys.readouterr().err
    assert "holds your edits (shop.py, test_mine.py), which the demo would write over" in said
    assert f"cd {tmp_path} && pytest" in said
    assert (agent.read_text(encoding="utf-8"), snapshot.exists()) == (edited, True)
    lay_out(tmp_path, force=True)
    assert (agent.read_text(encoding="utf-8"), snapshot.exists()) == (before, False)


def test_what_the_demo_edits_itself_is_no_edit(tmp_path):
    lay_out(tmp_path)
    agent = tmp_path / "shop.py"
    before = agent.read_text(encoding="utf-8")
    agent.write_text(before.replace(OLD_LINE, NEW_LINE), encoding="utf-8")
    test = tmp_path / "test_shop.py"
    test.write_text(test.read_text(encoding="utf-8").replace(SHOP, LOCAL_SHOP), encoding="utf-8")
    (tmp_path / "ledger.txt").write_text("refund\n", encoding="utf-8")
    (tmp_path / ".idea").mkdir()
    lay_out(tmp_path)
    assert agent.read_text(encoding="utf-8") == before
    assert not (tmp_path / "ledger.txt").exists()
