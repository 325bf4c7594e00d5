"""`agentreplay replay CASE`: by a runner, by a command in a process of its own, or as it is frozen."""

import json
import os
import platform
import re
import sys
import time

import pytest

from pytest_agentreplay.demo.script import Ask
from pytest_agentreplay.intercept.network.sandbox import MACHINES
from tests.docket import STRICT, opened
from tests.support.project import refunds

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
result = {"run_id": "r-1", "status": "ok", "final_output": shop.run(given["messages"]), "tool_calls": CALLS, "errors": []}
pathlib.Path(os.environ["REPLAYKIT_OUTPUT_PATH"]).write_text(json.dumps(result))
"""
CALLS = """[
    {"name": "lookup_order", "arguments": {"order_id": "A-17"}, "result": {"order": "A-17"}},
    {"tool_name": "refund", "tool_args": {"order_id": "A-17"}, "error": "ConnectionError: the bank does not answer"},
]"""
COMMAND = f'"{sys.executable}" main.py'


@pytest.fixture(scope="module")
def project(shared_project):
    made = opened(shared_project())
    made.project.write(main=MAIN.replace("CALLS", CALLS))
    return made


@pytest.fixture
def docket(project):
    project.clear()
    return project


def kept(docket):
    """What is kept of the replays: folder -> name -> text."""
    runs = docket.root / ".agentreplay" / "runs"
    folders = sorted(runs.iterdir()) if runs.exists() else []
    return {one.name: {file.name: file.read_text(encoding="utf-8") for file in one.iterdir()} for one in folders}


def test_what_is_kept_of_an_imported_case_names_nobody(docket):
    docket.case(edit=lambda text: text.replace("format: snapshot", "format: replaykit"))
    person = "jane.doe" + "@" + "corpmail-shop.com"
    says = f'import os, sys; print("{person}"); open(os.environ["AGENTREPLAY_OUTPUT_PATH"], "w").write('
    says += f"""'{{"status": "ok", "final_output": "{person}", "tool_calls": [], "errors": ["{person}"]}}')"""
    docket.project.write(says=says)
    done = docket.replay("cases/refund", "--runner-cmd", f'"{sys.executable}" says.py')
    ((_, files),) = kept(docket).items()
    assert "redacted.invalid" in files["stdout.txt"]
    assert person not in "".join((done.stdout, done.stderr, *files.values()))


def test_a_command_s_result_is_judged_and_kept(docket):
    docket.case()
    done = docket.replay("cases/refund", "--runner-cmd", COMMAND)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert re.search(r"failure reproduced +yes", done.stdout)
    assert re.search(r"desired +1 of 2 hold", done.stdout)
    ((name, files),) = kept(docket).items()
    assert re.fullmatch(r"\d{8}T\d{6}-refund", name)
    assert set(files) == {"result.json", "summary.md", "runner-output.json", "stdout.txt", "stderr.txt"}
    assert f".agentreplay/runs/{name}" in done.stdout
    assert (docket.root / ".agentreplay/.gitignore").read_text() == "*\n"
    assert files["stderr.txt"] == "warned\n"
    assert re.fullmatch(r"hello from \[\[redacted:.+\]\]\n", files["stdout.txt"]), (
        "the key of the environment is a secret"
    )
    assert json.loads(files["runner-output.json"])["final_output"].startswith("Here is your refund")
    assert json.loads(files["result.json"])["as_expected"] is True


def test_a_fixed_agent_in_a_process_of_its_own(docket):
    docket.case(expect="fixed")
    done = docket.replay("cases/refund/case.yaml", "--runner-cmd", COMMAND, agent="fixed")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"failure reproduced +no", done.stdout)
    assert re.search(r"desired +2 of 2 hold", done.stdout)
    again = docket.replay("cases/refund", "--runner-cmd", COMMAND)
    assert again.returncode == 1
    assert again.stdout.startswith("FAILURE REPRODUCED: 2 of 2 checks of its signature hold")


def test_one_that_asks_something_else_shows_nothing(docket):
    docket.case()
    done = docket.replay("cases/refund", "--runner-cmd", COMMAND, agent="other", COLUMNS="200")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "cannot say whether the failure reproduces: today's run left the frozen one: [AR-PROMPT]" in done.stdout


def test_one_that_asks_otherwise_is_answered_by_position(docket):
    docket.case(expect="fixed", more="")
    done = docket.replay("cases/refund", "--runner-cmd", COMMAND, agent="rewritten")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"desired +2 of 2 hold: robust, no proof", done.stdout)
    assert "(model 3 position)" in done.stdout


TROUBLE = {
    "hangs": (
        "import time; time.sleep(60)",
        r"was still running after 1 s and was ended; raise agentreplay_timeout, or --timeout",
    ),
    "crashes": (
        "raise ValueError('no customer')",
        r"ended with 1 and wrote no result\n(  .*\n)+  ValueError: no customer\n",
    ),
    "nothing": ("print('done')", r"wrote no result: write \{.*\} to the file that AGENTREPLAY_OUTPUT_PATH names"),
    "empty": ("out.write_text('')", r"runner-output.json: the runner wrote an empty file"),
    "rubbish": ("out.write_text('{]')", r"runner-output.json:1:2: the runner wrote no JSON"),
    "list": ("out.write_text('[]')", r"runner-output.json: \$: the runner wrote no JSON object"),
    "deep": ("out.write_text('[' * 100000)", r"runner-output.json: "),
    "bytes": ("out.write_bytes(b'\\xff{}')", r"offset 0: the runner's result is not UTF-8"),
    "lacking": ("out.write_text('{}')", r"runner-output.json: \$.status: is missing in the runner's result"),
    "status": ("""out.write_text('{"status": "fine"}')""", r"\$.status: is one of ok, success"),
    "calls": (
        """out.write_text('{"status": "ok", "tool_calls": [{"arguments": {}}]}')""",
        r"\$.tool_calls\[0\].name: is missing",
    ),
    "folder": ("out.mkdir()", r"runner-output.json: is not a plain file"),
    "large": ("out.write_text(' ' * (17 << 20))", r"runner-output.json: .*is larger than|wrote more than"),
}


@pytest.mark.parametrize("trouble", TROUBLE)
def test_a_command_that_tells_nothing_is_told_in_its_own_words(docket, trouble):
    code, said = TROUBLE[trouble]
    docket.case()
    docket.project.write(odd=f"import os, pathlib\nout = pathlib.Path(os.environ['AGENTREPLAY_OUTPUT_PATH'])\n{code}\n")
    limit = ("--timeout", "1") if trouble == "hangs" else ()
    done = docket.replay("cases/refund", *limit, "--runner-cmd", f"{sys.executable} odd.py")
    assert (done.returncode, done.stdout) == (125, ""), done.stdout + done.stderr
    assert "Traceback" not in done.stderr.replace("  Traceback (most recent", "")
    assert re.search(said, done.stderr), done.stderr


@pytest.mark.skipif(os.name == "nt", reason="sh")
def test_a_command_that_hangs_is_ended_with_its_children(docket):
    docket.case()
    docket.project.write(odd="import subprocess, sys\nsubprocess.run([sys.executable, 'heart.py'])\n")
    docket.project.write(
        heart="import time, pathlib\nwhile True:\n    pathlib.Path('beat').write_text(str(time.time()))\n    time.sleep(.05)\n"
    )
    done = docket.replay("cases/refund", "--timeout", "3", "--runner-cmd", f"{sys.executable} odd.py")
    assert done.returncode == 125
    beat = docket.root / "beat"
    last = beat.read_text()
    time.sleep(0.5)
    assert beat.read_text() == last, "its child is dead, too"


def test_a_command_that_is_not_there(docket):
    docket.case()
    done = docket.replay("cases/refund", "--runner-cmd", "no-such-program --now")
    assert done.returncode == 125
    assert "cannot run no-such-program" in done.stderr
    assert docket.replay("cases/refund", "--runner-cmd", "'open").returncode == 125


def test_a_result_that_a_failed_command_wrote_counts(docket):
    docket.case()
    text = """import os, pathlib, sys
