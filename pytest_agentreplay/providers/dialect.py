"""What one dialect is: how its calls are known, and how its bodies are read. One row of the table in `dialects`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_agentreplay.model.reading import CallReading
from pytest_agentreplay.providers.lenient import arr, rest, string

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_agentreplay.compare.matching.address import Url
    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.model.reading import ReplyReading
    from pytest_agentreplay.providers.streams import ServerSentEvent


class Dialect(NamedTuple):
    """A model API that is spoken over HTTP POST and JSON.

    A call is of this dialect when its path ends with the pattern `path`, whatever the host and the path before it, and
    its body `fits`. `provider` is said when neither the host nor the path tells one. `join` makes of a stream's events
    the body that the same reply would have had in one piece. None of the functions raises, whatever the JSON.
    """

    name: str
    path: str
    provider: str
    fits: Callable[[JsonObject], bool]
    read_call: Callable[[JsonObject, Url], CallReading]
    join: Callable[[Iterable[ServerSentEvent]], JsonObject]
    read_reply: Callable[[JsonObject], ReplyReading]

    def at(self, path: str) -> bool:
        """Whether a path ends as those of this dialect do."""
        return re.search(f"(?:{self.path})$", path) is not None


class FrameDialect(NamedTuple):
    """A model API that is spoken in JSON messages over a lasting connection.

    A connection is of this dialect when its URL's path holds the pattern `path`; a message, when its body `fits` as
    well. A reading without a name gets one of the place. None of the functions raises, whatever the JSON.
    """

    name: str
    path: str
    provider: str
    fits: Callable[[JsonObject], bool]
    read_call: Callable[[JsonObject, Url], CallReading]
    read_reply: Callable[[Iterable[ServerSentEvent]], ReplyReading]

    def at(self, url: Url) -> bool:
        """Whether a connection to `url` is of this dialect."""
        return re.search(self.path, url.path) is not None


def read_request(
    body: JsonObject,
    *,
    model: str | None = None,
    system_in: str = "",
    messages_in: str = "messages",
    tools_in: str = "tools",
    at: str = "$",
    **more: Any,
) -> CallReading:
    """Read what the requests of most APIs have in common: fields of these names ("" for none), the rest as parameters.

    `model` is that of the body unless something else names it, `at` the place of `body`; `more` replaces what is read.
    """
    model = string(body.get("model")) if model is None else model
    names = {"system": system_in, "messages": messages_in, "tools": tools_in}
    present = {kind: name for kind, name in names.items() if name and name in body}
    elements = {kind: _elements(body[name]) for kind, name in present.items()}
    fields: dict[str, Any] = {
        "kind": "model",
        "name": model,
        "operation": "chat",
        "model": model,
        "parameters": rest(body, "model", *present.values()),
        "stream": body.get("stream") is True,
        **elements,
        **{f"{kind}_at": f"{at}.{name}" for kind, name in present.items()},
    }
    return CallReading(**{**fields, **more})


def _elements(value: Any) -> tuple[Json, ...]:
    """The elements of a list, or the only one."""
    return tuple(arr(value)) if isinstance(value, list) or value is None else (value,)
