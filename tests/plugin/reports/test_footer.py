"""What stands beneath a session and in its reports: sizes, shared causes, lines of the agent; on any console."""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_agentreplay.intercept.session.callers import is_agents
from pytest_agentreplay.report import session_notices
from pytest_agentreplay.report.notices import format_footer
from pytest_agentreplay.report.summary import Proof, RecordingSummary, ReplaySummary, SessionSummary
from pytest_agentreplay.runs import replay_kit
from tests.support.small_projects import passed, recorded, summary


def test_a_snapshot_larger_than_wanted_is_told(project):
    told = project.record("-o", "agentreplay_checks=large=500").stdout
    size = project.files[0].stat().st_size
    assert f"test_refund.snapshot.json holds {size:,} bytes, more than large in agentreplay_checks" in told
    assert "smaller inputs, or keep such files in git-lfs" in told
    assert "agentreplay_checks" not in project.record("-o", "agentreplay_checks=large=0").stdout


@pytest.mark.proves(forked=True)
def test_a_tool_that_ran_unseen_is_told_with_what_to_add_and_no_proof_runs_it_again(project):
    project.edit("pytest.ini", "    agent.refund\n", "")
    done = project.record()
    assert "[AR-UNFROZEN] tool refund ran unseen" in done.stdout
    assert "add to agentreplay_tools:   agent.refund" in done.stdout
    assert "not replayed: a tool would run again" in done.stdout
    assert project.ledger == ["lookup A-17", "refund A-17 18.5"]


GIVES_UP = """
import asyncio, os
import httpx2, agent

async def order(client, method, path):
    try:
        await asyncio.wait_for(client.request(method, os.environ["SHOP_URL"] + path), 0.3)
    except TimeoutError:
        return "gave up"

async def act(calls):
    agent.ask([{"role": "user", "content": "hello"}])
    async with httpx2.AsyncClient() as client:
        await asyncio.gather(*(order(client, *call.split()) for call in calls.splitlines()))

def test_gives_up(agentreplay):
    asyncio.run(act(os.environ["CALLS"]))
"""


def test_calls_that_were_given_up_when_recorded_and_have_vanished_are_reported(project):
    """It cannot be told whether such a request still reached its server, so no method makes it a divergence."""
    project.write(test_shop=GIVES_UP)
    project.environ["COLUMNS"] = "120"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        project.environ["SHOP_URL"] = f"http://127.0.0.1:{silent.getsockname()[1]}"
        recorded(project, CALLS="POST /orders\nDELETE /orders/7\nGET /orders")
    replayed = project.offline(CALLS="GET /orders\nPOST /orders\nDELETE /orders/7")
    assert "vanished" not in replayed.stdout
    replayed = passed(project.offline(CALLS="GET /orders"))
    assert [line for line in replayed.stdout.splitlines() if "vanished" in line] == [
        "vanished  DELETE 127.0.0.1/orders/7 was begun and given up when recorded, and is not called now (1 x)",
        "vanished  POST 127.0.0.1/orders was begun and given up when recorded, and is not called now (1 x)",
    ]


MIXED = """
import agent

def test_refund(agentreplay):
    assert "refund" in agent.answer("Where is A-17?")

def test_recorded_alone(agentreplay):
    agent.answer("Where is A-17?")
    assert agentreplay.mode == "record"
"""


@pytest.mark.proves(forked=True)
def test_quiet_counts_those_that_replay_and_names_those_that_do_not(project):
    project.furnish(MIXED)
    done = project.record("-q")
    lines = done.stdout.splitlines()
    counted = lines.index("recorded 1 test (1 created, these replay), and others:")
    assert "does not replay: its calls replay, but its own assertions do not hold offline" in lines[counted + 1]
    assert "all replay" not in done.stdout


