"""What a capture changes in its process, and takes back; and what its start costs."""

import asyncio
import json
import os
import queue
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_agentreplay import capture
from tests.capture import tools_of_a_service as shop
from tests.support.capturing import asked, started

ROOT = Path(__file__).parents[2]


def run(code, *options):
    done = subprocess.run(
        [sys.executable, *options, "-c", code], cwd=ROOT, text=True, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


LOOKED_AT = """
import sys
finders = [*sys.meta_path]
import aiohttp.connector, aiohttp.client, asyncio, http.client, httpx, queue, sys, threading, urllib3, websockets.asyncio.client
import websockets.sync.client
from concurrent.futures import ThreadPoolExecutor
import atexit, builtins, importlib, io, json, logging, os, random, secrets, signal, socket, time, uuid, weakref
from tests.capture import tools_of_a_service as shop

def look():
    import types
    seen = {}
    for name, module in [*sys.modules.items()]:
        if name.startswith(("pytest_agentreplay", "tests.")) and module is not shop:
            continue
        for key, value in [*vars(module).items()]:
            seen[name, key] = id(value)
            if isinstance(value, types.FunctionType):
                seen[name, key, "code"] = id(value.__code__)
            if isinstance(value, type) and value.__module__ == name:
                for each, member in [*vars(value).items()]:
                    seen[name, key, each] = id(member)
                    if isinstance(member, types.FunctionType):
                        seen[name, key, each, "code"] = id(member.__code__)
    seen["hooks"] = sys.excepthook, threading.excepthook, sys.unraisablehook, sys.gettrace(), sys.getprofile()
    seen["finders"] = [*sys.meta_path]
    seen["signals"] = [signal.getsignal(each) for each in signal.valid_signals()]
    return seen
"""


def test_stop_leaves_the_process_as_it_was():
    code = (
        LOOKED_AT
        + """
from pytest_agentreplay import capture
capture.start("x"); capture.stop()  # what is imported by it is there
before = look()
capture.start("x", tools=["tests.capture.tools_of_a_service.add = read", "tests.capture.tools_of_a_service.Desk.ask"])
during = look()
assert during != before
changed = sorted({key[0] for key in before if isinstance(key, tuple) and during.get(key) != before[key]})
with capture.run("a"):
    shop.add(1, 2)
capture.stop()
after = look()
assert sys.meta_path == finders
left = [key for key in before if after.get(key) != before[key] and key[-1] not in ("_json_cache", "_cache")]
print(json.dumps(changed).replace(" ", ""), json.dumps([str(key) for key in left]).replace(" ", ""))
"""
    )
    changed, left = run(code)
    # No clock, seed, zone, socket, exit handler or signal is among what is changed while a capture runs.
    libraries = {"_queue", "queue", "threading", "concurrent", "asyncio", "http", "urllib3", "httpx", "aiohttp"}
    libraries |= {"websockets", "tests", "uuid"}
    assert {name.partition(".")[0] for name in json.loads(changed)} <= libraries
    assert json.loads(left) == []


def test_the_import_loads_neither_pytest_nor_a_library_of_http():
    code = """
import sys
from pytest_agentreplay import capture
with capture.run("a") as run:
    run.annotate(a=1)
assert not capture.keep("x")
print(*(name for name in ("pytest", "_pytest", "httpx", "aiohttp", "urllib3", "requests", "openai") if name in sys.modules), "none")
capture.start("x")
print(*(name for name in ("pytest", "_pytest", "httpx", "aiohttp", "urllib3", "requests", "openai") if name in sys.modules), "none")
"""
    assert run(code) == ["none", "none"]


@pytest.mark.parametrize(
    ("tool", "error"), [("shop:refund", "SettingsError capture.start: tools: "), ("math.floor", "CannotRedirect ")]
)
def test_a_mistake_of_the_caller_is_an_error_at_the_start_and_changes_nothing(tool, error, tmp_path):
    code = f"""
    import threading
    from pytest_agentreplay import capture
    start = threading.Thread.start
    try:
        capture.start({str(tmp_path)!r}, tools=[{tool!r}])
    except Exception as error:
        print(type(error).__name__, error)
    with capture.run("nothing") as nothing:
        print(threading.Thread.start is start, nothing.captures)
    """
    words = run(textwrap.dedent(code))
    assert " ".join(words).startswith(error)
    assert words[-2:] == ["True", "False"]


def test_a_second_start_takes_the_place_of_the_first():
    code = shop.add.__code__
    with started("tests.capture.tools_of_a_service.add"):
        with started("tests.capture.tools_of_a_service.fail") as taken:
            assert shop.add.__code__ is code
            with capture.run("a"), pytest.raises(ValueError, match="no"):
                shop.fail("no")
        assert [asked(ended) for ended in taken] == [["fail"]]
        capture.stop()
        capture.stop()


def test_a_run_that_is_open_is_kept_at_its_end(tmp_path):
    capture.start(str(tmp_path))
    try:
        with capture.run("a") as run:
            assert capture.keep(run.id, "thumbs down")
        assert not capture.keep("unheard of")
    finally:
        capture.stop()
    (file,) = tmp_path.rglob("*.run.json")
    assert "kept: thumbs down" in file.read_text(encoding="utf-8")


def test_the_span_around_a_run_gets_its_id():
    from opentelemetry.sdk.trace import TracerProvider

    tracer = TracerProvider().get_tracer("shop")
    with started(), tracer.start_as_current_span("request") as span, capture.run("a") as run:
        pass
    assert span.attributes == {"agentreplay.run_id": run.id}


def test_a_test_that_is_recorded_or_replayed_captures_nothing():
    from tests.support.tapes import recording

    with started() as taken, recording(), capture.run("a") as inside:
        assert not inside.captures
    assert taken == []


def test_the_patches_of_a_test_stay_whatever_its_code_starts_or_stops(tmp_path):
    code = f"""
    import uuid
    from pytest_agentreplay import capture
    from pytest_agentreplay.intercept import registry
    from tests.support.tapes import recording
    state = lambda: (dict(registry.ACTIVE_PATCHES), uuid.uuid4.__code__)
    for early in (False, True):
        if early:
            capture.start({str(tmp_path)!r})
        with recording():
            before = state()
            if not early:
                capture.start({str(tmp_path)!r})
                print(state() == before)
            capture.stop()
            print(state() == before)
    """
    assert run(textwrap.dedent(code)) == ["True"] * 3


def test_an_argument_is_what_it_was_when_the_call_was_made():
    with started("tests.capture.tools_of_a_service.keep_all") as taken, capture.run("a"):
        items = [1]
        shop.keep_all(items)
        items.append(2)
    assert [call.native.arguments for call in taken[0].calls.values()] == [{"items": [1]}]
    assert taken[0].cold == ""


def test_a_result_that_cannot_be_kept_makes_the_run_cold():
    with started("tests.capture.tools_of_a_service.open_lock") as taken, capture.run("a"):
        assert shop.open_lock().acquire()
    assert "open_lock" in taken[0].cold


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_in_the_middle_of_a_run_has_its_own_runs_and_leaves_the_parent_its_one():
    with started("tests.capture.tools_of_a_service.add") as taken, capture.run("parent"):
        shop.add(1, 1)
        read, write = os.pipe()
        if (child := os.fork()) == 0:
            status = 1
            try:
                shop.add(2, 2)
                with capture.run("child"):
                    shop.add(3, 3)
                with capture.run("child"):
                    pass
                names = [ended.name for ended in taken]
                os.write(write, json.dumps([names, [asked(ended) for ended in taken], capture.stats()]).encode())
                status = 0
            finally:
                os._exit(status)
        os.close(write)
        with os.fdopen(read) as answer:
            names, calls, stats = json.load(answer)
        assert os.waitpid(child, 0)[1] == 0
        shop.add(4, 4)
    assert (names, calls) == (["child", "child"], [["add"], []])
    assert (stats["captured"], stats["faults"]) == (2, 0)
    assert [(ended.name, len(ended.exchanges), len(ended.outcomes)) for ended in taken] == [("parent", 2, 2)]


def test_queues_and_pools_work_as_before_while_a_capture_runs():
    async def gather():
        return await asyncio.gather(*(asyncio.to_thread(time.sleep, 0) for _ in range(3)))

    with started(), capture.run("a"), ThreadPoolExecutor(2) as pool:
        assert [*pool.map(abs, [-1, -2])] == [1, 2]
        asked_for = queue.Queue()
        threading.Thread(target=asked_for.put, args=(1,)).start()
        assert asked_for.get(timeout=5) == 1
        assert asyncio.run(gather()) == [None] * 3
