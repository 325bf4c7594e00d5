"""Services as they are deployed: gunicorn's workers, a Celery worker, Flask; each process keeps its own runs."""

import concurrent.futures
import contextlib
import json
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import celery
import pytest

from pytest_agentreplay import clocks
from tests.support.captured_files import read_store

pytestmark = [pytest.mark.env("service"), pytest.mark.process, pytest.mark.skipif("sys.platform == 'win32'")]

COMMON = """
import functools
import os
from openai import OpenAI
from pytest_agentreplay import capture

capture.start(os.environ["STORE"], keep="all", service="shop")


@functools.cache
def connect(process):
    return OpenAI(base_url=os.environ["MODEL"] + "/v1", api_key="any", max_retries=0)


@capture.run("answer")
def answer(question, customer):
    client = connect(os.getpid())
    messages = [{"role": "user", "content": f"{question} of {customer}"}]
    client.chat.completions.create(model="m", messages=messages)
    messages.append({"role": "user", "content": f"again of {customer}"})
    client.chat.completions.create(model="m", messages=messages)
    if customer % 5 == 0:
        raise LookupError(f"no order of {customer}")
    return os.getpid()
"""

FLASK = """
import json
import flask
from agent import answer, capture

app = flask.Flask(__name__)
app.wsgi_app = capture.Middleware(app.wsgi_app)


@app.post("/answers/<int:customer>")
def post(customer):
    return {"worker": answer(flask.request.json["question"], customer)}


@app.get("/plain/<int:number>")
def plain(number):
    return flask.Response((f"{number} {part}" for part in range(3)), mimetype="text/plain")
"""

CELERY = """
import celery
import settings
from agent import answer

app = celery.Celery("worker")
app.config_from_object(settings)
app.task(answer, name="answer")
"""

SETTINGS = """
broker_url = "filesystem://"
broker_transport_options = {"data_folder_in": "queue", "data_folder_out": "queue", "control_folder": "control"}
broker_connection_retry_on_startup = True
task_ignore_result = True
worker_prefetch_multiplier = 1
"""


@pytest.fixture
def shop(tmp_path, server, monkeypatch):
    for name, text in (("agent", COMMON), ("web", FLASK), ("worker", CELERY), ("settings", SETTINGS)):
        (tmp_path / f"{name}.py").write_text(text)
    for folder in ("queue", "control"):
        (tmp_path / folder).mkdir()
    monkeypatch.setenv("STORE", str(tmp_path / "store"))
    monkeypatch.setenv("MODEL", server.url)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check_runs(runs, customers):
    assert sorted(run.arguments["customer"] for run in runs) == sorted(customers)
    for run in runs:
        customer = run.arguments["customer"]
        assert run.asked == [f"where of {customer}", f"again of {customer}"]
        assert (run.name, run.cold, run.kit["capture"]["service"]) == ("answer", "", "shop")
        assert run.outcome.get("message") == (f"no order of {customer}" if customer % 5 == 0 else None)
    return runs


def test_each_worker_of_gunicorn_keeps_its_own_runs(shop):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ["gunicorn", "--preload", "-w", "2", "-b", f"127.0.0.1:{port}", "--log-level", "critical", "web:app"]
    with running(*words), concurrent.futures.ThreadPoolExecutor(4) as pool:
        wait_until(lambda: get(port, "/plain/7") == b"7 07 17 2")
        workers = {*pool.map(lambda number: post(port, number), range(1, 13))} - {None}
    assert len(workers) == 2
    plain = [run for run in read_store(shop / "store") if run.name != "answer"]
    assert {(run.name, str(run.kit["output"])) for run in plain} == {
        ("GET /plain/<int:number>", "{'status': 200, 'body': '7 07 17 2'}"),
    }  # fmt: skip
    runs = check_runs([run for run in read_store(shop / "store") if run.name == "answer"], range(1, 13))
    assert {run.kit["output"] for run in runs if "output" in run.kit} == workers


def test_each_process_of_a_celery_worker_keeps_its_own_runs(shop):
    client = celery.Celery("client")
    client.config_from_object(
        {
            "broker_url": "filesystem://",
            "broker_transport_options": {
                "data_folder_in": "queue",
                "data_folder_out": "queue",
                "control_folder": "control",
            },
        }
    )
    for number in range(1, 11):
        client.send_task("answer", kwargs={"question": "where", "customer": number})
    with running("celery", "-A", "worker", "worker", "-c", "2", "-l", "CRITICAL"):
        wait_until(lambda: len(list((shop / "store").rglob("*.run.json"))) == 10)
    check_runs(read_store(shop / "store"), range(1, 11))


@contextlib.contextmanager
def running(*words):
    """A block in which a command of this environment runs."""
    with subprocess.Popen([sys.executable, "-m", *words], stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)


def wait_until(holds):
    deadline = clocks.monotonic() + 60
    while clocks.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if holds():
                return
        clocks.sleep(0.05)
    raise TimeoutError


def get(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as response:
        return response.read()


def post(port, number):
    """Ask for an answer; return the worker that gave it, None where it failed."""
    headers = {"content-type": "application/json"}
    body = json.dumps({"question": "where"}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/answers/{number}", body, headers)
    try:
        with urllib.request.urlopen(request) as response:
            return json.load(response)["worker"]
    except urllib.error.HTTPError:
        return None