def test_quiet_counts_recordings_of_failed_tests_as_failed():
    ended = RecordingSummary(verdict="created", outcome="passed", proof=Proof())
    passed = SessionSummary(mode="record", test="test_it", recording=ended)
    failed = replace(passed, recording=replace(ended, outcome="failed", proof=Proof(why="fails as recorded")))
    groups = [passed] * 2, [failed] * 3, [passed, failed]
    assert [format_footer(session_notices.make_session_notices(group, Path()), -1)[0] for group in groups] == [
        "recorded 2 tests (2 created, all replay)",
        "recorded 3 tests (3 created, 3 failed, all end as recorded)",
        "recorded 2 tests (2 created, 1 failed, all end as recorded)",
    ]


def test_whatever_was_edited_stands_behind_words_that_fit_it():
    for edited in (("exchange 2", "exchange 5"), ("the seal is gone",)):
        replay = ReplaySummary(edited=edited)
        replayed = SessionSummary(mode="model", test="test_it", file="a.snapshot.json", replay=replay)
        told = format_footer(session_notices.make_session_notices([replayed], Path()), 0)
        assert f"edited    a.snapshot.json: edited after it was recorded: {', '.join(edited)}" in told


UNSEEN = """
import socket, subprocess

def test_child(agentreplay):
    subprocess.run(["true"], check=True)

def test_socket(agentreplay):
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()

def test_nothing(agentreplay):
    pass
"""


@pytest.mark.proves(forked=True)
def test_a_test_whose_only_contact_no_boundary_takes_is_listed_and_shown_not_to_replay(project):
    project.write(test_shop=UNSEEN)
    done = passed(project.record("-q"))
    lines = [re.sub(r":[0-9]+ from", ":0 from", line) for line in done.stdout.splitlines()]
    assert "recorded 1 test (1 without calls, these replay), and others:" in lines
    for test, gap in {
        "child": "1 child process true from test_shop.py:5 in test_child",
        "socket": "1 connect to 127.0.0.1:0 from test_shop.py:9 in test_socket",
    }.items():
        at = lines.index(f"not recorded: {gap}")
        assert f"nothing: test_shop.py::test_{test} made no call" in lines[at - 1]
        assert "does not replay: [AR-NET] refused in a closed replay" in lines[at - 1]
    assert project.offline().returncode == 1


# One change of the requests behind many tests is reported once, with one command that accepts it in all of them.

SHARING = """
import agent, pytest

@pytest.mark.parametrize("order", range(6))
def test_refund(order, agentreplay):
    assert "refund" in agent.answer(f"Where is A-{order}?")

def test_other(agentreplay):
    assert "refund" in agent.answer("Where is B-1?", top_p=1)
"""


@pytest.fixture(scope="module")
def changed(shared_project):
    """Seven recorded tests; since then the prompt that six of them begin with was edited, and a parameter of the last."""
    made = shared_project()
    made.environ["COLUMNS"] = "200"
    made.furnish(SHARING)
    recorded(made)
    made.edit("agent.py", "Be kind.", "Be nice.")
    made.edit("test_shop.py", "top_p=1", "top_p=0.5")
    return made


@pytest.mark.parametrize("words", [[], ["-p", "xdist.plugin", "-n", "2"]], ids=["one process", "xdist"])
def test_a_change_of_many_tests_is_shown_once_and_the_others_point_to_it(changed, words):
    done = changed.offline(*words, "--junitxml=junit.xml")
    assert done.returncode == 1, done.stdout
    told = summary(done)
    assert len(told) == 7
    assert all(told[f"refund[{n}]"].startswith("[AR-PROMPT] turn 1/3: ") for n in range(6))
    text = done.stdout.partition("= FAILURES =")[2].partition("short test summary info")[0]
    pointers = re.findall(r"^\[AR-PROMPT\] the same change as in (\S+), which shows it", text, re.MULTILINE)
    assert len(pointers) == 5
    (first,) = set(pointers)
    assert re.fullmatch(r"test_shop.py::test_refund\[[0-5]\]", first)
    assert text.count("+ Be nice.") == 2, "the first of the six, and the test that differs in more"
    assert "the same change in 6 tests: " in text
    cases = ET.parse(changed.root / "junit.xml").iter("failure")
    assert sum("AR-PROMPT" in case.attrib["message"] for case in cases) >= 6
    footer = done.stdout.partition("shared    [AR-PROMPT] ")[2]
    assert re.search(r"in 6 tests: (test_shop.py::test_refund\[\d\](, )?){3} and 3 more", footer), done.stdout
    if not words:
        command = re.search(r"agentreplay (accept .* --requests .*)", footer)[1]
        taken = changed.command(*shlex.split(command), "--dry-run")
        assert "6 to accept" in taken.stdout
        assert " left" not in taken.stdout, "a test whose request changed in another way is not named"


