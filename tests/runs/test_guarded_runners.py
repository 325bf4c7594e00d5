"""What a runner must not do while a case is tried: reach the network, start a child, run a tool. No expectation covers it."""

from __future__ import annotations

import importlib
import os
import socket
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_agentreplay.cases.evidence import CaseEvidence
from pytest_agentreplay.model.divergence import Kind
from pytest_agentreplay.model.exchanges import Header, Run
from pytest_agentreplay.runs.cases.evaluation import CaseEvaluator
from pytest_agentreplay.runs.cases.in_process_run import attempt
from pytest_agentreplay.runs.cases.runners import Runners
from pytest_agentreplay.runs.cases.stored_case import read_case
from pytest_agentreplay.snapshots import codec
from tests.runs.shop import CLIENTS, NOBODY, Shop, by_hand, case, settings
from tests.support import refund_calls

pytestmark = pytest.mark.env("main")

JOINING = {"os.fork", "os.forkpty", "pty.fork", *(f"multiprocessing {how}" for how in ("fork", "spawn", "forkserver"))}
"""Children that run Python join the run of the case; what they ask of the world is refused there."""


def ran(runner, root, half="observed", tools=()):
    asked = replace(case(root), input=None)
    given = {"settings": settings(tools=tools), "root": Path.cwd(), "environ": os.environ}
    return attempt(asked, half, Run(Header("nothing")), runner=runner, **given)


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="half of the probes are Linux's")
def test_every_way_out_that_python_tells_of_is_refused_and_in_the_evidence(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "safety"))
    probes = importlib.import_module("probes")
    for name, value in vars(socket).items():
        monkeypatch.setitem(vars(socket), name, value)  # a probe reloads it
    heard = (name for name in probes.here() if probes.PROBES[name].heard and not probes.PROBES[name].allowed)
    names = [name for name in heard if name not in JOINING]
    with probes.Listener(tmp_path) as listener:
        place = probes.Place(tmp_path)
        for name in names:
            probe = probes.PROBES[name]
            for context in probe.contexts:
                evidence = ran(lambda probe=probe, context=context: str(probes.go(probe, context, place)), tmp_path)
                assert evidence.divergence is not None, (name, context, evidence.output)
                assert evidence.divergence.kind is Kind.NETWORK, (name, context)
                assert evidence.escapes, (name, context)
        assert listener.heard == 0
    assert not place.touched.exists()
    assert len(names) > 30


CASE = """\
schemaVersion: "1.0"
id: order
title: It answers
source: {{format: snapshot, fidelity: semantic}}
input:
  messages: [{{role: user, content: "Where is my order A-17?"}}]
runner: shop
expect: {expect}
observed: [{{output: {{contains: u-3}}}}]
desired: [{{output: {{not_contains: u-3}}}}]
"""


def evaluator(root, runner, *, expect="reproduces", **given):
    """The frozen order as a case with `runner` as today's agent, and what evaluates it."""
    folder = root / "cases/order"
    folder.mkdir(parents=True)
    (folder / "case.yaml").write_text(CASE.format(expect=expect), encoding="utf-8")
    (folder / "run.snapshot.json").write_bytes(codec.dumps(by_hand()).encode())
    runners = Runners((), [{"shop": runner}])
    made = CaseEvaluator(root=root, settings=settings(**given), runners=runners, environ=os.environ, redactors={})
    return made, folder / "case.yaml"


def verdict(root, runner, **given):
    made, file = evaluator(root, runner, **given)
    return made.evaluate(read_case(file))


def answer(messages):
    return CLIENTS["chat"](Shop(NOBODY), messages)


def calls_home():
    with suppress(BaseException):
        socket.create_connection(("127.0.0.1", 9), timeout=1)


def at_once(messages):
    calls_home()
    return answer(messages)


def at_the_end(messages):
    output = answer(messages)
    calls_home()
    return output.replace("u-3", "nobody")


def after_another_divergence(messages):
    """The refusal of the model's call is what the run parted by first."""
    for model in ("another", "gpt-x"):
        with suppress(BaseException):
            CLIENTS["chat"](Shop(NOBODY, model=model), [*messages, *messages])
    calls_home()


def test_one_that_swallows_the_refusal_fails_the_case_whatever_is_expected(tmp_path):
    for runner in (at_once, at_the_end, after_another_divergence):
        for expect in ("reproduces", "fixed"):
            case = verdict(tmp_path / f"{runner.__name__}-{expect}", runner, expect=expect)
            assert (case.word, case.outcome) == ("cannot tell", "failed"), case.headline
            for result in case.lists.values():
                (note,) = (note for note in result.notes if note.startswith("refused: "))
                assert note.startswith("refused: 1 connect to 127.0.0.1:9 from ")
            assert [label for label, _ in case.next] == ["see the recording"]
    assert verdict(tmp_path, answer).word == "holds", "of one that asks nobody"


def test_a_command_may_ask_its_proxy_for_the_hosts_that_the_project_allows(tmp_path):
    class Command:
        def run(self, case, backend, serving, served):
            with serving:
                told.append(serving.env)
            return CaseEvidence(served="strict")

    told = []
    made, file = evaluator(tmp_path, answer, allow_hosts=("db.example.com",))
    made.evaluate(read_case(file), command=Command())
    assert told[0]["NO_PROXY"] == "127.0.0.1,localhost,::1,db.example.com"
    assert told[0]["HTTPS_PROXY"].startswith("http://agentreplay:")


def test_no_tool_runs_however_a_runner_holds_and_calls_it(tmp_path, monkeypatch):
    monkeypatch.setattr(refund_calls, "LEDGER", tmp_path / "ledger.txt")
    monkeypatch.setattr(refund_calls.Seen, "replaying", True)
    tools = tuple((f"{refund_calls.__name__}.{tool.__qualname__}", "write") for tool in refund_calls.TOOLS)
    ways = [way for way in refund_calls.WAYS if not way.after]
    for half in ("observed", "desired"):
        for way in ways:
            assert ran(way.agent, tmp_path, half, tools).divergence is not None, (way.name, half)
    assert len(ways) > 40
    assert not refund_calls.LEDGER.exists()
