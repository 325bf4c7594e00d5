"""From a trace to the files of a case: what is inferred is true, what is kept is importable, nothing secret is in it."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_agentreplay import codec
from pytest_agentreplay.case_files.scaffold import ScaffoldOptions, folder_name, from_refusal, from_trace
from pytest_agentreplay.case_files.trace_import import imported
from pytest_agentreplay.cases import fixtures
from pytest_agentreplay.cases.case_input import given
from pytest_agentreplay.cases.evidence import frozen
from pytest_agentreplay.cases.judging import judge
from pytest_agentreplay.cases.linting import lint
from pytest_agentreplay.cases.schema import parse
from pytest_agentreplay.core.redaction.policy import PLAIN
from pytest_agentreplay.interchange import reading

pytestmark = pytest.mark.env("main")  # an archive of Inspect is packed by zstandard, which is not everywhere
TRACES = Path(__file__).parents[1] / "interchange" / "traces"
FILES = sorted(
    file
    for kind in ("generated", "public")
    for file in (TRACES / kind).rglob("*")
    if file.is_file() and "schemas" not in file.parent.name
)
TOLD = ScaffoldOptions(folder=Path("cases/refund"), test="cases/refund/case.yaml::observed", today="2026-11-22")


def made_of(found):
    """A scaffold of each run, and of what could not be read the cold case."""
    if found.refusal is not None:
        return [from_refusal(found.refusal, found, TOLD)]
    return [from_trace(trace, found, TOLD) for trace in found.traces]


def read_back(made):
    """The case, its run and its fixtures, as pytest reads them."""
    case = parse.read(made.contents["case.yaml"], file="case.yaml", folder=TOLD.folder)
    run = codec.loads(made.contents["run.snapshot.json"], file="run").run
    kept = {name: data for name, data in made.contents.items() if name.startswith("fixtures/")}
    return case, run, fixtures.read(kept)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(TRACES).as_posix())
def test_every_trace_makes_a_case_that_is_true_of_its_run(file):
    found = imported([file], PLAIN, {})
    for made in made_of(found):
        case, run, answers = read_back(made)
        evidence = frozen(run)

        observed = judge(case, "observed", evidence)
        assert observed.holds, [result for result in observed.results if not result.held]
        assert not [result.check for result in judge(case, "desired", evidence).results if result.held]
        assert not [one for one in lint(case, run, answers) if one.level == "error"]
        assert (case.expect == "cold") == bool(case.missing)
        for call in evidence.tool_calls if any(x.call.boundary == "tool" for x in run.exchanges) else ():
            assert answers.answer(call.name, call.arguments) is not None or call.result is None


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(TRACES).as_posix())
def test_what_is_kept_of_a_source_is_still_that_source(file):
    found = imported([file], PLAIN, {})
    for trace in found.traces:
        kept = found.kept(trace)
        again = reading.traces([*kept.items()], found.wanted)
        facts = replace(trace, source=replace(trace.source, file=""))
        assert facts in [replace(one, source=replace(one.source, file="")) for one in again]


REFUND = TRACES / "generated" / "otel-genai" / "otlp_refund_spanonly.jsonl"


def test_a_refund_that_failed_and_an_answer_that_hides_it(tmp_path):
    [made] = made_of(imported([REFUND], PLAIN, {}))
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


def edited(file, tmp_path, *changes, name="trace.jsonl"):
    text = file.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


KEY = "sk-" + "proj-" + "a1B2c3D4e5F6g7H8" * 3
SAID = "it arrived broken."


def test_nothing_secret_or_personal_of_the_source_reaches_a_file(tmp_path):
    told = f"it arrived broken. Mail ada.lovelace@example.org or call +49 30 901820, key {KEY}"
    file = edited(REFUND, tmp_path, (SAID, told))
    [made] = made_of(imported([file], PLAIN, {"SHOP_TOKEN": "hunter2-hunter2-hunter2"}))

    every = b"\n".join(made.contents.values())
    assert b"Zo\xc3\xab M\xc3\xbcller" in every
    for never in (b"ada.lovelace", b"example.org", b"901820", KEY.encode(), b"g7H8"):
        assert never not in every
    assert b"redacted.invalid" in made.contents["source-trace.jsonl"]
    case, run, _ = read_back(made)
    assert judge(case, "observed", frozen(run)).holds
    assert run.header.kit["redactions"]["pii"] is True


def test_a_known_secret_of_this_machine_is_taken_off_too(tmp_path):
    file = edited(REFUND, tmp_path, (SAID, "my word is correct-horse-battery"))
    [made] = made_of(imported([file], PLAIN, {"SHOP_PASSWORD": "correct-horse-battery"}))

    assert b"correct-horse" not in b"".join(made.contents.values())


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ('{"request": {"headers": [{"name": "Authorization", "value": "Bearer sk-stub"}]}}', "sk-stub"),
        ('{"headers": {"authorization": ["Bearer sk-stub"], "x-api-key": "k1"}}', "k1"),
        ('{"body": "{\\"authorization\\": \\"Basic dTpw\\"}"}', "dTpw"),
        ("headers:\n  authorization:\n  - Bearer sk-stub\n  cookie:\n  - sid=1\n", "sk-stub"),
        ("headers:\n  x-api-key:\n  - sk-ant-stub\n", "sk-ant-stub"),
    ],
)
def test_credentials_in_headers_come_off_however_short(text, gone, tmp_path):
    from pytest_agentreplay.case_files.trace_cleaning import clean
    from pytest_agentreplay.codec import strict_yaml
    from pytest_agentreplay.errors import TraceError
    from pytest_agentreplay.redact.redaction_factory import redaction_for

    done = clean(text, redaction_for({}))

    assert gone not in done
    assert "[[redacted:" in done
    before, after = (strict_yaml.load(one.encode(), file="x", error=TraceError).value for one in (text, done))
    assert shape(before) == shape(after)
    assert clean(done, redaction_for({})) == done


def shape(value):
    """A value without its texts."""
    if isinstance(value, dict):
        return {name: shape(one) for name, one in value.items()}
    return [shape(one) for one in value] if isinstance(value, list) else type(value)


def test_ids_and_times_that_look_like_cards_stay(tmp_path):
    from pytest_agentreplay.case_files.trace_cleaning import clean
    from pytest_agentreplay.core.redaction.policy import Policy
    from pytest_agentreplay.redact.redaction_factory import redaction_for

    text = '{"spanId": "6985697013347470", "startTimeUnixNano": "4111111111111111", "said": "4111111111111111"}'
    done = json.loads(clean(text, redaction_for({}, policy=Policy(pii=True))))

    assert (done["spanId"], done["startTimeUnixNano"]) == ("6985697013347470", "4111111111111111")
    assert done["said"] == "[[redacted:credit-card:1]]"


def test_a_packed_file_is_kept_unpacked(tmp_path):
    file = tmp_path / "trace.json.gz"
    file.write_bytes(gzip.compress(REFUND.read_bytes()))
    [made] = made_of(imported([file], PLAIN, {}))

    assert made.contents["source-trace.jsonl"] == REFUND.read_bytes()


def test_of_several_runs_a_case_keeps_its_own_rows(tmp_path):
    other = re.sub(r'(?<="traceId":")[0-9a-f]{32}', "0" * 31 + "1", REFUND.read_text(encoding="utf-8"))
    file = tmp_path / "two.jsonl"
    file.write_text(REFUND.read_text(encoding="utf-8") + other, encoding="utf-8")
    found = imported([file], PLAIN, {})

    assert len(found.traces) == 2
    assert {bytes(data) for trace in found.traces for data in found.kept(trace).values()} == {
        REFUND.read_bytes(),
        other.encode(),
    }


def test_what_was_not_captured_makes_a_cold_case_with_the_way_out():
    [made] = made_of(imported([TRACES / "generated/otel-genai/otlp_refund_noargs_nocontent.jsonl"], PLAIN, {}))
    case, run, _ = read_back(made)

    assert case.expect == "cold"
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in case.reason
    assert case.missing
    assert not run.exchanges


def test_the_same_trace_makes_the_same_bytes():
    first, second = (made_of(imported([REFUND], PLAIN, {}))[0].contents for _ in range(2))

    assert first == second


@pytest.mark.parametrize(
    ("told", "case"),
    [
        ("hello", {"messages": [{"role": "user", "content": "hello"}]}),
        ({"messages": [{"role": "user", "content": "hi"}]}, {"messages": [{"role": "user", "content": "hi"}]}),
        (
            [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}],
            {"messages": [{"role": "user", "content": "hi"}]},
        ),
        ({"question": "hi", "user_id": "u-7"}, {"arguments": {"question": "hi", "user_id": "u-7"}}),
        (7, {"arguments": {"input": 7}}),
    ],
)
def test_an_input_has_one_of_two_forms(told, case):
    from pytest_agentreplay.core.model import Header, Run

    assert given(told, Run(Header(""))) == case


@pytest.mark.parametrize(
    "name", ["con", "CON.json", "a/b", "a:b", "über", "x" * 200, "Refund Agent", "..", "", "_x", "end."]
)
def test_names_are_safe_on_every_system(name):
    for made in (folder_name(name), folder_name(name, "langfuse t-1")):
        assert re.fullmatch(r"[a-z0-9][a-z0-9_.-]*[a-z0-9_]", made)
        assert len(made) <= 60
        assert made.split(".")[0] not in {"con", "nul"}
    assert folder_name("refund-agent") == "refund-agent"
    assert folder_name("refund", "one") != folder_name("refund", "two")


ODD = [
    "\x00\x1b[31m",
    "\ud800 lone",
    "`` ``` `",
    "- x\n- y",
    "null",
    "1e5",
    "%TAG",
    "&a *a",
    "!!python/object:os.system",
]
ODD += [
    "\u2028",
    "\ufeffbom",
    "x" * 1_200_000,
    " lead",
    "\ttab",
    "\r\n",
    "",
    "{{root}}",
    "[[redacted:key:1]]",
    "|\n text",
]


@pytest.mark.parametrize("text", ODD, ids=lambda text: ascii(text)[:20])
def test_whatever_a_stranger_wrote_makes_a_case_that_can_be_read(text, tmp_path):
    events = [
        {"type": "input_message", "content": text},
        {"type": "tool_call", "tool_name": f"tool {text[:20]}", "tool_args": {f"key {text[:9]}": text, "$ref": text}},
        {"type": "tool_result", "output": {"$x": text, "v": [text]}},
        {"type": "output_message", "content": text or "ok"},
    ]
    file = tmp_path / "trace.json"
    file.write_text(json.dumps({"run_id": "r", "status": "ok", "events": events}), encoding="utf-8")
    [made] = made_of(imported([file], PLAIN, {}))
    case, run, answers = read_back(made)

    assert judge(case, "observed", frozen(run)).holds
    [call] = (x.call for x in run.exchanges)
    told = any("stand in the run alone" in loss or "stands in the run alone" in loss for loss in case.source.losses)
    assert told == (answers.answer(call.name, call.arguments) is None or "\x00" in text)
    assert all(re.fullmatch(r"[a-z0-9_./-]+", name) for name in made.contents)


def test_what_stands_in_a_coding_keeps_its_source_out_and_is_taken_off_the_run(tmp_path):
    import base64

    har = json.loads((TRACES / "generated/har/mitmproxy_openai_anthropic.har").read_text(encoding="utf-8"))
    entry = har["log"]["entries"][2]
    content = entry["response"]["content"]
    said = content["text"].replace("Done!", "Done, ada.lovelace@example.org!")
    assert said != content["text"]
    content |= {"text": base64.b64encode(said.encode()).decode(), "encoding": "base64"}
    har["log"]["entries"] = har["log"]["entries"][:3]
    file = tmp_path / "traffic.har"
    file.write_text(json.dumps(har), encoding="utf-8")

    [made] = made_of(imported([file], PLAIN, {}))

    assert not [name for name in made.contents if name.startswith("source-trace")]
    assert any("not kept" in loss for loss in made.case.source.losses)
    assert b"ada.lovelace" not in b"".join(made.contents.values())
    assert b"redacted.invalid" in made.contents["run.snapshot.json"]
