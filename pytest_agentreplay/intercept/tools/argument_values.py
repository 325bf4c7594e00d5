"""What arguments are compared by whose state is no content: streams, requests, tables, loggers, clients.

A **service** is what a tool works with and not what it works on: a client, a session, a connection, a lock, a logger.
Its state belongs to the process (pools, sockets, counters), so it is compared by its class. As an argument that is
reported. An object that holds one, as the object of most tools does, is compared by the rest of its state.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import io
import sys
from os import sep
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from pytest_agentreplay.intercept.tools.arguments import content_of_iterator
from pytest_agentreplay.values import ArgumentContent
from pytest_agentreplay.values.objects import shape_of
from pytest_agentreplay.values.state import attributes_of, builtin_of, has_hidden_state

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

KEPT = 65_536
"""Bytes of a buffer or a stream that are stored; of a larger one its size and digest."""

READ = 64_000_000
"""Bytes of a stream that are read to compare it."""

_SERVICES = frozenset(
    {
        # standard library
        *("_asyncio", "_contextvars", "_queue", "_socket", "_sqlite3", "_ssl", "_thread", "_threading_local"),
        *("_weakref", "_weakrefset", "asyncio", "concurrent", "contextvars", "ftplib", "http.client", "imaplib"),
        *("multiprocessing", "queue", "sched", "select", "selectors", "shelve", "smtplib", "socket", "sqlite3"),
        *("ssl", "subprocess", "threading", "unittest.mock", "weakref", "xmlrpc.client"),
        # test runners, and ourselves
        *("_pytest", "pluggy", "pytest_agentreplay"),
        # clients, sessions, engines
        *("aiobotocore", "aiohttp", "anthropic._base_client", "anthropic._client", "asyncpg", "boto3", "botocore"),
        *("grpc", "httpcore", "httpcore2", "httpx._client", "httpx._transports", "httpx2._client"),
        *("httpx2._transports", "mcp", "motor", "openai._base_client", "openai._client", "openai._resource"),
        *("opentelemetry", "psycopg", "psycopg2", "pymongo", "pymysql", "redis", "requests.adapters"),
        *("requests.sessions", "sqlalchemy.engine.base", "sqlalchemy.engine.default", "sqlalchemy.ext.asyncio"),
        *("sqlalchemy.orm.session", "sqlalchemy.orm.scoping", "sqlalchemy.pool", "structlog", "urllib3"),
    }
)
"""Modules, and packages with all that is in them, whose classes are services."""

_PLUMBING = ("langchain_core.callbacks", "langchain_core.tracers")
"""Modules of what a framework hands to each tool for its own bookkeeping (run ids, handlers)."""

_NO_REQUESTS = ("user-agent", "accept-encoding", "connection")
"""Headers of a request object that only its library chooses."""

_INSTALLED = ("site-packages", "dist-packages")
_LIBRARIES = (str(Path(io.__file__).parent) + sep, *_INSTALLED)


def content(value: Any) -> ArgumentContent | None:
    """What an object is compared by; None of one that is compared by its state."""
    if (read_before := content_of_iterator(value)) is not None:
        return read_before
    kind: Any = type(value)
    read = _reader_of(kind)
    if read is not None:
        return read(value)
    if has_hidden_state(kind) and _is_buffer(value):
        return ArgumentContent(_buffer(value))
    if is_library(kind) and not _is_value(kind) and _holds_service(value, 2):
        return _service(value)
    return None


def content_in_closure(value: Any) -> ArgumentContent | None:
    """As `content`; objects of installed packages (agents, indexes), which have ids and histories, by class alone."""
    described, kind = content(value), cast("Any", type(value))
    if _reader_of(kind) is _generator:
        return _service(value)  # seeded by the machine where nobody has seeded it
    if described is None and is_framework(kind) and builtin_of(kind) is None and not issubclass(kind, enum.Enum):
        return ArgumentContent(gap="is of a library, and is not read where a closure holds it")
    return described


@functools.lru_cache(maxsize=1024)
def _reader_of(kind: Any) -> Callable[[Any], ArgumentContent] | None:
    for base in kind.__mro__[:-1]:
        path = f"{base.__module__}.{base.__qualname__}"
        if path in _READERS:
            return _READERS[path]
        if base.__module__.startswith(_PLUMBING):
            return _plumbing
        if is_service(base):
            return _service
    return None


@functools.lru_cache(maxsize=1024)
def is_service(kind: Any) -> bool:
    """Whether a class is among the modules whose classes are services."""
    parts = kind.__module__.split(".")
    return any(".".join(parts[:cut]) in _SERVICES for cut in range(1, len(parts) + 1))


@functools.lru_cache(maxsize=1024)
def is_library(kind: Any) -> bool:
    """Whether a class belongs to the standard library or an installed package, and not to the project."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return file is None or any(place in file for place in _LIBRARIES)


