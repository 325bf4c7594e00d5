"""A replayed connection to an MCP server of the test's own process that runs, because its tools made calls.

What the agent says is compared as ever. A tool call in which the server asked a model or the network when recorded is
answered by the server, whose own calls are replayed; every other tool call is answered from the recording, and its
tool does not run. The server also gets what is no tool call, to be initialized; its answers to that are dropped.
"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.mcp.mcp_verifying import CALL
from pytest_agentreplay.intercept.mcp.streams import ReplayStreams, ReplayWriter
from pytest_agentreplay.intercept.tools.tool_steps import StepWatch, stepped
from pytest_agentreplay.providers import json_rpc

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Hashable

    from pytest_agentreplay.intercept.mcp.messages import Messages
    from pytest_agentreplay.intercept.session.pending_call import PendingCall
    from pytest_agentreplay.intercept.streams.dialogue import DialogueServer, ReplayingDialogue


@contextlib.asynccontextmanager
async def running(
    giving: ReplayingDialogue,
    messages: Messages,
    client: tuple[Any, Any],
    *,
    around: Callable[[PendingCall], DialogueServer],
) -> AsyncGenerator[tuple[ReplayStreams, ReplayWriter], None]:
    """The streams of a session with a server that runs; `client` are the client's real ones.

    `around` returns what stands for the call of a message around what the server does for it.
    """
    anyio: Any = sys.modules["anyio"]
    live: set[Hashable] = set()
    read, write = ReplayStreams(giving, messages, anyio), _ServerRequest(giving, messages, client[1], live, around)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_listen, client[0], giving, messages, live)
        try:
            yield read, write
        finally:
            read.close()
            write.close()
            tasks.cancel_scope.cancel()


async def _listen(real: Any, giving: ReplayingDialogue, messages: Messages, live: set[Hashable]) -> None:
    """Hand over what the server says of tool calls that it answers itself, and what it asks for meanwhile."""
    async for message in real:
        data = messages.heard(message)
        if json_rpc.subject(data, by_agent=False) in live or json_rpc.is_request(json_rpc.message(data)):
            giving.hand(data)


class _ServerRequest(ReplayWriter):
    """The agent's side: each message is compared, then answered by the recording or by the server."""

    def __init__(
        self,
        giving: ReplayingDialogue,
        messages: Messages,
        real: Any,
        live: set[Hashable],
        around: Callable[[PendingCall], DialogueServer],
    ) -> None:
        super().__init__(giving, messages, sys.modules["anyio"])
        self._real = real
        self._live = live
        self._around = around

    async def send(self, message: Any) -> None:
        """Say a message; the server gets it unless its recorded answer is all that there is."""
        if self._closed:
            raise self._anyio.ClosedResourceError
        data = self._messages.said(message)
        intercepted = self._giving.say(data)
        call = json_rpc.message(data).get("method") == CALL
        served = call and intercepted.runs_server
        if served:
            self._live.add(json_rpc.subject(data, by_agent=True))
        recorded = [said for said in self._giving.due if json_rpc.subject(said, by_agent=False) not in self._live]
        self._giving.due.clear()
        self._giving.due.extend(recorded)
        if served or not call:
            await stepped(self._around(intercepted), self._real.send(message), StepWatch())  # type: ignore[arg-type]
        else:
            await self._anyio.lowlevel.checkpoint()
