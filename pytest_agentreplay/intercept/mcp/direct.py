"""A client that calls an MCP server of its own process with nothing between them: the SDK's dispatchers of 2.x.

No bytes exist, so the messages are written as they would be over a wire, with the ids that a wire needs. A server
cannot ask back here: the protocol has no requests of servers any more.
"""

from __future__ import annotations

import itertools
import json
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.session import lanes
from pytest_agentreplay.intercept.streams.dialogue import DialogueServer, ReplayingDialogue
from pytest_agentreplay.intercept.tools.tool_recording import run_stepwise
from pytest_agentreplay.model.exchanges import Closed
from pytest_agentreplay.providers import json_rpc

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping
    from types import ModuleType

    from pytest_agentreplay.intercept.session.lanes import CallContext
    from pytest_agentreplay.intercept.session.pending_call import PendingCall
    from pytest_agentreplay.intercept.streams.dialogue import Opening, RecordingDialogue

    Params = Mapping[str, Any] | None

PROGRESS = "notifications/progress"


class _DirectRequest:
    """What both sides share: ids, and messages as bytes."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def _question(self, method: str, params: Params, opts: Mapping[str, Any]) -> tuple[Any, bytes]:
        """The id of a question, and the question."""
        supplied = opts.get("request_id")
        number = next(self._numbers) if supplied is None else supplied
        if opts.get("on_progress") is not None:
            meta = (params or {}).get("_meta") or {}
            params = {**(params or {}), "_meta": {**meta, "progressToken": number}}
        return number, _message(method, params, id=number)


def _message(method: str, params: Params, **more: Any) -> bytes:
    return _serialize({"jsonrpc": "2.0", **more, "method": method} | ({} if params is None else {"params": params}))


def _serialize(message: dict[str, Any]) -> bytes:
    data: bytes = sys.modules["pydantic_core"].to_json(message)
    return data


class Listened(_DirectRequest):
    """The client's dispatcher while recording. What the server does runs in the client's tasks, inside a message."""

    def __init__(self, taking: RecordingDialogue, real: Any) -> None:
        """`real` is the dispatcher that calls the server."""
        super().__init__()
        self._taking = taking
        self._real = real

    async def send_raw_request(self, method: str, params: Params, opts: Mapping[str, Any] | None = None) -> Any:
        """Ask the server, and give its answer."""
        opts = dict(opts or {})
        number, question = self._question(method, params, opts)
        call_context = lanes.CALL_CONTEXT.get()
        if (on_progress := opts.get("on_progress")) is not None:
            opts["on_progress"] = self._progress(number, on_progress, call_context)
        intercepted = self._taking.say(question)
        answer = {"jsonrpc": "2.0", "id": number}
        try:
            request = self._real.send_raw_request(method, params, opts)
            result = await run_stepwise(DialogueServer(intercepted), request)
        except Exception as error:
            if (error_data := getattr(error, "error", None)) is not None:
                self._taking.hear(
                    _serialize({**answer, "error": error_data.model_dump(by_alias=True, exclude_none=True)})
                )
            raise
        self._taking.hear(_serialize({**answer, "result": result}))
        return result

    async def notify(self, method: str, params: Params, opts: Any = None) -> None:
        """Tell the server something."""
        intercepted = self._taking.say(_message(method, params))
        await run_stepwise(DialogueServer(intercepted), self._real.notify(method, params, opts))

    async def run(self, on_request: Any, on_notify: Any, on_notify_intercept: Any = None, **more: Any) -> None:
        """Take what the server says by itself, until the client is closed."""
        call_context = lanes.CALL_CONTEXT.get()

        def intercept(method: str, params: Params) -> bool:
            self._taking.hear(_message(method, params))
            return False if on_notify_intercept is None else bool(on_notify_intercept(method, params))

        async def pass_notification(context: Any, method: str, params: Params) -> None:
            await _run_callback(call_context, on_notify(context, method, params))

        try:
            await self._real.run(on_request, pass_notification, intercept, **more)
        finally:
            self._taking.end(Closed(by_agent=True))

    def close(self) -> None:
        """The client wants no more."""
        self._real.close()

    def _progress(
        self, number: Any, on_progress: Callable[..., Awaitable[None]], call_context: CallContext | None
    ) -> Any:
        async def report_progress(progress: float, total: float | None = None, message: str | None = None) -> None:
            params = {"progressToken": number, "progress": progress, "total": total, "message": message}
            self._taking.hear(_message(PROGRESS, {name: value for name, value in params.items() if value is not None}))
            await _run_callback(call_context, on_progress(progress, total, message))

        return report_progress


async def _unheard(*_notification: Any) -> None:
    """Take a notification of a server that runs, and leave the recorded ones in its place."""


class _Aside:
    """Stands for a call around what is the agent's own again."""

    def __init__(self, call_context: CallContext | None) -> None:
        self._call_context = call_context

    @contextmanager
    def inside(self) -> Iterator[None]:
        token = lanes.CALL_CONTEXT.set(self._call_context)
        try:
            yield
        finally:
            lanes.CALL_CONTEXT.reset(token)


