"""`agentreplay replay CASE`: by a runner, by a command in a process of its own, or as it is frozen."""

import json
import platform
import re
import sys

import pytest

from pytest_agentreplay.errors import RunnerError
from pytest_agentreplay.intercept.network.sandbox import MACHINES
from pytest_agentreplay.runs import command
from tests.support.case_project import STRICT, opened
from tests.support.model_script import Ask
from tests.support.project import refunds
from tests.support.small_projects import edited

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

MAIN = """
import json, os, pathlib, sys
import shop

case = pathlib.Path(os.environ["AGENTREPLAY_CASE_PATH"])
assert case.name == "case.yaml" and case.is_file()
assert os.environ["REPLAYKIT_CASE_PATH"] == str(case)
assert os.environ["AGENTREPLAY_FIXTURES_DIR"] == os.environ["REPLAYKIT_FIXTURES_DIR"] == str(case.parent / "fixtures")
assert os.environ["AGENTREPLAY_SOURCE_TRACE_PATH"] == ""
given = json.load(sys.stdin)
print("hello from", os.environ["MODEL_API_KEY"])
print("warned", file=sys.stderr)
calls = [
    {"name": "lookup_order", "arguments": {"order_id": "A-17"}, "result": {"order": "A-17"}},
    {"tool_name": "refund", "tool_args": {"order_id": "A-17"}, "error": "ConnectionError: the bank does not answer"},
]
result = {"run_id": "r-1", "status": "ok", "final_output": shop.run(given["messages"]), "tool_calls": calls, "errors": []}
pathlib.Path(os.environ["REPLAYKIT_OUTPUT_PATH"]).write_text(json.dumps(result))
"""
COMMAND = f'"{sys.executable}" main.py'
ODD = f'"{sys.executable}" odd.py'


@pytest.fixture(scope="module")
def project(shared_project):
    made = opened(shared_project())
    made.project.write(main=MAIN)
    return made


@pytest.fixture
def docket(project):
    project.clear()
    return project


def ended(done, code):
    assert done.returncode == code, done.stdout + done.stderr
    return done


def kept(docket):
    """The folder of the one replay of which anything is kept, and the texts in it."""
    (folder,) = (docket.root / ".agentreplay" / "runs").iterdir()
    return folder.name, {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()}


def test_what_is_kept_of_an_imported_case_names_nobody(docket):
    docket.case(edit=lambda text: text.replace("format: snapshot", "format: replaykit"))
    person = "jane.doe" + "@" + "corpmail-shop.com"
    says = f'import os, sys; print("{person}"); open(os.environ["AGENTREPLAY_OUTPUT_PATH"], "w").write('
    says += f"""'{{"status": "ok", "final_output": "{person}", "tool_calls": [], "errors": ["{person}"]}}')"""
    docket.project.write(odd=says)
    done = docket.replay("cases/refund", "--runner-cmd", ODD)
    _, files = kept(docket)
    assert "redacted.invalid" in files["stdout.txt"]
    assert person not in "".join((done.stdout, done.stderr, *files.values()))


def test_a_command_s_result_is_judged_and_kept(docket):
    docket.case()
    done = ended(docket.replay("cases/refund", "--runner-cmd", COMMAND), 0)
    assert done.stderr == ""
    assert re.search(
        r"verdict +holds: reproduces \(expect: reproduces\)\n *observed checks +2 of 2 hold\n *desired checks +1 of 2 hold",
        done.stdout,
    )
    name, files = kept(docket)
    assert re.fullmatch(r"\d{8}T\d{6}-refund", name)
    assert {*files} == {"result.json", "summary.md", "runner-output.json", "stdout.txt", "stderr.txt"}
    assert f".agentreplay/runs/{name}" in done.stdout
    assert (docket.root / ".agentreplay/.gitignore").read_text() == "*\n"
    assert files["stderr.txt"] == "warned\n"
    assert re.fullmatch(r"hello from \[\[redacted:.+\]\]\n", files["stdout.txt"]), "a key of the environment is secret"
    assert json.loads(files["runner-output.json"])["final_output"].startswith("Here is your refund")
    assert json.loads(files["result.json"])["as_expected"] is True


