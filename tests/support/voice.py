"""A WebSocket server on loopback, made with the real library, and projects whose agents talk to it."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
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


def forbids(server, websocket, request):
    return websocket.respond(403, f"no key {server.count()}\n") if request.path == "/forbidden" else None


async def talk_by_words(server, ws):
    """Answers the word that a message says with one that only this connection gets, or with a fault of that name."""

    async def say(**fields):
        await ws.send(json.dumps(fields | {"n": server.count()}))

    await say(hello=True)
    async for message in ws:
        text = message if isinstance(message, str) else message.decode()
        word = re.search(r'"say": "(\w+)"', text)[1]
        match word:
            case "bye":
                await say(last=True)
                return await ws.close(1000, "well said")
            case "overloaded":
                await say(part=True)
                return await ws.close(1011, "overloaded")
            case "drop":
                await say(part=True)
                await asyncio.sleep(0.1)
                return ws.transport.abort()
            case "bytes":
                await ws.send(bytes([0, 255, server.count() % 256]))
                await ws.send(b'{"binary": "text"}')
                await say(heard=word)
            case "in":
                await ws.send(["all ", "in ", str(server.count())])
            case _:
                await say(heard=word)
                await say(heard=f"{word} again")
    return None


async def talk_as_openai(server, ws):
    """OpenAI's Responses and its realtime API: each first asks for the tool `lookup`, and then answers."""
    realtime = "/realtime" in ws.request.path
    answered = False

    async def say(kind, **fields):
        await ws.send(json.dumps({"type": kind, "event_id": f"e{server.count()}", **fields}))

    if realtime:
        await say("session.created", session={"type": "realtime", "model": "gpt-realtime"})
    async for message in ws:
        event = json.loads(message)
        answered = answered or "function_call_output" in message
        if event["type"] == "session.update":
            await say("session.updated", session=event["session"])
        elif event["type"] == "conversation.item.create":
            item = {"id": f"item_{server.count()}", "status": "completed", **event["item"]}
            await say("conversation.item.added", item=item, previous_item_id=None)
        elif event["type"] == "response.create":
            await answer_as_openai(server, say, realtime=realtime, answered=answered)


async def answer_as_openai(server, say, *, realtime, answered):
    number = server.count()
    whole = {"id": f"resp_{number}", "object": "response" if not realtime else "realtime.response"}
    whole |= {"status": "completed", "output": []}
    if not realtime:
        whole |= {"created_at": 1, "model": "gpt-5", "tools": [], "tool_choice": "auto", "parallel_tool_calls": True}
    await say("response.created", response={**whole, "status": "in_progress"}, sequence_number=0)
    item = {"type": "message", "id": f"i{number}", "role": "assistant", "status": "completed"}
    if not answered:
        item = {"type": "function_call", "id": f"i{number}", "call_id": f"call_{number:08}", "name": "lookup"}
        item |= {"arguments": '{"order": "A-17"}', "status": "completed"}
    elif realtime:
        text = {"response_id": whole["id"], "item_id": f"i{number}", "output_index": 0, "content_index": 0}
        await say("response.output_audio_transcript.delta", delta=f"It is late ({number}).", **text)
        item["content"] = [{"type": "output_audio", "transcript": f"It is late ({number})."}]
    else:
        item["content"] = [{"type": "output_text", "text": f"It is late ({number}).", "annotations": []}]
    more = {"response_id": whole["id"]} if realtime else {"sequence_number": 5}
    await say("response.output_item.done", output_index=0, item=item, **more)
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    if not realtime:
        usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    done = "response.done" if realtime else "response.completed"
    await say(done, response={**whole, "output": [item], "usage": usage}, sequence_number=9)
