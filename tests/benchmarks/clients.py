"""CPU per call of each HTTP client: bare against a server on loopback, recorded, and replayed.

    python tests/benchmarks/clients.py          # of the clients that are installed; under a minute

The server is a process of its own, so its work is not counted. A replay opens no socket: it may well be cheaper than
the bare call; what it adds to the client's own work is the last column, over the client's floor without a network.
"""

from __future__ import annotations

import asyncio
import http.client
import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import ours
from measuring import MS, cpu, middle

ROOT = Path(__file__).parents[2]
COUNT, ROUNDS = 100, 5
BODY = {"model": "m", "messages": [{"role": "user", "content": "Where is order A-17?"}]}
PATH = "/v1/chat/completions"

# The demo's own replies carry a new session cookie each: one more secret a call, which no API that is called by key sets.
SERVER = """
import json, sys, threading
from tests.support.model_server import ModelServer, Raw

def script(body, number):
    message = {"role": "assistant", "content": f"It is on its way (answer {number})."}
    reply = {"id": f"c{number}", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    data = json.dumps(reply).encode()
    return Raw(headers=[("content-type", "application/json"), ("content-length", str(len(data)))], chunks=[data])

with ModelServer(script) as server:
    print(server.url, flush=True)
    threading.Event().wait()
"""


def httpx_like(name):
    """Calls by one client of httpx or httpx2."""
    library = importlib.import_module(name)

    def run(url):
        with library.Client() as client:
            for number in range(COUNT):
                client.post(url + PATH, json=BODY | {"seed": number}).json()

    return run


def requests_like():
    """Calls by one session of requests, on urllib3."""
    import requests

    def run(url):
        with requests.Session() as session:
            for number in range(COUNT):
                session.post(url + PATH, json=BODY | {"seed": number}).json()

    return run


def urllib3_like():
    """Calls by one pool of urllib3."""
    import urllib3

    def run(url):
        with urllib3.PoolManager() as pool:
            for number in range(COUNT):
                pool.request("POST", url + PATH, json=BODY | {"seed": number}).json()

    return run


def aiohttp_like():
    """Calls by one session of aiohttp, one after the other."""
    import aiohttp

    async def main(url):
        async with aiohttp.ClientSession() as session:
            for number in range(COUNT):
                async with session.post(url + PATH, json=BODY | {"seed": number}) as response:
                    await response.json()

    return lambda url: asyncio.run(main(url))


def bare_connection():
    """Calls by one connection of http.client."""

    def run(url):
        connection = http.client.HTTPConnection(url.removeprefix("http://"))
        for number in range(COUNT):
            body = json.dumps(BODY | {"seed": number})
            connection.request("POST", PATH, body, {"Content-Type": "application/json"})
            json.loads(connection.getresponse().read())
        connection.close()

    return run


CLIENTS = {
    "httpx": lambda: httpx_like("httpx"),
    "httpx2": lambda: httpx_like("httpx2"),
    "requests": requests_like,
    "urllib3": urllib3_like,
    "aiohttp": aiohttp_like,
    "http.client": bare_connection,
}


def measured(run, url):
    """Median milliseconds a call: bare, recorded, replayed."""
    run(url)
    rounds = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            project = ours.Project(folder)
            bare = cpu(run, url)[0]
            with project.body("record"):
                recorded = cpu(run, url)[0]
            with project.body("replay"):
                replayed = cpu(run, url)[0]
        rounds.append((bare, recorded, replayed))
    return [middle(readings) / COUNT * MS for readings in zip(*rounds, strict=True)]


def main():
    """Measure, and print a table."""
    out = sys.stdout.write
    out("| client | bare | recorded | replayed |\n| --- | --- | --- | --- |\n")
    with subprocess.Popen([sys.executable, "-c", SERVER], cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        try:
            url = server.stdout.readline().strip()
            for name, make in CLIENTS.items():
                if name != "http.client" and importlib.util.find_spec(name) is None:
                    continue
                bare, recorded, replayed = measured(make(), url)
                told = f"{recorded:.3f} ms ({recorded - bare:+.3f}) | {replayed:.3f} ms ({replayed - bare:+.3f})"
                out(f"| {name} | {bare:.3f} ms | {told} |\n")
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