def test_what_an_agent_in_a_process_of_its_own_comes_to(docket):
    for agent, expect, more, code, told in (
        (
            "fixed",
            "fixed",
            STRICT,
            0,
            r"verdict +holds: fixed \(expect: fixed\)\n *observed checks +1 of 2 hold\n *desired checks +2 of 2 hold",
        ),
        ("broken", "fixed", STRICT, 1, r"\Arefund: FAILURE REPRODUCED: 2 of 2 observed checks hold"),
        ("other", "reproduces", STRICT, 1, r"cannot tell whether .* today's run left its recording: \[AR-PROMPT\]"),
        ("rewritten", "fixed", "", 0, r"holds on recorded replies: fixed (.*\n)*.*\(model 3 position\)"),
    ):
        docket.case(expect=expect, more=more)
        done = ended(docket.replay("cases/refund", "--runner-cmd", COMMAND, agent=agent, COLUMNS="200"), code)
        assert re.search(told, done.stdout), done.stdout


TROUBLE = {
    "hangs": ("import time; time.sleep(60)", r"was still running after 0.5 s and was ended; raise agentreplay_timeout, or --timeout"),
    "crashes": ("raise ValueError('no customer')", r"ended with 1 and wrote no result\n(  .*\n)+  ValueError: no customer\n"),
    "nothing": ("print('done')", r"wrote no result: write \{.*\} to the file that AGENTREPLAY_OUTPUT_PATH names"),
    "empty": ("out.write_text('')", r"runner-output.json: the runner wrote an empty file"),
    "rubbish": ("out.write_text('{]')", r"runner-output.json:1:2: the runner wrote no JSON"),
    "list": ("out.write_text('[]')", r"runner-output.json: \$: the runner wrote no JSON object"),
    "deep": ("out.write_text('[' * 100000)", r"runner-output.json: "),
    "bytes": ("out.write_bytes(b'\\xff{}')", r"offset 0: the runner's result is not UTF-8"),
    "lacking": ("out.write_text('{}')", r"runner-output.json: \$.status: is missing in the runner's result"),
    "status": ("""out.write_text('{"status": "fine"}')""", r"\$.status: is one of ok, success"),
    "calls": ("""out.write_text('{"status": "ok", "tool_calls": [{"arguments": {}}]}')""", r"\$.tool_calls\[0\].name: is missing"),
    "folder": ("out.mkdir()", r"runner-output.json: is not a plain file"),
    "large": ("out.write_text(' ' * (17 << 20))", r"runner-output.json: .*is larger than|wrote more than"),
}  # fmt: skip


def test_each_command_that_tells_nothing_is_told_in_its_own_words(docket):
    for trouble in TROUBLE:
        docket.case(trouble)
    programs = {trouble: program for trouble, (program, _) in TROUBLE.items()}
    docket.project.write(
        odd=f"import os, pathlib\nout, case = (pathlib.Path(os.environ[f'AGENTREPLAY_{{word}}_PATH']) for word in ('OUTPUT', 'CASE'))"
        f"\nexec({programs}[case.parent.name])\n"
    )
    for troubles, words in ((["hangs"], ["--timeout", "0.5"]), ([*TROUBLE][1:], [])):
        done = ended(docket.replay(*(f"cases/{name}" for name in troubles), *words, "--runner-cmd", ODD), 125)
        assert "Traceback" not in done.stderr.replace("  Traceback (most recent", "")
        told = re.split(r"^agentreplay: ", done.stderr, flags=re.MULTILINE)[1:]
        assert len(told) == len(troubles), done.stderr
        for trouble, said in zip(troubles, told, strict=True):
            assert re.search(TROUBLE[trouble][1], said), said


