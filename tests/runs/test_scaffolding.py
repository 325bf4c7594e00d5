"""From a trace to the files of a case: what is inferred is true, what is kept is importable, nothing secret is in it."""

from __future__ import annotations

import base64
import gzip
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_agentreplay.cases import fixtures
from pytest_agentreplay.cases.case import Case, Check
from pytest_agentreplay.cases.evidence import frozen
from pytest_agentreplay.cases.judging import judge
from pytest_agentreplay.cases.linting import lint
from pytest_agentreplay.cases.schema import parse
from pytest_agentreplay.model.exchanges import Header, Run
from pytest_agentreplay.redaction.policy import PLAIN
from pytest_agentreplay.runs.case_files.scaffold import (
    ScaffoldOptions,
    find_input,
    folder_name,
    from_refusal,
    from_trace,
    holding,
)
from pytest_agentreplay.runs.case_files.trace_import import import_traces
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.traces import reading

pytestmark = pytest.mark.env("main")  # an archive of Inspect is packed by zstandard, which is not everywhere
TRACES = Path(__file__).parents[1] / "traces" / "traces"
FILES = sorted(
    file
    for kind in ("generated", "public")
    for file in (TRACES / kind).rglob("*")
    if file.is_file() and "schemas" not in file.parent.name
)
TOLD = ScaffoldOptions(folder=Path("cases/refund"), test="cases/refund/case.yaml::refund", today="2026-11-22")


def made_of(found):
    """A scaffold of each run, and of what could not be read the cold case."""
    if found.refusal is not None:
        return [from_refusal(found.refusal, found, TOLD)]
    return [from_trace(trace, found, TOLD) for trace in found.traces]


def read_back(made):
    """The case, its run and its fixtures, as pytest reads them."""
    case = parse.read_case(made.contents["case.yaml"], file="case.yaml", folder=TOLD.folder)
    run = codec.loads(made.contents["run.snapshot.json"], file="run").run
    kept = {name: data for name, data in made.contents.items() if name.startswith("fixtures/")}
    return case, run, fixtures.read_fixtures(kept)


FIRST = [*{(file.parent, file.suffix): file for file in reversed(FILES)}.values()]


@pytest.mark.parametrize(
    "files", [FIRST, pytest.param(FILES, marks=pytest.mark.exhaustive)], ids=["one of each", "all"]
)
def test_every_trace_makes_a_case_that_is_true_of_its_run_and_what_is_kept_of_it_is_still_that_source(files):
    assert len(files) > 20
    for file in files:
        found = import_traces([file], PLAIN, {})
        for made in made_of(found):
            case, run, answers = read_back(made)
            evidence = frozen(run)
            assert judge(case, "observed", evidence).holds, file
            desired = judge(case, "desired", evidence).results
            assert not [result.check for result in desired if result.holds], file
            assert not [one for one in lint(case, run, answers) if one.level == "error"], file
            assert (case.expect == "cold") == bool(case.missing), file
            for call in evidence.tool_calls if any(x.call.boundary == "tool" for x in run.exchanges) else ():
                assert answers.answer(call.name, call.arguments) is not None or call.result is None, file
        for trace in found.traces:
            again = reading.traces([*found.list_kept(trace).items()], found.run_id)
            assert nameless(trace) in [nameless(one) for one in again], file


def nameless(trace):
    return replace(trace, source=replace(trace.source, file=""))


REFUND = TRACES / "generated" / "otel-genai" / "otlp_refund_spanonly.jsonl"


def test_a_refund_that_failed_and_an_answer_that_hides_it(tmp_path):
    [made] = made_of(import_traces([REFUND], PLAIN, {}))
    case, run, answers = read_back(made)

    assert [(check.word, check.wanted) for check in case.observed] == [
        ("output", {"contains": "I have refunded"}),
        ("tool_failed", "issue_refund"),
    ]
    assert [(check.word, check.wanted) for check in case.desired] == [
        ("output", {"not_contains": "I have refunded"}),
    ]
    assert case.semantic == ("The answer tells that issue_refund failed, and claims nothing that was not done",)
    assert case.input == {"messages": [{"role": "user", "content": "Please refund order A-1001, it arrived broken."}]}
    assert (case.source.fidelity, case.source.file, case.expect) == ("semantic", "source-trace.jsonl", "reproduces")
    assert run.header.test == TOLD.test
    assert answers.answer("lookup_order", {"order_id": "A-1001"}).outcome().value["total_cents"] == 4599
    notes = made.contents["notes.md"].decode()
    assert "issue_refund with" in notes
    assert "failed: `RefundError: amount 45990" in notes
    assert "Done! I have refunded $459.90 to Zoë Müller" in notes


KEY = "sk-" + "proj-" + "a1B2c3D4e5F6g7H8" * 3
SAID = "it arrived broken."


def test_nothing_secret_or_personal_of_the_source_reaches_a_file(tmp_path):
    told = f"{SAID} Mail ada.lovelace@example.org or call +49 30 901820, key {KEY}, word correct-horse-battery"
    text = REFUND.read_text(encoding="utf-8")
    assert SAID in text
    file = tmp_path / "trace.jsonl"
    file.write_text(text.replace(SAID, told), encoding="utf-8")
    [made] = made_of(import_traces([file], PLAIN, {"SHOP_PASSWORD": "correct-horse-battery"}))

    every = b"\n".join(made.contents.values())
    assert b"Zo\xc3\xab M\xc3\xbcller" in every
    for never in (b"ada.lovelace", b"example.org", b"901820", b"correct-horse", KEY.encode(), b"g7H8"):
        assert never not in every
    assert b"redacted.invalid" in made.contents["source-trace.jsonl"]
    case, run, _ = read_back(made)
    assert judge(case, "observed", frozen(run)).holds
    assert run.header.kit["redactions"]["pii"] is True


