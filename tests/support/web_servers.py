"""Real servers for applications of tests, in a thread of this process."""

from __future__ import annotations

import socket
import threading
import wsgiref.simple_server
from contextlib import contextmanager

import uvicorn


@contextmanager
def serving_asgi(app, **options):
    """A block in which uvicorn serves `app`; yields its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="on", **options))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


class QuietHandler(wsgiref.simple_server.WSGIRequestHandler):
    """Logs nothing."""

    def log_message(self, *_):
        """Do nothing."""


@contextmanager
def serving_wsgi(app):
    """A block in which `wsgiref` serves `app`; yields its address."""
    server = wsgiref.simple_server.make_server("127.0.0.1", 0, app, handler_class=QuietHandler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