async def _run_callback(call_context: CallContext | None, callback: Any) -> None:
    """Run a callback of the agent, which the server has called from within a message."""
    await run_stepwise(_Aside(call_context), callback)


class Answered(_DirectRequest):
    """The client's dispatcher in a replay: whoever waits for an answer hands out what comes before it."""

    def __init__(self, opening: Opening, library: ModuleType, real: Any) -> None:
        """`library` is the module of the dispatchers; `real` calls the server, or is None where none runs."""
        super().__init__()
        self._real = real
        self._anyio: Any = sys.modules["anyio"]
        self._error = library.MCPError
        self._waiting: dict[Hashable, tuple[dict[str, Any], Any]] = {}
        self._live: set[Hashable] = set()  # questions that the server answers itself
        self._changed = self._anyio.Event()
        self._on_notify: Any = None
        self._intercept: Any = None
        self._giving = ReplayingDialogue(opening, json_rpc)
        self._giving.wake = self._wake

    async def send_raw_request(self, method: str, params: Params, opts: Mapping[str, Any] | None = None) -> Any:
        """Say the question; its recorded answer comes in its turn."""
        opts = opts or {}
        number, question = self._question(method, params, opts)
        mine = "agent", json_rpc.make_key(number)
        answer: dict[str, Any] = {}
        intercepted = self._giving.say(question)
        if self._real is not None and intercepted.runs_server:
            self._live.add(mine)
            return await self._ask_server(intercepted, method, params, opts)
        self._waiting[mine] = answer, opts.get("on_progress")
        try:
            await self._anyio.lowlevel.checkpoint()
            while not answer:
                await self._hand_out(mine)
        finally:
            del self._waiting[mine]
            self._wake()
        if "error" in answer:
            raise self._error(**answer["error"])
        return answer["result"]

    async def notify(self, method: str, params: Params, opts: Any = None) -> None:
        """Say something; nothing leaves."""
        del opts
        self._giving.say(_message(method, params))
        await self._anyio.lowlevel.checkpoint()

    async def run(self, on_request: Any, on_notify: Any, on_notify_intercept: Any = None, **more: Any) -> None:
        """Hand out what was said by itself, while nobody waits for an answer."""
        self._on_notify, self._intercept = on_notify, on_notify_intercept
        async with self._anyio.create_task_group() as tasks:
            if self._real is not None:
                await tasks.start(self._listen, on_request)
            if (status := more.get("task_status")) is not None:
                status.started()
            while True:
                await self._hand_out(None)

    async def _listen(self, on_request: Any, *, task_status: Any) -> None:
        """Take what a server that runs asks the client; what it notifies stands in the recording."""
        await self._real.run(on_request, _unheard, task_status=task_status)

    async def _ask_server(self, intercepted: PendingCall, method: str, params: Params, opts: Mapping[str, Any]) -> Any:
        """Ask the server itself, whose own calls are replayed."""
        call_context, on_progress = lanes.CALL_CONTEXT.get(), opts.get("on_progress")

        async def report_progress(*progress: Any) -> None:
            await _run_callback(call_context, on_progress(*progress))  # type: ignore[misc]

        opts = dict(opts) | ({} if on_progress is None else {"on_progress": report_progress})
        request = self._real.send_raw_request(method, params, opts)
        return await run_stepwise(DialogueServer(intercepted), request)

    def close(self) -> None:
        """The client wants no more."""

    def _wake(self) -> None:
        self._changed.set()

    async def _hand_out(self, mine: Hashable | None) -> None:
        """Hand out the next message where that is the part of `mine`, else wait until something has changed."""
        due = self._giving.due
        while due and json_rpc.subject(due[0], by_agent=False) in self._live:
            due.popleft()
        about = json_rpc.subject(due[0], by_agent=False) if due else None
        if not due or mine != (about if about in self._waiting else next(iter(self._waiting), None)):
            # Several may wait: an event that nobody has set yet is theirs too.
            if self._changed.is_set():
                self._changed = self._anyio.Event()
            await self._changed.wait()
            return
        message: dict[str, Any] = json.loads(due.popleft())
        self._wake()
        answer, on_progress = self._waiting.get(about, ({}, None))  # what nobody waits for any more is dropped
        if "method" not in message:
            answer.update(message)
        elif message["method"] == PROGRESS and about is not None:
            if on_progress is not None:
                params = message["params"]
                await on_progress(params["progress"], params.get("total"), params.get("message"))
        elif self._intercept is None or not self._intercept(message["method"], message.get("params")):
            await self._on_notify(None, message["method"], message.get("params"))