def test_every_report_is_whole_with_vv_and_a_change_of_one_test(changed):
    done = changed.offline("-vv")
    assert "the same change as in" not in done.stdout
    assert done.stdout.count("recorded: ") >= 7
    done = changed.offline("-k", "test_refund and 3")
    assert "1 failed" in done.stdout
    assert "the same change" not in done.stdout
    assert "shared    " not in done.stdout


@pytest.mark.parametrize("words", [[], ["-p", "xdist.plugin", "-n", "2"]], ids=["one process", "xdist"])
def test_a_report_has_the_colours_of_pytest_and_files_of_it_have_none(changed, words):
    done = changed.offline(*words, "--color=yes", "--junitxml=junit.xml", "-k", "0 or other")
    assert "\x1b[1;31m[AR-PROMPT] turn 1/3: model m-1: " in done.stdout
    for colour, word in ((31, "kind"), (32, "nice")):
        assert f"\x1b[{colour};7m{word}\x1b[0m" in done.stdout
    assert "\x1b[36magentreplay accept " in done.stdout
    # JUnit's file writes the code of a colour as this text.
    text = (changed.root / "junit.xml").read_text(encoding="utf-8")
    assert "AR-PROMPT" in text
    assert not re.search("\x1b|#x1B", text)
    assert "\x1b" not in changed.offline(*words, "-k", "0 or other").stdout


# The line of the agent.

FRAMEWORK = """
import asyncio, os
import anyio

async def ask(made):
    word = "short" if os.environ.get("CHANGED") else "brief"
    messages = [{"role": "user", "content": f"Be {word}."}]
    return await made.chat.completions.create(model="m-1", messages=messages)

async def nested(made):
    return await asyncio.create_task(asyncio.wait_for(asyncio.gather(ask(made)), 60))

async def grouped(made):
    send, receive = anyio.create_memory_object_stream(1)
    async def work():
        async with send:
            await send.send(await ask(made))
    async with receive, anyio.create_task_group() as group:
        group.start_soon(work)
        return await receive.receive()
"""
CALLER = """
import asyncio, os
import openai, pytest
import framework

async def run(how):
    async with openai.AsyncOpenAI(base_url=os.environ["MODEL_URL"] + "/v1", api_key="k", max_retries=0) as made:
        return await getattr(framework, how)(made)  # the line

@pytest.mark.parametrize("how", ["ask", "nested", "grouped"])
def test_plain(how, agentreplay):
    asyncio.run(run(how))

@pytest.mark.asyncio
@pytest.mark.parametrize("how", ["ask", "nested", "grouped"])
async def test_async(how, agentreplay):
    await run(how)
"""


def test_the_line_of_the_agent_is_named_in_whatever_task_an_installed_framework_calls(project, tmp_path_factory):
    installed = tmp_path_factory.mktemp("env") / "site-packages"
    installed.mkdir()
    (installed / "framework.py").write_text(FRAMEWORK, encoding="utf-8")
    project.server._replies = lambda body, number: "Fine."
    project.write(test_shop=CALLER)
    project.environ |= {"COLUMNS": "160"}
    words = ("-p", "pytest_asyncio.plugin", "-o", "asyncio_default_fixture_loop_scope=function")
    words += ("-o", f"pythonpath=. {installed}")
    recorded(project, *words)
    told = re.findall(r"^  called from +(.*)$", project.offline("-vv", *words, CHANGED="yes").stdout, re.MULTILINE)
    line = next(number for number, row in enumerate(CALLER.splitlines(), 1) if "# the line" in row)
    assert told == [f"test_shop.py:{line} in run"] * 6


