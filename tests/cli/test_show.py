"""`agentreplay show` of a recorded run with two lanes, tools and streams, as people see it in their terminals."""

from __future__ import annotations

import io
import json
import os
import pydoc
import re
import sys
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len

from pytest_agentreplay import cli
from pytest_agentreplay.model.exchanges import Header
from pytest_agentreplay.report.escape import escape_text
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.store import reading
from tests.support.chat_runs import ask, run, say, tool

GOLDEN = Path(__file__).with_name("golden")
RUN = GOLDEN / "two_lanes.snapshot.json"
SAME, USAGE = 0, 2


def as_kept(name, text):
    """Compare with a golden text; `AGENTREPLAY_WRITE_GOLDEN=1 pytest ...` writes it anew."""
    file = GOLDEN / name
    if os.environ.get("AGENTREPLAY_WRITE_GOLDEN"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


@pytest.fixture
def at_terminal(monkeypatch):
    """Stand at a terminal in colour, of so many lines; what a pager is handed is kept, not shown."""
    paged = []
    monkeypatch.setattr(pydoc, "pager", paged.append)
    for name in ("NO_COLOR", "CI", "FORCE_COLOR", "PY_COLORS", "TTY_COMPATIBLE", "LESS"):
        monkeypatch.delenv(name, raising=False)

    def stand(lines=500, **environ):
        for stream in (sys.stdout, sys.stdin):
            monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
        for name, value in {"TERM": "xterm-256color", "LINES": str(lines), **environ}.items():
            monkeypatch.setenv(name, value)
        return paged

    return stand


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_run_is_wrapped_to_the_terminal_and_long_texts_are_folded(typed, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    shown = typed("show", RUN)
    assert shown.code == SAME
    assert max(map(cell_len, shown.out.splitlines())) <= width
    as_kept(f"show.{width}.txt", shown.out)


def test_a_file_that_is_no_snapshot_leads_to_those_of_its_tests(typed, root):
    Path("a.md").write_text("x", encoding="utf-8")
    shown = typed("show", "a.md")
    assert (shown.code, shown.err) == (USAGE, "agentreplay: a.md: is no snapshot; to list all: agentreplay ls\n")
    folder = Path("__agent_snapshots__/test_shop")
    folder.mkdir(parents=True)
    for words in (["show", folder], ["diff", folder, folder], ["serve", folder]):
        assert "is a folder; to list its runs: agentreplay ls __agent_" in typed(*words).err
    for words in (["diff", "a.md", "a.md"], ["redact", "a.md"], ["verify", "a.md"], ["replay", "a.md"]):
        assert typed(*words).err.startswith("agentreplay: a.md: is no snapshot; "), words
    names = [f"{folder.as_posix()}/{name}.snapshot.json" for name in ("a", "b")]
    for name in names:
        made = replace(run((ask(), say("It is shipped."))), header=Header(f"test_shop.py::test_{Path(name).name[0]}"))
        Path(name).write_text(codec.dumps(made), encoding="utf-8")
        assert "It is shipped." in typed("show", "test_shop.py").out or name == names[1]
    several = typed("show", "test_shop.py").err.splitlines()
    assert several == ["agentreplay: test_shop.py is 2 snapshots; name one:", *(f"agentreplay show {n}" for n in names)]


@pytest.mark.parametrize("form", [(), ("--plain",), ("--textconv",), ("--step",), ("--json",)], ids=str)
def test_every_form_says_first_that_the_file_was_edited_by_hand(typed, root, monkeypatch, form):
    monkeypatch.setattr(sys, "stdin", io.StringIO("q\n"))
    file = Path("a.snapshot.json")
    edited = codec.dumps(run((ask(), say("It is shipped.")))).replace("is shipped", "was lost")
    for text, told in (
        (edited, "edited by hand, not accepted"),
        (codec.reseal(edited, "cheap", file="f", at="2026-11-29"), "edited by hand, accepted: cheap (2026-11-29)"),
    ):
        file.write_text(text, encoding="utf-8")
        shown = typed("show", file, *form).out
        first = json.loads(shown)["notes"][0] if form == ("--json",) else shown.splitlines()[0]
        assert first.removesuffix("; to see where: agentreplay verify a.snapshot.json") == told


def test_a_model_is_named_once_whatever_the_fingerprints_of_its_machines(typed, root):
    entry = {"provider": "openai", "model": "gpt-5"}
    kit = {"models": [{**entry, "fingerprint": "fp_1"}, {**entry, "fingerprint": "fp_2"}]}
    Path("a.snapshot.json").write_text(codec.dumps(run((ask(), say("x")), kit=kit)), encoding="utf-8")
    assert typed("show", "a.snapshot.json").out.count("openai gpt-5") == 1


def test_one_turn_is_whole_and_the_last_is_the_one_that_began_last(typed):
    folded, whole = typed("show", RUN).out, typed("show", RUN, "--turn", "1").out
    assert '"LH\n      423"' not in folded
    assert "--turn 1 shows all" in folded
    assert ("423" in whole, "more lines" in whole, "turn 2" in whole) == (True, False, False)
    last = typed("show", RUN, "--turn", "-1").out
    assert last.startswith("turn 2  m-1   #6")
    assert last.count("turn 2") == 1


def test_plain_lines_are_complete_on_their_own_whatever_the_terminal(typed, at_terminal):
    at_terminal(lines=5)
    shown = typed("show", RUN, "--plain").out
    as_kept("show.plain.txt", shown)
    assert "more lines" not in shown
    assert not [char for char in shown if char == "\x1b" or "BOX" in unicodedata.name(char, "")]
    lines = shown.splitlines()
    assert all(line.startswith("turn ") and " of lane main." in line for line in lines[6:])


@pytest.mark.parametrize(
    ("environ", "styled"),
    [
        ({}, True),
        ({"NO_COLOR": "1"}, False),
        ({"CI": "true"}, False),
        ({"TERM": "dumb"}, False),
        ({"CI": "true", "FORCE_COLOR": "1"}, True),
        ({"PY_COLORS": "1", "NO_COLOR": "1"}, True),
        ({"PY_COLORS": "0", "FORCE_COLOR": "1"}, False),
    ],
    ids=str,
)
def test_a_terminal_gets_colours_unless_it_is_not_wanted(typed, at_terminal, root, environ, styled):
    at_terminal(**environ)
    assert ("\x1b[" in typed("show", RUN).out) is styled
    first, second = (run((ask(), say(text))) for text in ("It is shipped.", "It is lost."))
    for name, made in (("a", first), ("b", second)):
        Path(f"{name}.snapshot.json").write_text(codec.dumps(made), encoding="utf-8")
    assert ("\x1b[" in typed("diff", "a.snapshot.json", "b.snapshot.json").out) is styled


EVIL = ["\x1b[2Jgone", "a\u202eb", "a\rb", "\x9b31m", "[red]a[/red]", "[link=http://a.example]b[/link]", ":smile:"]


@pytest.mark.parametrize("evil", EVIL, ids=ascii)
def test_recorded_texts_are_neither_commands_to_a_terminal_nor_markup(typed, at_terminal, root, evil):
    made = run((ask({"role": "user", "content": f"{evil} " * 9}), say(evil, (evil, {"x": evil}))), tool(evil, evil))
    Path("evil.snapshot.json").write_text(codec.dumps(replace(made, header=Header(evil))), encoding="utf-8")
    at_terminal(COLUMNS="120")  # `ls` folds a long name in 80 columns, and its other cells stand between the parts
    for words in (["show"], ["show", "--turn", "1", "--raw"], ["show", "--plain"], ["ls"], ["ls", "--totals"]):
        shown = re.sub(r"\x1b\[[0-9;]*m", "", typed(*words, "evil.snapshot.json").out)
        assert not [char for char in shown if unicodedata.category(char) in {"Cc", "Cf", "Cs"} and char != "\n"]
        if words != ["ls", "--totals"]:
            whole = re.sub(r"\s+", "", shown)
            assert re.sub(r"\s+", "", escape_text(evil)) in whole, words


def test_a_long_run_is_paged_at_a_terminal_alone(typed, at_terminal, monkeypatch):
    paged = at_terminal(lines=20)
    assert typed("show", RUN).out == ""
    assert "\n\x1b[1mturn 1  m-1" in paged.pop()
    assert os.environ["LESS"] == "FRX"
    for words, environ in ((["--no-pager"], {}), (["--plain"], {}), ([], {"CI": "1"}), ([], {"LINES": "500"})):
        with monkeypatch.context() as patch:
            for name, value in environ.items():
                patch.setenv(name, value)
            assert "東京" in typed("show", RUN, *words).out
    assert paged == []


def test_raw_prints_the_recorded_bytes_of_a_turn(monkeypatch, tmp_path):
    recorded = reading.load(RUN).run
    target = tmp_path / "raw"
    with target.open("w", encoding="utf-8") as out, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        assert cli.main(["show", str(RUN), "--turn", "-1", "--raw"]) == SAME
    data, last = target.read_bytes(), recorded.exchanges[5]
    assert data == (
        f"POST {last.call.url}\n".encode()
        + b"".join(f"{name}: {value}\n".encode() for name, value in last.call.headers)
        + b"\n"
        + last.call.body.data
        + b"\n\nHTTP/1.1 200 OK\n"
        + b"".join(f"{name}: {value}\n".encode() for name, value in last.outcome.headers)
        + b"\n"
        + last.outcome.body.data
        + b"\n\n"
    )


def test_raw_needs_a_turn_and_says_what_to_type(typed):
    shown = typed("show", RUN, "--raw")
    assert (shown.code, shown.out) == (USAGE, "")
    assert shown.err.endswith("two_lanes.snapshot.json --turn 1 --raw\n")


def test_json_has_each_turn_with_what_it_added_and_every_call_with_its_result(typed):
    data = json.loads(typed("show", RUN, "--json").out)
    assert data["facts"]["calls"] == 6
    assert [(turn["lane"], turn["turn"], turn["call"]) for turn in data["turns"]] == [
        ("main.1", 1, 1),
        ("main.1", 2, 4),
        ("main.2", 1, 2),
        ("main.2", 2, 6),
    ]
    first, second, *_, last = data["turns"]
    assert [message["role"] for message in first["messages"]] == ["system", "user"]
    assert [message["role"] for message in second["messages"]] == ["assistant", "tool"]
    assert (first["tools"], first["tool_uses"][0]["arguments"]) == (["search_flights"], {"city": "Zürich"})
    assert (second["text"], second["chunks"]) == ("I asked search_flights: fly to Zürich at noon.", 11)
    assert (second["tokens"], second["finish_reasons"]) == ({"input_tokens": 494, "output_tokens": 14}, ["stop"])
    (call,) = first["calls"]
    assert (call["kind"], call["name"], call["call"]) == ("tool", "search_flights", 3)
    assert (call["arguments"], call["result"]["flights"][0]["price"]) == ({"city": "Zürich"}, 490)
    assert data["turns"][2]["calls"][0]["raised"]["type"] == "builtins.RuntimeError"
    assert first["duration_ms"] > 0
    assert {*first} - {"calls"} == {*last} - {"calls"}
    assert json.loads(typed("show", RUN, "--json", "--turn", "-1").out)["turns"] == [last]