def test_a_command_that_is_not_there_is_said_and_one_that_failed_counts_where_it_wrote_its_result(docket):
    docket.case()
    done = ended(docket.replay("cases/refund", "--runner-cmd", "no-such-program --now"), 125)
    assert "cannot run no-such-program" in done.stderr
    call, error = {"name": "refund", "error": "no"}, {"type": "X", "message": "y"}
    told = {"status": "error", "final_output": "Here is your refund", "tool_calls": [call], "errors": ["no", error]}
    written = f"open(os.environ['AGENTREPLAY_OUTPUT_PATH'], 'w').write({json.dumps(told)!r})"
    docket.project.write(odd=f"import os, sys\n{written}\nsys.exit(3)\n")
    (case,) = json.loads(ended(docket.replay("cases/refund", "--json", "--runner-cmd", ODD), 0).stdout)["cases"]
    assert case["observed"]["served"] == "nobody: the command asked the gateway for nothing"


def test_a_command_line_is_split_as_people_type_it_on_their_system():
    typed = r'"C:\Program Files\node.exe" agent.js --name="a b" C:\x\y'
    assert command.split_windows_command(typed) == [r"C:\Program Files\node.exe", "agent.js", "--name=a b", r"C:\x\y"]
    with pytest.raises(RunnerError, match="cannot be split"):
        command.split_command("'open")


def test_the_project_s_own_runner(docket):
    docket.case()
    done = ended(docket.replay("cases/refund"), 0)
    assert re.search(r"served +strict \(model 3 strict, tools 2 strict\)", done.stdout)
    docket.case(runner="")
    ended(docket.replay("cases/refund", "--runner", "waiting", agent="fixed"), 1)
    frozen = ended(docket.replay("cases/refund"), 0)
    assert re.search(r"served +the frozen run\n", frozen.stdout)


LIVE = """serve: {desired: {model: live, tools: arguments}}
tolerance: {refund $.amount: 1%}
"""


def test_the_real_model_on_frozen_tools(docket):
    """The live model answers otherwise at each call, and asks for a refund that differs a little, then too much."""
    server = docket.project.server
    amount = [18.6]

    def live(body, number):
        said = refunds(body, number)
        return Ask("refund", said.arguments | {"amount": amount[0]}) if getattr(said, "name", "") == "refund" else said

    docket.case(expect="fixed", more=LIVE)
    before = server.hits
    refused = ended(docket.replay("cases/refund", agent="fixed"), 125)
    assert "which the command line alone allows: agentreplay replay cases/refund/case.yaml --live" in refused.stderr
    skipped = ended(docket.pytest("-rs", agent="fixed", COLUMNS="300"), 0)
    assert "asks the real model, which the command line alone allows" in skipped.stdout
    assert "cases: 1 asks live" in skipped.stdout
    assert server.hits == before, "the observed half is strict, and nothing else was allowed"
    server._replies = live
    try:
        done = ended(docket.project.command("replay", "cases/refund", "--live", AGENT="fixed"), 0)
        assert re.search(r"holds: fixed \(expect: fixed\)\n", done.stdout), "a live pass is not one on recorded replies"
        counted = "(model 3 live, tools 1 arguments (recorded), tools 1 arguments (within the tolerance))"
        assert counted in " ".join(done.stdout.split())
        assert server.hits == before + 3
        ended(docket.project.run("cases", "--replay=live", "--replay-set", "model=m-2", AGENT="fixed"), 0)
        assert [request.json["model"] for request in server.requests[before:]] == ["m-1"] * 3 + ["m-2"] * 3
        amount[0] = 20.0
        done = ended(docket.project.command("replay", "cases/refund", "--live", AGENT="fixed"), 1)
        assert "[AR-ARGS]" in done.stdout
        assert "$.amount" in done.stdout
    finally:
        server._replies = refunds


HOOKS = """
import shop

def pytest_agentreplay_runners():
    return {"own": shop.run}

def pytest_agentreplay_assertions():
    return {"shorter_than": lambda wanted, run: len(run.output) < wanted}

def pytest_agentreplay_judge(case, sentence, evidence):
    return True if sentence == "It is kind" else None

def pytest_agentreplay_redactors():
    return {"order": lambda text: text.replace("A-17", "")}
"""


