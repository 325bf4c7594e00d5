"""Cases as pytest items: which there are, what each comes to, and how it is told."""

import json
import os
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.support.case_project import SHOP, STRICT, opened
from tests.support.exhaustive import rare
from tests.support.project import NOBODY
from tests.support.small_projects import edited, passed


@pytest.fixture(scope="module")
def project(shared_project):
    return opened(shared_project())


@pytest.fixture
def docket(project):
    project.clear()
    return project


def told(done):
    """The lines of the short summary, without the paths of cases but their folder."""
    assert "INTERNALERROR" not in done.stdout + done.stderr, done.stdout
    assert "During handling" not in done.stdout
    assert "ERROR" not in done.stdout
    summary = done.stdout.partition("short test summary info")[2]
    found = re.findall(r"^([A-Z]+) cases/(\S+)/case\.yaml::(.*)$", summary, re.MULTILINE)
    return [" ".join(parts) for parts in found]


def missing(done, wanted):
    """The lines that are wanted, as far as they are given, and that no line begins with."""
    lines = told(done)
    return [line for line in wanted.strip().splitlines() if not any(said.startswith(line) for said in lines)]


def replacing(old, new):
    return lambda text: text.replace(old, new)


COLD = 'cold: {reason: "tool results were not captured", missing: ["result of lookup_order, call 2"]}\n'

CASES = {
    "frozen": {"runner": ""},
    "refunds": {},
    "waiting": {"runner": "waiting"},
    "back": {"expect": "fixed"},
    "nobody": {"expect": "fixed", "runner": ""},
    "two-runners": {"runner": "{observed: refunds, desired: waiting}"},
    "holds-anyway": {"runner": "", "edit": replacing('  - output: {not_contains: "Here is your refund"}\n', "")},
    "cold": {"expect": "cold", "runner": "", "more": COLD},
    "unknown-runner": {"runner": "refund"},
    "unknown-word": {"edit": replacing("  - tool_called: lookup_order", "  - shorter_than: 20")},
    "odd": {"edit": lambda text: "id: [\n"},
    "lost": {},
    "linked": {},
    "elsewhere": {},
    "terminal": {"edit": replacing("id: terminal", 'id: "\\e[31mred"')},
}
CASES_TOLD = """
PASSED frozen frozen
PASSED refunds refunds
PASSED waiting waiting
FAILED back back - FAILURE REPRODUCED: 2 of 2 observed checks hold, served strict
FAILED nobody nobody - expect: fixed needs today's agent. Write its runner, runner: KEY, in cases/nobody/case.yaml
FAILED two-runners two-runners - not fixed: 1 of 2 desired checks hold. Fix the agent, then run agentreplay replay
FAILED holds-anyway holds-anyway - broken case: all desired checks hold on the recording of the failure
XFAIL cold cold - cannot be replayed: tool results were not captured (missing: result of lookup_order, call 2)
FAILED unknown-runner unknown-runner - no runner 'refund' is declared: did you mean refunds?
FAILED unknown-word unknown-word - cases/unknown-word/case.yaml:15:5: 'shorter_than' is no word of a check
FAILED odd odd - cases/odd/case.yaml:2:1: is no YAML
FAILED lost lost - cases/lost/case.yaml: run.snapshot.json is missing beside it
FAILED linked linked - cases/linked/run.snapshot.json: is not a plain file
FAILED elsewhere elsewhere - cases/elsewhere: lies behind a link
FAILED terminal terminal - cases/terminal/case.yaml:2:1: id is the name of the folder
"""


def test_what_each_case_comes_to_with_the_agent_as_it_was(docket):
    for name, given in CASES.items():
        docket.case(name, **given)
    run = "run.snapshot.json"
    for name in ("lost", "linked"):
        (docket.root / "cases" / name / run).unlink()
    (docket.root / "cases/linked" / run).symlink_to(docket.recorded)
    os.replace(docket.root / "cases/elsewhere", docket.root / "outside")
    (docket.root / "cases/elsewhere").symlink_to(docket.root / "outside")
    done = docket.pytest("-rA", COLUMNS="300")
    assert missing(done, CASES_TOLD) == [], done.stdout
    assert done.returncode == 1
    assert (
        "cases: 3 as expected (3 reproduce the failure), 1 cannot be replayed, 2 changed, 1 broken, 1 no runner\n"
        in done.stdout
    )
    assert "agentreplay_runners = refund = shop.cases:run_refund" in done.stdout
    assert "agentreplay_runners = KEY = shop.cases:run_refund" in done.stdout
    assert '--runner-cmd "python agent.py"' in done.stdout
    assert "\x1b" not in done.stdout, "nothing of a case acts on the terminal"
    assert "11 failed, 3 passed, 1 xfailed" in done.stdout, "a case is one item"
    back = done.stdout.partition("_ back _")[2].partition("_ elsewhere _")[0]
    assert "if a fix has held before, find the commit that undid it:  git bisect start HEAD" in back
    assert "git bisect run agentreplay replay cases/back\n" in back
    assert "agentreplay show cases/back/run.snapshot.json" in back
    assert "expect: reproduces" not in back


