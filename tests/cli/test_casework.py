"""`agentreplay case new`, `freeze`, `bundle`, `cold`: as typed, with what is written and what is said."""

from __future__ import annotations

import io
import json
import os
import shutil
import stat
import zipfile
from pathlib import Path

import pytest

from pytest_agentreplay.cases.schema import parse
from pytest_agentreplay.cli import casework
from pytest_agentreplay.model.exchanges import Body, Exchange, Header, HttpCall, HttpReply, Run
from pytest_agentreplay.redaction.policy import Policy
from pytest_agentreplay.report import terminal
from pytest_agentreplay.runs.case_files.bundling import text_copy
from pytest_agentreplay.runs.redact.redaction_setup import redaction_for
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.traces.opening import pack_archive
from tests.support.kept_files import contents

pytestmark = pytest.mark.usefixtures("root")  # an empty project, as the working directory

TRACES = Path(__file__).parents[1] / "traces" / "traces" / "generated"
REFUND = TRACES / "otel-genai" / "otlp_refund_spanonly.jsonl"
SPANS = TRACES / "otel-genai" / "otlp_refund_eventonly.jsonl"
LOGS = TRACES / "otel-genai" / "otlp_logs_refund_eventonly.jsonl"
ANOTHER = TRACES / "openinference" / "otlp_refund.jsonl"
NO_CONTENT = TRACES / "otel-genai" / "otlp_refund_noargs_nocontent.jsonl"

NAMES = [
    *("case.yaml", "fixtures/issue_refund-1.yaml", "fixtures/lookup_order-1.yaml"),
    *("notes.md", "run.snapshot.json", "source-trace.jsonl"),
]
CASE = Path("cases/refund")


@pytest.fixture
def scaffolded(root, typed):
    """The refund as a case."""
    return typed("case", "new", REFUND, "--out", CASE)


def read_case(folder):
    folder = Path(folder)
    return parse.read_case((folder / "case.yaml").read_bytes(), file="case.yaml", folder=folder)


def test_a_trace_becomes_a_case_and_so_does_a_snapshot(typed, scaffolded):
    assert (scaffolded.code, [*contents(CASE)], os.listdir("cases")) == (0, NAMES, ["refund"])
    assert "The answer says 'I have refunded' after issue_refund failed" in scaffolded.out
    assert "\n  loss: response_format, tool_choice, log probabilities and headers are not recorded\n" in scaffolded.out
    assert scaffolded.out.endswith("next: read cases/refund/case.yaml, then\n  pytest cases/refund\n")
    snapshot = codec.loads((CASE / "run.snapshot.json").read_bytes(), file="run")
    assert (snapshot.sealed, snapshot.run.header.test) == (True, "cases/refund/case.yaml::refund")

    assert typed("case", "new", CASE / "run.snapshot.json", "--out", "cases/again", "--runner", "refunds").code == 0
    made = read_case("cases/again")
    assert (made.source.format, made.source.id) == ("snapshot", "cases/refund/case.yaml::refund")
    assert made.runners == {"observed": "refunds", "desired": "refunds"}
    assert "source-trace.jsonl" not in contents(Path("cases/again"))
    assert [check.word for check in made.observed] == ["output", "tool_failed"]


@pytest.mark.usefixtures("scaffolded")
def test_a_second_time_changes_nothing_even_on_another_day(typed):
    case = CASE / "case.yaml"
    case.write_bytes(case.read_bytes().replace(b'imported: "20', b'imported: "19'))
    before = {name: (data, (CASE / name).stat().st_mtime_ns) for name, data in contents(CASE).items()}
    again = typed("case", "new", REFUND, "--out", CASE)
    assert (again.code, "nothing to write" in again.out) == (0, True)
    assert {name: (data, (CASE / name).stat().st_mtime_ns) for name, data in contents(CASE).items()} == before