def test_hooks_of_conftest_files_and_addopts_of_pytest(docket):
    edit = lambda text: text.replace("  - tool_called: lookup_order", "  - shorter_than: 20")  # noqa: E731
    more = STRICT + 'semantic: ["It is kind", "It is brief"]\n'
    docket.case("one", runner="own", expect="fixed", more=more, edit=edit)
    docket.case("two", runner="refunds")
    docket.project.write(cases__one__conftest=HOOKS)
    with edited(docket.project, "pytest.ini", "[pytest]", "[pytest]\naddopts = --no-such-flag"):
        done = ended(docket.replay("cases/one", "cases/two", "--json", agent="fixed"), 1)
        assert done.stderr == ""
        one, two = json.loads(done.stdout)["cases"]
        assert (one["word"], one["state"], one["to_read"]) == ("holds", "fixed", ["It is brief"])
        assert two["as_expected"] is False
        docket.project.write(cases__one__conftest="import no_such_module")
        done = ended(docket.replay("cases/one", agent="fixed"), 125)
    assert "pytest cannot load the project" in done.stderr
    assert "No module named 'no_such_module'" in done.stderr


def test_a_runner_of_this_process_that_hangs_keeps_nobody(docket):
    """Neither it, nor the thread that it leaves behind, nor what no signal can interrupt."""
    docket.case(more="semantic: [kindly]\n")
    done = ended(docket.pytest("-o", "agentreplay_timeout=1", agent="hangs"), 1)
    assert "case.yaml: its runner was still running after 1 s, at shop.py:" in done.stdout
    assert "\n  left behind: thread worker" in done.stdout
    assert "During handling of" not in done.stdout
    assert "1 failed" in done.stdout, "the session goes on after it"
    done = ended(docket.replay("cases/refund", "--timeout", "0.5", agent="stuck"), 125)
    assert "and nothing can end it but the end of this process" in done.stderr


def test_what_cannot_be_meant_is_usage(docket, typed, monkeypatch):
    docket.case()
    monkeypatch.chdir(docket.root)
    for words, said in (
        ("cases/refund --runner refunds --runner-cmd x", "give one of them"),
        ("--json recorded.json", "these flags are for cases"),
        ("cases/refund --timeout 0", "invalid seconds value"),
    ):
        told = typed("replay", *words.split())
        assert (told.code, said in told.err) == (2, True), words
    assert "did you mean refunds?" in ended(docket.replay("cases/refund", "--runner", "refund"), 125).stderr
    assert "case.yaml: there is no such file" in ended(docket.replay("cases/gone/case.yaml"), 125).stderr
    with edited(docket.project, "pytest.ini", "agentreplay_runners", "agentreplay_timeot = 3\nagentreplay_runners"):
        done = ended(docket.replay("cases/refund"), 125)
    said = r"agentreplay: .*pytest\.ini: agentreplay_timeot is not a setting: did you mean agentreplay_timeout\?\n"
    assert done.stdout == ""
    assert re.fullmatch(said, done.stderr)


RAW = """
import ctypes
import shop

def run(messages):
    assert ctypes.CDLL(None).socket(2, 1, 0) < 0, "C opens a socket"
    return shop.run(messages)
"""


@pytest.mark.skipif(sys.platform != "linux" or platform.machine() not in MACHINES, reason="no filter for this system")
def test_the_kernel_closes_the_network_of_a_runner_where_the_ini_file_asks_for_it(docket):
    docket.case()
    docket.project.write(raw=RAW)
    runners = "agentreplay_runners =\n"
    lines = f"addopts = --agentreplay-sandbox=require\n{runners}    raw = raw:run\n"
    with edited(docket.project, "pytest.ini", runners, lines):
        done = ended(docket.replay("cases/refund", "--runner", "raw"), 0)
        assert re.search(r"network +closed by the kernel\n", done.stdout)
        done = ended(docket.replay("cases/refund", "--runner-cmd", COMMAND), 125)
    said = "agentreplay: --agentreplay-sandbox=require: a command reaches its gateway by loopback\n"
    assert (done.stdout, done.stderr) == ("", said)


