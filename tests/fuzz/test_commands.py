"""`agentreplay check fuzz` and `agentreplay check assertions` on tests: exit codes, what they refuse, an interrupt; and the flag of pytest."""

import json
import re
import signal
import subprocess
import sys
import time

import pytest

from tests.support.project import NOBODY
from tests.support.small_projects import furnished, recorded

AGENT = """
import os
import httpx2

CLIENT = httpx2.Client(verify=False)

def refund(order):
    return "refunded"

def ask(text):
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    reply = CLIENT.post(os.environ["MODEL_URL"] + "/v1/chat/completions", json=body)
    return reply.raise_for_status().json()["choices"][0]["message"]["content"]

def settle(order):
    for attempt in range(3):
        try:
            ask(f"May {order} be refunded?")
            refund(order)
            return ask(f"Tell about {order}")
        except httpx2.HTTPError:
            continue
"""
TESTS = """
import agent, pytest

def test_settle(agentreplay):
    agent.settle("A-1")

def test_answer(agentreplay):
    assert agent.ask("hello") == "Here you are"

@pytest.mark.parametrize("order", ["A-2"])
def test_vacuous(agentreplay, order):
    answer = agent.ask(order)
    assert answer is None or len(answer) >= 0

def test_something(agentreplay):
    assert agent.ask("bye")

def test_silent(agentreplay):
    pass

def test_tool(agentreplay):
    agent.refund("A-3")
"""
CHECKS = """
def answered(run):
    assert run.turns[-1].text != "Here you are", "the answer is the recorded one"
"""
INI = "agentreplay_tools =\n    agent.refund\n"


@pytest.fixture(scope="module")
def shop(shared_project):
    project = shared_project(lambda body, number: "Here you are")
    return recorded(furnished(project, INI, agent=AGENT, test_shop=TESTS, checks=CHECKS))


def command(shop, *words, code):
    """A command without anybody at the model's address: what it printed, on one line."""
    done = shop.command(*words, MODEL_URL=NOBODY)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return " ".join((done.stdout + done.stderr).split())


def test_a_sound_test_has_no_failure_and_a_failure_names_the_smallest_neighbour_and_its_case(shop):
    said = command(shop, "check", "fuzz", "test_shop.py::test_answer", "--budget", "9", code=0)
    assert re.fullmatch(r"test_shop\.py::test_answer: (\d+) neighbours, \1 hold", said)
    said = command(shop, "check", "fuzz", "test_shop.py::test_settle", "--budget", "4", "--dir", "kept", code=1)
    assert 'repeated effect: refund(order="A-1") was called 2 times, recorded 1 (' in said
    (file,) = (shop.root / "kept").glob("*/case.yaml")
    text = file.read_text(encoding="utf-8")
    assert f"kept: pytest kept/{file.parent.name}/case.yaml" in said
    assert 'base: "test_shop.py::test_settle"' in text
    assert text.count("operator") == 1
    assert "expect: reproduces" in text
    file.write_text(text + "# mine\n", encoding="utf-8")
    command(shop, "check", "fuzz", "test_shop.py::test_settle", "--budget", "4", "--dir", "kept", code=1)
    assert file.read_text(encoding="utf-8").endswith("# mine\n")
    loaded = " ".join(shop.options)
    done = shop.run("kept", "-rp", MODEL_URL=NOBODY, PYTEST_ADDOPTS=loaded)
    assert f"PASSED kept/{file.parent.name}/case.yaml::{file.parent.name}" in done.stdout
    assert "cases: 1 as expected (1 reproduces the failure)" in done.stdout
    shop.edit("agent.py", "            refund(order)\n", "            attempt or refund(order)\n")
    try:
        done = shop.run("kept", MODEL_URL=NOBODY, PYTEST_ADDOPTS=loaded)
        assert "the invariants hold. Set expect: fixed in kept/" in " ".join(done.stdout.split())
        file.write_text(text.replace("expect: reproduces", "expect: fixed"), encoding="utf-8")
        done = shop.run("kept", MODEL_URL=NOBODY, PYTEST_ADDOPTS=loaded)
        assert "cases: 1 as expected (1 fixed)" in done.stdout
        assert done.returncode == 0
    finally:
        shop.edit("agent.py", "            attempt or refund(order)\n", "            refund(order)\n")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["test_shop.py::test_gone"], 2, "test_shop.py::test_gone"),
        (
            ["test_shop.py::test_settle", "--budget", "0"],
            2,
            "--budget 0: a number of trials like 200, or a time like 60s",
        ),
        (["test_shop.py::test_settle", "--budget", "soon"], 2, "--budget soon: a number of trials like 200"),
        (["test_shop.py"], 2, "names several tests: name one"),
        (["nowhere"], 2, "nowhere"),
    ],
)
def test_what_cannot_be_tried_is_refused_in_a_line(shop, words, code, message):
    assert message in command(shop, "check", "fuzz", *words, code=code)


def test_a_test_that_fails_on_its_own_recording_comes_first(shop):
    shop.edit("test_shop.py", '== "Here you are"', '== "Here we are"')
    try:
        for verb in ("fuzz", "assertions"):
            said = command(shop, "check", verb, "test_shop.py::test_answer", code=125)
            assert "it fails on its own recording, and that comes first: " in said
    finally:
        shop.edit("test_shop.py", '== "Here we are"', '== "Here you are"')


def test_the_users_invariants_are_functions_that_the_ini_file_names(shop):
    ini = shop.root / "pytest.ini"
    before = ini.read_text(encoding="utf-8")
    try:
        ini.write_text(before + "agentreplay_invariants =\n    checks:answered\n", encoding="utf-8")
        said = command(shop, "check", "fuzz", "test_shop.py::test_answer", "--budget", "9", code=125)
        assert "that comes first: the answer is the recorded one" in said
    finally:
        ini.write_text(before, encoding="utf-8")


