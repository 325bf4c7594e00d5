"""Cases as pytest items: which there are, what each comes to, and how it is told."""

import json
import os
import re
from pathlib import Path

import pytest

from tests.docket import STRICT, opened


@pytest.fixture(scope="module")
def project(shared_project):
    return opened(shared_project())


@pytest.fixture
def docket(project):
    project.clear()
    return project


def outcomes(done):
    """What `-rA` says of each item: its outcome and its line."""
    assert "INTERNALERROR" not in done.stdout + done.stderr, done.stdout
    summary = done.stdout.partition("short test summary info")[2]
    found = re.findall(r"^([A-Z]+) \S*?::(\w+)(?: - (.*))?$", summary, re.MULTILINE)
    return {name: (word, said) for word, name, said in found}


def test_a_frozen_failure_without_a_runner_reproduces_and_is_not_fixed_yet(docket):
    docket.case(runner="")
    done = docket.pytest("-rA", COLUMNS="200")
    told = outcomes(done)
    assert done.returncode == 0, done.stdout
    assert told["observed"][0] == "PASSED"
    assert told["desired"] == ("XFAIL", "not fixed yet: 1 of 2 hold")
    assert "1 case: 1 reproduced, 1 not fixed" in done.stdout


@pytest.mark.parametrize(("agent", "words"), [("broken", ()), ("fixed", ()), ("other", ()), ("fixed", ("-vv",))])
def test_what_people_are_told(docket, agent, words):
    """Kept in `golden`; AGENTREPLAY_WRITE_GOLDEN=1 writes them anew."""
    docket.case(
        expect="fixed" if agent == "broken" else "reproduces", more=STRICT + 'semantic: ["It says so kindly"]\n'
    )
    said = docket.pytest(*words, agent=agent).stdout.partition("FAILURES")[2].partition("\n")[2]
    said = re.sub(r" in [\d.]+s|=+|(?<= )/\S*/shop.py", "", said)
    golden = Path(__file__).with_name("golden") / f"case-{agent}{''.join(words)}.txt"
    if os.environ.get("AGENTREPLAY_WRITE_GOLDEN"):
        golden.write_text(said, encoding="utf-8")
    assert said.splitlines() == golden.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("runner", ["refunds", "waiting"])
def test_today_s_broken_agent_reproduces_and_is_not_fixed_yet(docket, runner):
    docket.case(runner=runner)
    done = docket.pytest("-rA", COLUMNS="200")
    told = outcomes(done)
    assert done.returncode == 0, done.stdout
    assert (told["observed"][0], told["desired"]) == ("PASSED", ("XFAIL", "not fixed yet: 1 of 2 hold"))


def test_a_fixed_agent_fails_a_case_that_says_it_reproduces(docket):
    docket.case()
    done = docket.pytest("-rA", agent="fixed", COLUMNS="200")
    told = outcomes(done)
    assert done.returncode == 1
    said = "this failure no longer reproduces: set expect: fixed (1 of 2 checks of its signature hold)"
    assert told["observed"] == ("FAILED", said)
    assert told["desired"] == ("FAILED", "passes unexpectedly: all of desired holds (2 of 2 hold): set expect: fixed")
    assert "if the failure is mended:  set expect: fixed in cases/refund/case.yaml" in done.stdout


def test_a_fixed_agent_passes_what_is_fixed(docket):
    docket.case(expect="fixed")
    done = docket.pytest("-rA", agent="fixed", COLUMNS="200")
    assert done.returncode == 0, done.stdout
    assert {word for word, _ in outcomes(done).values()} == {"PASSED"}
    assert "1 case: 1 not reproduced, 1 fixed" in done.stdout


def test_a_failure_that_is_back_is_said_in_capitals(docket):
    docket.case(expect="fixed")
    done = docket.pytest("-rA", COLUMNS="200")
    told = outcomes(done)
    assert done.returncode == 1
    assert told["observed"] == ("FAILED", "FAILURE REPRODUCED: 2 of 2 checks of its signature hold, served strict")
    assert told["desired"] == ("FAILED", "not fixed: 1 of 2 hold")
    assert "the fix no longer holds; find the commit that undid it:  git bisect start HEAD" in done.stdout
    assert "git bisect run agentreplay replay cases/refund\n" in done.stdout
    assert "agentreplay show cases/refund/run.snapshot.json" in done.stdout
    assert "expect: reproduces" not in done.stdout