ELSEWHERE = """
import json, os, urllib.request

told = [os.environ["OPENAI_API_KEY"] == GIVEN, os.environ["SHOP_TOKEN"] == GIVEN]
for there in (os.environ["OPENAI_BASE_URL"] + "/nothing-recorded", "http://shop.invalid/", "http://shop.invalid/"):
    try:
        urllib.request.urlopen(there, timeout=5)
    except OSError:
        pass
result = {"status": "ok", "final_output": told}
open(os.environ["AGENTREPLAY_OUTPUT_PATH"], "w").write(json.dumps(result))
"""


def test_a_command_that_asks_its_proxy_for_another_host_fails_the_case_and_has_no_model_key(docket):
    docket.case()
    key = "sk-proj-" + "0a1B2c3D4e5F6g7H8" * 3
    docket.project.write(odd=ELSEWHERE.replace("GIVEN", repr(key)))
    done = docket.replay("cases/refund", "--runner-cmd", ODD, "--json", OPENAI_API_KEY=key, SHOP_TOKEN=key)
    (case,) = json.loads(done.stdout)["cases"]
    assert (case["word"], case["outcome"]) == ("cannot tell", "failed")
    assert "[AR-NET]" not in case["headline"], "the first divergence is told first"
    for name in ("observed", "desired"):
        assert case[name]["notes"].count("a child asked for shop.invalid, which the gateway does not serve") == 1
    assert case["network"].startswith("open to the command")
    assert json.loads(kept(docket)[1]["runner-output.json"])["final_output"] == [False, True]


def test_several_cases_are_summed_up_cold_ones_say_nothing_and_damaged_ones_are_told(docket):
    docket.case("cold", expect="cold", runner="", more='cold: {reason: "no results", missing: ["a"]}\n')
    assert re.search(r"cannot be replayed: no results \(missing: a\)\n", ended(docket.replay("cases/cold"), 125).stdout)
    docket.case("one")
    docket.case("two", more=STRICT + 'semantic: ["kindly"]\n')
    done = ended(docket.replay("cases/one", "cases/two", "cases/cold"), 0)
    assert done.stdout.splitlines()[-1].startswith(
        "cases: 2 as expected (2 reproduce the failure), 1 cannot be replayed"
    )
    assert done.stdout.splitlines()[-1].endswith("1 check only a person can judge")
    ended(docket.replay("cases/one", "cases/two", agent="fixed"), 1)
    docket.case("odd", edit=lambda text: "id: [\n")
    docket.case("empty")
    (docket.root / "cases/empty/case.yaml").unlink()
    done = ended(docket.replay("cases/one", "cases/odd", "cases/empty", "--json"), 4)
    told = json.loads(done.stdout)
    one, odd, empty = told["cases"]
    assert told["as_expected"] is False
    assert (told["schemaVersion"], one["word"], one["state"]) == ("2.0", "holds", "reproduces")
    assert one["desired"]["checks"][0]["held"] is False
    assert re.match(r"cases/odd/case.yaml:\d+:\d+: ", odd["error"])
    assert empty["error"]


@pytest.mark.parametrize("columns", [80, 120])
def test_the_panel_keeps_to_the_terminal(docket, columns):
    docket.case(more=STRICT + f'semantic: ["{"a long sentence of a person " * 6}"]\n')
    done = docket.replay("cases/refund", COLUMNS=str(columns))
    assert max(map(len, done.stdout.splitlines())) <= columns
    begin = (
        "refund: The agent promises a refund that failed\n  verdict           holds: reproduces (expect: reproduces)\n"
    )
    assert done.stdout.startswith(begin)


def test_a_cluster_is_replayed_after_a_fix(docket):
    for name in ("first", "second"):
        docket.case(name, more="serve: {desired: {model: position, tools: arguments}}\n")
    for agent, code, line in (("broken", 1, "0 of 2 failures gone"), ("rewritten", 0, "2 of 2 failures gone")):
        environ = {"AGENT": agent, "MODEL_URL": "http://127.0.0.1:9"}
        done = ended(docket.project.command("case", "cluster", "cases", "--replay", "1", **environ), code)
        assert f"{line}, 0 cannot be replayed\n" in done.stdout
        assert "gone after 14 runs without it" in done.stdout