pathlib.Path(os.environ['AGENTREPLAY_OUTPUT_PATH']).write_text('''{"status": "error", "final_output": "Here is your refund",
    "tool_calls": [{"name": "refund", "error": "no"}], "errors": ["no", {"type": "X", "message": "y"}]}''')
sys.exit(3)
"""
    docket.project.write(odd=text)
    done = docket.replay("cases/refund", "--json", "--runner-cmd", f"{sys.executable} odd.py")
    assert done.returncode == 0, done.stdout + done.stderr
    (case,) = json.loads(done.stdout)["cases"]
    assert case["halves"][0]["served"] == "nobody: the command asked the gateway for nothing"


def test_the_project_s_own_runner(docket):
    docket.case()
    done = docket.replay("cases/refund")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"served +observed strict \(model 3 strict, tools 2 strict\)", done.stdout)
    assert docket.replay("cases/refund", agent="fixed").returncode == 1
    docket.case(runner="")
    assert docket.replay("cases/refund", "--runner", "waiting", agent="fixed").returncode == 1
    frozen = docket.replay("cases/refund")
    assert frozen.returncode == 0
    assert re.search(r"served +observed the frozen run; desired the frozen run", frozen.stdout)


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
    refused = docket.replay("cases/refund", agent="fixed")
    assert refused.returncode == 2
    assert "which the command line alone allows: agentreplay replay cases/refund/case.yaml --live" in refused.stderr
    skipped = docket.pytest("-rs", agent="fixed", COLUMNS="300")
    assert skipped.returncode == 0, skipped.stdout
    assert "asks the real model, which the command line alone allows" in skipped.stdout
    assert "1 not reproduced, 1 asks live" in skipped.stdout
    assert server.hits == before, "the observed half is strict, and nothing else was allowed"
    server._replies = live
    try:
        done = docket.project.command("replay", "cases/refund", "--live", AGENT="fixed")
        assert done.returncode == 0, done.stdout + done.stderr
        assert re.search(r"desired +2 of 2 hold\n", done.stdout), "a live pass is no mere robustness"
        told = " ".join(done.stdout.split())
        counted = "(model 3 live, tools 1 arguments (recorded), tools 1 arguments (within the tolerance))"
        assert counted in told
        assert server.hits == before + 3
        amount[0] = 20.0
        done = docket.project.command("replay", "cases/refund", "--live", AGENT="fixed")
        assert done.returncode == 1, done.stdout + done.stderr
        assert "[AR-ARGS]" in done.stdout
        assert "$.amount" in done.stdout
    finally:
        server._replies = refunds


HOOKS = """
import shop

