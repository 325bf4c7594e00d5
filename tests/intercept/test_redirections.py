"""Tools of a test that has ended stay patched while something of it still runs, and go when nothing does."""

from pytest_agentreplay.intercept.tools import redirections
from pytest_agentreplay.intercept.tools.tool import Tool, is_redirected, redirect


class EndedTest:
    """An interception whose test has ended, but for a thread."""

    runs_on = True

    def is_straggling(self):
        return self.runs_on


def pay(amount):
    return amount


def test_each_callback_of_an_ended_test_patches_each_of_its_tools_once(monkeypatch):
    patched = []
    monkeypatch.setattr(redirections, "redirect_again", lambda tool: patched.append(tool) or redirect(tool))
    ended = EndedTest()
    redirections.release(ended, [redirect(Tool("pay", pay))])
    for _ in range(10):
        with redirections.refusing(ended):
            assert is_redirected(pay)
    assert [tool.name for tool in patched] == ["pay"] * 10, "twice as many each time, until memory is full"
    ended.runs_on = False
    redirections.next_begins()
    assert not is_redirected(pay)
