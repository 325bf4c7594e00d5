"""`capture.Middleware(app)`: each request of an ASGI or WSGI application is a run.

The first `capture.run` inside gives the run its name, input and output. Where there is none, the name is the route
("POST /orders/{id}"), and the input has `method`, `path`, `query` and `body`: a runner of that name sends them to the
application. The output has `status` and `body`, once the response is complete.

Of both bodies the run has references to the chunks that pass, if they are JSON or text and few bytes. No byte is read,
copied or held back for it, and no header is kept.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, cast

from pytest_agentreplay.capture.decorated import SteppedRun
from pytest_agentreplay.capture.fail_open import never_raising
from pytest_agentreplay.capture.freezing import LARGEST
from pytest_agentreplay.capture.runs import open_run

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Self

    from pytest_agentreplay.core.model import Json

GONE = re.compile(r"Disconnect|RequestAborted")
"""In the names of what Starlette, uvicorn and Django raise when the client has left."""

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
    """Return whether an application is one of ASGI: a coroutine function, or not to be called with two arguments."""
    if inspect.iscoroutinefunction(app) or inspect.iscoroutinefunction(type(app).__call__):
        return True
    try:
        inspect.signature(app).bind(None, None)
    except (TypeError, ValueError):
        return True
    return False


class Content:
    """A body on its way, of the media type `kind`."""

    def __init__(self, kind: str = "") -> None:
        self.kind, self.size = kind, 0
        self._chunks: list[bytes] = []

    @never_raising()
    def add(self, chunk: Any) -> None:
        """Note a chunk."""
        self.size += len(chunk)
        if self.size <= LARGEST and re.search("json|text|urlencoded", self.kind):
            self._chunks.append(bytes(chunk))

    def read(self) -> Json:
        """Return the body as JSON or text; None where not all of it was kept."""
        from pydantic_core import from_json

        data = b"".join(self._chunks)
        try:
            return (from_json(data) if "json" in self.kind else data.decode()) if 0 < self.size == len(data) else None
        except ValueError:  # compressed, or read in part
            return None


class CapturedRequest(SteppedRun):
    """The run of a request, which is told what passes."""

    status = 0
    _route: Any = None
    has_left = is_complete = False

    @never_raising()
    def begin_request(self, details: Mapping[str, Any]) -> None:
        """Begin; `details` is the scope of ASGI or the environ of WSGI."""
        if "REQUEST_METHOD" in details:
            facts = [details.get(name, "") for name in ("REQUEST_METHOD", "PATH_INFO", "QUERY_STRING", "CONTENT_TYPE")]
        else:
            query, kind = details["query_string"].decode("latin-1"), find_media_type(details["headers"])
            facts = [details.get("method", "WEBSOCKET"), details["path"], query, kind]
        self._details = details
        *self._facts, kind = facts
        self.request, self.response = Content(kind), Content()
        self.begin(open_run(f"{facts[0]} {VARIABLE.sub('*', facts[1])}", provisional=True))

    @never_raising()
    def note_start(self, status: Any, headers: Iterable[tuple[Any, Any]]) -> None:
        """Note the status and the media type of the response."""
        self.status, self.response.kind = int(status), find_media_type(headers)
        rule = getattr(self._details.get("werkzeug.request"), "url_rule", None)  # Flask forgets it at the end
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
                self.note_start(message["status"], message.get("headers", ()))
            case "http.response.body":
                self.response.add(message.get("body", b""))
                self.is_complete = not message.get("more_body", False)
            case "close" if message.get("code") == 1011:
                self.status = 500

    @never_raising()
    def end(self, error: BaseException | None = None) -> None:
        """End the run with its request and response."""
        with never_raising():
            self._describe()
        if self.has_left and (isinstance(error, OSError) or GONE.search(type(error).__name__)):
            error = None
        elif self.status >= 500 and error is None:
            error = self.run.error_inside  # the framework has made the response of it
        super().end(error)

    def _describe(self) -> None:
        method, path, query = self._facts
        body, reason = self.request.read(), ""
        if body is None and (self.request.size or method == "WEBSOCKET"):
            reason = "what the client sent was not kept"
        route = self._route or getattr(self._details.get("route"), "path", None)
        name = f"{method} {route}" if isinstance(route, str) else ""
        arguments: Json = {"method": method, "path": path, "query": query, "body": body}
        self.run.take_input({"arguments": arguments}, reason, name)
        if self.is_complete:
            self.run.output({"status": self.status, "body": self.response.read()})
        if self.status >= 500:
            self.run.failed(f"status {self.status}")
        if self.has_left:
            self.run.annotate(ended="the client has left")


def find_media_type(headers: Iterable[tuple[Any, Any]]) -> str:
    """Return the content type among headers, which ASGI has as bytes and WSGI as text."""
    for name, value in headers:
        if name.lower() in {b"content-type", "content-type"}:
            return value if isinstance(value, str) else str(value, "latin-1")
    return ""


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
            try:
                await send(message)
            except OSError:
                request.has_left = True
                raise

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
            request.note_start(status[:3], headers)
            return start_response(status, headers, *error)

        environ["wsgi.input"] = RequestInput(environ["wsgi.input"], request.request)
        with request:
            body = self.app(environ, start_noted)
        wrapper = environ.get("wsgi.file_wrapper")
        # A server looks at the length of a list, and sends its own wrapper of a file without reading it.
        if isinstance(body, list | tuple) or (isinstance(wrapper, type) and isinstance(body, wrapper)):
            for chunk in body if isinstance(body, list | tuple) else ():
                request.response.add(chunk)
            request.is_complete = True
            request.end()
            return body
        return ResponseSteps(body, request)


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
