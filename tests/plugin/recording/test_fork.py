"""`--snapshot-record --replay-until=TURN`: recorded turns before TURN, the real model from there on, a pending run."""

import pytest

from pytest_agentreplay import codec
from tests.support.small_projects import passed, recorded


def forked(project, *words, **environ):
    """Fork, and return the finished process with how many model calls it made and which tools ran."""
    before, ran = project.server.hits, len(project.ledger)
    done = project.record(*words, COLUMNS="250", **environ)
    return done, project.server.hits - before, project.ledger[ran:]


def pending(project):
    (file,) = (project.root / ".pytest_agentreplay" / "pending").rglob("*.snapshot.json")
    return codec.loads(file.read_bytes(), file=str(file)).run


def taken(project):
    """Accept the pending run, and replay it offline with nothing live."""
    passed(project.command("accept", "--all"))
    return passed(project.offline(COLUMNS="250"))


@pytest.mark.parametrize("turn", ["3", "-1"])
@pytest.mark.proves
def test_a_word_of_the_prompt_costs_the_last_model_call_alone(project, turn):
    recorded(project)
    (before,) = project.snapshots
    project.edit("agent.py", "Be brief.", "Be short.")
    done, asked, ran = forked(project, f"--replay-until={turn}")
    passed(done)
    assert (asked, ran) == (1, [])
    assert f"model frozen before turn {turn} and LIVE from there, tools frozen" in done.stdout
    assert "test_refund: forked at turn 3 (calls served: 4, model calls made: 1); " in done.stdout
    assert project.snapshots[0].run == before.run
    run = pending(project)
    assert run.header.kit["forked"] == {"turn": 3, "from": before.run.header.recorded, "served": 4}
    old = before.run.exchanges
    assert [x.outcome for x in run.exchanges[:4]] == [x.outcome for x in old[:4]]
    assert run.exchanges[4].outcome != old[4].outcome
    assert [(x.start, x.finish) for x in run.exchanges] == [(x.start, x.finish) for x in old]
    assert all(b"Be short." in x.call.body.data for x in run.exchanges[::2])
    differs = project.command("diff", project.files[0], next((project.root / ".pytest_agentreplay").rglob("*.json")))
    assert differs.returncode == 1
    assert "[AR-PROMPT]" in differs.stdout
    taken(project)
    fact = f"forked: at turn 3 of the run of {before.run.header.recorded}, calls served: 4"
    assert fact in passed(project.command("show", project.files[0])).stdout