def is_framework(kind: Any) -> bool:
    """Whether a class is that of an installed package; those of pydantic and attrs are made to be derived from."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None) or ""
    root = kind.__module__.partition(".")[0]
    return any(place in file for place in _INSTALLED) and root not in {"pydantic", "attr", "attrs"}


def _is_value(kind: type) -> bool:
    return shape_of(kind) is not None or issubclass(kind, SimpleNamespace)


def _holds_service(value: Any, depth: int) -> bool:
    """Whether an object has a service among its attributes, or in an object below them."""
    for part in attributes_of(value).values():
        kind: Any = type(part)
        if any(is_service(base) for base in kind.__mro__[:-1]):
            return True
        if depth and kind.__module__ != "builtins" and is_library(kind) and _holds_service(part, depth - 1):
            return True
    return False


def _service(_: Any) -> ArgumentContent:
    return ArgumentContent(
        gap="is a client, a connection or the like, whose state belongs to the process", service=True
    )


def _generator(value: Any) -> ArgumentContent:
    """A generator of random numbers, whose state is hundreds of them."""
    state = value.bit_generator.state if hasattr(value, "bit_generator") else value.getstate()
    return ArgumentContent({"sha256": hashlib.sha256(repr(state).encode()).hexdigest()})


def _cookies(value: Any) -> ArgumentContent:
    jar = getattr(value, "jar", value)
    return ArgumentContent([[cookie.domain, cookie.path, cookie.name, cookie.value] for cookie in jar])


def _digest(value: Any) -> ArgumentContent:
    return ArgumentContent([value.name, value.hexdigest()])


def _plumbing(_: Any) -> ArgumentContent:
    return ArgumentContent(service=True)


# Buffers and streams.


def _is_buffer(value: Any) -> bool:
    if isinstance(value, bytes | bytearray):
        return False  # written as they are
    try:
        memoryview(value).release()
    except (TypeError, ValueError, BufferError):
        return False
    return True


def _buffer(value: Any) -> Any:
    with memoryview(value) as view:
        return {"format": view.format, "shape": [*(view.shape or ())], "data": _bytes(view.tobytes())}


def _bytes(data: bytes) -> Any:
    return data if len(data) <= KEPT else {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _memory_stream(value: io.BytesIO | io.StringIO) -> ArgumentContent:
    if value.closed:
        return ArgumentContent({"closed": True})
    base: Any = io.BytesIO if isinstance(value, io.BytesIO) else io.StringIO
    data = base.getvalue(value)
    return ArgumentContent({"content": _bytes(data) if isinstance(data, bytes) else data, "position": base.tell(value)})


def _stream(value: Any) -> ArgumentContent:
    """A file by its content and its position, which is left as it was. Its name may be another one in each process."""
    for name in ("stdin", "stdout", "stderr"):
        if value in (getattr(sys, name), getattr(sys, f"__{name}__")):
            return ArgumentContent({"stream": name})
    if value.closed:
        return ArgumentContent({"closed": True})
    try:
        if not (value.seekable() and value.readable()):
            return ArgumentContent({"mode": _mode(value)}, gap="cannot be read without changing it")
        position = value.tell()
        try:
            size = value.seek(0, io.SEEK_END)
            if size > READ:
                return ArgumentContent({"bytes": size}, gap=f"holds more than {READ:,} bytes")
            value.seek(0)
            data = value.read()
        finally:
            value.seek(position)
    except (OSError, ValueError):
        return ArgumentContent({"mode": _mode(value)}, gap="cannot be read without changing it")
    if isinstance(data, str):
        data = data if len(data) <= KEPT else _bytes(data.encode("utf-8", "surrogatepass"))
        return ArgumentContent({"content": data, "position": position})
    return ArgumentContent({"content": _bytes(data), "position": position})


def _mode(value: Any) -> str:
    mode = getattr(value, "mode", "")
    return mode if isinstance(mode, str) else ""


def _held_stream(value: Any) -> ArgumentContent:
    """A temporary file: the file that it holds, whatever it is called."""
    return _stream(value.file if hasattr(value, "file") else value._file)


# Views, tables.


def _view(value: Any) -> ArgumentContent:
    return ArgumentContent([*value])


def _frame(value: Any) -> ArgumentContent:
    kinds = [str(kind) for kind in value.dtypes]
    rows = [[*row] for row in value.itertuples(index=False, name=None)]
    return ArgumentContent({"columns": [*value.columns], "dtypes": kinds, "index": [*value.index], "rows": rows})


def _series(value: Any) -> ArgumentContent:
    return ArgumentContent(
        {"dtype": str(value.dtype), "index": [*value.index], "values": value.tolist(), "name": value.name}
    )


def _index(value: Any) -> ArgumentContent:
    return ArgumentContent({"dtype": str(value.dtype), "values": value.tolist()})


def _ndarray(value: Any) -> ArgumentContent:
    """An array of what its codec does not take: texts, dates, objects."""
    values = value.tolist() if value.dtype.kind not in {"M", "m"} else value.astype(str).tolist()
    return ArgumentContent({"dtype": value.dtype.str, "values": values})


def _polars(value: Any) -> ArgumentContent:
    kinds = [str(kind) for kind in value.dtypes]
    return ArgumentContent({"columns": value.columns, "dtypes": kinds, "rows": [[*row] for row in value.rows()]})


# Requests.

_STREAMED = "has a body that is a stream, and is not compared"
_UNREAD = "has a body that was not read yet, and is not compared"
_BODILESS = {"GET", "HEAD", "OPTIONS", None}


def _httpx_request(value: Any) -> ArgumentContent:
    body = vars(value).get("_content")
    gap = "" if body is not None else _STREAMED
    return _request(value.method, str(value.url), value.headers.multi_items(), body, gap)


def _requests_request(value: Any) -> ArgumentContent:
    if hasattr(value, "prepare"):  # requests.Request: not prepared yet
        return ArgumentContent({name: part for name, part in vars(value).items() if name != "hooks" and part})
    body = value.body if isinstance(value.body, str | bytes) else None
    gap = "" if body is value.body else _STREAMED
    return _request(value.method, value.url, (value.headers or {}).items(), body, gap)


def _urllib_request(value: Any) -> ArgumentContent:
    headers = [*value.headers.items(), *value.unredirected_hdrs.items()]
    body = value.data if isinstance(value.data, str | bytes) or value.data is None else b""
    gap = "" if body is value.data else _STREAMED
    return _request(value.get_method(), value.full_url, headers, body, gap)


def _asgi_request(value: Any) -> ArgumentContent:
    """A request or a WebSocket of Starlette or FastAPI: its scope, and its body where that has been read."""
    scope, state = value.scope, vars(value)
    headers = [(name.decode("latin-1"), text.decode("latin-1")) for name, text in scope.get("headers", ())]
    query = scope.get("query_string", b"").decode("latin-1")
    target = scope.get("path", "") + (f"?{query}" if query else "")
    body = state.get("_body")
    gap = _UNREAD if body is None and scope.get("method") not in _BODILESS else ""
    params = dict(scope.get("path_params", {}))
    return _request(scope.get("method", ""), target, headers, body, gap, path_params=params)


def _wsgi_request(value: Any) -> ArgumentContent:
    """A request of Werkzeug or Flask; reading its body would take it from the application."""
    body = vars(value).get("_cached_data")
    target = value.path + (f"?{value.query_string.decode('latin-1')}" if value.query_string else "")
    gap = _UNREAD if body is None and value.content_length else ""
    return _request(value.method, target, value.headers.items(), body, gap)


def _django_request(value: Any) -> ArgumentContent:
    state = vars(value)
    body, headers = state.get("_body"), [*value.headers.items()] if "META" in state else []
    gap = _UNREAD if body is None and value.method not in _BODILESS else ""
    return _request(state.get("method"), value.get_full_path(), headers, body, gap)


def _request(method: Any, url: Any, headers: Any, body: Any, gap: str, **more: Any) -> ArgumentContent:
    kept: dict[str, Any] = {}
    for raw, value in headers:
        name = (raw.decode("latin-1") if isinstance(raw, bytes) else raw).lower()
        if name not in _NO_REQUESTS:
            kept.setdefault(name, []).append(value)
    parts = {"method": method, "url": url, "headers": {name: v[0] if len(v) == 1 else v for name, v in kept.items()}}
    if body:
        parts["body"] = _bytes(body) if isinstance(body, bytes) else body
    return ArgumentContent(parts | more, gap=gap)


_READERS: Mapping[str, Callable[[Any], ArgumentContent]] = {
    "_io._IOBase": _stream,
    "_io.BytesIO": _memory_stream,
    "_io.StringIO": _memory_stream,
    "_blake2.blake2b": _digest,
    "_blake2.blake2s": _digest,
    "_hashlib.HASH": _digest,
    "array.array": lambda value: ArgumentContent({"typecode": value.typecode, "data": _bytes(value.tobytes())}),
    "builtins.dict_items": _view,
    "builtins.dict_keys": _view,
    "builtins.dict_values": _view,
    "builtins.mappingproxy": lambda value: ArgumentContent({**value}),
    "django.http.request.HttpRequest": _django_request,
    "functools._lru_cache_wrapper": lambda value: ArgumentContent(value.__wrapped__),
    "http.cookiejar.CookieJar": _cookies,
    "httpx.Cookies": _cookies,
    "httpx.Request": _httpx_request,
    "httpx._models.Request": _httpx_request,
    "httpx2.Request": _httpx_request,
    "httpx2._models.Request": _httpx_request,
    "logging.Logger": lambda value: ArgumentContent(value.name),
    "logging.LoggerAdapter": lambda value: ArgumentContent(value.logger.name),
    "os._Environ": _service,
    "numpy.ndarray": _ndarray,
    "numpy.random._generator.Generator": _generator,
    "pandas.DataFrame": _frame,
    "pandas.Index": _index,
    "pandas.Series": _series,
    "pandas.core.frame.DataFrame": _frame,
    "pandas.core.indexes.base.Index": _index,
    "pandas.core.series.Series": _series,
    "polars.dataframe.frame.DataFrame": _polars,
    "random.Random": _generator,
    "requests.models.PreparedRequest": _requests_request,
    "requests.models.Request": _requests_request,
    "starlette.requests.HTTPConnection": _asgi_request,
    "tempfile.SpooledTemporaryFile": _held_stream,
    "tempfile._TemporaryFileWrapper": _held_stream,
    "urllib.request.Request": _urllib_request,
    "werkzeug.wrappers.request.Request": _wsgi_request,
}
"""By the path of a class: how its instances, and those of its subclasses, are read."""