@pytest.mark.usefixtures("scaffolded")
def test_what_people_wrote_is_kept_and_told(typed):
    files = [CASE / name for name in ("case.yaml", "notes.md", "fixtures/lookup_order-1.yaml")]
    for file in files:
        file.write_text(file.read_text(encoding="utf-8") + "# mine\n", encoding="utf-8")
    (CASE / "fixtures/issue_refund-1.yaml").unlink()
    kept = typed("case", "new", REFUND, "--out", CASE)
    assert (kept.code, "wrote fixtures/issue_refund-1.yaml\n" in kept.out) == (0, True)
    for file in files:
        assert file.read_text(encoding="utf-8").endswith("# mine\n")
        assert f"{file}: kept as it is, which is not what would be written; --force writes over it" in kept.out
    assert typed("case", "new", REFUND, "--out", CASE, "--force").code == 0
    assert not [file for file in files if file.read_text(encoding="utf-8").endswith("# mine\n")]


@pytest.mark.usefixtures("scaffolded")
def test_a_case_of_another_run_is_left_whole(typed):
    typed("case", "export", "--to", "bundle", CASE, "-o", "refund.zip")
    shutil.rmtree(CASE)
    typed("case", "new", ANOTHER, "--out", CASE)
    before = contents(CASE)
    opening = ("case", "new", "refund.zip", "--out")
    for refused in (typed("case", "new", REFUND, "--out", CASE), typed(*opening, CASE)):
        assert refused.code == 2
        assert "cases/refund: another run is kept there; name another folder" in refused.err
    assert contents(CASE) == before
    forced = typed(*opening, CASE, "--force")
    assert (forced.code, "its id is" in forced.out) == (0, False)
    theirs = typed(*opening, "cases/theirs")
    assert theirs.code == 0
    assert theirs.out.startswith("cases/theirs: its id is refund, and lint wants the folder to be called so\n")


def test_spans_and_their_logs_are_one_run(typed):
    assert typed("case", "new", SPANS, LOGS, "--out", CASE).code == 0
    assert {"source-trace-1.jsonl", "source-trace-2.jsonl"} <= contents(CASE).keys()
    assert read_case(CASE).expect == "reproduces"
    linted = typed("case", "lint")
    assert (linted.code, linted.out) == (0, "1 case: 0 errors, 0 warnings\n")


def test_runs_without_an_id_are_told_apart_by_what_they_are(typed):
    unnamed = ("openai-agents/run_items_to_input_list.json", "openai/response_input_items.json")
    for _ in range(2):
        told = typed("case", "new", "--all", *(TRACES / name for name in unnamed))
        assert (told.code, len(os.listdir("cases")), "kept as it is" in told.out) == (0, 2, False)


def test_of_several_runs_one_is_named_or_all_are_taken(typed):
    text = REFUND.read_text(encoding="utf-8")
    first = json.loads(text.splitlines()[0])["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"]
    second = "0" * 31 + "1"
    Path("two.jsonl").write_text(text + text.replace(first, second), encoding="utf-8")
    said = typed("case", "new", "two.jsonl", "--out", CASE)
    assert said.code == 2
    assert f"--run {first}   # error, 3 model calls, 2 tool calls, refund-agent\n--run {second}" in said.out
    assert "name one of these with --run, or take each with --all" in said.err
    ours = typed("case", "new", "a.snapshot.json", "--run", "x")
    assert (ours.code, "--run and --from are for traces of other tools" in ours.err) == (2, True)
    assert not Path("cases").exists()

    assert typed("case", "new", "two.jsonl", "--out", CASE, "--run", second).code == 0
    source = contents(CASE)["source-trace.jsonl"]
    assert (second.encode() in source, first.encode() in source) == (True, False)
    assert typed("case", "new", "two.jsonl", "--out", "cases/all", "--all").code == 0
    assert len(os.listdir("cases/all")) == 2
    assert typed("case", "new", "two.jsonl", "--out", CASE, "--run", "nobody").code == 2


def test_what_was_not_captured_is_refused_with_the_setting_and_kept_when_wanted(typed):
    refused = typed("case", "new", NO_CONTENT, "--out", "cases/x")
    assert (refused.code, "--cold" in refused.err) == (2, True)
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in refused.err
    refused = typed("case", "new", REFUND, "--out", "cases/My Case")
    assert (refused.code, "letters, digits" in refused.err) == (2, True)
    assert not Path("cases").exists()
    assert typed("case", "new", NO_CONTENT, "--out", "cases/x", "--cold").code == 0
    made = read_case("cases/x")
    assert (made.expect, bool(made.missing)) == ("cold", True)
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in made.reason