class Odd(Exception):
    pass

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
    docket.project.edit("pytest.ini", "[pytest]", "[pytest]\naddopts = --no-such-flag")
    try:
        done = docket.replay("cases/one", "cases/two", "--json", agent="fixed")
        assert (done.returncode, done.stderr) == (1, ""), done.stdout + done.stderr
        one, two = json.loads(done.stdout)["cases"]
        assert [half["word"] for half in one["halves"]] == ["not reproduced", "fixed"]
        assert one["halves"][1]["human"] == ["It is brief"]
        assert two["as_expected"] is False
        docket.project.write(cases__one__conftest="import no_such_module")
        done = docket.replay("cases/one", agent="fixed")
        assert done.returncode == 125
        assert "pytest cannot load the project" in done.stderr
        assert "No module named 'no_such_module'" in done.stderr
    finally:
        docket.project.edit("pytest.ini", "[pytest]\naddopts = --no-such-flag", "[pytest]")


def test_a_runner_of_this_process_that_hangs_keeps_nobody(docket):
    """Neither it, nor the thread that it leaves behind, nor what no signal can interrupt."""
    docket.case(more="semantic: [kindly]\n")
    done = docket.pytest("-o", "agentreplay_timeout=1", agent="hangs")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "case.yaml: its runner was still running after 1 s, at shop.py:" in done.stdout
    assert "\n  left behind: thread worker" in done.stdout
    assert "During handling of" not in done.stdout
    assert "2 failed" in done.stdout, "the session goes on after it"
    done = docket.replay("cases/refund", "--timeout", "1", agent="stuck")
    assert done.returncode == 125, done.stdout + done.stderr
    assert "and nothing can end it but the end of this process" in done.stderr


def test_what_cannot_be_meant_is_usage(docket):
    docket.case()
    for words, said in (
        (("cases/refund", "--runner", "refund"), "did you mean refunds?"),
        (("cases/refund", "--runner", "refunds", "--runner-cmd", "x"), "give one of them"),
        (("recorded.json", "--live"), ""),
        (("--live", "recorded.json"), "these flags are for cases"),
        (("cases/refund", "--timeout", "0"), "invalid seconds value"),
    ):
        done = docket.replay(*words)
        assert said in done.stderr, words
        assert done.returncode == 2, (words, done.stderr)


@pytest.fixture
def ini(docket):
    file = docket.root / "pytest.ini"
    before = file.read_text(encoding="utf-8")
    yield lambda lines: file.write_text(before + lines, encoding="utf-8")
    file.write_text(before, encoding="utf-8")


def test_a_setting_that_cannot_be_meant_is_usage_in_a_line(docket, ini):
    docket.case()
    ini("agentreplay_sandbx = require\n")
    done = docket.replay("cases/refund")
    assert (done.returncode, done.stdout) == (2, "")
    said = "pytest.ini: agentreplay_sandbx is not a setting: did you mean agentreplay_sandbox?\n"
    assert done.stderr.startswith("agentreplay: ")
    assert done.stderr.endswith(said)
    assert done.stderr.count("\n") == 1


