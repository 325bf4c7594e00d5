"""`assert agentreplay.run == agent_snapshot`, through pytest and the real syrupy."""

import pytest

TEST = """
import agent

def test_refund(agentreplay, agent_snapshot):
    agent.answer("Where is A-17?")
    assert agentreplay.run == agent_snapshot

def test_beside(snapshot):
    assert {"not": "ours"} == snapshot
"""


@pytest.fixture
def frozen(project):
    project.plugins += ("syrupy",)
    project.write(test_shop=TEST)
    return project


def transcripts(project):
    return sorted(project.root.rglob("*.run.txt"))


def test_recording_writes_the_transcript_and_leaves_other_snapshots_alone(frozen):
    done = frozen.record()
    assert "1 failed, 1 passed" in done.stdout or "1 passed, 1 failed" in done.stdout, done.stdout
    (transcript,) = transcripts(frozen)
    text = transcript.read_text(encoding="utf-8")
    assert "lookup_order" in text
    assert "Be brief." in text
    assert "chatcmpl" not in text, "no ids"
    assert frozen.replay("-k", "refund").returncode == 0
    assert len(frozen.files) == 1, "our recordings lie where syrupy does not look"


def test_syrupy_update_does_not_touch_recordings(frozen):
    frozen.record("-k", "refund")
    before = frozen.files[0].read_bytes()
    done = frozen.replay("--snapshot-update")
    assert done.returncode == 0, done.stdout
    assert frozen.files[0].read_bytes() == before


def test_a_changed_transcript_names_the_turn(frozen):
    frozen.record("-k", "refund")
    (transcript,) = transcripts(frozen)
    transcript.write_text(transcript.read_text(encoding="utf-8").replace("A-17", "A-18"), encoding="utf-8")
    done = frozen.replay("-k", "refund")
    assert done.returncode == 1
    assert "first divergent turn" in done.stdout


def test_without_syrupy_the_fixture_says_so(project):
    project.write(test_shop=TEST)
    project.record("-k", "refund")
    done = project.replay("-k", "refund")
    assert done.returncode == 1
    assert "syrupy" in done.stdout