def test_what_is_fixed_needs_somebody_who_runs_it(docket):
    docket.case(expect="fixed", runner="")
    done = docket.pytest("-rA", COLUMNS="200")
    assert {said[:18] for _, said in outcomes(done).values()} == {"a runner is needed"}
    assert "agentreplay_runners = KEY = shop.cases:run_refund" in done.stdout
    assert '--runner-cmd "python agent.py"' in done.stdout


def test_a_run_that_left_the_frozen_one_shows_nothing(docket):
    docket.case()
    done = docket.pytest("-rA", agent="other", COLUMNS="200")
    told = outcomes(done)
    assert told["observed"][0] == "FAILED"
    assert told["observed"][1].startswith(
        "cannot say whether the failure reproduces: today's run left the frozen one: [AR-PROMPT] turn 1/3: model m-1"
    )
    assert told["desired"] == ("XFAIL", "not fixed yet: today's run left the frozen one at turn 1/3")
    assert "serve: {observed: {model: position, tools: arguments}}" in done.stdout
    assert "--snapshot-record" not in done.stdout, "a case is not recorded anew"


def test_what_holds_by_position_is_robust_and_no_proof(docket):
    docket.case(expect="fixed", more="")
    done = docket.pytest("-rA", "-v", agent="rewritten", COLUMNS="200")
    assert done.returncode == 0, done.stdout
    assert "1 case: 1 not reproduced, 1 robust" in done.stdout
    assert outcomes(docket.pytest("-rA", COLUMNS="200"))["observed"][1].startswith("FAILURE REPRODUCED")
    told = outcomes(docket.pytest("-rA", agent="other", COLUMNS="250"))["observed"]
    policy = "model position, tools arguments, other strict"
    assert told == ("FAILED", f"FAILURE REPRODUCED: 2 of 2 checks of its signature hold, served {policy}")


def test_words_and_judges_of_hooks(docket):
    docket.case(
        more=STRICT + 'semantic: ["It is kind", "It is brief"]\n',
        edit=lambda text: text.replace("  - tool_called: lookup_order", "  - shorter_than: 20\n  - loud: true"),
    )
    hooks = """
        def pytest_agentreplay_assertions():
            return {"shorter_than": lambda wanted, run: len(run.output) < wanted, "loud": lambda wanted, run: "it is not"}

        def pytest_agentreplay_judge(case, sentence, evidence):
            return True if sentence == "It is kind" else None
    """
    import textwrap

    docket.project.write(cases__conftest=textwrap.dedent(hooks))
    done = docket.pytest("-rA", agent="fixed", COLUMNS="200")
    assert outcomes(done)["desired"] == ("XFAIL", "not fixed yet: 3 of 4 hold")
    assert "needs human 1" in done.stdout
    (docket.root / "cases/conftest.py").unlink()
    assert (
        "FAILED cases/refund/case.yaml::observed - cases/refund/case.yaml:"
        in docket.pytest("-rf", COLUMNS="200").stdout
    )


def test_a_signature_that_is_not_true_of_its_own_run_is_a_broken_case(docket):
    docket.case(expect="fixed", edit=lambda text: text.replace("tool_failed: refund", "tool_failed: lookup_order"))
    done = docket.pytest("-rA", agent="fixed", COLUMNS="200")
    assert outcomes(done)["observed"] == (
        "FAILED",
        "broken case: the failure signature is not true of its own frozen run (1 of 2 hold)",
    )
    assert "cases/refund/case.yaml:11:5" in done.stdout


def test_desired_with_a_runner_of_its_own_stands_on_its_own_feet(docket):
    docket.case(runner="{observed: refunds, desired: waiting}")
    told = outcomes(docket.pytest("-rA", COLUMNS="200"))
    assert (told["observed"][0], told["desired"]) == ("PASSED", ("FAILED", "not fixed: 1 of 2 hold"))


def test_a_case_whose_desired_half_holds_on_the_frozen_run_tells_nothing(docket):
    docket.case(runner="", edit=lambda text: text.replace('  - output: {not_contains: "Here is your refund"}\n', ""))
    told = outcomes(docket.pytest("-rA", COLUMNS="200"))
    assert told["desired"][1].startswith("broken case: all of desired holds on the frozen run")


