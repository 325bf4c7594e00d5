"""A coding agent of tests: the client of the MCP SDK, over stdio, which talks to `agentreplay mcp` in a project."""

import json
import re
import sys
from contextlib import asynccontextmanager
from typing import NamedTuple

import anyio
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from pytest_agentreplay.cli.mcp_answers import BEGINS, ENDS


class Reply(NamedTuple):
    """What a tool answered, and whether that is an error."""

    text: str
    failed: bool

    @property
    def recorded(self):
        """The lines of recorded text, without their bars; each has one."""
        if BEGINS not in self.text:
            return []
        lines = self.text.partition(f"{BEGINS}\n")[2].partition(f"\n{ENDS}")[0].splitlines()
        assert all(line.startswith("|") for line in lines), lines
        return [line[2:] for line in lines]

    @property
    def calls(self):
        """The next calls, each as its tool and arguments."""
        rows = [line for line in self.text.partition("\nnext:\n")[2].splitlines() if line]
        return [read_call(row) for row in rows]


def read_call(row):
    """Read a call as an agent would: `  show_run(run="tests/test_a.py::test_x", turn=2)`."""
    tool, arguments = re.fullmatch(r"  (\w+)\((.*)\)(?:   # \d+ more lines?)?", row).groups()
    decoder, at, values = json.JSONDecoder(), 0, {}
    while at < len(arguments):
        name = re.compile(r"(?:, )?(\w+)=").match(arguments, at)
        values[name[1]], at = decoder.raw_decode(arguments, name.end())
    return tool, values


@asynccontextmanager
async def connected(project, *words, **environ):
    """Give a function that calls a tool of the server of a project."""
    given = project.surroundings(**{"PYTEST_ADDOPTS": " ".join(project.options)} | environ)
    command = ["-m", "pytest_agentreplay", "mcp", *map(str, words)]
    server = StdioServerParameters(command=sys.executable, args=command, env=given, cwd=project.root)
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        await session.initialize()

        async def call(tool, **arguments):
            done = await session.call_tool(tool, arguments)
            failed = done.is_error if hasattr(done, "is_error") else done.isError
            return Reply(done.content[0].text, bool(failed))

        call.session = session
        yield call


def ask(project, *calls, **environ):
    """The replies to calls, each a tool and its arguments, made one after the other."""

    async def talk():
        async with connected(project, **environ) as call:
            return [await call(tool, **arguments) for tool, arguments in calls]

    return anyio.run(talk)
