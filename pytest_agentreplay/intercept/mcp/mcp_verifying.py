"""The real server beside a replayed MCP connection: read tools are asked what they give now, and nothing else is.

It is connected to at the first such call, in a thread and a loop of its own, with the handshake that the agent has made
today. What it answers is compared with what was recorded, and goes nowhere else; but where a framework's tool runs for
real around the call, that tool takes the answer, and is compared itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import queue
import sys
import threading
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.model.exchanges import ToolReply
from pytest_agentreplay.providers import json_rpc
from pytest_agentreplay.providers.lenient import obj, string

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from pytest_agentreplay.intercept.mcp.streams import Messages
    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.intercept.session.pending_call import PendingCall
    from pytest_agentreplay.model.exchanges import Json, JsonObject

    Open = Callable[[], AbstractAsyncContextManager[Any]]

CALL = "tools/call"
HANDSHAKE = frozenset({"initialize", "notifications/initialized"})
PATIENCE = 30.0
"""Seconds that the server has for its start and the handshake, and for each answer."""

_GIVEN = ("content", "structuredContent", "isError")
_BEAT = 0.01


class LiveServer:
    """The real server of one replayed connection, once it is needed."""

    def __init__(self, interception: Interception, opening: int, messages: Messages, open_: Open) -> None:
        """`opening` is the recorded start of the connection; `open_` gives its transport."""
        self._interception = interception
        self._opening = opening
        self._messages = messages
        self._open = open_
        self._handshake: list[Any] = []
        self._questions: queue.SimpleQueue[_Question | None] = queue.SimpleQueue()
        self._broken = ""
        self._thread: threading.Thread | None = None

    def reads(self, data: bytes) -> bool:
        """Whether a message calls a tool that somebody has declared to change nothing."""
        if not self._interception.tools.read_tools:
            return False
        request = json_rpc.message(data)
        return request.get("method") == CALL and self._interception.tools.reads(
            string(obj(request.get("params")).get("name"))
        )

    async def ask_beside(self, intercepted: PendingCall, message: Any, data: bytes) -> bytes | None:
        """Ask the real server beside a message of the agent; return an answer that the agent is to get, if any."""
        if intercepted.forward:
            question = await self._ask(intercepted, message)
            intercepted.settle(question.outcome())
            return json.dumps(question.make_answer(json_rpc.message(data)["id"]), ensure_ascii=False).encode()
        if intercepted.compare is not None and intercepted.exchange is not None:
            recorded = self._recorded.get(intercepted.exchange.start)
            if recorded is not None:  # else the agent gave up before the answer came
                intercepted.compare_outcome((await self._ask(intercepted, message)).outcome(), _outcome(recorded))
        elif intercepted.exchange is not None and intercepted.exchange.parent is not None:
            # Within a tool that is verified: frozen, and answered at once, because nothing tells the order in there.
            recorded = self._recorded.get(intercepted.exchange.start)
            if recorded is not None:
                answer = self._interception.redactor.reveal(ToolReply(recorded | {"id": json_rpc.message(data)["id"]}))
                return json.dumps(answer.value if isinstance(answer, ToolReply) else None, ensure_ascii=False).encode()
        elif string(json_rpc.message(data).get("method")) in HANDSHAKE:
            self._handshake.append(message)
        return None

    async def close(self) -> None:
        """End the real connection, if there is one."""
        anyio: Any = sys.modules["anyio"]
        self._questions.put(None)
        with anyio.CancelScope(shield=True), anyio.move_on_after(PATIENCE):
            while self._thread is not None and self._thread.is_alive():
                await anyio.sleep(_BEAT)

    @cached_property
    def _recorded(self) -> dict[int, JsonObject]:
        return json_rpc.answers(self._interception.connection(self._opening))

    async def _ask(self, intercepted: PendingCall, message: Any) -> _Question:
        """Ask the real server; returns when it has answered, or cannot any more."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._main, args=(intercepted,), daemon=True)
            self._thread.start()
        question = _Question(message)
        self._questions.put(question)
        while question.answer is None and not self._broken:
            await sys.modules["anyio"].sleep(_BEAT)
        if question.answer is None:
            question.failure = self._broken
        return question

    def _main(self, intercepted: PendingCall) -> None:
        with intercepted.inside():
            try:
                asyncio.run(self._live())
            except BaseException as error:
                self._break(error)

    def _break(self, error: BaseException) -> None:
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        self._broken = self._broken or f"{type(error).__name__}: {error}"

    async def _live(self) -> None:
        async with contextlib.AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(PATIENCE):
                    read, write, *_ = await stack.enter_async_context(self._open())
                    # A session closes them, and then the transport ends.
                    await stack.enter_async_context(read)
                    await stack.enter_async_context(write)
                    for message in self._handshake:
                        await self._send(read, write, _Question(message))
                while (question := await self._next_question()) is not None:
                    async with asyncio.timeout(PATIENCE):
                        await self._send(read, write, question)
            except TimeoutError:
                self._break(TimeoutError(f"the server has not answered within {PATIENCE:.0f} seconds"))
            except BaseException as error:
                # Told before the transport is left: that may take its time.
                ended = type(error).__name__ in {"EndOfStream", "ClosedResourceError", "BrokenResourceError"}
                self._break(ConnectionError("the server has gone") if ended else error)
                raise

    async def _next_question(self) -> _Question | None:
        while self._questions.empty():  # noqa: ASYNC110  who asks runs in another loop
            await asyncio.sleep(_BEAT)
        return self._questions.get()

    async def _send(self, read: Any, write: Any, sent: _Question) -> None:
        """Send one message of the agent, and wait for the answer if it is a question."""
        question = json_rpc.message(self._messages.encode_sent(sent.message))
        await write.send(sent.message)
        while json_rpc.is_request(question):
            came = await read.receive()
            if isinstance(came, Exception):
                raise came
            received = json_rpc.message(self._messages.encode_received(came))
            if json_rpc.is_request(received):
                await write.send(self._messages.native(sent.refuse_request(received)))
            elif "method" not in received and json_rpc.make_key(received.get("id")) == json_rpc.make_key(
                question["id"]
            ):
                sent.answer = received
                return


class _Question:
    """One message for the real server, and what came of it: an answer, or why that is not to be had."""

    def __init__(self, message: Any) -> None:
        self.message = message
        self.answer: JsonObject | None = None
        self.failure = ""

    def refuse_request(self, request: JsonObject) -> bytes:
        """Return the answer to a server that asks back: there is nobody to answer it, but for a ping."""
        answer: JsonObject = {"jsonrpc": "2.0", "id": request["id"]}
        if request["method"] == "ping":
            return json.dumps(answer | {"result": {}}).encode()
        why = f"the server asks back ({request['method']}), and nobody is there to answer"
        self.failure = why
        return json.dumps(answer | {"error": {"code": -32601, "message": why}}).encode()

    def outcome(self) -> ToolReply:
        """What is compared."""
        return ToolReply(f"no answer: {self.failure}") if self.failure else _outcome(self.answer or {})

    def make_answer(self, number: Json) -> JsonObject:
        """Return the answer for a tool that runs for real around the call."""
        if self.answer is not None and not self.failure:
            return self.answer
        return {"jsonrpc": "2.0", "id": number, "error": {"code": -32603, "message": self.failure}}


def _outcome(answer: JsonObject) -> ToolReply:
    """What a tool gave, as far as it is compared."""
    if "error" in answer:
        return ToolReply({"error": answer["error"]})
    result = obj(answer.get("result"))
    return ToolReply({"isError": False} | {name: result[name] for name in _GIVEN if name in result})
