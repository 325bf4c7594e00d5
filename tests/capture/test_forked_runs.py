"""A fork in the middle of a run: the run stays with the parent, and the child captures its own."""

import os
import subprocess
import sys

import pytest

from tests.support.captured_files import read_store

pytestmark = [pytest.mark.process, pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")]

PROGRAM = """
import json, os, sys, urllib.request
from pytest_agentreplay import capture


def ask(words):
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": words}]}).encode()
    urllib.request.urlopen(urllib.request.Request(os.environ["MODEL"] + "/v1/chat/completions", body)).read()


@capture.run("child")
def work(number):
    ask(f"child {number}")


capture.start("store", keep="all")
with capture.run("before"):
    ask("before")
with capture.run("parent"):
    ask("in parent")
    if (child := os.fork()) == 0:
        ask("of nobody")
        work(1)
        sys.exit(0)
    os.waitpid(child, 0)
    ask("in parent again")
"""


def test_a_fork_in_mid_run_keeps_its_own_runs_and_the_parent_keeps_that_run(tmp_path, server):
    (tmp_path / "service.py").write_text(PROGRAM)
    environ = {**os.environ, "MODEL": server.url}
    subprocess.run([sys.executable, "service.py"], cwd=tmp_path, env=environ, check=True, timeout=60)
    before, parent, child = read_store(tmp_path / "store")
    assert (before.name, before.asked) == ("before", ["before"])
    assert (parent.name, parent.asked) == ("parent", ["in parent", "in parent again"])
    assert (child.name, child.arguments, child.asked) == ("child", {"number": 1}, ["child 1"])
    assert len(server.requests) == 5