def test_checks_in_words_are_counted_and_never_passed_over(docket):
    docket.case("one", expect="fixed", more=STRICT + 'semantic: ["It says so kindly", "It names a time"]\n')
    desired = re.compile(r"desired:\n(  - .*\n)+")
    docket.case("two", edit=lambda text: desired.sub('semantic: ["It says so kindly"]\n', text))
    done = docket.pytest("-rA", agent="fixed", COLUMNS="200")
    assert "needs human 3" in done.stdout
    assert re.search(r"SKIPPED \[1\] cases/two/case.yaml:\d+: needs human: 1 check in words, and no other", done.stdout)


def test_a_cold_case_is_kept_with_its_reason(docket):
    cold = 'cold: {reason: "tool results were not captured", missing: ["result of lookup_order, call 2"]}\n'
    docket.case(expect="cold", runner="", more=cold)
    done = docket.pytest("-rA", COLUMNS="200")
    assert done.returncode == 0, done.stdout
    said = "cold: tool results were not captured (missing: result of lookup_order, call 2)"
    assert outcomes(done) == {"cold": ("XFAIL", said)}
    assert "1 case: 1 cold" in done.stdout


def test_an_unknown_runner_is_told_with_the_nearest_one(docket):
    docket.case(runner="refund")
    said = outcomes(docket.pytest("-rA", COLUMNS="300"))["observed"][1]
    assert "no runner 'refund' is declared: did you mean refunds?" in said
    assert "agentreplay_runners = refund = shop.cases:run_refund" in said


@pytest.mark.parametrize("expect", ["reproduces", "fixed"])
def test_an_agent_that_dies_before_it_asks_for_anything_shows_neither_failure_nor_fix(docket, expect):
    docket.case(expect=expect, more="", edit=lambda text: text.replace("  - tool_called: lookup_order\n", ""))
    docket.case(
        "meant", expect=expect, edit=lambda text: text.replace("desired:\n", "desired:\n  - error: {class: KeyError}\n")
    )
    done = docket.pytest("-rA", "-k", "refund or desired", agent="dies", COLUMNS="200")
    died = "the agent died before it asked for anything"
    assert f"FAILED cases/refund/case.yaml::observed - cannot say whether the failure reproduces: {died}" in done.stdout
    desired = f"FAILED cases/refund/case.yaml::desired - cannot say whether it is fixed: {died}"
    assert (desired if expect == "fixed" else f"XFAIL cases/refund/case.yaml::desired - not fixed yet: {died}") in (
        done.stdout
    )
    assert "note  the agent ended with KeyError: 'no such customer'" in done.stdout
    assert f"meant/case.yaml::desired - not fixed{'' if expect == 'fixed' else ' yet'}: 1 of 3 hold" in done.stdout


def test_an_agent_that_fails_otherwise_is_not_called_mended(docket):
    docket.case()
    done = docket.pytest("-rA", agent="stumbles", COLUMNS="200")
    said = "this failure no longer reproduces, but the agent fails otherwise (0 of 2 checks of its signature hold)"
    assert outcomes(done)["observed"] == ("FAILED", said)
    assert "note  the agent ended with TypeError: what now" in done.stdout


def test_a_hook_of_a_conftest_declares_runners(docket):
    docket.case(runner="told")
    docket.project.write(
        cases__conftest="import shop\n\ndef pytest_agentreplay_runners():\n    return {'told': shop.run}\n"
    )
    assert outcomes(docket.pytest("-rA"))["observed"][0] == "PASSED"
    docket.project.write(cases__conftest="def pytest_agentreplay_runners():\n    return {'told': 'shop.run'}\n")
    assert "gives a dict of functions by key" in outcomes(docket.pytest("-rA", COLUMNS="200"))["observed"][1]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("refunds = shop.run", "names no runner; write it like refunds = shop.cases:run_refund"),
        ("refunds", "names no runner"),
    ],
)
def test_a_line_that_names_no_runner_is_usage(docket, line, said):
    docket.case()
    done = docket.pytest("-o", f"agentreplay_runners={line}")
    assert done.returncode == 4
    assert said in done.stderr


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("gone:run", "gone cannot be imported"),
        ("shop:gone", "there is no gone in shop"),
        ("shop:PROMPT", "is str, and no function"),
    ],
)
def test_a_runner_that_is_not_there_is_told(docket, path, said):
    docket.case()
    assert (
        said
        in outcomes(docket.pytest("-rA", "-o", f"agentreplay_runners=refunds = {path}", COLUMNS="200"))["observed"][1]
    )


