"""What the page on coding agents has readers paste is what each of these programs reads, and starts the server."""

import json
import re
import shlex
import tomllib

from pytest_agentreplay.cli import parse_words
from pytest_agentreplay.cli.mcp_answers import LIMIT, ToolAnswer, format_answer, format_call
from pytest_agentreplay.cli.mcp_tools import TOOLS
from tests.support.pages import ROOT

PAGE = (ROOT / "docs" / "how-to" / "coding-agents.md").read_text(encoding="utf-8")


def read_block(name, language):
    """The first block in a language behind the name of a program."""
    return re.search(rf"\*\*{re.escape(name)}\*\*.*?```{language}\n(.*?)```", PAGE, re.DOTALL)[1]


def assert_starts_the_server(command, arguments):
    """The words are a command of ours, whose options are known."""
    assert (command, arguments[0]) == ("agentreplay", "mcp")
    assert parse_words(arguments).verb == "mcp"


def test_claude_code():
    # https://code.claude.com/docs/en/mcp: `claude mcp add [options] NAME -- COMMAND [ARGS]`, options before the name;
    # .mcp.json in the root of the project holds `mcpServers`.
    words = shlex.split(read_block("Claude Code", "sh"))
    assert words[:7] == ["claude", "mcp", "add", "--scope", "project", "agentreplay", "--"]
    assert_starts_the_server(words[7], words[8:])
    server = json.loads(read_block("Claude Code", "json"))["mcpServers"]["agentreplay"]
    assert [server["command"], *server["args"]] == words[7:]


def test_codex():
    # https://developers.openai.com/codex/mcp: a table `mcp_servers.NAME` with command, args, and limits in seconds.
    server = tomllib.loads(read_block("Codex", "toml"))["mcp_servers"]["agentreplay"]
    assert {*server} == {"command", "args", "startup_timeout_sec", "tool_timeout_sec"}
    assert_starts_the_server(server["command"], server["args"])


def test_cursor():
    # https://cursor.com/docs/context/mcp: .cursor/mcp.json holds `mcpServers`; ${workspaceFolder} is its project.
    server = json.loads(read_block("Cursor", "json"))["mcpServers"]["agentreplay"]
    assert {*server} == {"command", "args"}
    assert_starts_the_server(server["command"], server["args"])


def test_copilot():
    # https://code.visualstudio.com/docs/agents/reference/mcp-configuration: .vscode/mcp.json holds `servers`.
    server = json.loads(read_block("GitHub Copilot in VS Code", "json"))["servers"]["agentreplay"]
    assert server["type"] == "stdio"
    assert_starts_the_server(server["command"], server["args"])


def test_the_table_has_every_tool():
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE) == [*TOOLS]


def test_the_answer_on_the_page_has_the_form_of_answers():
    head, _, recorded, *_ = read_block("GitHub Copilot in VS Code", "text").splitlines()
    test = "test_shop.py::test_late_order_is_refunded"
    calls = format_call("show_run", run=test, turn=1), format_call("replay", test=test)
    answer = format_answer(ToolAnswer(head, [recorded[2:], "..."], calls), "explain_failure", {"test": test})
    assert read_block("GitHub Copilot in VS Code", "text").replace("\n...\n", "\n| ...\n") == f"{answer}\n"
    assert f"at most {LIMIT:,} characters" in PAGE
