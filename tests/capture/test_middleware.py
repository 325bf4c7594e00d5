"""`capture.Middleware`: each request is a run of its own, and the response is what it was."""

import asyncio
import threading
from typing import Annotated

import fastapi
import httpx
import pytest
import websockets.sync.client
from fastapi.responses import JSONResponse, StreamingResponse
from websockets.exceptions import ConnectionClosed

from pytest_agentreplay import capture
from tests.support.captured_files import capturing
from tests.support.web_servers import serving_asgi

app = fastapi.FastAPI()
app.add_middleware(capture.Middleware)
MODEL = []
LEFT = threading.Event()


async def ask_model(words):
    """Ask the model of the test; each answer is another one."""
    async with httpx.AsyncClient(base_url=MODEL[-1], verify=False) as client:  # a TLS context takes 50 ms
        body = {"model": "m", "messages": [{"role": "user", "content": words}]}
        response = await client.post("/v1/chat/completions", json=body)
        return response.json()["choices"][0]["message"]["content"]


@app.post("/answers/{customer}")
async def answer(customer: int, body: dict, tasks: fastapi.BackgroundTasks):
    @capture.run("answer")
    async def run_agent(question, customer):
        first, second = await asyncio.gather(ask_model(f"one of {customer}"), ask_model(f"two of {customer}"))
        if customer % 10 == 0:
            raise LookupError(f"no order of {customer}")
        return f"{question} {first} {second}"

    tasks.add_task(ask_model, f"afterwards of {customer}")
    return {"answer": await run_agent(body["question"], customer)}


@app.post("/orders/{order}")
async def read_order(order: str, body: dict):
    return {"order": order, **body}


@app.get("/handled")
def fail_handled():
    with capture.run("handled"):
        raise KeyError("inside")


@app.exception_handler(KeyError)
async def handle(request, error):
    del request
    return JSONResponse({"error": str(error)}, 503)


@app.get("/stream")
async def stream(fails: bool = False):
    async def events():
        try:
            for number in range(10_000):
                await ask_model(f"{number}")
                yield f"data: {number}\n\n"
                if fails:
                    raise RuntimeError("in the stream")
        finally:
            LEFT.set()

    return StreamingResponse(events(), media_type="text/event-stream")


@app.websocket("/chat")
async def chat(socket: fastapi.WebSocket):
    await socket.accept()
    async for words in socket.iter_text():
        if words == "fail":
            await socket.close(1011)
            return
        await socket.send_text(await ask_model(words))


def double(number: int):
    yield number * 2


@app.get("/decorated/{number}")
@capture.run("decorated")
async def answer_decorated(number: int, doubled: Annotated[int, fastapi.Depends(double)], words: str = "none"):
    return {"doubled": doubled, "words": words}


@pytest.fixture
def address(server):
    MODEL.append(server.url)
    LEFT.clear()
    with serving_asgi(app) as url:
        yield url


def test_of_30_requests_at_once_the_failed_ones_are_kept_each_whole_and_alone(address, tmp_path):
    async def ask_all():
        async with httpx.AsyncClient(base_url=address, timeout=60) as client:
            posts = [client.post(f"/answers/{number}", json={"question": f"q{number}"}) for number in range(30)]
            return [response.status_code for response in await asyncio.gather(*posts)]

    with capturing(tmp_path, keep="failed") as finish:
        statuses = asyncio.run(ask_all())
        kept = finish()
        assert capture.stats()["faults"] == 0
    assert statuses == [500 if number % 10 == 0 else 200 for number in range(30)]
    assert sorted(run.arguments["customer"] for run in kept) == [0, 10, 20]
    for run in kept:
        customer = run.arguments["customer"]
        assert run.name == "answer"
        assert run.arguments == {"question": f"q{customer}", "customer": customer}
        assert run.outcome == {"status": "failed", "type": "LookupError", "message": f"no order of {customer}"}
        assert sorted(run.asked) == [f"one of {customer}", f"two of {customer}"]


def test_a_request_without_a_run_inside_is_the_input_and_nothing_secret_is_on_disk(address, tmp_path):
    key = "sk-proj-" + "Zk3" * 14
    with capturing(tmp_path) as finish:
        url = f"{address}/orders/A-17?key={key}&page=2"
        response = httpx.post(url, json={"mail": "ada@example.org"}, headers={"authorization": f"Bearer {key}"})
        assert response.json() == {"order": "A-17", "mail": "ada@example.org"}
        httpx.get(f"{address}/nowhere/17")
        order, nowhere = finish()
    assert (order.name, order.cold) == ("POST /orders/{order}", "")
    assert {**order.arguments, "query": ""} == {
        "method": "POST", "path": "/orders/A-17", "query": "", "body": {"mail": "user1@redacted.invalid"},
    }  # fmt: skip
    assert order.arguments["query"].endswith("&page=2")
    assert order.kit["output"] == {"status": 200, "body": {"order": "A-17", "mail": "user1@redacted.invalid"}}
    assert (nowhere.name, nowhere.outcome["status"]) == ("GET /nowhere/*", "passed")
    assert key not in "".join(file.read_text() for file in tmp_path.rglob("*.json"))


def test_a_status_of_500_fails_the_run_with_what_has_left_the_run_inside(address, tmp_path):
    with capturing(tmp_path) as finish:
        assert httpx.get(f"{address}/handled").status_code == 503
        (run,) = finish()
    assert (run.name, run.outcome) == ("handled", {"status": "failed", "type": "KeyError", "message": "'inside'"})


def test_an_endpoint_that_is_a_run_gets_its_parameters_and_dependencies_injected(address, tmp_path):
    with capturing(tmp_path) as finish:
        assert httpx.get(f"{address}/decorated/4?words=a").json() == {"doubled": 8, "words": "a"}
        (run,) = finish(1)
    assert (run.name, run.arguments) == ("decorated", {"number": 4, "doubled": 8, "words": "a"})


def test_background_tasks_belong_to_the_run_of_their_request(address, tmp_path):
    with capturing(tmp_path) as finish:
        httpx.post(f"{address}/answers/7", json={"question": "q"})
        (run,) = finish(1)
    assert sorted(run.asked) == ["afterwards of 7", "one of 7", "two of 7"]


def test_a_client_that_leaves_a_stream_is_no_failure_and_an_exception_in_one_is(address, tmp_path):
    with capturing(tmp_path) as finish:
        with httpx.stream("GET", f"{address}/stream") as response:
            assert next(response.iter_text()) == "data: 0\n\n"
        assert LEFT.wait(5)
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.get(f"{address}/stream?fails=1")
        left, failed = finish(2)
    assert (left.outcome["status"], left.kit["annotations"]) == ("passed", {"ended": "the client has left"})
    assert failed.outcome["type"] == "RuntimeError"
    assert left.asked[:2] == ["0", "1"]
    assert failed.asked == ["0"]


def test_a_websocket_is_one_run_and_fails_where_the_server_closes_it_with_1011(address, tmp_path):
    url = address.replace("http", "ws") + "/chat"
    with capturing(tmp_path) as finish:
        with websockets.sync.client.connect(url) as socket:
            for words in ("a", "b"):
                socket.send(words)
                socket.recv()
        with websockets.sync.client.connect(url) as socket:
            socket.send("fail")
            with pytest.raises(ConnectionClosed):
                socket.recv()
        runs = finish(2)
    assert [(run.name, run.outcome["status"]) for run in runs] == [
        ("WEBSOCKET /chat", "passed"),
        ("WEBSOCKET /chat", "failed"),
    ]
    assert runs[0].asked == ["a", "b"]
    assert runs[0].cold == "what the client sent was not kept"