def test_a_broken_file_is_a_failing_item_and_no_other_test_waits_for_it(docket):
    docket.case("fine")
    docket.case("odd", edit=lambda text: "id: [\n")
    docket.case("lost")
    (docket.root / "cases/lost/run.snapshot.json").unlink()
    done = docket.pytest("-rA", COLUMNS="200")
    assert done.returncode == 1
    assert "ERROR" not in done.stdout
    assert re.search(r"FAILED cases/odd/case.yaml::case - cases/odd/case.yaml:\d+:\d+: ", done.stdout)
    assert "PASSED cases/fine/case.yaml::observed" in done.stdout
    assert "cases/lost/case.yaml: run.snapshot.json is missing beside it" in done.stdout
    assert "During handling" not in done.stdout


def test_nothing_of_a_case_runs_while_it_is_collected(docket):
    docket.case()
    docket.project.write(shop="raise SystemExit('imported')")
    try:
        done = docket.pytest("--co", "-q")
    finally:
        from tests.docket import SHOP

        docket.project.write(shop=SHOP)
    assert done.stdout.splitlines()[:2] == ["cases/refund/case.yaml::observed", "cases/refund/case.yaml::desired"]
    assert done.returncode == 0, done.stdout


def test_a_file_of_that_name_that_is_somebody_else_s_is_left_alone(docket):
    other = docket.root / "suite" / "case.yaml"
    other.parent.mkdir(exist_ok=True)
    other.write_text("input: 1\noutput: 2\n", encoding="utf-8")
    assert docket.project.run("suite").returncode == 5
    other.unlink()


def test_selection_by_marker_label_and_word(docket):
    docket.case("one", more=STRICT + "labels: [refund, slow-bank, skip]\n")
    docket.case("two")

    def picked(*words):
        done = docket.pytest("--co", "-q", "--strict-markers", *words)
        return [line for line in done.stdout.splitlines() if "::" in line]

    assert len(picked("-m", "agentreplay_case")) == 4
    one = ["cases/one/case.yaml::observed", "cases/one/case.yaml::desired"]
    assert (
        picked("-m", "refund") == picked("-m", "slow_bank") == picked("-k", "slow-bank") == picked("-k", "one") == one
    )
    assert picked("-m", "label_skip") == one, "a label is data, and skips nothing"
    assert picked("-k", "observed and two") == ["cases/two/case.yaml::observed"]
    assert picked("cases/one/case.yaml::desired") == one[1:]


def test_last_failed_runs_the_failed_half_again(docket):
    docket.case(expect="fixed")
    docket.project.plugins = ("pytest_agentreplay.plugin",)
    try:
        docket.pytest(agent="broken")
        done = docket.pytest("--lf", "-q", agent="fixed")
        assert "2 passed" in done.stdout, done.stdout
    finally:
        docket.project.plugins = ("pytest_agentreplay.plugin", "no:cacheprovider")


@pytest.mark.parametrize("dist", ["load", "loadscope", "loadfile", "loadgroup", "worksteal", "each"])
def test_xdist_brings_the_verdicts_together(docket, dist):
    docket.project.plugins += ("xdist.plugin",)
    try:
        for name in ("a", "b", "c"):
            docket.case(name)
        words = ("--dist", dist) if dist != "each" else ("--dist", "each")
        done = docket.pytest("-n", "2", *words, "-q")
        assert done.returncode == 0, done.stdout
        assert "3 cases: 3 reproduced, 3 not fixed" in done.stdout
    finally:
        docket.project.plugins = docket.project.plugins[:2]


def test_junit_has_the_facts(docket):
    from xml.etree import ElementTree as ET

    docket.case(more=STRICT + 'semantic: ["kindly"]\n')
    docket.pytest("--junitxml=out.xml", "-o", "junit_family=xunit1", agent="fixed")
    found = {case.get("name"): case for case in ET.parse(docket.root / "out.xml").iter("testcase")}
    assert found["observed"].get("classname") == "cases.refund.case.yaml"
    facts = {one.get("name"): one.get("value") for one in found["desired"].iter("property")}
    assert facts == {
        "agentreplay.case": "refund",
        "agentreplay.half": "desired",
        "agentreplay.expect": "reproduces",
        "agentreplay.served": "strict",
        "agentreplay.verdict": "fixed",
        "agentreplay.needs_human": "1",
    }
    message = found["observed"].find("failure").get("message")
    assert message == "this failure no longer reproduces: set expect: fixed (1 of 2 checks of its signature hold)"


def test_a_debugger_s_way_out_of_xfail_shows_what_is_not_fixed(docket):
    docket.case()
    done = docket.pytest("-rA", "--runxfail", COLUMNS="200")
    assert outcomes(done)["desired"] == ("FAILED", "not fixed yet: 1 of 2 hold")


