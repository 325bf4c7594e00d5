"""MCP messages between their native form (a `SessionMessage` of either SDK) and their bytes."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.session.patching import find_exception
from pytest_agentreplay.model.exchanges import Failure
from pytest_agentreplay.providers import json_rpc
from pytest_agentreplay.values.failure import failure_of, raise_able

if TYPE_CHECKING:
    from collections.abc import Hashable
    from types import ModuleType

    from pytest_agentreplay.model.exchanges import Json

RAISED = "$raised"
"""Key of an exception that a transport hands over in a message's stead: what came was none."""


class Messages:
    """Makes bytes of the messages of one SDK, and messages of bytes."""

    def __init__(self, library: ModuleType) -> None:
        """`library` is a module of a transport."""
        self._wrapped = library.SessionMessage
        adapter = getattr(sys.modules.get("mcp_types") or sys.modules["mcp.types"], "jsonrpc_message_adapter", None)
        self._adapter = adapter
        # Transports over HTTP carry the context of a sender on to what answers.
        self.contexts = hasattr(library, "create_context_streams")

    def said(self, message: Any) -> bytes:
        """What goes to the server, as the transport would write it."""
        omitted = {"exclude_none": True} if self._adapter is None else {"exclude_unset": True}
        text: str = message.message.model_dump_json(by_alias=True, **omitted)
        return text.encode()

    def heard(self, message: Any) -> bytes:
        """What came from the server."""
        if isinstance(message, Exception):
            failure = failure_of(message)
            kept = {"type": failure.type, "message": failure.message, "args": failure.args, "bases": failure.bases}
            return json.dumps({RAISED: kept}, ensure_ascii=False).encode()
        text: str = message.message.model_dump_json(by_alias=True, exclude_unset=True)
        return text.encode()

    def native(self, data: bytes) -> Any:
        """What the session is given for what came."""
        raised = json_rpc.message(data).get(RAISED)
        if isinstance(raised, dict):
            args, bases = raised.get("args"), raised.get("bases")
            failure = Failure(
                str(raised.get("type")),
                str(raised.get("message")),
                tuple(args) if isinstance(args, list) else (),
                tuple(map(str, bases)) if isinstance(bases, list) else (),
            )
            return raise_able(failure, find_exception)
        if self._adapter is not None:
            return self._wrapped(self._adapter.validate_json(data, by_name=False))
        return self._wrapped(sys.modules["mcp.types"].JSONRPCMessage.model_validate_json(data))


class MessageLog:
    """How the messages of one MCP connection belong together: a `dialogue.Tongue`."""

    def __init__(self) -> None:
        """Nothing was said yet."""
        self._names: dict[Hashable, Json] = {}

    def subject(self, data: bytes, *, by_agent: bool) -> Hashable | None:
        """What a message is about."""
        return json_rpc.subject(data, by_agent=by_agent)

    def learn(self, recorded: bytes, now: bytes) -> None:
        """Tie the ids of a recorded question to today's."""
        old, new = json_rpc.made_ids(recorded), json_rpc.made_ids(now)
        self._names.update({json_rpc.plain(old[name]): new[name] for name in old if name in new})

    def today(self, data: bytes) -> bytes:
        """What the server said, under today's ids."""
        said = json_rpc.message(data)
        renamed = json_rpc.renamed(said, self._names)
        return data if renamed is said else json.dumps(renamed, ensure_ascii=False).encode()
