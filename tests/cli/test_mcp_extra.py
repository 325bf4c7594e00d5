"""`agentreplay mcp` without what it needs: one line that says what to do."""

import sys


def test_without_the_extra_it_says_what_to_install(typed, root, monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp", None)
    message = 'agentreplay: the server needs the mcp package: pip install "frozen-agentreplay[mcp]"\n'
    assert typed("mcp") == (125, "", message)


def test_a_project_that_is_not_there(typed, root):
    assert typed("mcp", "--project", "nowhere") == (125, "", "agentreplay: --project: there is no folder nowhere\n")