RAW = """
import ctypes
import shop

def run(messages):
    assert ctypes.CDLL(None).socket(2, 1, 0) < 0, "C opens a socket"
    return shop.run(messages)
"""


@pytest.mark.skipif(sys.platform != "linux" or platform.machine() not in MACHINES, reason="no filter for this system")
def test_the_kernel_closes_the_network_of_a_runner_where_the_ini_file_asks_for_it(docket, ini):
    docket.case()
    docket.project.write(raw=RAW)
    ini("    raw = raw:run\nagentreplay_sandbox = require\n")
    done = docket.replay("cases/refund", "--runner", "raw")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"network +closed \(L3\)\n", done.stdout)
    done = docket.replay("cases/refund", "--runner-cmd", COMMAND)
    said = "agentreplay: agentreplay_sandbox = require: a command reaches its gateway by loopback\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


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


def test_a_command_that_asks_its_proxy_for_another_host_fails_both_halves_and_has_no_model_key(docket):
    docket.case()
    key = "sk-proj-" + "0a1B2c3D4e5F6g7H8" * 3
    docket.project.write(elsewhere=ELSEWHERE.replace("GIVEN", repr(key)))
    done = docket.replay(
        "cases/refund", "--runner-cmd", f'"{sys.executable}" elsewhere.py', "--json", OPENAI_API_KEY=key, SHOP_TOKEN=key
    )
    (case,) = json.loads(done.stdout)["cases"]
    assert [half["outcome"] for half in case["halves"]] == ["failed", "failed"]
    for half in case["halves"]:
        assert "[AR-NET]" not in half["headline"], "the first divergence is told first"
        assert half["notes"].count("a child asked for shop.invalid, which the gateway does not serve") == 1
    assert case["network"].startswith("open to the command")
    ((_, files),) = kept(docket).items()
    assert json.loads(files["runner-output.json"])["final_output"] == [False, True]


def test_a_damaged_case_and_a_cold_one(docket):
    docket.case("cold", expect="cold", runner="", more='cold: {reason: "no results", missing: ["a"]}\n')
    done = docket.replay("cases/cold")
    assert done.returncode == 125
    assert re.search(r"cold +no results \(missing: a\)", done.stdout)
    docket.case("warm")
    assert docket.replay("cases/cold", "cases/warm").returncode == 0, "a cold one among others says nothing"
    assert docket.replay("cases/cold", "cases/cold").returncode == 125
    docket.case("odd", edit=lambda text: "id: [\n")
    done = docket.replay("cases/odd")
    assert done.returncode == 4
    assert re.match(r"agentreplay: cases/odd/case.yaml:\d+:\d+: ", done.stderr)
    docket.case("empty")
    (docket.root / "cases/empty/case.yaml").unlink()
    assert docket.replay("cases/empty").returncode == 4


def test_several_cases_are_summed_up(docket):
    docket.case("one")
    docket.case("two", more=STRICT + 'semantic: ["kindly"]\n')
    done = docket.replay("cases/one", "cases/two")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "2 cases: 2 reproduced, 2 not fixed, needs human 1"
    docket.case("odd", edit=lambda text: "id: [\n")
    assert docket.replay("cases/one", "cases/odd").returncode == 4
    assert docket.replay("cases/one", "cases/two", agent="fixed").returncode == 1


def test_plain_data(docket):
    docket.case()
    done = docket.replay("cases/refund", "--json")
    told = json.loads(done.stdout)
    assert told["as_expected"] is True
    (case,) = told["cases"]
    assert [half["word"] for half in case["halves"]] == ["reproduced", "not fixed"]
    assert case["halves"][1]["checks"][0]["held"] is False


@pytest.mark.parametrize("columns", [80, 120])
def test_the_panel_keeps_to_the_terminal(docket, columns):
    docket.case(more=STRICT + f'semantic: ["{"a long sentence of a person " * 6}"]\n')
    done = docket.replay("cases/refund", COLUMNS=str(columns))
    assert max(map(len, done.stdout.splitlines())) <= columns
    if columns == 120:
        rows = done.stdout.split("needs human")[0].splitlines()
        assert rows == [
            "refund: The agent promises a refund that failed",
            "  failure reproduced    yes",
            "  desired               1 of 2 hold",
            "  ",
        ]


def test_a_command_line_of_windows_is_split_as_people_type_it_there():
    from pytest_agentreplay.runs.command import windows_words

    typed = r'"C:\Program Files\node.exe" agent.js --name="a b" C:\x\y'
    assert windows_words(typed) == [r"C:\Program Files\node.exe", "agent.js", "--name=a b", r"C:\x\y"]