def test_many_files_at_once_where_some_cannot_be_read(typed):
    Path("bad.json").write_text('{"nobody": "knows"}', encoding="utf-8")
    text = REFUND.read_text(encoding="utf-8")
    files = [f"{number}.jsonl" for number in range(25)]
    for number, file in enumerate(files):
        Path(file).write_text(text.replace("ac95f7ae4763b1091b88bd38c18ed791", f"{number:032x}"), encoding="utf-8")
    said = typed("case", "new", *files, "bad.json", "--all", "--out", "cases")
    assert (said.code, said.out) == (1, "25 cases of 26 files in cases; 1 could not be read\n")
    assert ("bad.json" in said.err, len(os.listdir("cases"))) == (True, 25)
    before = contents(Path("cases"))
    assert typed("case", "new", *files, "--all", "--out", "cases").code == 0
    assert contents(Path("cases")) == before


@pytest.mark.usefixtures("scaffolded")
def test_a_bundle_is_the_same_bytes_and_opens_to_the_same_files(typed):
    (CASE / "scratch.txt").write_text("mine", encoding="utf-8")
    packed_one = typed("case", "export", "--to", "bundle", CASE, "-o", "one.zip")
    assert packed_one.code == 0
    assert "cases/refund/scratch.txt: is no file of a case, and stays out" in packed_one.out
    assert typed("case", "export", "--to", "bundle", CASE, "-o", "two.zip").code == 0
    assert Path("one.zip").read_bytes() == Path("two.zip").read_bytes()
    assert typed("case", "new", "one.zip", "--out", "cases/theirs").code == 0
    (CASE / "scratch.txt").unlink()
    assert contents(Path("cases/theirs")) == contents(CASE)


def test_an_id_of_a_trace_that_resembles_a_card_is_none(typed):
    typed("case", "new", ANOTHER, "--out", CASE)
    assert b'"spanId":"6985697013347470"' in contents(CASE)["source-trace.jsonl"]
    assert typed("case", "export", "--to", "bundle", CASE, "-o", "refund.zip").code == 0
    assert typed("case", "lint", "--policy", "pii").code == 0
    (CASE / "notes.md").write_text('"spanId":"6985697013347470"', encoding="utf-8")
    refused = typed("case", "export", "--to", "bundle", CASE, "-o", "refund.zip")
    assert (refused.code, "notes.md:1:11: credit-card" in refused.err) == (1, True)


@pytest.mark.usefixtures("scaffolded")
def test_a_bundle_of_what_must_not_be_shared_is_refused_or_with_a_policy_redacted_which_the_case_is_not(typed):
    case = CASE / "case.yaml"
    text = case.read_text(encoding="utf-8").replace("order A-1001, it", "order A-1001 of ada@example.org, it")
    text = text.replace("contains: I have refunded}", "contains: I have refunded ada@example.org}", 1)
    case.write_text(text + "# whoever reads this asks eve@example.org\n", encoding="utf-8")
    (CASE / "notes.md").write_text("Ask ada@example.org\nor eve@example.org\n", encoding="utf-8")
    before = contents(CASE)

    refused = typed("case", "export", "--to", "bundle", CASE, "-o", "one.zip")
    assert (refused.code, "ada@" in refused.err, Path("one.zip").exists()) == (1, False, False)
    assert "notes.md:1:5: email" in refused.err
    assert "agentreplay case export cases/refund --to bundle -o one.zip --policy pii" in refused.err

    done = typed("case", "export", "--to", "bundle", CASE, "-o", "one.zip", "--policy", "pii")
    assert (done.code, "ada@" in done.out, contents(CASE) == before) == (0, False, True)
    assert "cases/refund/notes.md:1:5: email, redacted in the bundle\n" in done.out
    assert typed("case", "new", "one.zip", "--out", "theirs/refund").code == 0
    theirs = contents(Path("theirs/refund"))
    assert not any(b"@example.org" in data for data in theirs.values())
    assert theirs["notes.md"] == b"Ask user1@redacted.invalid\nor user2@redacted.invalid\n"
    read = read_case("theirs/refund")
    assert "user1@redacted.invalid, it arrived" in read.input["messages"][0]["content"]
    assert read.observed[0].wanted == {"contains": "I have refunded user1@redacted.invalid"}
    assert b"asks user2@redacted.invalid\n" in theirs["case.yaml"]
    assert {name: theirs[name] for name in NAMES[1:3]} == {name: before[name] for name in NAMES[1:3]}


