"""`agentreplay scaffold`, `freeze`, `bundle`, `cold`: as typed, with what is written and what is said."""

from __future__ import annotations

import io
import json
import os
import shutil
import stat
import zipfile
from pathlib import Path

import pytest

from pytest_agentreplay import codec
from pytest_agentreplay.case_files.bundle_copies import text_copy
from pytest_agentreplay.cases.schema import parse
from pytest_agentreplay.cli import main
from pytest_agentreplay.core.model import Body, Exchange, Header, HttpCall, HttpReply, Run
from pytest_agentreplay.core.redaction.policy import Policy
from pytest_agentreplay.interchange.archives import packed
from pytest_agentreplay.redact.redaction_factory import redaction_for

TRACES = Path(__file__).parents[1] / "interchange" / "traces" / "generated"
REFUND = TRACES / "otel-genai" / "otlp_refund_spanonly.jsonl"
SPANS = TRACES / "otel-genai" / "otlp_refund_eventonly.jsonl"
LOGS = TRACES / "otel-genai" / "otlp_logs_refund_eventonly.jsonl"
ANOTHER = TRACES / "openinference" / "otlp_refund.jsonl"
NO_CONTENT = TRACES / "otel-genai" / "otlp_refund_noargs_nocontent.jsonl"


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    """An empty project, as the working directory."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def typed(*words):
    return main([str(word) for word in words])


def contents(folder):
    folder = Path(folder)
    return {
        file.relative_to(folder).as_posix(): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()
    }


NAMES = [
    "case.yaml",
    "fixtures/issue_refund-1.yaml",
    "fixtures/lookup_order-1.yaml",
    "notes.md",
    "run.snapshot.json",
    "source-trace.jsonl",
]


def test_a_trace_becomes_a_case(capsys):
    assert typed("scaffold", REFUND, "--out", "cases/refund") == 0

    assert [*contents("cases/refund")] == NAMES
    assert os.listdir("cases") == ["refund"]
    said = capsys.readouterr().out
    assert "The answer says 'I have refunded' after issue_refund failed" in said
    assert said.endswith("next: read cases/refund/case.yaml, then\n  pytest cases/refund\n")
    snapshot = codec.loads(Path("cases/refund/run.snapshot.json").read_bytes(), file="run")
    assert snapshot.sealed
    assert snapshot.run.header.test == "cases/refund/case.yaml::observed"


def test_a_second_time_changes_nothing_even_on_another_day(capsys, monkeypatch):
    typed("scaffold", REFUND, "--out", "cases/refund")
    before = contents("cases/refund")
    times = {name: (Path("cases/refund") / name).stat().st_mtime_ns for name in before}
    case = Path("cases/refund/case.yaml")
    case.write_bytes(before["case.yaml"].replace(b'imported: "20', b'imported: "19'))
    changed = contents("cases/refund")
    capsys.readouterr()

    assert typed("scaffold", REFUND, "--out", "cases/refund") == 0

    assert contents("cases/refund") == changed
    assert {name: (Path("cases/refund") / name).stat().st_mtime_ns for name in before if name != "case.yaml"} == {
        name: when for name, when in times.items() if name != "case.yaml"
    }
    assert "nothing to write" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["case.yaml", "notes.md", "fixtures/lookup_order-1.yaml"])
def test_what_people_wrote_is_kept_and_told(name, capsys):
    typed("scaffold", REFUND, "--out", "cases/refund")
    file = Path("cases/refund") / name
    file.write_text(file.read_text(encoding="utf-8") + "# mine\n", encoding="utf-8")
    Path("cases/refund/fixtures/issue_refund-1.yaml").unlink()
    capsys.readouterr()

    assert typed("scaffold", REFUND, "--out", "cases/refund") == 0
    assert file.read_text(encoding="utf-8").endswith("# mine\n")
    said = capsys.readouterr().out
    assert f"cases/refund/{name}: kept as it is, which is not what would be written; --force writes over it" in said
    assert "wrote fixtures/issue_refund-1.yaml\n" in said

    assert typed("scaffold", REFUND, "--out", "cases/refund", "--force") == 0
    assert not file.read_text(encoding="utf-8").endswith("# mine\n")


def test_a_case_of_another_run_is_left_whole(capsys):
    typed("scaffold", REFUND, "--out", "cases/refund")
    typed("bundle", "cases/refund", "-o", "refund.zip")
    shutil.rmtree("cases/refund")
    typed("scaffold", ANOTHER, "--out", "cases/refund")
    before = contents("cases/refund")
    capsys.readouterr()

    assert typed("scaffold", REFUND, "--out", "cases/refund") == 2
    assert typed("bundle", "--open", "refund.zip", "--out", "cases/refund") == 2
    assert capsys.readouterr().err.count("cases/refund: another run is kept there; name another folder") == 2
    assert contents("cases/refund") == before
    assert typed("bundle", "--open", "refund.zip", "--out", "cases/refund", "--force") == 0
    assert "its id is" not in capsys.readouterr().out
    assert typed("bundle", "--open", "refund.zip", "--out", "cases/theirs") == 0
    said = "cases/theirs: its id is refund, and lint wants the folder to be called so\n"
    assert capsys.readouterr().out.startswith(said)


def test_a_snapshot_becomes_a_case_too(capsys):
    typed("scaffold", REFUND, "--out", "cases/refund")

    assert typed("scaffold", "cases/refund/run.snapshot.json", "--out", "cases/again", "--runner", "refunds") == 0

    made = parse.read(Path("cases/again/case.yaml").read_bytes(), file="case.yaml", folder=Path("cases/again"))
    assert (made.source.format, made.source.id) == ("snapshot", "cases/refund/case.yaml::observed")
    assert made.runners == {"observed": "refunds", "desired": "refunds"}
    assert "source-trace.jsonl" not in contents("cases/again")
    assert [check.word for check in made.observed] == ["output", "tool_failed"]


def test_spans_and_their_logs_are_one_run(capsys):
    assert typed("scaffold", SPANS, LOGS, "--out", "cases/refund") == 0

    assert {"source-trace-1.jsonl", "source-trace-2.jsonl"} <= contents("cases/refund").keys()
    made = parse.read(Path("cases/refund/case.yaml").read_bytes(), file="case.yaml", folder=Path())
    assert made.expect == "reproduces"
    assert typed("lint") == 0
    assert capsys.readouterr().out.endswith("1 case: 0 errors, 0 warnings\n")


def test_runs_without_an_id_are_told_apart_by_what_they_are(capsys):
    unnamed = [
        TRACES / "openai-agents" / "run_items_to_input_list.json",
        TRACES / "openai" / "response_input_items.json",
    ]
    for _ in range(2):
        assert typed("scaffold", "--all", *unnamed) == 0
        assert len(os.listdir("cases")) == 2
    assert "kept as it is" not in capsys.readouterr().out


def test_of_several_runs_one_is_named_or_all_are_taken(capsys, project):
    text = REFUND.read_text(encoding="utf-8")
    first = json.loads(text.splitlines()[0])["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"]
    second = "0" * 31 + "1"
    two = project / "two.jsonl"
    two.write_text(text + text.replace(first, second), encoding="utf-8")

    assert typed("scaffold", two, "--out", "cases/refund") == 2
    said = capsys.readouterr()
    assert f"--run {first}   # error, 3 model calls, 2 tool calls, refund-agent\n--run {second}" in said.out
    assert "name one of these with --run, or take each with --all" in said.err
    assert not Path("cases").exists()

    assert typed("scaffold", two, "--out", "cases/refund", "--run", second) == 0
    assert second.encode() in contents("cases/refund")["source-trace.jsonl"]
    assert first.encode() not in contents("cases/refund")["source-trace.jsonl"]

    assert typed("scaffold", two, "--out", "cases/all", "--all") == 0
    assert len(os.listdir("cases/all")) == 2
    assert typed("scaffold", two, "--out", "cases/refund", "--run", "nobody") == 2


def test_what_was_not_captured_is_refused_with_the_setting_and_kept_when_wanted(capsys):
    assert typed("scaffold", NO_CONTENT, "--out", "cases/x") == 2
    said = capsys.readouterr().err
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in said
    assert "--cold" in said
    assert not Path("cases").exists()

    assert typed("scaffold", NO_CONTENT, "--out", "cases/x", "--cold") == 0
    assert parse.read(Path("cases/x/case.yaml").read_bytes(), file="c", folder=Path()).expect == "cold"


def test_many_files_at_once_where_some_cannot_be_read(project, capsys):
    (project / "bad.json").write_text('{"nobody": "knows"}', encoding="utf-8")
    files = [project / f"{number}.jsonl" for number in range(25)]
    for number, file in enumerate(files):
        first = "ac95f7ae4763b1091b88bd38c18ed791"
        file.write_text(REFUND.read_text(encoding="utf-8").replace(first, f"{number:032x}"), encoding="utf-8")

    assert typed("scaffold", *files, "bad.json", "--all", "--out", "cases") == 1

    said = capsys.readouterr()
    assert said.out == "25 cases of 26 files in cases; 1 could not be read\n"
    assert "bad.json" in said.err
    assert len(os.listdir("cases")) == 25
    before = contents("cases")
    assert typed("scaffold", *files, "--all", "--out", "cases") == 0
    assert contents("cases") == before


def test_nothing_is_left_of_a_write_that_failed(monkeypatch, capsys):
    from pytest_agentreplay.store import files

    writes = files.write_new
    done = []

    def failing(path, data):
        done.append(path)
        if len(done) == 4:
            raise OSError(28, "No space left on device")
        writes(path, data)

    monkeypatch.setattr(files, "write_new", failing)

    assert typed("scaffold", REFUND, "--out", "cases/refund") == 2
    assert len(done) == 4
    assert not Path("cases/refund").exists()
    assert contents("cases") == {} if Path("cases").exists() else True
    assert "no space left" in capsys.readouterr().err.lower()

    monkeypatch.setattr(files, "write_new", writes)
    assert typed("scaffold", REFUND, "--out", "cases/refund") == 0


def test_a_bundle_is_the_same_bytes_and_opens_to_the_same_files(capsys):
    typed("scaffold", REFUND, "--out", "cases/refund")
    Path("cases/refund/scratch.txt").write_text("mine", encoding="utf-8")

    assert typed("bundle", "cases/refund", "-o", "one.zip") == 0
    assert "cases/refund/scratch.txt: is no file of a case, and stays out" in capsys.readouterr().out
    assert typed("bundle", "cases/refund", "-o", "two.zip") == 0
    assert Path("one.zip").read_bytes() == Path("two.zip").read_bytes()

    assert typed("bundle", "--open", "one.zip", "--out", "cases/theirs") == 0
    Path("cases/refund/scratch.txt").unlink()
    assert contents("cases/theirs") == contents("cases/refund")


def test_an_id_of_a_trace_that_resembles_a_card_is_none(capsys):
    typed("scaffold", ANOTHER, "--out", "cases/refund")
    assert b'"spanId":"6985697013347470"' in contents("cases/refund")["source-trace.jsonl"]

    assert typed("bundle", "cases/refund", "-o", "refund.zip") == 0
    assert typed("lint", "--policy", "pii") == 0
    note = Path("cases/refund/notes.md")
    note.write_text('"spanId":"6985697013347470"', encoding="utf-8")
    assert typed("bundle", "cases/refund", "-o", "refund.zip") == 1
    assert "notes.md:1:11: credit-card" in capsys.readouterr().err


def test_a_bundle_of_what_must_not_be_shared_is_refused(capsys):
    typed("scaffold", REFUND, "--out", "cases/refund")
    notes = Path("cases/refund/notes.md")
    notes.write_text(notes.read_text(encoding="utf-8") + "\nAsk ada@example.org\n", encoding="utf-8")

    assert typed("bundle", "cases/refund", "-o", "one.zip") == 1
    said = capsys.readouterr().err
    assert "notes.md:" in said
    assert "email" in said
    assert "ada@" not in said
    assert not Path("one.zip").exists()


def test_with_a_policy_the_copies_in_a_bundle_are_redacted_and_the_case_is_not(capsys):
    typed("scaffold", REFUND, "--out", "cases/refund")
    case = Path("cases/refund/case.yaml")
    text = case.read_text(encoding="utf-8").replace("order A-1001, it", "order A-1001 of ada@example.org, it")
    text = text.replace("contains: I have refunded}", "contains: I have refunded ada@example.org}", 1)
    text += "# whoever reads this asks eve@example.org\n"
    case.write_text(text, encoding="utf-8")
    notes = Path("cases/refund/notes.md")
    notes.write_text("Ask ada@example.org\nor eve@example.org\n", encoding="utf-8")
    before = contents("cases/refund")

    assert typed("bundle", "cases/refund", "-o", "one.zip") == 1
    assert "agentreplay bundle cases/refund -o one.zip --policy pii" in capsys.readouterr().err

    assert typed("bundle", "cases/refund", "-o", "one.zip", "--policy", "pii") == 0
    said = capsys.readouterr().out
    assert "cases/refund/notes.md:1:5: email, redacted in the bundle\n" in said
    assert "ada@" not in said
    assert contents("cases/refund") == before
    assert typed("bundle", "--open", "one.zip", "--out", "theirs/refund") == 0
    theirs = contents("theirs/refund")
    assert not any(b"@example.org" in data for data in theirs.values())
    assert theirs["notes.md"] == b"Ask user1@redacted.invalid\nor user2@redacted.invalid\n"
    read = parse.read(theirs["case.yaml"], file="case.yaml", folder=Path("theirs/refund"))
    assert "user1@redacted.invalid, it arrived" in read.input["messages"][0]["content"]
    assert read.observed[0].wanted == {"contains": "I have refunded user1@redacted.invalid"}
    assert b"asks user2@redacted.invalid\n" in theirs["case.yaml"]
    assert {name: theirs[name] for name in NAMES[1:3]} == {name: before[name] for name in NAMES[1:3]}


def test_a_run_in_a_bundle_is_redacted_and_sealed_again(project, tmp_path, capsys):
    snapshot = tmp_path / "test_x.snapshot.json"
    body = b'{"model":"m","messages":[{"role":"user","content":"I am ada@example.org"}]}'
    reply = HttpReply(200, headers=(("content-type", "application/json"),), body=Body(b'{"id":"x"}'))
    call = HttpCall("POST", "https://api.openai.com/v1/chat/completions", (), Body(body))
    exchange = Exchange(call, reply, start=1, finish=2)
    header = Header("test_x.py::test_x", recorded="2026-11-20T10:00:00+00:00", outcome={"status": "failed"})
    snapshot.write_text(codec.dumps(Run(header, (exchange,))), encoding="utf-8")
    assert typed("scaffold", snapshot, "--out", "cases/x") == 0

    assert typed("bundle", "cases/x", "-o", "x.zip") == 1
    assert typed("bundle", "cases/x", "-o", "x.zip", "--policy", "pii") == 0
    assert typed("bundle", "--open", "x.zip", "--out", "theirs/x") == 0
    theirs = codec.loads(contents("theirs/x")["run.snapshot.json"], file="run.snapshot.json")
    assert theirs.sealed
    assert theirs.revisions[-1]["reason"] == "redacted for a bundle"
    assert b"user1@redacted.invalid" in theirs.run.exchanges[0].call.body.data
    assert "ada@example.org" in Path("cases/x/run.snapshot.json").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("a: {b: ada@example.org}\n", 'a: {b: "user1@redacted.invalid"}\n'),
        ("a: &x [ada@example.org]\nb: *x\n", 'a: &x ["user1@redacted.invalid"]\nb: *x\n'),
        ("a: |\n  of ada@example.org\n  ever\nb: 1\n", 'a: "of user1@redacted.invalid\\never\\n"\nb: 1\n'),
        ("a: 1 # ada@example.org\n", "a: 1 # user1@redacted.invalid\n"),
        ("{ada@example.org", "{user1@redacted.invalid"),
    ],
)
def test_yaml_stays_yaml_when_its_values_are_redacted(text, stored):
    assert text_copy("x.yaml", text, redaction_for({}, policy=Policy(pii=True))) == stored


def bundled(**changes):
    """The members of a good bundle, changed."""
    typed("scaffold", REFUND, "--out", "cases/refund")
    typed("bundle", "cases/refund", "-o", "good.zip")
    with zipfile.ZipFile("good.zip") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    return members | changes


@pytest.mark.parametrize(
    "name",
    [
        "../out.yaml",
        "/etc/passwd",
        "fixtures/../../x.yaml",
        "fixtures/con.yaml",
        "fixtures\\x.yaml",
        "C:x.yaml",
        "conftest.py",
        "fixtures/x.yaml.",
        ".hidden",
        "CASE.YAML",
    ],
)
def test_a_hostile_name_in_a_bundle_writes_nothing(name, capsys, project):
    Path("bad.zip").write_bytes(packed({**bundled(), name: b"x"}))
    before = contents(project)
    capsys.readouterr()

    assert typed("bundle", "--open", "bad.zip", "--out", "cases/theirs") == 4
    assert "nothing was written" in capsys.readouterr().err
    assert contents(project) == before


def test_a_link_or_a_bomb_in_a_bundle_writes_nothing(project, capsys):
    members = bundled()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (stat.S_IFLNK | 0o777) << 16 if name == "notes.md" else 0
            archive.writestr(info, data)
    Path("link.zip").write_bytes(out.getvalue())
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.writestr("fixtures/big.yaml", b"0" * (65 << 20))
    Path("bomb.zip").write_bytes(out.getvalue())

    for file in ("link.zip", "bomb.zip"):
        assert typed("bundle", "--open", file, "--out", "cases/theirs") == 4
        assert not Path("cases/theirs").exists()


def test_a_bundle_that_was_changed_is_refused(capsys):
    members = bundled()
    for changed in (
        {**members, "notes.md": b"other"},
        {name: data for name, data in members.items() if name != "notes.md"},
        {name: data for name, data in members.items() if name != "bundle.json"},
    ):
        Path("bad.zip").write_bytes(packed(changed))
        assert typed("bundle", "--open", "bad.zip", "--out", "cases/theirs") == 4
    Path("bad.zip").write_bytes(b"PK\x03\x04 no archive")
    assert typed("bundle", "--open", "bad.zip", "--out", "cases/theirs") == 4
    assert not Path("cases/theirs").exists()


def test_cold_cases_say_what_to_capture_next(capsys):
    assert typed("cold") == 5
    assert typed("cold", "cases/gone") == 2
    assert capsys.readouterr().err.endswith("there is no cases/gone\n")
    typed("scaffold", REFUND, "--out", "cases/warm")
    for name in ("one", "two"):
        typed("scaffold", NO_CONTENT, "--out", f"cases/{name}", "--cold")
    capsys.readouterr()

    assert typed("cold", "--by", "model") == 0
    said = capsys.readouterr().out
    assert said.startswith("2 of 3 cases cannot be replayed\n  cases/one  grade cold\n  cases/two  grade cold\n")
    assert "1. messages of model calls: missing in 2 cases" in said
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in said
    assert "by model\n  unknown: 2 of 2 cases cold\n  gpt-4o-mini: 0 of 1 case cold" in said

    assert typed("cold", "--json", "--by", "hour") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["cases"], len(told["cold"]), told["capture"][0]["cases"]) == (3, 2, ["cases/one", "cases/two"])
    assert told["by"]["13:00 UTC"] == {"cases": 1, "cold": 0}


def test_a_broken_case_is_told_and_hides_no_other(capsys):
    typed("scaffold", NO_CONTENT, "--out", "cases/one", "--cold")
    Path("cases/bad").mkdir()
    Path("cases/bad/case.yaml").write_text("id: [", encoding="utf-8")

    assert typed("cold") == 0
    said = capsys.readouterr()
    assert "1 of 1 case cannot be replayed" in said.out
    assert "cases/bad/case.yaml" in said.err


def test_a_bar_goes_with_many_files_on_a_terminal_alone(capsys, monkeypatch, project):
    from pytest_agentreplay.cli.casework import progress

    shown = io.StringIO()
    shown.isatty = lambda: True
    for stream, total, there in ((shown, 25, True), (io.StringIO(), 25, False), (shown, 2, False)):
        shown.seek(0)
        shown.truncate()
        monkeypatch.setattr("sys.stderr", stream)
        monkeypatch.setenv("TERM", "xterm")
        with progress(total) as step:
            for _ in range(total):
                step()
        assert ("reading" in stream.getvalue()) == there


def test_a_folder_that_no_case_can_have_is_refused_before_anything_is_written(capsys):
    assert typed("scaffold", REFUND, "--out", "cases/My Case") == 2
    assert "letters, digits" in capsys.readouterr().err
    assert not Path("cases").exists()


def test_of_many_fixtures_the_number_is_told():
    from pytest_agentreplay.cli.casework import MANY, summary

    files = ("case.yaml", *(f"fixtures/look-{number}.yaml" for number in range(MANY + 1)), "notes.md")
    assert summary(files, ()) == "wrote case.yaml, notes.md, 21 files in fixtures/"


@pytest.mark.parametrize("ending", ["", '\n{"run_id": "other", "status": "ok", "events": []}\n'], ids=["JSON", "lines"])
def test_json_that_is_nested_in_strings_deeper_than_redaction_sees_is_refused_by_what_it_is(capsys, ending):
    inner = '{"a": 1}'
    for _ in range(10):
        inner = json.dumps({"a": inner})
    called = {"type": "tool_call", "tool_name": "t", "tool_args": {"q": inner}}
    events = [{"type": "input_message", "content": "hi"}, called, {"type": "tool_result", "output": inner}]
    Path("t.json").write_text(
        json.dumps({"run_id": "r", "status": "error", "events": events}) + ending, encoding="utf-8"
    )
    assert typed("scaffold", "t.json", "--out", "cases/x") == 2
    said = capsys.readouterr().err
    assert said.startswith("agentreplay: t.json: holds JSON in strings of JSON, more than 8 times")
    assert len(said.splitlines()) == 1
    assert not Path("cases").exists()
