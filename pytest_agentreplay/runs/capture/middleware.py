"""`capture.Middleware(app)`: each request of an ASGI or WSGI application is a run.

The first `capture.run` inside gives the run its name, input and output. Where there is none, the name is the route
("POST /orders/{id}"), and the input has `method`, `path`, `query` and `body`: a runner of that name sends them to the
application. The output has `status` and `body`, where the response is complete and its body is kept.

A body is kept if it is JSON or text and at most `LARGEST` bytes: as references to the chunks that pass. No byte is
read, copied or held back for it, and no header is kept.
"""

from __future__ import annotations

import inspect
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, cast

from pytest_agentreplay.runs.capture.decorated import SteppedRun
from pytest_agentreplay.runs.capture.fail_open import never_raising
from pytest_agentreplay.runs.capture.freezing import LARGEST
from pytest_agentreplay.runs.capture.runs import open_run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_agentreplay.model.exchanges import Json

LEAVING = frozenset({"ClientDisconnect", "ClientDisconnected", "RequestAborted", "WebSocketDisconnect"})
"""What Starlette, uvicorn and Django raise when the client has left."""

VARIABLE = re.compile(r"(?<=/)(?=[^/]*[\d@%])[^/]+")
"""A part of a path that is probably no word of its route: it has a digit or an @, or is escaped."""


class Middleware:
    """An ASGI or WSGI application, each of whose requests is captured as a run.

    An exception, a status of 500 and above, and a websocket closed with 1011 are failures; a client that leaves is
    none. What else is asked of the application, it answers itself.
    """

    def __new__(cls, app: Any) -> Self:
        """Look at what `app` is called with: (scope, receive, send), or (environ, start_response)."""
        kind: Any = AsgiMiddleware if is_asgi(app) else WsgiMiddleware
        return cast("Self", object.__new__(kind))

    def __init__(self, app: Any) -> None:
        """Wrap an application.

        Args:
            app: An application of FastAPI, Starlette, Django, Flask or any other, or `app.wsgi_app` of Flask.
        """
        self.app = app

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["app"], name)


def is_asgi(app: Any) -> bool:
    """Return whether an application is one of ASGI: it is not to be called with two arguments."""
    try:
        inspect.signature(app).bind(None, None)
    except (TypeError, ValueError):
        return True
    return False


class Content:
    """A body on its way."""

    def __init__(self) -> None:
        self.size = 0
        self._chunks: list[bytes] = []

    @never_raising()
    def add(self, chunk: Any) -> None:
        """Note a chunk."""
        self.size += len(chunk)
        if self.size <= LARGEST:
            self._chunks.append(bytes(chunk))

    def read(self) -> Json:
        """Return the body as JSON, or else as text; None where it is neither, is too large, or was read in part."""
        from pydantic_core import from_json

        data = b"".join(self._chunks)
        for decode in (from_json, bytes.decode) if len(data) == self.size else ():
            with suppress(ValueError):
                return cast("Json", decode(data)) if data else None
        return None