def test_an_invariant_that_is_no_function_is_refused_before_any_trial_and_no_fault_of_the_agent(shop):
    ini = shop.root / "pytest.ini"
    before = ini.read_text(encoding="utf-8")
    message = "the invariant damaged:f cannot be imported: SyntaxError: invalid syntax (damaged.py, line 1)"
    (shop.root / "damaged.py").write_text("def f(:\n", encoding="utf-8")
    try:
        ini.write_text(before + "agentreplay_invariants =\n    damaged:f\n", encoding="utf-8")
        said = command(shop, "check", "fuzz", "test_shop.py::test_answer", "--budget", "3", code=125)
        assert f"pytest ran no neighbour of it: test_shop.py: {message}" in said
        done = shop.run("test_shop.py", "--agentreplay-fuzz=1", MODEL_URL=NOBODY)
        assert done.returncode == pytest.ExitCode.INTERRUPTED
        assert message in done.stdout
        assert "AR-FUZZ" not in done.stdout
    finally:
        ini.write_text(before, encoding="utf-8")
        (shop.root / "damaged.py").unlink()


def test_a_vacuous_test_is_told_from_one_that_looks_at_the_reply(shop):
    said = command(shop, "check", "assertions", "test_shop.py::test_vacuous[A-2]", code=1)
    assert "turn 1 unnoticed other-answer, refusal, empty-answer" in said
    assert "NOT CHECKED: whatever the model replies, no assertion of it fails" in said
    said = command(shop, "check", "assertions", "test_shop.py::test_answer", code=0)
    assert "turn 1 noticed other-answer, refusal, empty-answer" in said
    assert "assertions notice each kind of reply, and depend on every turn" in said
    said = command(shop, "check", "assertions", "test_shop.py::test_something", code=1)
    assert "turn 1 noticed empty-answer; unnoticed other-answer, refusal" in said
    assert "HARDLY CHECKED: only an empty answer is noticed; no assertion notices other-answer, refusal" in said
    done = shop.command("check", "assertions", "test_shop.py::test_settle", "--json", MODEL_URL=NOBODY)
    data = json.loads(done.stdout)
    assert [row["turn"] for row in data["turns"]] == ["turn 1", "turn 2"]
    assert data["unchecked"] is True
    assert "no reply of a model in it can be replaced" in command(
        shop, "check", "assertions", "test_shop.py::test_tool", code=5
    )


def test_the_flag_makes_items_which_xdist_shares_and_which_wait_for_the_test_itself(shop):
    done = shop.offline("--agentreplay-fuzz=5", "-v", "-p", "xdist.plugin", "-n", "2", "-k", "answer or settle")
    assert (
        len(re.findall(r"(?:PASSED|FAILED) test_shop\.py::test_\w+(?:\[fuzz-\d\])? *$", done.stdout, re.MULTILINE))
        == 12
    )
    assert "test_answer[fuzz-5]" in done.stdout
    parametrized = shop.offline("--agentreplay-fuzz=1", "-v", "-k", "vacuous")
    assert "test_vacuous[A-2-fuzz-1]" in parametrized.stdout
    shop.edit("test_shop.py", '== "Here you are"', '== "Here we are"')
    try:
        done = shop.offline("--agentreplay-fuzz=3", "-rs", "-k", "answer")
        assert "3 skipped" in done.stdout
        assert "the test fails on its own recording: that comes first" in " ".join(done.stdout.split())
    finally:
        shop.edit("test_shop.py", '== "Here we are"', '== "Here you are"')
    for words, message in (
        (["--agentreplay-fuzz=many"], "--agentreplay-fuzz takes a whole number, not 'many'"),
        (["--agentreplay-fuzz-seed=1"], "--agentreplay-fuzz-seed=1 is for fuzzing: add --agentreplay-fuzz=N"),
        (["--agentreplay-fuzz=3", "--snapshot-record"], "--agentreplay-fuzz=3 is for replays, but the mode is record"),
    ):
        done = shop.run(*words)
        assert done.returncode == 4
        assert message in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="an interrupt of the console reaches the whole group there")
def test_an_interrupted_fuzz_keeps_what_it_has_found(shop, tmp_path):
    environ = shop.surroundings(MODEL_URL=NOBODY, TMPDIR=str(tmp_path), PYTEST_ADDOPTS=" ".join(shop.options))
    words = ["check", "fuzz", "test_shop.py::test_settle", "--budget", "9000", "--dir", "interrupted"]
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest_agentreplay", *words],
        cwd=shop.root,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    while not any('"violations": [[' in file.read_text() for file in tmp_path.glob("*/results.jsonl")):
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[0]
    assert process.returncode == 130, said
    assert "repeated effect: refund" in said
    assert len([*(shop.root / "interrupted").glob("*/case.yaml")]) == 1


def test_the_flags_of_the_project_end_no_session_and_its_cache_is_left_alone(shop):
    ini = shop.root / "pytest.ini"
    before = ini.read_text(encoding="utf-8")
    ini.write_text(before + "addopts = -x --strict-markers\n", encoding="utf-8")
    try:
        said = command(shop, "check", "fuzz", "test_shop.py::test_settle", "--budget", "5", "--dir", "kept", code=1)
        assert "test_shop.py::test_settle: 5 neighbours, " in said
        assert not (shop.root / ".pytest_cache").exists()
    finally:
        ini.write_text(before, encoding="utf-8")


def test_a_budget_of_time_ends_by_itself(shop):
    said = command(shop, "check", "fuzz", "test_shop.py::test_answer", "--budget", "3s", code=0)
    assert " neighbours, " in said
