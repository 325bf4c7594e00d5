"""`agentreplay live lineup`: between two recordings without a model, and the exit codes of its answers."""

import json

import pytest

from pytest_agentreplay.runs.live.lineup_cells import CellRuns
from pytest_agentreplay.snapshots import codec
from tests.support.chat_runs import QUESTION, ask, message_of, result_of, run, say, tool


@pytest.fixture
def recordings(root):
    """Write two recordings of one agent; the second has what is changed. Returns their names."""

    def write(**changed):
        for name, (status, words, kit) in {
            "a.snapshot.json": ("late", "It is late.", {"python": "3.11"}),
            "b.snapshot.json": (changed.get("status", "late"), changed.get("words", "It is late."), {"python": "3.12"}),
        }.items():
            first = say(None, ("search", {"q": "boots"}))
            second = ask(QUESTION, message_of(first), result_of("call_0", status))
            made = run((ask(), first), tool("search", status, q="boots"), (second, say(words)), kit=kit)
            (root / name).write_text(codec.dumps(made), encoding="utf-8")
        return "a.snapshot.json", "b.snapshot.json"

    return write


def test_the_guilty_layer_what_else_differs_and_what_was_around_it(recordings, typed):
    """Text and data have the same answer; what follows from the first difference is marked."""
    names = recordings(status="lost", words="It is lost.")
    printed = typed("live", "lineup", *names)
    lines = printed.out.splitlines()
    assert (printed.code, lines[0]) == (1, "guilty: tool search")
    assert lines[1] == "  tool search: [AR-RESULT] turn 1/2: tool search: result changed, $.value late -> lost"
    assert lines[2].startswith("  model sampling: [AR-REPLY]")
    assert lines[2].endswith("(may follow from what came before)")
    assert lines[-1] == "next: agentreplay diff a.snapshot.json b.snapshot.json"
    assert "around it, python: 3.11 -> 3.12" in lines
    data = json.loads(typed("live", "lineup", *names, "--json").out)
    assert data["guilty"] == "tool search"
    assert [(row["layer"], row["independent"]) for row in data["layers"]] == [
        ("tool search", True),
        ("model sampling", False),
    ]
    assert data["kit"]["python"] == ["3.11", "3.12"]


def test_two_recordings_of_the_same_run(recordings, typed):
    """Nothing is guilty, though the second ran on another Python."""
    printed = typed("live", "lineup", *recordings())
    assert (printed.code, printed.out.splitlines()) == (
        0,
        ["no layer is guilty: the two recordings hold the same run", "around it, python: 3.11 -> 3.12"],
    )


def test_a_recording_that_is_not_there_or_damaged(recordings, typed, root):
    """As for `diff`."""
    first, _ = recordings()
    assert typed("live", "lineup", first, "gone.json").code == 2
    (root / "bad.json").write_text("{", encoding="utf-8")
    printed = typed("live", "lineup", first, "bad.json")
    assert (printed.code, "bad.json" in printed.err) == (4, True)


@pytest.mark.parametrize(
    ("word", "code", "answer"),
    [
        ("same", 0, "no layer is guilty: with all of them released the run is the recorded one"),
        ("drifted", 1, "guilty: clock; random; model"),
        ("inconclusive", 3, "undecided: no layer could be convicted, and not all could be cleared"),
        (None, 3, "undecided: no layer could be convicted, and not all could be cleared"),
    ],
)
def test_the_exit_code_says_whether_a_layer_is_guilty(typed, monkeypatch, word, code, answer):
    """What was not decided is said again behind the answer, with its reason."""
    monkeypatch.setattr(CellRuns, "_run_first", lambda _: {"outcome": "same"})
    monkeypatch.setattr(CellRuns, "_run_live", lambda *_: {"outcome": word, "why": "so it is"})
    printed = typed("live", "lineup", "test_a.py::test_b")
    lines = printed.out.splitlines()
    assert (printed.code, answer in lines) == (code, True)
    undecided = [line for line in lines if line.startswith("not decided: ")]
    assert len(undecided) == (0 if code < 2 else 4)
    assert all(line.endswith(": so it is") for line in undecided)