HOOKS = """
import shop

def pytest_agentreplay_runners():
    return {"told": shop.run}

def pytest_agentreplay_assertions():
    return {"shorter_than": lambda wanted, run: len(run.output) < wanted, "loud": lambda wanted, run: "it is not"}

def pytest_agentreplay_judge(case, sentence, evidence):
    return True if sentence == "It is kind" else None
"""


def in_words(text):
    return re.sub(r"desired:\n(  - .*\n)+", 'semantic: ["It says so kindly"]\n', text)


OTHER_WORDS = replacing("  - tool_called: lookup_order", "  - shorter_than: 20\n  - loud: true")

FIXED = {
    "open": {},
    "fixed": {"expect": "fixed", "runner": "told"},
    "hooks": {"more": STRICT + 'semantic: ["It is kind", "It is brief"]\n', "edit": OTHER_WORDS},
    "untrue": {"expect": "fixed", "edit": replacing("tool_failed: refund", "tool_failed: lookup_order")},
    "words": {"expect": "fixed", "more": STRICT + 'semantic: ["It says so kindly", "It names a time"]\n'},
    "only-words": {"edit": in_words},
}
FIXED_TOLD = """
FAILED open open - the failure no longer reproduces; all desired checks hold. Set expect: fixed in cases/open/case.yaml
PASSED fixed fixed
FAILED hooks hooks - fails differently: 1 of 2 observed checks hold, 3 of 4 desired checks hold. Compare with agentreplay
FAILED untrue untrue - broken case: the observed checks do not hold on its own recording (1 of 2 observed checks hold)
PASSED words words
FAILED only-words only-words - the failure no longer reproduces (1 of 2 observed checks hold); 1 check only a person can judge
"""


def test_what_each_case_comes_to_with_a_fixed_agent_and_hooks(docket):
    for name, given in FIXED.items():
        docket.case(name, **given)
    docket.project.write(cases__conftest=HOOKS)
    done = docket.pytest("-rA", agent="fixed", COLUMNS="200")
    assert missing(done, FIXED_TOLD) == [], done.stdout
    assert done.returncode == 1
    assert "cases/untrue/case.yaml:11:5" in done.stdout
    assert "4 checks only a person can judge" in done.stdout


OTHER_TOLD = """
FAILED strict strict - cannot tell whether the failure reproduces: today's run left its recording: [AR-PROMPT] turn 1/3: model m-1
FAILED lax lax - FAILURE REPRODUCED: 2 of 2 observed checks hold, served model position, tools arguments, other strict
"""


def test_a_run_that_left_the_frozen_one_shows_nothing_and_one_by_position_no_proof(docket):
    docket.case("strict")
    docket.case("lax", expect="fixed", more="")
    done = docket.pytest("-rA", agent="other", COLUMNS="250")
    assert missing(done, OTHER_TOLD) == [], done.stdout
    assert "serve: {observed: {model: position, tools: arguments}}" in done.stdout
    assert "--snapshot-record" not in done.stdout, "a case is not recorded anew"
    done = docket.pytest("cases/lax", "-v", agent="rewritten")
    assert done.returncode == 0, done.stdout
    assert "cases: 1 as expected (1 fixed on recorded replies)" in done.stdout


DEAD_TOLD = """
FAILED open open - cannot tell whether the failure reproduces: the agent dies before it asks for anything
FAILED fixed fixed - cannot tell whether the failure reproduces: the agent dies before it asks for anything
FAILED meant meant - cannot tell whether the failure reproduces: the agent dies before it asks for anything
"""
STUMBLING_TOLD = (
    "FAILED meant meant - fails differently: 0 of 2 observed checks hold, and the agent ends with an error. "
    "Compare with agentreplay show cases/meant/run.snapshot.json"
)