def test_the_command_that_runs_pytest_is_nobodys_agent():
    script = Path(sys.prefix) / ("Scripts" if os.name == "nt" else "bin") / "pytest"
    assert not is_agents(compile("", str(script), "exec"))
    assert is_agents(compile("", str(Path(__file__)), "exec"))


# On any console and with any setting of pytest.

LETTER = "\u91cc"  # in no Western code page


def test_a_console_of_a_code_page_shows_escapes(project):
    project.edit("agent.py", "Be brief.", f"Be brief {LETTER}.")
    (file,) = recorded(project).files
    project.edit("agent.py", "Be kind.", f"Be {LETTER} kind.")
    failed = project.replay(PYTHONIOENCODING="cp1252")
    assert failed.returncode == 1
    assert "[AR-PROMPT]" in failed.stdout
    shown = passed(project.command("show", file, PYTHONIOENCODING="cp1252"))
    for done in (failed, shown):
        assert r"\u91cc" in done.stdout
        assert "UnicodeEncodeError" not in done.stdout + done.stderr


PARAMETRIZED = """
import agent, pytest

@pytest.mark.parametrize("order", ["A 17"])
def test_it(agentreplay, order):
    agent.answer(order)
"""


def test_told_paths_have_slashes_and_commands_can_be_pasted(project):
    """The same words on every system; the parameter needs quotes in each shell."""
    project.write(tests__test_more=PARAMETRIZED)
    missing = project.replay("tests")
    assert 'pytest --snapshot-record "tests/test_more.py::test_it[A 17]"' in missing.stdout
    told = re.search(r"recorded  (\S+) \(created", project.record("tests").stdout)[1]
    assert told.startswith("tests/__agent_snapshots__/test_more/test_it-a-17-")
    assert "\\" not in json.loads((project.root / told).read_text(encoding="utf-8"))["header"]["test"]


@pytest.mark.skipif(os.name != "posix", reason="names of files are bytes on POSIX alone")
@pytest.mark.process
def test_a_name_in_another_encoding_does_not_stop_a_recording(tmp_path):
    """git tells names as they are, if it is told to; they need not be of this system's encoding."""

    def git(*words):
        subprocess.run(["git", "-C", tmp_path, *words], check=True, capture_output=True)

    git("init")
    git("config", "core.quotepath", "false")
    file = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt"))
    try:
        file.touch()
    except OSError:
        pytest.skip("this file system takes UTF-8 only")
    git("add", ".")
    git("-c", "user.name=a", "-c", "user.email=a@b.test", "commit", "-m", "one")
    file.write_text("b", encoding="utf-8")
    assert dict(replay_kit.read_git_state(str(tmp_path)))["dirty"] is True


HELPERS = """
import agent
import pytest

@pytest.mark.parametrize("number", range(3))
def test_refund(agentreplay, number):
    agent.answer("Where is A-17?")
    run = agentreplay.run
    if agentreplay.mode == "replay":
        [
            lambda: run.assert_tool_calls(["lookup_order"]),
            lambda: run.assert_turn(2, tool="lookup_order"),
            lambda: run.assert_tool_calls(["lookup_order", "refound"]),
        ][number]()
"""
SAID = ["tool call 2 was not expected", "turn 2", "tool call 2 is another one"]


def test_helpers_say_the_same_with_and_without_rewriting_of_asserts(project):
    """Which meets a plugin in some installs only."""
    project.write(test_shop=HELPERS)
    recorded(project)
    rewritten, plain = (
        [
            re.findall(r"^E   .*", text, re.MULTILINE)
            for text in re.split(r"\n_+ test_refund", project.offline(*words).stdout)
        ]
        for words in (("-vv",), ("-vv", "--assert=plain"))
    )
    assert rewritten == plain
    assert [
        said for said, lines in zip(SAID, rewritten[1:], strict=True) if f"AssertionError: {said}" not in lines[0]
    ] == []
    assert all(len(lines) > 1 for lines in rewritten[1:]), "the nearest, what was there"
