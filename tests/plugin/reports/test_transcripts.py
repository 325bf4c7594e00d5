"""`assert agentreplay.run == agent_snapshot`: syrupy's life of a snapshot, with our transcript and our words for a difference."""

import pytest

from tests.support.small_projects import passed

TEST = """
import agent

def test_refund(agentreplay, agent_snapshot):
    run = agentreplay.run
    agent.answer("Where is A-17?")
    assert run == agent_snapshot

def test_beside(snapshot):
    assert {"not": "ours"} == snapshot
"""


@pytest.fixture
def frozen(project):
    project.plugins += ("syrupy",)
    project.environ["NO_COLOR"] = "1"
    project.write(test_shop=TEST)
    return project


def test_a_transcript_is_recorded_kept_and_its_difference_told_by_its_turn(frozen):
    done = frozen.record()
    assert "1 failed, 1 passed" in done.stdout, "it takes the transcripts of its own tests alone"
    (transcript,) = frozen.root.rglob("*.run.txt")
    text = transcript.read_text(encoding="utf-8")
    assert "lookup_order" in text
    assert "Be brief." in text
    assert "chatcmpl" not in text, "no ids"
    assert len(frozen.files) == 1, "our recordings lie where syrupy does not look"
    before = frozen.files[0].read_bytes()
    passed(frozen.replay("--snapshot-update"))
    assert frozen.files[0].read_bytes() == before
    assert transcript.read_text(encoding="utf-8") == text
    transcript.write_text(text.replace("amount", "sum", 1), encoding="utf-8")
    done = frozen.replay()
    assert "1 failed, 1 passed" in done.stdout
    assert "first divergent turn: turn 2" in done.stdout
    assert done.stdout.count("Be brief.") <= 1, "neither repr spells the run out"
    transcript.unlink()
    done = frozen.replay()
    assert "1 failed, 1 passed" in done.stdout
    assert "Snapshot 'test_refund' does not exist!" in done.stdout
    frozen.edit("test_shop.py", "assert run ==", "assert 'a text' ==")
    said = "TypeError: expected a run, `agentreplay.run` or a loaded snapshot, not str"
    assert said in " ".join(frozen.replay("-k", "refund", COLUMNS="200").stdout.split())


ACCEPT = ("accept", "--all", "--requests", "--reason", "the wording alone has changed")


def test_accept_takes_the_transcript_with_the_snapshot_or_neither_and_no_failed_test_offers_to_delete_it(frozen):
    frozen.edit("test_shop.py", "assert run ==", "assert run == agent_snapshot(name='second')\n    assert run ==")
    frozen.edit("test_shop.py", '{"not": "ours"} == snapshot', "snapshot is not None")
    passed(frozen.record())
    transcripts = sorted(frozen.root.rglob("*.run.txt"))
    assert len(transcripts) == 2
    kept = [file.read_bytes() for file in (*frozen.files, *transcripts)]

    def unchanged():
        return [file.read_bytes() for file in (*frozen.files, *transcripts)] == kept

    frozen.edit("agent.py", "Be brief.", "Be short.")
    done = frozen.replay("--snapshot-update")
    assert (done.returncode, "unused" in done.stdout) == (1, False), done.stdout
    assert unchanged(), "a test that diverged has not come to its transcripts"
    assert "to accept" in frozen.command("accept", "--all", "--requests", "--dry-run").stdout
    frozen.edit(
        "test_shop.py", "    assert run == agent_snapshot\n", "    assert run == agent_snapshot\n    assert not run\n"
    )
    done = frozen.command(*ACCEPT)
    assert (done.returncode, "unused" in done.stdout) == (1, False), done.stdout
    assert unchanged(), "neither by a dry run nor by an accept whose test fails"
    frozen.edit("test_shop.py", "    assert not run\n", "")
    done = passed(frozen.command(*ACCEPT))
    assert "accepted  2 transcripts of test_shop.py::test_refund" in done.stdout
    passed(frozen.replay())
    transcripts[0].unlink()
    assert "accepted  1 transcript of test_shop.py::test_refund" in passed(frozen.command(*ACCEPT)).stdout
    passed(frozen.replay())


def test_without_syrupy_the_fixture_says_so(project):
    project.write(test_shop=TEST)
    done = project.replay("-k", "refund")
    assert done.returncode == 1
    assert "syrupy" in done.stdout


def lines(recorded, now):
    from pytest_agentreplay.plugin.transcript import describe_difference  # syrupy is loaded with it

    return list(describe_difference(recorded, now))


def test_the_difference_of_two_transcripts(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    one = "turn 1  gpt-5\n  user: hi\n  answers: a\n\nturn 2  gpt-5\n  answers: b\n"
    assert lines(one, one) == []
    assert lines(one, one.replace("answers: a", "answers: x").replace("answers: b", "answers: y")) == [
        "first divergent turn: turn 1  gpt-5",
        "    user: hi",
        "-   answers: a",
        "+   answers: x",
        "  ... and 1 later turn differs",
    ]
    shorter = one.partition("\n\n")[0] + "\n"
    assert lines(one, shorter)[:2] == ["first divergent turn: turn 2  gpt-5", "- recorded, but the run ended before it"]
    assert lines(shorter, one)[:2] == ["first divergent turn: turn 2  gpt-5", "+ one turn more than recorded"]


def test_a_large_difference_is_cut_and_cheap(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    old, new = ("turn 1  a\n" + "".join(f"  {word} {n}\n" for n in range(20_000)) for word in ("old", "new"))
    found = lines(old, new)
    assert len(found) == 14
    assert found[-1] == "  ... 39988 more lines differ in this turn"