def test_an_agent_that_dies_or_fails_otherwise_shows_neither_failure_nor_fix(docket):
    unasked = replacing("  - tool_called: lookup_order\n", "")
    docket.case("open", more="", edit=unasked)
    docket.case("fixed", expect="fixed", more="", edit=unasked)
    docket.case("meant", edit=replacing("desired:\n", "desired:\n  - error: {class: KeyError}\n"))
    done = docket.pytest("-rA", agent="dies", COLUMNS="200")
    assert missing(done, DEAD_TOLD) == [], done.stdout
    assert "note  the agent ended with KeyError: 'no such customer'" in done.stdout
    done = docket.pytest("-rA", "-k", "meant", agent="stumbles", COLUMNS="200")
    assert missing(done, STUMBLING_TOLD) == [], done.stdout
    assert "note  the agent ended with TypeError: what now" in done.stdout


@pytest.mark.parametrize(("agent", "words"), [("broken", ()), ("other", ()), ("fixed", ("-vv",))])
def test_what_people_are_told(docket, agent, words):
    """Kept in `golden`; AGENTREPLAY_WRITE_GOLDEN=1 writes them anew."""
    expect = "fixed" if agent == "broken" else "reproduces"
    docket.case(expect=expect, more=STRICT + 'semantic: ["It says so kindly"]\n')
    said = docket.pytest(*words, agent=agent).stdout.partition("FAILURES")[2].partition("\n")[2]
    said = re.sub(r" in [\d.]+s|=+|(?<= )/\S*/shop.py", "", said)
    golden = Path(__file__).with_name("golden") / f"case-{agent}{''.join(words)}.txt"
    if os.environ.get("AGENTREPLAY_WRITE_GOLDEN"):
        golden.write_text(said, encoding="utf-8")
    assert said.splitlines() == golden.read_text(encoding="utf-8").splitlines()


def test_what_is_no_runner_is_told(docket):
    docket.case()
    name = "name the function in agentreplay_runners: refunds = shop.cases:run_refund"
    for path, said in {
        "shop:gone": f"there is no gone in shop; {name}",
        "shop:PROMPTS": f"there is no PROMPTS in shop: did you mean PROMPT? {name}",
        "gone:run": f"gone cannot be imported: ModuleNotFoundError(\"No module named 'gone'\"); {name}",
        "shop:PROMPT": f"is str, and no function; {name}",
    }.items():
        done = docket.pytest("-rA", "-o", f"agentreplay_runners=refunds = {path}", COLUMNS="300")
        assert said in "\n".join(told(done))
    done = docket.pytest("-o", "agentreplay_runners=refunds = shop.run")
    assert done.returncode == 4
    assert "names no function; write it like refunds = shop.cases:run_refund" in done.stderr
    docket.case(runner="told")
    docket.project.write(cases__conftest="def pytest_agentreplay_runners():\n    return {'told': 'shop.run'}\n")
    assert "gives a dict of functions by key" in "\n".join(told(docket.pytest("-rA", COLUMNS="200")))


# Collection and other plugins.


def test_nothing_of_a_case_runs_while_it_is_collected_and_a_foreign_file_of_that_name_is_left_alone(docket):
    docket.case()
    other = docket.root / "suite" / "case.yaml"
    other.parent.mkdir(exist_ok=True)
    other.write_text("input: 1\noutput: 2\n", encoding="utf-8")
    with edited(docket.project, "shop.py", SHOP, "raise SystemExit('imported')"):
        done = passed(docket.pytest("--co", "-q", "cases", "suite"))
    listed = [line for line in done.stdout.splitlines() if "::" in line]
    assert listed == ["cases/refund/case.yaml::refund"]


def test_selection_by_marker_label_and_word(docket):
    docket.case("one", more=STRICT + "labels: [refund, slow-bank, skip]\n")
    docket.case("two")
    one, two = ["cases/one/case.yaml::one"], ["cases/two/case.yaml::two"]
    wanted = {
        ("-m", "agentreplay_case"): [*one, *two],
        ("-m", "slow_bank and label_skip", "-k", "slow-bank"): one,  # a label is data, and skips nothing
        ("-k", "two"): two,
        ("cases/one/case.yaml::one",): one,
    }
    for words, items in wanted.items():
        done = docket.pytest("--co", "-q", "--strict-markers", *words)
        assert [line for line in done.stdout.splitlines() if "::" in line] == items, words


def test_last_failed_runs_a_failed_case_again_and_runxfail_fails_a_cold_one(docket):
    docket.case()
    docket.case("cold", expect="cold", runner="", more=COLD)
    words = ("-p", "pytest_agentreplay.plugin", "cases")
    environ = {"AGENT": "broken", "MODEL_URL": NOBODY}
    done = docket.project.child("pytest", *words, "-rA", "--runxfail", COLUMNS="200", **environ)
    assert missing(done, "FAILED cold cold - tool results were not captured") == [], done.stdout
    assert "1 xfailed" in docket.project.child("pytest", *words, "--lf", "-q", **environ).stdout