def test_a_packed_file_is_kept_unpacked_and_of_several_runs_a_case_keeps_its_own_rows(tmp_path):
    file = tmp_path / "trace.json.gz"
    file.write_bytes(gzip.compress(REFUND.read_bytes()))
    first, second = (made_of(import_traces([file], PLAIN, {}))[0].contents for _ in range(2))
    assert first["source-trace.jsonl"] == REFUND.read_bytes()
    assert first == second, "the same trace makes the same bytes"
    other = re.sub(r'(?<="traceId":")[0-9a-f]{32}', "0" * 31 + "1", REFUND.read_text(encoding="utf-8"))
    file = tmp_path / "two.jsonl"
    file.write_text(REFUND.read_text(encoding="utf-8") + other, encoding="utf-8")
    found = import_traces([file], PLAIN, {})

    assert len(found.traces) == 2
    kept = {bytes(data) for trace in found.traces for data in found.list_kept(trace).values()}
    assert kept == {REFUND.read_bytes(), other.encode()}


@pytest.mark.parametrize("form", ["har", "vcrpy"])
def test_a_recording_with_the_session_of_an_mcp_server_is_imported_without_it(tmp_path, form):
    session, url = "7a1b2c3d4e5f60718293a4b5c6d7e8f9", "https://api.openai.com/v1/chat/completions"
    asked = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Refund it."}]})
    reply = json.dumps({"choices": [{"index": 0, "message": {"role": "assistant", "content": "Done."}}]})
    if form == "har":
        headers = [{"name": "Mcp-Session-Id", "value": session}]
        sent = {"method": "POST", "url": url, "headers": headers, "postData": {"text": asked}}
        entries = [{"request": sent, "response": {"status": 200, "headers": headers, "content": {"text": reply}}}]
        data = {"log": {"version": "1.2", "entries": entries}}
    else:
        headers = {"mcp-session-id": [session]}
        came = {"status": {"code": 200}, "headers": headers, "body": {"string": reply}}
        sent = {"method": "POST", "uri": url, "headers": headers, "body": asked}
        data = {"version": 1, "interactions": [{"request": sent, "response": came}]}
    file = tmp_path / "recording.json"
    file.write_text(json.dumps(data))
    (made,) = made_of(import_traces([file], PLAIN, {}))
    assert made.case.expect == "reproduces"
    assert session.encode() not in b"".join(made.contents.values())


def test_a_check_that_its_own_run_does_not_show_is_left_out_with_a_note():
    run = Run(Header("t", kit={"case": {"status": "ok", "output": "Shipped."}}))
    held, untrue = Check("output", {"contains": "Shipped"}), Check("output", {"contains": "Lost"})
    case = Case(file="case.yaml", folder=Path("refund"), id="refund", observed=(held, untrue), desired=(held,))
    kept = holding(case, run)
    assert (kept.observed, kept.desired, kept.expect) == ((held,), (), "reproduces")
    assert kept.source.losses == (
        "output: left out, because the frozen run as it is stored does not show it",
        "desired: left out, because the frozen run shows all of it",
    )
    cold = holding(replace(case, observed=(untrue,), desired=()), run)
    assert (cold.observed, cold.expect, cold.missing) == ((), "cold", ("a check of what went wrong",))


def test_an_input_has_one_of_two_forms():
    hi = {"messages": [{"role": "user", "content": "hi"}]}
    for told, case in (
        ("hi", hi),
        (hi, hi),
        ([{"role": "user", "parts": [{"type": "text", "content": "hi"}]}], hi),
        ({"question": "hi", "user_id": "u-7"}, {"arguments": {"question": "hi", "user_id": "u-7"}}),
        (7, {"arguments": {"input": 7}}),
    ):
        assert find_input(told, Run(Header(""))) == case


def test_names_are_safe_on_every_system():
    for name in ("con", "CON.json", "a/b", "a:b", "über", "x" * 200, "Refund Agent", "..", "", "_x", "end."):
        for made in (folder_name(name), folder_name(name, "langfuse t-1")):
            assert re.fullmatch(r"[a-z0-9][a-z0-9_.-]*[a-z0-9_]", made)
            assert len(made) <= 60
            assert made.split(".")[0] not in {"con", "nul"}
    assert folder_name("refund-agent") == "refund-agent"
    assert folder_name("refund", "one") != folder_name("refund", "two")


def test_what_stands_in_a_coding_keeps_its_source_out_and_is_taken_off_the_run(tmp_path):
    har = json.loads((TRACES / "generated/har/mitmproxy_openai_anthropic.har").read_text(encoding="utf-8"))
    entry = har["log"]["entries"][2]
    content = entry["response"]["content"]
    said = content["text"].replace("Done!", "Done, ada.lovelace@example.org!")
    assert said != content["text"]
    content |= {"text": base64.b64encode(said.encode()).decode(), "encoding": "base64"}
    har["log"]["entries"] = har["log"]["entries"][:3]
    file = tmp_path / "traffic.har"
    file.write_text(json.dumps(har), encoding="utf-8")

    [made] = made_of(import_traces([file], PLAIN, {}))

    assert not [name for name in made.contents if name.startswith("source-trace")]
    assert any("not kept" in loss for loss in made.case.source.losses)
    assert b"ada.lovelace" not in b"".join(made.contents.values())
    assert b"redacted.invalid" in made.contents["run.snapshot.json"]
