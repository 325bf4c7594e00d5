"""A WebSocket server on loopback, made with the real library, and projects whose agents talk to it."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from contextlib import suppress

from tests.support.small_projects import furnished, passed


class WebSocketServer:
    """Runs `talk(server, websocket)` for each connection; `count` gives a number that never came before."""

    def __init__(self, talk, guard=None):
        self._talk = talk
        self._guard = guard
        self._numbers = itertools.count(1)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def count(self):
        return next(self._numbers)

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._stop.set_result, None)
        self._thread.join(10)

    async def _run(self):
        from websockets.asyncio.server import serve
        from websockets.exceptions import ConnectionClosed

        async def talk(websocket):
            with suppress(ConnectionClosed):
                await self._talk(self, websocket)

        def guard(websocket, request):
            return self._guard(self, websocket, request) if self._guard is not None else None

        def choose(websocket, offered):
            return offered[0] if offered else None

        self._loop = asyncio.get_running_loop()
        self._stop = self._loop.create_future()
        async with serve(
            talk, "127.0.0.1", 0, subprotocols=["voice.v1"], process_request=guard, select_subprotocol=choose
        ) as server:
            self.url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            self._ready.set()
            await self._stop


HEARD = """
import json

def keep(name, heard):
    with open("heard.txt", "a", encoding="utf-8") as file:
        print(name, json.dumps(heard, default=repr), file=file)
"""


def record_voice(project, talk, guard=None, *, ini="", **files):
    """Record the project beside a server; return it, which has no server any more, and what its tests heard."""
    furnished(project, ini, heard=HEARD, **files)
    with WebSocketServer(talk, guard) as voice:
        project.environ["VOICE_URL"] = voice.url
        passed(project.record())
    project.environ["VOICE_URL"] = "ws://127.0.0.1:9"
    return project, heard_in(project)


def heard_in(project):
    """What each test of the project heard first; the file is gone then."""
    file = project.root / "heard.txt"
    lines = file.read_text(encoding="utf-8").splitlines()
    file.unlink()
    return {name: json.loads(values) for name, _, values in (line.partition(" ") for line in reversed(lines))}