@pytest.mark.parametrize("dist", ["load", *rare("loadscope", "loadfile", "loadgroup", "worksteal", "each")])
def test_xdist_brings_the_verdicts_together(docket, dist):
    for name in ("a", "b", "c"):
        docket.case(name)
    done = passed(docket.pytest("-p", "xdist.plugin", "-n", "2", "--dist", dist, "-q"))
    assert "cases: 3 as expected (3 reproduce the failure)" in done.stdout


ANNOTATING = """
import json

def pytest_runtest_logreport(report):
    if report.failed:
        crash = report.longrepr.reprcrash
        print(json.dumps([report.location[:2], crash.path, crash.lineno, crash.message]))
"""


def test_junit_has_the_facts_and_an_annotation_stands_at_the_check_that_failed(docket):
    """The plugin of GitHub's annotations reads where a report is, and the one line of its crash."""
    docket.project.write(annotating=ANNOTATING)
    wants_more = replacing('output: {not_contains: "Here', 'output: {contains: "Here')
    docket.case(expect="fixed", more=STRICT + 'semantic: ["kindly"]\n', edit=wants_more)
    docket.case("odd", edit=lambda text: text.replace("status", "stat").replace("expect:", "expects:"))
    words = ("--junitxml=out.xml", "-o", "junit_family=xunit1", "-p", "annotating", "-q", "-s")
    done = docket.pytest(*words, agent="fixed")
    found = {case.get("classname"): case for case in ET.parse(docket.root / "out.xml").iter("testcase")}
    case = found["cases.refund.case.yaml"]
    assert case.get("name") == "refund"
    assert {one.get("name"): one.get("value") for one in case.iter("property")} == {
        "agentreplay.case": "refund",
        "agentreplay.expect": "fixed",
        "agentreplay.verdict": "changed",
        "agentreplay.state": "not fixed",
        "agentreplay.served": "strict (model 3 strict, tools 2 strict)",
        "agentreplay.to_read": "1",
    }
    rows = [json.loads(found) for found in re.findall(r"^[F.]*(\[\[.*)$", done.stdout, re.MULTILINE)]
    file = "cases/refund/case.yaml"
    assert [[file, 13], str(docket.root / file), 14] in [row[:3] for row in rows], done.stdout
    odd = next(row for row in rows if "odd" in row[3])
    assert odd[0] == ["cases/odd/case.yaml", odd[2] - 1]
    assert re.match(rf"cases/odd/case.yaml:{odd[2]}:\d+: ", odd[3])


@pytest.mark.parametrize(
    ("ini", "args", "said"),
    [
        ("testpaths = tests", (), "testpaths does not name it"),
        ("norecursedirs = cases", (), "norecursedirs names it (cases)"),
        ("testpaths = tests cases", (), ""),
        *rare(("testpaths = tests", ("test_shop.py",), ""), ("", (), "")),
    ],
)
def test_a_header_line_tells_of_cases_that_nobody_runs(docket, ini, args, said):
    docket.case()
    (docket.root / "tests").mkdir(exist_ok=True)
    with edited(docket.project, "pytest.ini", "pythonpath = .", f"pythonpath = .\n{ini}"):
        done = docket.project.run("--co", *args)
    warned = [line for line in done.stdout.splitlines() if "WARNING" in line]
    assert len(warned) == bool(said), done.stdout
    assert not said or said in warned[0]


def test_secrets_are_not_shown_and_a_frozen_run_that_was_edited_is_no_evidence_on_ci(docket):
    docket.case("fixed", expect="fixed")
    run = docket.case("edited").with_name("run.snapshot.json")
    run.write_text(run.read_text(encoding="utf-8").replace("Here is your refund", "Here is your new refund"), "utf-8")
    plain = 'return "The refund failed." if'
    with edited(docket.project, "shop.py", plain, 'return "Here is your refund " + os.environ["MODEL_API_KEY"] if'):
        done = docket.pytest("-vv", "-rA", agent="fixed", CI="1", COLUMNS="200")
    told = "FAILED edited edited - cases/edited/run.snapshot.json: was edited after it was recorded"
    assert missing(done, told) == [], done.stdout
    assert "[[redacted:" in done.stdout
    assert docket.project.environ["MODEL_API_KEY"] not in done.stdout + done.stderr
