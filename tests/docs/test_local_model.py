"""The page of the local model and its agent: a real model at temperature 0.8, recorded, replayed, run live, compared, forked."""

import re
from collections import Counter

import pytest

from pytest_agentreplay import cli
from pytest_agentreplay.model.exchanges import HttpReply
from pytest_agentreplay.snapshots import codec
from tests.support.pages import blocks_of, pages_of
from tests.support.project import NOBODY
from tests.support.small_projects import passed, recorded, summary

pytestmark = [pytest.mark.env("model"), pytest.mark.process, pytest.mark.proves]
(PAGE,) = pages_of("model")
OFFLINE = {"OPENAI_BASE_URL": f"{NOBODY}/v1"}
LIVE = ("--replay=live", "--replay-runs=auto")
RAW = """
import pathlib
from openai import OpenAI

def test_raw(agentreplay):
    messages = [{"role": "user", "content": "Once upon a time"}]
    with OpenAI() as client:
        reply = client.chat.completions.with_raw_response.create(
            model="gemma-3-270m", temperature=0.8, messages=messages, max_tokens=12)
    with pathlib.Path("replies").open("a") as replies:
        replies.write(reply.text + chr(10) + reply.parse().choices[0].message.content + chr(0))
"""


@pytest.fixture(scope="module")
def clerk(shared_project, local_model):
    """The page's project, recorded."""
    project = shared_project(environ=local_model)
    for block in blocks_of(PAGE):
        if block.kind == "file":
            project.put(project.root / block.title, block.text)
    recorded(project)
    assert "test passed)   replays" in project.recording.stdout
    return project


def test_every_block_of_the_page_holds(play, local_model):
    page = play(PAGE)
    page.environ |= local_model
    page.play()


def test_a_replay_gives_the_recorded_bytes_and_two_live_runs_differ(project, local_model):
    project.environ |= local_model
    project.write(test_shop=RAW)
    recorded(project)
    for _ in range(2):
        passed(project.offline(**OFFLINE))
    for _ in range(2):
        passed(project.run("--replay=off"))
    replies = (project.root / "replies").read_text(encoding="utf-8").split("\0")[:-1]
    first, proof, *replays, one, other = replies
    assert [proof, *replays] == [first] * 3
    assert len({reply.rpartition("\n")[2] for reply in (first, one, other)}) == 3


def test_two_temperatures_are_compared(clerk):
    done = passed(
        clerk.command(
            "live", "compare", "--set", "temperature=0.8", "--set", "temperature=0", "--runs", "6", "test_clerk.py"
        )
    )
    assert "no difference shown" in done.stdout
    assert len(re.findall(r"(?m)^  temperature=0\S* +6/6 ", done.stdout)) == 4, done.stdout


def test_a_fork_serves_the_turns_before_and_asks_the_model_from_there_on(clerk):
    done = passed(clerk.record("--record-from=2"))
    assert "forked at turn 2 (calls served: 2, made: 1)" in done.stdout
    (pending,) = (clerk.root / ".pytest_agentreplay").rglob("*.snapshot.json")
    before, now = (models(codec.loads(file.read_bytes(), file="a").run) for file in (clerk.files[0], pending))
    assert (now[0] == before[0], now[1] == before[1]) == (True, False)


def models(run):
    """Return the bytes of each reply of the model."""
    return [each.outcome.body.data for each in run.exchanges if isinstance(each.outcome, HttpReply)]


def test_a_changed_prompt_is_seen_offline_and_live(clerk):
    clerk.edit("clerk.py", "customers", "readers")
    report = summary(clerk.offline(**OFFLINE))["late_order"]
    clerk.edit("clerk.py", "readers", "customers")
    assert report.startswith("[AR-PROMPT] turn 1/2"), report
    done = clerk.run(*LIVE, "--replay-set", "prompt=@anonymized.txt")
    assert (done.returncode, re.findall(r"(?m)^live  (\S+) +model ", done.stdout)) == (1, ["drifted"]), done.stdout


@pytest.mark.exhaustive
def test_forty_verifications_of_the_same_model_raise_no_more_false_alarms_than_promised(clerk):
    """A share of `alpha`, 0.05, is accepted: two of forty."""
    verdicts = Counter(re.findall(r"(?m)^live  (\w+) .*::", clerk.run(*LIVE).stdout)[0] for _ in range(40))
    assert verdicts["same"] >= 38, verdicts


def test_the_demo_walks_with_the_model(tmp_path, capsys):
    assert cli.main(["demo", "--model", "local", "--dir", str(tmp_path / "shop")]) == 0
    shown = capsys.readouterr().out
    assert "(1 turn, 4 calls served, 0 live)" in shown
    assert "[AR-PROMPT] turn 1/1: model gemma-3-270m" in shown