@pytest.mark.parametrize(
    ("ini", "args", "said"),
    [
        ("testpaths = tests", (), "testpaths does not name it"),
        ("norecursedirs = cases", (), "norecursedirs names it (cases)"),
        ("testpaths = tests cases", (), ""),
        ("testpaths = tests", ("test_shop.py",), ""),
        ("", (), ""),
    ],
)
def test_a_header_line_tells_of_cases_that_nobody_runs(docket, ini, args, said):
    docket.case()
    (docket.root / "tests").mkdir(exist_ok=True)
    ini_file = docket.root / "pytest.ini"
    before = ini_file.read_text(encoding="utf-8")
    ini_file.write_text(before + ini + "\n", encoding="utf-8")
    try:
        done = docket.project.run("--co", *args)
    finally:
        ini_file.write_text(before, encoding="utf-8")
    warned = [line for line in done.stdout.splitlines() if "WARNING" in line]
    assert len(warned) == bool(said), done.stdout
    assert not said or said in warned[0]


def test_an_annotation_stands_at_the_check_that_failed(docket):
    """The plugin of GitHub's annotations reads where a report is, and the one line of its crash."""
    told = """
        import json

        def pytest_runtest_logreport(report):
            if report.failed:
                crash = report.longrepr.reprcrash
                print(json.dumps([report.location[:2], crash.path, crash.lineno, crash.message]))
    """
    import textwrap

    docket.project.write(annotating=textwrap.dedent(told))
    docket.case(expect="fixed")
    docket.case("odd", edit=lambda text: text.replace("status", "stat").replace("expect:", "expects:"))
    done = docket.pytest("-p", "annotating", "-q", "-s")
    rows = [
        json.loads(line[line.index("[") :])
        for line in done.stdout.splitlines()
        if line.startswith(("[[", "F[[", ".[["))
    ]
    file = str(docket.root / "cases/refund/case.yaml")
    assert [["cases/refund/case.yaml", 13], file, 14, "not fixed: 1 of 2 hold"] in rows, done.stdout
    (odd,) = [row for row in rows if row[1] != file and "observed" not in row[3]][:1]
    assert odd[0] == ["cases/odd/case.yaml", odd[2] - 1]
    assert re.match(rf"cases/odd/case.yaml:{odd[2]}:\d+: ", odd[3])


def test_secrets_of_the_environment_are_not_shown(docket):
    docket.case(expect="fixed")
    docket.project.edit(
        "shop.py", 'return "The refund failed." if', 'return "Here is your refund " + os.environ["MODEL_API_KEY"] if'
    )
    try:
        done = docket.pytest("-vv", agent="fixed")
    finally:
        docket.project.edit(
            "shop.py",
            'return "Here is your refund " + os.environ["MODEL_API_KEY"] if',
            'return "The refund failed." if',
        )
    assert "[[redacted:" in done.stdout
    assert docket.project.environ["MODEL_API_KEY"] not in done.stdout + done.stderr


def test_a_frozen_run_that_was_edited_is_no_evidence_on_ci(docket):
    run = docket.case().with_name("run.snapshot.json")
    run.write_text(
        run.read_text(encoding="utf-8").replace("Here is your refund", "Here is your new refund"), encoding="utf-8"
    )
    done = docket.pytest("-rA", CI="1", COLUMNS="200")
    assert "run.snapshot.json: was edited after it was sealed" in outcomes(done)["observed"][1]


def test_what_leads_out_of_a_case_s_folder_is_not_followed(docket):
    run = docket.case().with_name("run.snapshot.json")
    run.unlink()
    run.symlink_to(docket.recorded)
    assert "is not a plain file" in outcomes(docket.pytest("-rA", COLUMNS="200"))["observed"][1]
    docket.clear()
    elsewhere = docket.root / "elsewhere"
    docket.case()
    os.replace(docket.root / "cases/refund", elsewhere)
    (docket.root / "cases/refund").symlink_to(elsewhere)
    assert "behind a link" in outcomes(docket.pytest("-rA", COLUMNS="200"))["observed"][1]


def test_nothing_of_a_case_acts_on_the_terminal(docket):
    docket.case(edit=lambda text: text.replace("id: refund", 'id: "\\e[31mred"'))
    done = docket.pytest("-rA")
    assert "\x1b" not in done.stdout
    assert done.returncode == 1, "and it is no id"
