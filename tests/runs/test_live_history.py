"""The history of live runs: what is appended is read again, however many files it lies in and however a writer ended."""

import dataclasses
import json
import multiprocessing
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.compare.live_result import Drift, LiveResult
from pytest_agentreplay.errors import SnapshotMissing, SnapshotUnreadable
from pytest_agentreplay.report.live_reports import build_rows, format_page, format_trend
from pytest_agentreplay.runs.live import history

RUN = LiveResult(
    "tests/test_a.py::test_x", "LF", 1, "2026-11-01T10:00:00Z", passed=False, session="s1",
    drifts=(Drift("model", "$.final", "text(0.8)", "text differs", "shipped", "lost", 2),), off_script=("lookup {}",),
    tokens={"input": 10, "output": 2}, cost=0.25, seconds=1.5, model="m", served_models=("m-1",), packages={"openai": "3"},
)  # fmt: skip


def made(run, **changes):
    return dataclasses.replace(RUN, run=run, at=f"2026-11-01T10:00:{run:02}Z", **changes)


def text_of(*runs):
    return "".join(json.dumps({"format": 1, "result": run.plain()}) + "\n" for run in runs)


def test_runs_are_read_as_they_were_appended_and_git_leaves_them_out(tmp_path):
    runs = [made(n) for n in (1, 2, 3)]
    history.append(tmp_path, runs[:2], [{"test": RUN.test, "word": "drifted"}])
    history.append(tmp_path, runs[2:])
    history.append(tmp_path, [])
    assert history.read_runs([tmp_path / history.FILE]) == runs
    assert (tmp_path / ".agentreplay" / ".gitignore").read_text(encoding="utf-8") == "*\n"
    lines = (tmp_path / history.FILE).read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[2]) == {"format": 1, "verdict": {"test": RUN.test, "word": "drifted"}}


def test_histories_of_shards_are_one_and_what_stands_twice_counts_once(tmp_path):
    (tmp_path / "shard-1").mkdir()
    (tmp_path / "shard-1" / "history.jsonl").write_text(text_of(made(3), made(1)), encoding="utf-8")
    other = made(1, changed={"model": "other"})
    (tmp_path / "second.jsonl").write_text(text_of(made(2), made(1), other, made(1, session="s2")), encoding="utf-8")
    runs = history.read_runs([tmp_path / "shard-1", tmp_path / "second.jsonl", tmp_path / "second.jsonl"])
    assert runs == [made(1), other, made(1, session="s2"), made(2), made(3)]


def test_what_a_killed_writer_has_left_does_not_count_and_spoils_no_later_line(tmp_path):
    history.append(tmp_path, [made(1)])
    file = tmp_path / history.FILE
    file.write_bytes(file.read_bytes() + text_of(made(2)).encode()[:40])
    assert history.read_runs([file]) == [made(1)]
    history.append(tmp_path, [made(3)])
    assert history.read_runs([file]) == [made(1), made(3)]


FIRST_FORMAT = """\
{"format": 1, "result": {"test": "t.py::x", "cell": "LF", "run": 2, "at": "2026-11-25T10:00:00Z", "passed": true, "drifts": [
{"layer": "tool", "path": "$.tools", "tolerance": "equal", "summary": "one less", "recorded": [1], "now": [], "turn": 1}],
"off_script": [], "calls": 3, "tokens": {"input": 7}, "cost": null, "seconds": 1, "model": "m", "served_models": ["m-1"]}}
"""


def test_a_line_as_it_was_first_released_stays_readable(tmp_path):
    (tmp_path / "h.jsonl").write_text(FIRST_FORMAT[:-1].replace("\n", " ") + "\n", encoding="utf-8")
    (run,) = history.read_runs([tmp_path / "h.jsonl"])
    assert (run.test, run.run, run.tokens, run.served_models, run.same) == ("t.py::x", 2, {"input": 7}, ("m-1",), False)
    assert run.drifts == (Drift("tool", "$.tools", "equal", "one less", [1], [], 1),)


def test_keys_of_a_newer_version_are_left_out(tmp_path):
    plain = RUN.plain() | {"newer": [1]}
    plain["drifts"][0]["newer"] = True
    (tmp_path / "h.jsonl").write_text(json.dumps({"format": 1, "more": 2, "result": plain}) + "\n", encoding="utf-8")
    assert history.read_runs([tmp_path / "h.jsonl"]) == [RUN]


def line_of(**changes):
    return json.dumps({"format": 1, "result": {**RUN.plain(), **changes}})


@pytest.mark.parametrize(
    "line",
    [
        "", "{", "[]", "7", "null", '{"format": 1}', '{"format": 1, "result": {}}', '{"format": 1, "result": []}',
        '{"result": {"test": "t", "cell": "LF", "drifts": []}}', '{"format": 2, "result": {}}', "[" * 100_000,
        line_of(at=5), line_of(run="1"), line_of(tokens={"input": "many"}), line_of(cost=float("nan")), line_of(cost="1"), line_of(cost=[]),
        line_of(seconds=float("inf")), line_of(drifts=[1]), line_of(served_models="m"), line_of(passed="yes"), "\udcff",
    ],
)  # fmt: skip
def test_a_damaged_line_is_an_error_that_names_file_and_line(tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    data = text_of(made(1)) + line + "\n" + text_of(made(2))
    (tmp_path / "h.jsonl").write_bytes(data.encode("utf-8", "surrogateescape"))
    with pytest.raises(SnapshotUnreadable) as refused:
        history.read_runs([tmp_path / "h.jsonl"])
    assert str(refused.value) == (
        "h.jsonl: line 2: is no line of format 1 of a history of live runs; remove it, or update pytest_agentreplay"
    )


def test_a_history_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(SnapshotMissing, match="none: there is no such file"):
        history.read_runs([tmp_path / "none"])


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)


@given(st.dictionaries(st.sampled_from([*RUN.plain()]), VALUES, max_size=3))
def test_whatever_a_line_holds_it_is_refused_or_can_be_reported(tmp_path_factory, changes):
    file = tmp_path_factory.getbasetemp() / "any.jsonl"
    file.write_text(line_of(**changes) + "\n", encoding="utf-8")
    try:
        runs = history.read_runs([file])
    except SnapshotUnreadable:
        return
    rows = build_rows(runs)
    assert format_trend(rows, 80, "utf-8")
    assert format_page(rows)


@pytest.mark.skipif(os.name != "posix", reason="POSIX links")
def test_nothing_is_written_behind_a_link(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / ".agentreplay").symlink_to(tmp_path / "outside")
    with pytest.raises(SnapshotUnreadable, match="lies behind a link"):
        history.append(tmp_path / "project", [RUN])
    assert not os.listdir(tmp_path / "outside")


def append_some(root, session):
    for run in range(20):
        history.append(root, [made(run, session=session)])


def test_two_processes_that_append_at_once_lose_nothing(tmp_path):
    started = [multiprocessing.get_context("spawn").Process(target=append_some, args=(tmp_path, s)) for s in "ab"]
    for process in started:
        process.start()
    for process in started:
        process.join(60)
    assert len(history.read_runs([tmp_path])) == 40
