"""A fault in a function of the middleware or the decorator: the service gets what it gets without a capture."""

import asyncio
import io

import pytest

from pytest_agentreplay import capture
from pytest_agentreplay.intercept.session.lanes import CALL_CONTEXT
from tests.support.capturing import started
from tests.support.planting import HITS, list_run, planted

FILES = ("decorated.py", "freezing.py", "middleware.py")
BARE = (
    "captured",
    "__call__",
    "receive_noted",
    "send_noted",
    "start_noted",
    "__next__",
    "__iter__",
    "close",
    "read",
    "__exit__",
)
"""Those that stand in the place of something of the service, or restore its context: nothing can be done for them."""


@capture.run("call")
def answer(question, *rest, number=1, **more):
    return [question, number]


@capture.run("generator")
def stream(count):
    for number in range(count):
        yield (yield number)


@capture.run("later")
async def answer_later(question):
    await asyncio.sleep(0)
    return {question}


@capture.run("stream later")
async def stream_later(count):
    for number in range(count):
        await asyncio.sleep(0)
        yield number


@capture.Middleware
async def asgi(scope, receive, send):
    message = await receive()
    await answer_later("inside")
    await send({"type": "http.response.start", "status": 500, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": message["body"]})


@capture.Middleware
def wsgi(environ, start_response):
    body = environ["wsgi.input"].read()
    start_response("200 OK", [("content-type", "text/plain")])
    yield body
    yield b"end"


SCOPE = {
    "type": "http", "method": "POST", "path": "/a/1", "query_string": b"",
    "headers": [(b"content-type", b"application/json")],
}  # fmt: skip


async def use_asgi():
    given, sent = {"type": "http.request", "body": b'{"a": 1}'}, []

    async def receive():
        return given

    async def send(message):
        sent.append(message)

    await asgi(SCOPE, receive, send)
    assert sent[1]["body"] is given["body"]
    return sent


def use_wsgi():
    environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/a/1", "CONTENT_TYPE": "text/plain"}
    started_with = []
    chunks = wsgi({**environ, "wsgi.input": io.BytesIO(b"body")}, lambda *words: started_with.append(words))
    body = list(chunks)
    getattr(chunks, "close", bool)()
    return started_with, body


async def use_later():
    return [await answer_later("q"), [item async for item in stream_later(2)]]


def use():
    steps = stream(2)
    made = [answer("q"), answer(object, 1, number=2, x=3)[1], next(steps), steps.send("sent"), list(steps)]
    made += [asyncio.run(use_later()), asyncio.run(use_asgi()), use_wsgi()]
    with pytest.raises(TypeError, match="question"):
        answer()
    return made


@pytest.mark.exhaustive
def test_a_fault_in_any_of_them_changes_nothing_and_is_counted():
    bare, noticed, tried = use(), [], set()
    with started() as taken:
        use()
        for code in list_run(use):
            name = code.co_filename.rpartition("/")[2]
            if name not in FILES or code.co_name in BARE or code.co_name.startswith("<"):
                continue
            faults, hits = capture.stats()["faults"], len(HITS)
            with planted(code):
                made = use()
            counted = capture.stats()["faults"] > faults or len(HITS) == hits
            if made != bare or not counted or CALL_CONTEXT.get() is not None:
                noticed.append((name, code.co_qualname, made != bare, counted, CALL_CONTEXT.get()))
                CALL_CONTEXT.set(None)
            tried.add(code.co_qualname)
        del taken[:]
        assert use() == bare
        assert [ended.name for ended in taken] == [
            "call",
            "call",
            "generator",
            "later",
            "stream later",
            "later",
            "POST /a/*",
            "call",
        ]
    assert not noticed
    assert {
        "SteppedRun.begin",
        "SteppedRun.end",
        "begin_call",
        "freeze_call",
        "Content.add",
        "RequestInput.__init__",
    } <= tried
