"""The model of the demo: a server on loopback that answers with one scripted message after the other."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Self
from uuid import uuid4

from pytest_agentreplay.model.exchanges import Body, HttpCall, JsonObject
from pytest_agentreplay.providers import encode

if TYPE_CHECKING:
    from collections.abc import Iterable


class ScriptedModel:
    """The server, up in a `with` block; `url` is its address, as that of a `LocalModel`.

    It says the messages in their order, in the API of the request that comes; their form is that of
    `providers.messages`.
    """

    def __init__(self, messages: Iterable[JsonObject]) -> None:
        left = iter(messages)

        class ReplyHandler(BaseHTTPRequestHandler):
            # The SDK keeps its connection open between the calls, as HTTP/1.1 lets it.
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = Body(self.rfile.read(int(self.headers["content-length"])))
                headers = (("content-type", "application/json"),)
                call = HttpCall("POST", f"http://localhost{self.path}", headers, body)
                # A fresh id: a reply that comes a second time is another one, as from a real model.
                reply = encode.reply(call, next(left), response_id=f"chatcmpl-{uuid4().hex}")
                assert reply is not None
                self.send_response(reply.status, reply.reason)
                for name, value in reply.headers:
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(reply.body.data)

            def log_message(self, *_: object) -> None:
                pass  # the walk prints what there is to say

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), ReplyHandler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