def test_a_run_in_a_bundle_is_redacted_and_sealed_again(typed):
    snapshot = Path("test_x.snapshot.json")
    body = b'{"model":"m","messages":[{"role":"user","content":"I am ada@example.org"}]}'
    reply = HttpReply(200, headers=(("content-type", "application/json"),), body=Body(b'{"id":"x"}'))
    call = HttpCall("POST", "https://api.openai.com/v1/chat/completions", (), Body(body))
    header = Header("test_x.py::test_x", recorded="2026-11-20T10:00:00+00:00", outcome={"status": "failed"})
    snapshot.write_text(codec.dumps(Run(header, (Exchange(call, reply, start=1, finish=2),))), encoding="utf-8")
    assert typed("case", "new", snapshot, "--out", "cases/x").code == 0
    assert typed("case", "export", "--to", "bundle", "cases/x", "-o", "x.zip").code == 1
    assert typed("case", "export", "--to", "bundle", "cases/x", "-o", "x.zip", "--policy", "pii").code == 0
    assert typed("case", "new", "x.zip", "--out", "theirs/x").code == 0
    theirs = codec.loads(Path("theirs/x/run.snapshot.json").read_bytes(), file="run.snapshot.json")
    assert (theirs.sealed, theirs.revisions[-1]["reason"]) == (True, "redacted for a bundle")
    assert b"user1@redacted.invalid" in theirs.run.exchanges[0].call.body.data
    assert "ada@example.org" in Path("cases/x/run.snapshot.json").read_text(encoding="utf-8")


def test_yaml_stays_yaml_when_its_values_are_redacted():
    for text, stored in (
        ("a: {b: ada@example.org}\n", 'a: {b: "user1@redacted.invalid"}\n'),
        ("a: &x [ada@example.org]\nb: *x\n", 'a: &x ["user1@redacted.invalid"]\nb: *x\n'),
        ("a: |\n  of ada@example.org\n  ever\nb: 1\n", 'a: "of user1@redacted.invalid\\never\\n"\nb: 1\n'),
        ("a: 1 # ada@example.org\n", "a: 1 # user1@redacted.invalid\n"),
        ("{ada@example.org", "{user1@redacted.invalid"),
    ):
        assert text_copy("x.yaml", text, redaction_for({}, policy=Policy(pii=True))) == stored


HOSTILE = """../out.yaml /etc/passwd fixtures/../../x.yaml fixtures/con.yaml fixtures\\x.yaml C:x.yaml conftest.py
fixtures/x.yaml. .hidden CASE.YAML"""


def zipped(members, linked=""):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (stat.S_IFLNK | 0o777) << 16 if name == linked else 0
            archive.writestr(info, data)
    return out.getvalue()


@pytest.mark.usefixtures("scaffolded")
def test_a_hostile_or_changed_bundle_writes_nothing(typed):
    typed("case", "export", "--to", "bundle", CASE, "-o", "good.zip")
    with zipfile.ZipFile("good.zip") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    bad = {f"the name {name}": pack_archive({**members, name: b"x"}) for name in HOSTILE.split()}
    bad["a link"] = zipped(members, linked="notes.md")
    bad["a bomb"] = zipped(members | {"fixtures/big.yaml": b"0" * (65 << 20)})
    bad["another content"] = pack_archive(members | {"notes.md": b"other"})
    for missing in ("notes.md", "bundle.json"):
        bad[f"no {missing}"] = pack_archive({name: data for name, data in members.items() if name != missing})
    bad["no archive"] = b"PK\x03\x04 no archive"
    before = contents(Path())
    for what, data in bad.items():
        Path("good.zip").write_bytes(data)
        told = typed("case", "new", "good.zip", "--out", "cases/theirs")
        code = 2 if what == "no archive" else 4
        assert (told.code, contents(Path()) == before | {"good.zip": data}) == (code, True), what
        assert "nothing was written" in told.err or not what.startswith("the name"), what


