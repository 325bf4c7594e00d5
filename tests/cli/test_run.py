"""`agentreplay run`: a program is captured as one run, its Python children included, and notices nothing."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_agentreplay import cli
from pytest_agentreplay.cli.programs import describe_program
from tests.support.captured_files import read_store
from tests.support.exhaustive import rare
from tests.support.model_server import ModelServer

pytestmark = pytest.mark.process

AGENT = """
import json, multiprocessing, os, signal, subprocess, sys, time, urllib.request, uuid
from concurrent.futures import ProcessPoolExecutor


def ask(words):
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": words}]}).encode()
    url = os.environ["MODEL"] + "/v1/chat/completions"
    with urllib.request.urlopen(urllib.request.Request(url, body)) as response:
        return json.load(response)["choices"][0]["message"]["content"]


def start(what):
    match what:
        case "process":
            subprocess.run([sys.executable, __file__, "child"], check=True)
        case "fork" | "spawn" if hasattr(os, "fork") or what == "spawn":
            process = multiprocessing.get_context(what).Process(target=ask, args=(f"in {what}",))
            process.start()
            process.join()
        case "pool":
            with ProcessPoolExecutor(1) as pool:
                list(pool.map(ask, ["in pool"]))
        case "shell":
            subprocess.run(["sh", "-c", "true"], check=True)
        case "isolated":
            subprocess.run([sys.executable, "-I", __file__, "child"], check=True)
        case "raise":
            raise KeyError("no order")
        case "exit":
            sys.exit(3)
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "wait":
            try:
                print("waits", flush=True)
                time.sleep(30)
            except KeyboardInterrupt:
                ask("interrupted")
                sys.exit(7)
        case "secret":
            os.environ["SHOP_TOKEN"] = os.environ.pop("WORDS")
            ask(os.environ["SHOP_TOKEN"])
        case "tool":
            import shop

            shop.refund("A-17", amount=5)


if __name__ == "__main__":
    ask("in " + (sys.argv[1] if len(sys.argv) > 1 else "main"))
    print("out", *sys.argv[1:])
    print("err", file=sys.stderr)
    for what in sys.argv[1:]:
        start(what)
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "shop.py").write_text("def refund(order, amount):\n    return {'order': order, 'amount': amount}\n")
    with ModelServer() as server:
        monkeypatch.setenv("MODEL", server.url)
        yield tmp_path


def command(*words, options=("--keep", "all"), python=()):
    return ["run", *options, "--", sys.executable, *python, "agent.py", *words]


def in_own_process(*words):
    return [sys.executable, "-m", "pytest_agentreplay", *command(*words)]


def run(*words, **more):
    """Type the command in this process; return its exit code. The program has a process of its own."""
    return cli.main(command(*words, **more))


def test_a_program_runs_as_it_is_and_its_children_are_lanes_of_its_run(program):
    kinds = ["process", "spawn", "pool", "shell", *(["fork"] if hasattr(os, "fork") else [])]
    done = subprocess.run(in_own_process(*kinds), capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "err\nerr\n")
    assert done.stdout == f"out {' '.join(kinds)}\nout child\n"
    (captured,) = read_store(program / "runs")
    assert (captured.name, captured.arguments, captured.cold) == ("agent", {"argv": kinds}, "")
    assert captured.outcome == {"status": "passed"}
    asked = dict(zip(captured.asked, captured.lanes, strict=True))
    assert asked.pop("in process") == "main"
    assert {words for words, lane in asked.items() if lane.startswith("main.")} == {
        "in child", *(f"in {kind}" for kind in kinds if kind not in {"process", "shell"}),
    }  # fmt: skip
    assert len({*asked.values()}) == len(asked)


@pytest.mark.parametrize(
    ("what", "code", "failure"),
    [
        *rare(("raise", 1, ("KeyError", "'no order'")), ("exit", 3, ("failed", "exit code 3"))),
        pytest.param("die", 137, ("failed", "ended by SIGKILL"), marks=pytest.mark.skipif("sys.platform == 'win32'")),
    ],
)
def test_a_program_that_fails_is_kept_with_its_calls_and_its_own_exit_code(program, what, code, failure):
    assert run(what, options=()) == code
    (captured,) = read_store(program / "runs")
    assert (captured.outcome["type"], captured.outcome["message"]) == failure
    assert (captured.asked, captured.cold) == ([f"in {what}"], "")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no signal to a process")