class CapturedRequest(SteppedRun):
    """The run of a request, which is told what passes."""

    status = 0
    _route: Any = None
    has_left = is_complete = False

    @never_raising()
    def begin_request(self, details: Any) -> None:
        """Begin; `details` is the scope of ASGI or the environ of WSGI."""
        self._details, self.request, self.response = details, Content(), Content()
        if is_wsgi := "REQUEST_METHOD" in details:
            self._facts = [details.get(name, "") for name in ("REQUEST_METHOD", "PATH_INFO", "QUERY_STRING")]
        else:
            query = details["query_string"].decode("latin-1")
            self._facts = [details.get("method", "WEBSOCKET"), details["path"], query]
        self.begin(open_run(f"{self._facts[0]} {VARIABLE.sub('*', self._facts[1])}", provisional=True))
        if self.captures and is_wsgi:
            details["wsgi.input"] = RequestInput(details["wsgi.input"], self.request)

    @never_raising()
    def note_status(self, status: str) -> None:
        """Note the status of a WSGI response, and the route, which Flask forgets at the end."""
        self.status = int(status[:3])
        rule = getattr(self._details.get("werkzeug.request"), "url_rule", None)
        self._route = getattr(rule, "rule", None)

    @never_raising()
    def note_received(self, message: Mapping[str, Any]) -> None:
        """Note what an ASGI application receives."""
        if message["type"] == "http.request":
            self.request.add(message.get("body", b""))
        elif message["type"] == "http.disconnect":
            self.has_left = not self.is_complete

    @never_raising()
    def note_sent(self, message: Mapping[str, Any]) -> None:
        """Note what an ASGI application sends."""
        match message["type"].removeprefix("websocket."):
            case "http.response.start":
                self.status = message["status"]
            case "http.response.body":
                self.response.add(message.get("body", b""))
                self.is_complete = not message.get("more_body", False)
            case "close" if message.get("code") == 1011:
                self.status = 500

    @never_raising()
    def take_steps(self, body: Any) -> ResponseSteps | None:
        """Return the steps of a WSGI response; None for one that is complete, and the run ends.

        A server looks at the length of a list, and sends its own wrapper of a file without reading it.
        """
        wrapper = self._details.get("wsgi.file_wrapper")
        is_list = isinstance(body, list | tuple)
        if not is_list and not (isinstance(wrapper, type) and isinstance(body, wrapper)):
            return ResponseSteps(body, self)
        for chunk in body if is_list else ():
            self.response.add(chunk)
        self.is_complete = is_list
        self.end()
        return None

    @never_raising()
    def end(self, error: BaseException | None = None) -> None:
        """End the run with its request and response."""
        if type(error).__name__ in LEAVING:
            self.has_left, error = True, None
        with never_raising():
            self._describe()
        # Of a response of 500 the framework has made what has left the run inside.
        super().end(error or (self.run.error_inside if self.status >= 500 else None))

    def _describe(self) -> None:
        method, path, query = self._facts
        body, answer = self.request.read(), self.response.read()
        is_lost = body is None and (self.request.size or method == "WEBSOCKET")
        route = self._route or getattr(self._details.get("route"), "path", None)
        name = f"{method} {route}" if isinstance(route, str) else ""
        arguments: Json = {"method": method, "path": path, "query": query, "body": body}
        self.run.take_input({"arguments": arguments}, "what the client sent was not kept" if is_lost else "", name)
        if self.is_complete and (answer is not None or not self.response.size):
            self.run.output({"status": self.status, "body": answer})
        if self.status >= 500:
            self.run.failed(f"status {self.status}")
        if self.has_left:
            self.run.annotate(ended="the client has left")


class AsgiMiddleware(Middleware):
    """Around an application that is called with (scope, receive, send)."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request or a websocket. What lasts as long as the process (lifespan) is no run."""
        request = CapturedRequest()
        if scope["type"] in {"http", "websocket"}:
            request.begin_request(scope)
        if not request.captures:
            await self.app(scope, receive, send)
            return

        async def receive_noted() -> Any:
            message = await receive()
            request.note_received(message)
            return message

        async def send_noted(message: Any) -> None:
            request.note_sent(message)
            await send(message)

        with request:
            await self.app(scope, receive_noted, send_noted)
        request.end()


class WsgiMiddleware(Middleware):
    """Around an application that is called with (environ, start_response)."""

    def __call__(self, environ: Any, start_response: Any) -> Any:
        """Answer a request. Its run ends when the server closes the response."""
        request = CapturedRequest()
        request.begin_request(environ)
        if not request.captures:
            return self.app(environ, start_response)

        def start_noted(status: str, headers: Any, *error: Any) -> Any:
            request.note_status(status)
            return start_response(status, headers, *error)

        with request:
            body = self.app(environ, start_noted)
        steps = request.take_steps(body)
        return body if steps is None else steps


class RequestInput:
    """The input of a WSGI request; what is read of it is noted."""

    def __init__(self, stream: Any, content: Content) -> None:
        self._stream, self._content = stream, content

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._stream)

    def read(self, *size: int) -> Any:
        """Return what comes next."""
        data = self._stream.read(*size)
        self._content.add(data)
        return data


class ResponseSteps:
    """The iterable of a WSGI response, whose steps belong to the run of its request."""

    def __init__(self, body: Any, request: CapturedRequest) -> None:
        self._body, self._request = body, request
        self._iterator: Iterator[Any] | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        try:
            with self._request:
                self._iterator = self._iterator or iter(self._body)
                chunk = next(self._iterator)
        except StopIteration:
            self._request.is_complete = True
            raise
        self._request.response.add(chunk)
        return chunk

    def close(self) -> None:
        """Close the response, and end the run."""
        with self._request:
            getattr(self._body, "close", bool)()
        self._request.end()
