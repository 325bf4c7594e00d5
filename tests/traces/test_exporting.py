"""Our own cases in the words of other tools: what comes of them holds, and what has no word is told."""

import json
import os
import re
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.cli import main
from pytest_agentreplay.runs.case_files import export
from pytest_agentreplay.runs.cases import stored_case
from pytest_agentreplay.traces.exporting import TARGETS, evals, otlp, pytest_file
from pytest_agentreplay.traces.exporting.subject import Subject, trace_of
from pytest_agentreplay.traces.reading import traces
from pytest_agentreplay.traces.trace import ModelCall, ToolRun, Trace, TraceFault
from pytest_agentreplay.traces.trace import Source as TraceSource

ROOT = Path(__file__).parents[2]
CASES = sorted(file.parent for file in ROOT.glob("cases/*/case.yaml") if (file.parent / "run.snapshot.json").exists())
REFUND = ROOT / "cases" / "refund-claims-success"
LITTLE = Trace(source=TraceSource(format="snapshot"), id="t", name="t")
LOADING = re.compile(r"load\([^)]*\)")


def exported(folder, target):
    """The files of an export by name, and its losses."""
    out = export.export_case(folder, target)
    return dict(out.files), out.losses


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with the case of the refund."""
    shutil.copytree(REFUND, tmp_path / "cases" / REFUND.name)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_same_case_gives_the_same_files():
    assert len(CASES) >= 5
    for folder, target in product(CASES, TARGETS):
        assert exported(folder, target) == exported(folder, target), (folder, target)


@pytest.mark.process
def test_pytest_files_are_green_on_the_frozen_runs_and_red_on_others(tmp_path):
    def write(name, text, folder=None):
        if folder:  # load the run of this case, wherever pytest is run
            text = LOADING.sub(f"load({(folder / 'run.snapshot.json').as_posix()!r})", text)
        (tmp_path / name).write_text(text, encoding="utf-8")

    write("pytest.ini", "[pytest]\n")
    for folder in CASES:
        for name, text in exported(folder, "pytest")[0].items():
            assert f"load(pytestconfig.rootpath / 'cases/{folder.name}/run.snapshot.json')" in text
            write(name, text, folder)
    other = exported(CASES[0], "pytest")[0]["test_order_lookup_privacy.py"]
    write("test_other.py", other, CASES[1])
    write("test_nowhere.py", other)
    environ = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "pytest_agentreplay.plugin"]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=120)
    told = done.stdout + done.stderr
    assert f"2 failed, {2 * len(CASES)} passed, {len(CASES) + 1} xfailed, 3 errors" in told
    assert set(re.findall(r"^(?:FAILED|ERROR) (\w+\.py)", told, re.MULTILINE)) == {"test_other.py", "test_nowhere.py"}


def test_promptfoo_asserts_what_is_desired():
    files, losses = exported(ROOT / "cases" / "order-lookup-privacy", "promptfoo")
    document = yaml.safe_load(files["order_lookup_privacy.promptfoo.yaml"])
    (test,) = document["tests"]
    assert json.loads(test["vars"]["input"])["arguments"]["user_id"] == "u-7"
    called = {"name": "lookup_orders", "mode": "partial", "args": {"user_id": "u-7"}}
    wanted = {"type": "trajectory:tool-args-match", "value": called}
    assert test["assert"] == [wanted, {"type": "contains", "value": "A-1002"}]
    assert document["tracing"]["enabled"] is True
    assert any("no_identity_but" in loss for loss in losses)


STEP = {"name": "t", "arguments": {"a": 1}}
WANTED = [
    ("tool_called", {"name": "t", "at_most": 2}, [{"name": "t", "min": 1, "max": 2}]),
    ("tool_called", {"name": "t", "at_least": 0, "at_most": 2}, [{"name": "t", "min": 0, "max": 2}]),
    ("tool_called", STEP | {"times": 2}, [{"a": 1}, "times"]),
    ("tool_called", STEP | {"at_least": 1}, [{"a": 1}]),
    ("tool_called", STEP | {"at_least": 0, "at_most": 1}, []),
    ("tool_called", {"name": "t", "arguments": {"$..a": 1}}, []),
    ("tool_not_called", STEP, [{"a": 1}]),
    ("tool_order", {"equal": [STEP]}, [{"mode": "exact", "steps": ["t"]}, "arguments"]),
]


@pytest.mark.parametrize(("word", "wanted", "told"), WANTED)
def test_promptfoo_is_told_no_more_and_no_less_than_the_case_wants(word, wanted, told):
    found = list(evals.assertions(word, wanted))
    assert [one if isinstance(one, str) else one["value"].get("args", one["value"]) for one in found] == told
    assert all(one["type"].startswith("not-") == (word == "tool_not_called") for one in found if isinstance(one, dict))


CHECKS = [
    ("status", "ok"),
    ("output", {"contains": "a", "not_contains": "b", "equals": "c", "matches": "d", "exists": True}),
    ("output", {"path": "$.a", "equals": 1}),
    ("tool_called", {"name": "t", "arguments": {"$.a.b": 1, "c": None}, "times": 2}),
    ("tool_called", {"name": "t", "arguments": {"$.a[*]": 1}}),
    *((word, "t") for word in ("tool_called", "tool_not_called", "tool_failed", "repeated_call")),
    ("forbidden_tools", ["t", "u"]),
    *(("tool_order", {order: ["t", "u"]}) for order in ("equal", "multiset")),
    ("repeated_call", {"name": "t", "at_least": 3}),
    *((word, {"at_most": 3}) for word in ("turns", "tokens", "cost", "duration")),
    ("error", {"class": "KeyError"}),
    ("exchange", {"at": 1, "side": "reply", "path": "$.a", "exists": True}),
    *(("no_secret_in_output", True), ("no_identity_but", "$.user_id"), ("a_word_of_a_hook", {"any": ["thing"]})),
]


@pytest.mark.parametrize("target", ["pytest", "promptfoo", "openai-evals"])
def test_a_check_is_said_or_told_as_lost(target):
    without = said(TARGETS[target].write(Subject(id="x", trace=LITTLE)))
    wrong = []
    for check in CHECKS:
        out = TARGETS[target].write(Subject(id="x", trace=LITTLE, desired=(check,)))
        lost = any(loss.startswith(f"desired {check[0]}:") for loss in out.losses)
        wrong += [check] if lost == (said(out) != without) else []
    assert not wrong, wrong


def said(out):
    """What the files say, comments apart."""
    rows = [row for _, text in out.files for row in text.splitlines() if not row.lstrip().startswith("#")]
    return [row for row in rows if "xfail" not in row and not row.startswith("def test_")]


@given(st.text(), st.text(), st.text())
def test_a_pytest_file_is_python_whatever_a_case_holds(title, words, name):
    called = ("tool_called", {"name": name, "arguments": {words: title}})
    told = {"observed": (called, ("theirs", {"text": words})), "calls": ((name, {words: title}),), "semantic": (words,)}
    desired = (("output", {"not_contains": words, "matches": title}), ("tool_not_called", name))
    subject = Subject(id=name, title=title, folder=words, trace=LITTLE, desired=desired, **told)
    ((file, text),) = pytest_file.write(subject).files
    compile(text, file, "exec")
    assert file.isascii()


def test_evals_rows_are_two_forms_and_without_an_ideal_there_is_no_sample():
    files, losses = exported(REFUND, "openai-evals")
    row = json.loads(files["refund_claims_success.evals.jsonl"])
    sample = json.loads(files["refund_claims_success.registry.jsonl"])
    asked = [{"role": "user", "content": "Please refund order A-1001, it arrived broken."}]
    assert row["item"]["input"] == sample["input"] == asked
    assert row["item"]["must_not_contain"] == ["I have refunded"]
    assert row["item"]["criteria"] == ["The answer tells the customer why the refund was not made"]
    assert row["sample"]["output_text"].startswith("Done! I have refunded")
    assert sample["ideal"] == ["refund was not made"]
    assert losses[0].startswith("tools and their frozen results")
    out = evals.write_openai_evals(Subject(id="x", trace=LITTLE, desired=(("output", {"not_contains": "a"}),)))
    assert [name for name, _ in out.files] == ["x.evals.jsonl"]
    assert any("registry" in loss for loss in out.losses)


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_spans_come_back_as_the_same_run(folder):
    run = stored_case.frozen(stored_case.read_case(folder / "case.yaml"), strict=False).run
    told = trace_of(run, id=folder.name)
    (back,) = traces([(name, text.encode()) for name, text in exported(folder, "otlp")[0].items()])
    assert [facts(step) for step in back.steps] == [facts(step) for step in told.steps]
    assert (back.name, back.status, back.started, back.ended) == (told.name, told.status, told.started, told.ended)
    assert (back.fault, back.missing) == (told.fault, ())


def facts(step):
    """What spans tell of a step."""
    if isinstance(step, ToolRun):
        return step.name, step.call_id, step.arguments, step.seen, step.result, step.fault, step.started, step.ended
    return (
        *(step.provider, step.model, step.parameters, step.messages, step.tools, step.reply),
        *(step.response_model, step.response_id, step.finish_reasons, step.started, step.ended),
        *(step.usage, step.fingerprint),
    )


def test_spans_tell_every_count_of_tokens():
    usage = {"input_tokens": 5, "output_tokens": 4, "cache_read.input_tokens": 2, "reasoning.output_tokens": 3}
    call = ModelCall(model="m", messages=({"role": "user", "parts": [{"type": "text", "content": "a"}]},), usage=usage)
    out = otlp.write(Subject(id="a", trace=Trace(source=TraceSource(format="snapshot"), steps=(call,))))
    (back,) = traces([(name, text.encode()) for name, text in out.files])
    assert back.model_calls[0].usage == usage


def test_a_stopped_run_is_an_error_at_its_root():
    call = ModelCall(model="m", parameters={"stop": "x", "tool_choice": "auto"}, fault=TraceFault("HTTP 500", "no"))
    source, fault = TraceSource(format="snapshot"), TraceFault("StepLimit", "5 steps")
    out = otlp.write(Subject(id="a", trace=Trace(source=source, name="a", steps=(call,), fault=fault)))
    root, chat = json.loads(out.files[0][1])["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert root["status"] == {"message": "5 steps", "code": 2}
    assert chat["status"]["code"] == 2
    stops = {"arrayValue": {"values": [{"stringValue": "x"}]}}
    assert {"key": "gen_ai.request.stop_sequences", "value": stops} in chat["attributes"]
    assert any("tool_choice" in loss for loss in out.losses)


def test_the_verb_writes_once_and_over_nothing(project, capsys):
    words = ["case", "export", "cases/refund-claims-success", "--to", "promptfoo"]
    assert main(words) == 0
    assert "refund_claims_success.promptfoo.yaml: written" in capsys.readouterr().out
    assert main(words) == 0
    assert "refund_claims_success.promptfoo.yaml: unchanged" in capsys.readouterr().out
    file = project / "refund_claims_success.promptfoo.yaml"
    file.write_text("mine")
    assert main(words) == 2
    assert "holds something else; --force" in capsys.readouterr().err
    assert file.read_text() == "mine"
    assert main([*words, "--force"]) == 0
    assert file.read_text().startswith("# Made of cases/refund-claims-success")
    (project / "refund_claims_success.registry.jsonl").write_text("mine")
    assert main([*words[:-1], "openai-evals"]) == 2
    assert not (project / "refund_claims_success.evals.jsonl").exists(), "one file in the way keeps all from it"


EVALS, SAMPLES = "refund_claims_success.evals.jsonl", "refund_claims_success.registry.jsonl"


@pytest.mark.parametrize(
    ("out", "there"),
    [([], [EVALS, SAMPLES]), (["-o", "rows.jsonl"], [SAMPLES, "rows.jsonl"]), (["--out", "cases"], [])],
)
def test_the_verb_writes_where_it_is_told_to(project, out, there):
    assert main(["case", "export", "cases/refund-claims-success/case.yaml", "--to", "openai-evals", *out]) == 0
    assert sorted(file.name for file in project.glob("*.jsonl")) == there
    assert len([*project.rglob("*.jsonl")]) == 2


def test_a_cold_case_cannot_go_out(project, capsys):
    shutil.copytree(ROOT / "cases" / "booking-lost", project / "cases" / "booking-lost")
    (project / "cases" / "booking-lost" / "run.snapshot.json").unlink(missing_ok=True)
    assert main(["case", "export", "cases/booking-lost", "--to", "otlp"]) == 4
    assert "cannot be replayed, and no run is kept beside it" in capsys.readouterr().err