def test_cold_cases_say_what_to_capture_next_and_a_broken_case_hides_no_other(typed, scaffolded):
    shutil.rmtree("cases")
    assert typed("ls", "--cold").code == 5
    gone = typed("ls", "--cold", "cases/gone")
    assert (gone.code, gone.err.endswith("there is no cases/gone\n")) == (2, True)
    typed("case", "new", REFUND, "--out", "cases/warm")
    for name in ("one", "two"):
        typed("case", "new", NO_CONTENT, "--out", f"cases/{name}", "--cold")
    said = typed("ls", "--cold", "--by", "model")
    assert said.code == 0
    begin = "2 of 3 cases cannot be replayed\n  cases/one: cannot be replayed: there is nothing to serve\n  cases/two: "
    assert said.out.startswith(begin)
    assert "1. messages of model calls: missing in 2 cases" in said.out
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in said.out
    assert (
        "by model\n  unknown: 2 of 2 cases cannot be replayed\n  gpt-4o-mini: 0 of 1 case cannot be replayed"
        in said.out
    )
    told = json.loads(typed("ls", "--cold", "--json", "--by", "hour").out)
    assert (told["cases"], len(told["cold"]), told["capture"][0]["cases"]) == (3, 2, ["cases/one", "cases/two"])
    assert told["by"]["13:00 UTC"] == {"cases": 1, "cold": 0}
    Path("cases/two/case.yaml").write_text("id: [", encoding="utf-8")
    broken = typed("ls", "--cold")
    assert (broken.code, "1 of 2 cases cannot be replayed" in broken.out) == (0, True)
    assert "cases/two/case.yaml" in broken.err


def test_a_bar_goes_with_many_files_on_a_terminal_alone(monkeypatch):
    watched = io.StringIO()
    watched.isatty = lambda: True
    monkeypatch.setenv("TERM", "xterm")
    for stream, total, there in ((watched, 25, True), (io.StringIO(), 25, False), (watched, 2, False)):
        stream.seek(0)
        stream.truncate()
        monkeypatch.setattr("sys.stderr", stream)
        with terminal.show_progress(total, few=casework.MANY) as advance:
            for number in range(total):
                advance(number, "[red]reading\x1b[2J")
        shown = stream.getvalue()
        assert ("[red]reading\\x1b[2J" in shown, "\x1b[2J" in shown) == (there, False)


def test_of_many_fixtures_the_number_is_told():
    files = ("case.yaml", *(f"fixtures/look-{number}.yaml" for number in range(casework.MANY + 1)), "notes.md")
    assert casework.describe_files(files, ()) == "wrote case.yaml, notes.md, 21 files in fixtures/"


def test_json_that_is_nested_in_strings_deeper_than_redaction_sees_is_refused_by_what_it_is(typed):
    inner = '{"a": 1}'
    for _ in range(10):
        inner = json.dumps({"a": inner})
    called = {"type": "tool_call", "tool_name": "t", "tool_args": {"q": inner}}
    events = [{"type": "input_message", "content": "hi"}, called, {"type": "tool_result", "output": inner}]
    text = json.dumps({"run_id": "r", "status": "error", "events": events})
    for ending in ("", '\n{"run_id": "other", "status": "ok", "events": []}\n'):
        Path("t.json").write_text(text + ending, encoding="utf-8")
        said = typed("case", "new", "t.json", "--out", "cases/x")
        assert (said.code, len(said.err.splitlines()), Path("cases").exists()) == (2, 1, False)
        assert said.err.startswith("agentreplay: t.json: holds JSON in strings of JSON, more than 8 times")