@pytest.mark.parametrize(
    ("send", "number", "code"), [(os.kill, signal.SIGTERM, 143), *rare((os.killpg, signal.SIGINT, 7))]
)
def test_a_signal_ends_the_program_and_its_run_is_kept(program, send, number, code):
    with subprocess.Popen(in_own_process("wait"), stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        while process.stdout.readline() != "waits\n":
            pass
        send(process.pid, number)  # Ctrl-C goes to the group, and what stops a service to its first process alone
        assert process.wait(60) == code
    (captured,) = read_store(program / "runs")
    assert captured.asked[0] == "in wait"
    assert captured.asked[1:] == (["interrupted"] if number == signal.SIGINT else [])


@pytest.mark.exhaustive
def test_a_python_that_cannot_join_makes_the_run_cold_and_pytest_does_not_join(program):
    assert run(python=["-I"]) == 0
    assert run("isolated") == 0
    assert run(python=["-m", "pytest", "--version"]) == 0
    alone, child, tests = read_store(program / "runs")
    reason = f"a process of {Path(sys.executable).name} has not joined the run, and its calls are not in it"
    assert (alone.asked, alone.cold) == ([], reason)
    assert (child.asked, child.cold) == (["in isolated"], reason)
    assert (tests.name, tests.cold) == ("pytest", "the calls of its tests are not in it: pytest records them")


def test_a_tool_is_intercepted_once_the_program_imports_it(program):
    run("tool", options=["--keep", "all", "--tool", "shop.refund"])
    (captured,) = read_store(program / "runs")
    assert (captured.calls, captured.cold) == (["/v1/chat/completions", "refund"], "")


@pytest.mark.exhaustive
def test_a_tool_that_is_not_there_makes_the_run_cold(program):
    run("tool", options=["--keep", "all", "--tool", "shop.refnd"])
    (captured,) = read_store(program / "runs")
    assert captured.cold == "--tool: [AR-REDIRECT] shop.refnd: shop was imported, and has no such function"


def test_a_secret_that_the_program_learns_late_is_on_no_disk(program, monkeypatch):
    monkeypatch.setenv("WORDS", words := "plain-words-9f1c77")
    run("secret")
    (file,) = (program / "runs").rglob("*.json")
    assert words not in file.read_text()


@pytest.mark.exhaustive
def test_the_environment_decides_before_the_command_line(program, monkeypatch):
    monkeypatch.setenv("AGENTREPLAY_CAPTURE", "off")
    assert run("exit") == 3
    assert not (program / "runs").exists()
    monkeypatch.setenv("AGENTREPLAY_CAPTURE", "all")
    monkeypatch.setenv("AGENTREPLAY_CAPTURE_TO", str(program / "elsewhere"))
    assert run(options=["--keep", "failed"]) == 0
    assert len(read_store(program / "elsewhere")) == 1


def test_bad_input_is_one_line(program, typed):
    missing = "there is no program to run; type it like agentreplay run -- python agent.py"
    assert typed("run") == (2, "", f"agentreplay: {missing}\n")
    for code, words in (
        (125, ["--", "no-such-program"]),
        (2, ["--tool", "shop.*", "--", "python", "agent.py"]),
        (2, ["--keep", "some", "--", "python", "agent.py"]),
    ):
        told = typed("run", *words)
        assert (told.code, told.out, told.err.count("\n")) == (code, "", 1)


@pytest.mark.exhaustive
def test_a_store_that_cannot_be_written_is_said_and_the_program_keeps_its_exit_code(program, capfd):
    (program / "file").write_text("")
    assert run("exit", options=["--to", "file"]) == 3
    assert capfd.readouterr().err.startswith("err\nagentreplay capture: failed to write: ")


@pytest.mark.parametrize(
    ("words", "name", "arguments"),
    [
        ("python agent.py -x 1", "agent", "-x 1"),
        ("python3.12 -u -W ignore -m shop.agent a", "shop.agent", "a"),
        ("/usr/bin/python -c code a", "python", "a"),
        ("./agent.py a", "agent", "a"),
        ("bin/agent --x", "agent", "--x"),
    ],
)
def test_the_name_and_the_input_are_those_of_the_agent(words, name, arguments):
    assert describe_program(words.split()) == (name, arguments.split())
