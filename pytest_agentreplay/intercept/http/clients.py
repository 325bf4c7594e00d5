"""One HTTP call of any client: the interception is asked, and then it is made and recorded, or answered.

A client differs from others in how its requests and replies are written. An `HttpClient` says that, in functions that
translate and do nothing else. What happens when is the same for all of them and stands in `ClientPatch`: once for
threads and once for tasks.
"""

from __future__ import annotations

import functools
import inspect
import sys
from dataclasses import dataclass
from types import CoroutineType, ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_agentreplay.intercept.http.bodies import BodyCapture, ReplayStream, SuspensionProbe, Tee
from pytest_agentreplay.intercept.http.http_wire import Wire, forever, never, revive_exception
from pytest_agentreplay.intercept.network.in_process import stays
from pytest_agentreplay.intercept.session import interceptions, lanes, patching
from pytest_agentreplay.intercept.session.replacing import blame, pass_on
from pytest_agentreplay.model.exchanges import Body, Failure, HttpCall, HttpReply
from pytest_agentreplay.model.release_order import BEGUN, END

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.intercept.session.patching import Seam

    Arguments: TypeAlias = tuple[tuple[Any, ...], Mapping[str, Any]]
    Request: TypeAlias = HttpCall | tuple[HttpCall, tuple[Any, ...], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class HttpClient:
    """How the requests and replies of one HTTP client are read and made.

    `arguments` below are those of the function that sends a request (`wrap_http`), `self` included. For an async client
    the first three may be coroutine functions.

    Attributes:
        read_call: `read_call(*arguments)` returns the request, its body read. Where that cannot be read again, it
            returns the request, and the arguments that send it: a tuple and a dict.
        read_reply: `read_reply(response)` returns what the real client gave: with its body, or without one if `stream`
            leads the body's chunks to the recording.
        make_response: `make_response(reply, chunks, *arguments)` returns the native response of a replay. `chunks` is
            an iterable and an async iterable of the recorded chunks, with `close` and `aclose`; None without `stream`.
        stream: For a client that hands a body on as it comes. `stream(response, tee)` puts `tee(chunks)` in the place
            of the response's iterator (or async iterator) of chunks, and returns the response. None for a client whose
            responses are whole.
        stream_bases: Classes of the library of which it wants the chunks to be instances.
        revive: `revive(error, *arguments)` returns the exception that a replay raises, where the recorded one lacks
            something: its class and its arguments are as recorded, but its constructor did not run.
        change: `change(call, *arguments)` returns the arguments, as a tuple and a dict, with which the request is sent
            as `call`. Without it a run that changes requests to models refuses those of this client.
    """

    read_call: Callable[..., Request | Awaitable[Request]]
    read_reply: Callable[[Any], HttpReply | Awaitable[HttpReply]]
    make_response: Callable[..., Any]
    stream: Callable[[Any, Callable[[Any], Any]], Any] | None = None
    stream_bases: tuple[type, ...] = ()
    revive: Callable[..., BaseException] | None = None
    change: Callable[..., Arguments] | None = None


def wrap_http(owner: Any, name: str, client: HttpClient, *, is_async: bool | None = None) -> None:
    """Have each call of `owner.name`, which sends one request, recorded or replayed as an HTTP call.

    For good; a second call does nothing. Where a version of the library lacks the function, nothing is wrapped.

    Args:
        owner: The class of the library that defines the function, or its module.
        name: The name of the function. It returns the response or, if it is a coroutine function, an awaitable of it.
        client: How its requests and replies are read and made.
        is_async: Whether the function returns an awaitable, where it is not written as a coroutine function.
    """
    if is_async is None:
        is_async = inspect.iscoroutinefunction(getattr(owner, name, None))
    module = owner.__name__ if isinstance(owner, ModuleType) else owner.__module__
    patch = ClientPatch(client, sys.modules[module.partition(".")[0]])
    patching.wrap(owner, name, patch.wrap_async if is_async else patch.wrap)


class ClientPatch:
    """What stands in the place of the functions by which one client sends requests."""

    def __init__(self, client: HttpClient, library: ModuleType) -> None:
        """`library` is the package whose exceptions a replay raises, where two share their names (httpx, httpx2)."""
        self._client = client
        self._library = library
        # Until a whole reply is there nothing of it is handed on; of a stream the beginning is.
        self._handed_on = END if client.stream is None else BEGUN
        self._tee: type[Tee] = type("RecordedChunks", (Tee, *client.stream_bases), {})
        self._played: type[ReplayStream] = type("ReplayedChunks", (ReplayStream, *client.stream_bases), {})

    def wrap(self, original: Seam) -> Seam:
        """Return the function that threads call in place of `original`: it asks the interception first."""
        find_interception = interceptions.find_for_http

        def send(*args: Any, **kwargs: Any) -> Any:
            interception = find_interception()
            if interception is None:
                return original(*args, **kwargs)
            return self.send(interception, original, args, kwargs)

        return send

    def wrap_async(self, original: Seam) -> Seam:
        """As `wrap`, for tasks."""
        find_interception = interceptions.find_for_http

        async def send(*args: Any, **kwargs: Any) -> Any:
            interception = find_interception()
            if interception is None:
                return await original(*args, **kwargs)
            return await self.send_async(interception, original, args, kwargs)

        return send

    def send(self, interception: Interception, original: Seam, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Return the response to one request of a thread: `original` sends it, or it is the recorded one."""
        try:
            request = self._client.read_call(*args, **kwargs)
        except BaseException as error:
            blame(original, error, self._client.read_call)  # that of a generator of the agent's
            raise
        wire, args, kwargs = self._enter(interception, original, request, args, kwargs)
        if wire is None:
            return original(*args, **kwargs)
        intercepted = wire.intercepted
        if not intercepted.forward:
            if intercepted.unfinished:
                never(wire)
            intercepted.wait_in_thread(self._handed_on)
            return self._replay(wire, args, kwargs)
        try:
            with intercepted.inside():
                response = original(*args, **kwargs)
                reply = self._check(interception, self._client.read_reply(response), HttpReply)
            intercepted.wait_in_thread(self._handed_on)
        except BaseException as error:
            wire.fail(error)
            raise
        return self._record(response, BodyCapture(intercepted, reply))

    async def send_async(
        self, interception: Interception, original: Seam, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """Return the response to one request of a task, as `send`."""
        try:
            request = self._client.read_call(*args, **kwargs)
            if inspect.isawaitable(request):
                request = await request
        except BaseException as error:
            blame(original, error, self._client.read_call)
            raise
        wire, args, kwargs = self._enter(interception, original, request, args, kwargs)
        if wire is None:
            return await original(*args, **kwargs)
        intercepted = wire.intercepted
        if not intercepted.forward:
            if intercepted.unfinished:
                await forever(wire)
            await intercepted.wait(self._handed_on)
            response = self._replay(wire, args, kwargs)
            return await response if isinstance(response, CoroutineType) else response
        watch, response = SuspensionProbe(), None
        try:
            try:
                with intercepted.inside():
                    response = await watch.watch(original(*args, **kwargs))
                    reply = self._client.read_reply(response)
                    if inspect.isawaitable(reply):
                        reply = await watch.watch(reply)
                    reply = self._check(interception, reply, HttpReply)
            except Exception:
                if watch.suspended:
                    await intercepted.wait()
                raise
            if watch.suspended:
                await intercepted.wait(self._handed_on)
            else:
                intercepted.wait_in_thread(self._handed_on, at_once=True)
        except BaseException as error:
            if response is not None and not isinstance(error, Exception):
                close_beside(response)
            # Perhaps a cancellation: nothing may be awaited here.
            wire.fail(error, suspended=watch.suspended)
            raise
        return self._record(response, BodyCapture(intercepted, reply, watch))

    def _enter(
        self, interception: Interception, original: Seam, request: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Wire | None, tuple[Any, ...], Mapping[str, Any]]:
        """Return the call under way, None for one that stays inside the process; and the arguments that send it."""
        if isinstance(request, tuple) and len(request) == 3:
            request, args, kwargs = request
            pass_on(original, *args, **kwargs)
        call: HttpCall = self._check(interception, request, HttpCall)
        if stays(interception, call):
            return None, args, kwargs
        change = self._client.change
        if interception.scope.changes and change is not None and (new := interception.change_request(call)) is not call:
            args, kwargs = change(new, *args, **kwargs)
            call = new
        return Wire.enter(interception, call, functools.partial(self._revive, args, kwargs)), args, kwargs

    def _check(self, interception: Interception, part: Any, expected: type[HttpCall | HttpReply]) -> Any:
        """Return what a function of the patch has read. Raises TypeError, and nothing is recorded then."""
        if type(part) is not expected:
            problem = f"{type(part).__name__}, no {expected.__name__}"
        elif not isinstance(url := getattr(part, "url", ""), str):
            problem = f"a URL that is {type(url).__name__}, no text"
        # The first header shows how a patch writes them; to look at all costs each call some microseconds.
        elif not all(isinstance(text, str) for pair in part.headers[:1] for text in pair):
            problem = "headers that are no pairs of texts"
        elif type(part.body) is not Body:
            problem = f"a body that is {type(part.body).__name__}, no Body"
        else:
            return part
        field = "read_call" if expected is HttpCall else "read_reply"
        fault = TypeError(f"{field} of the patch of {self._library.__name__} returned {problem}")
        interception.observed.problems.append(fault)
        raise fault

    def _record(self, response: Any, take: BodyCapture) -> Any:
        """Return the native response; its reply is recorded now, or as its chunks go by."""
        if self._client.stream is not None:
            response = self._client.stream(response, functools.partial(self._tee, take=take))
        if not take.is_teed:
            take.end_whole()
        return response

    def _replay(self, wire: Wire, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Return the recorded response as a native one; a recorded failure is raised."""
        reply, is_whole = wire.intercepted.outcome, self._handed_on == END
        if is_whole or not isinstance(reply, HttpReply):
            wire.intercepted.finish()
        if isinstance(reply, HttpReply):
            chunks = None if is_whole else self._played(wire, reply)
            return self._client.make_response(reply, chunks, *args, **kwargs)
        assert isinstance(reply, Failure)
        raise wire.revive(reply)

    def _revive(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], failure: Failure) -> BaseException:
        """Return the recorded failure as an exception of the library, told of the request that it belongs to."""
        error = revive_exception(failure, self._library)
        return error if self._client.revive is None else self._client.revive(error, *args, **kwargs)


def close_beside(response: Any) -> None:
    """Close a response that came as its caller gave up, beside it: nothing may be awaited in a task that is cancelled.

    trio closes what nobody holds by itself.
    """
    loop = lanes.find_running_loop()
    if loop is not None and hasattr(response, "aclose"):
        loop.create_task(response.aclose())
