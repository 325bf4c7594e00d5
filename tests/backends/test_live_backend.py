"""The backend of a live run, without a world: what it lets through, answers and refuses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.backends.backend import Moment, PassThrough, Refused, Replayed
from pytest_agentreplay.backends.case_backend import AnswerPolicy
from pytest_agentreplay.backends.live_backend import LiveBackend
from pytest_agentreplay.compare.live_result import Axes
from pytest_agentreplay.compare.matching import Matching
from pytest_agentreplay.compare.tolerance import TolerancePolicy, parse
from pytest_agentreplay.model.exchanges import ToolCall, ToolReply
from pytest_agentreplay.providers import READER, RULES
from tests.support.chat_runs import ask, run, say, tool
from tests.support.exchanges import call

RUN = run(
    (ask(), say(None, ("look_up", {"order": "A-17"}))),
    tool("look_up", "late", order="A-17"),
    tool("refund", "refunded", order="A-17"),
    (ask(), say("It is late.")),
)
MODEL = ask()
AXES = [Axes(model, tools) for model in ("frozen", "live") for tools in ("frozen", "checked", "live")]


def backend(axes, *policies, tolerances=()):
    model = "live" if axes.model == "live" else "position"
    near = TolerancePolicy(parse(*line) for line in tolerances)
    cast = AnswerPolicy(model=model, tools="arguments", tolerances=near)
    made = LiveBackend(RUN, Matching(READER, RULES), READER, cast, axes)
    made.policies = policies
    return made


def called(made, name, order, *, reads=False, parent=None):
    return made.decide(ToolCall(name, {"order": order}), Moment("main", 0, reads=reads, parent=parent))


CALLS = st.tuples(st.sampled_from(["look_up", "refund", "model"]), st.sampled_from(["A-17", "A-18"]))


@given(
    st.sampled_from(AXES),
    st.lists(CALLS, max_size=8),
    st.sampled_from(["stop", "live", 'stub {"a": 1}']),
    st.booleans(),
)
def test_no_tool_that_writes_ever_runs(axes, calls, policy, inside):
    made = backend(axes, ("*", policy))
    parent = None
    for name, order in calls:
        if name == "model":
            made.decide(MODEL, Moment("main", 0))
            continue
        verdict = called(made, name, order, reads=name == "look_up", parent=parent)
        runs = isinstance(verdict, PassThrough) or (isinstance(verdict, Replayed) and verdict.compare is not None)
        assert not (runs and name == "refund"), (axes, calls, policy)
        assert not (runs and axes.tools == "frozen" and policy != "live")
        parent = getattr(verdict, "ticket", None) if inside and runs else None


@pytest.mark.parametrize("axes", AXES, ids=lambda axes: f"{axes.model}-{axes.tools}")
def test_what_goes_to_the_world_is_what_the_axes_say(axes):
    made = backend(axes)
    assert isinstance(made.decide(MODEL, Moment("main", 0)), PassThrough if axes.model == "live" else Replayed)
    read = called(made, "look_up", "A-17", reads=True)
    assert isinstance(read, PassThrough) == (axes.tools == "live")
    assert (getattr(read, "compare", None) is not None) == (axes.tools == "checked")
    assert called(made, "refund", "A-17").exchange.outcome == ToolReply("refunded")


def test_what_reads_gives_its_answer_again_and_what_writes_does_not():
    made = backend(Axes("live"))
    assert [called(made, "look_up", "A-17", reads=True).exchange.outcome for _ in range(3)] == [ToolReply("late")] * 3
    assert isinstance(called(made, "refund", "A-17"), Replayed)
    assert made.off_script == []
    refused = called(made, "refund", "A-17")
    assert isinstance(refused, Refused)
    assert made.off_script == ["refund"]
    assert refused.divergence.summary == "refund was called off script"
    assert refused.divergence.hints == ('answer it: agentreplay_off_script = refund = stub {"status": "..."}',)


def test_the_last_policy_that_names_a_tool_holds():
    made = backend(Axes("live"), ("*", "stop"), ("look_*", 'stub {"status": "shipped"}'), ("refund", "live"))
    assert called(made, "look_up", "A-18", reads=True).exchange.outcome == ToolReply({"status": "shipped"})
    refused = called(made, "refund", "A-18")
    assert refused.divergence.cause == "a tool that writes never runs"
    assert made.off_script == ["look_up", "refund"]


@pytest.mark.parametrize(
    ("call", "name", "runs"),
    [
        (call({"model": "e-3", "input": "shoes"}, url="https://api.openai.com/v1/embeddings"), "embeddings e-3", True),
        (call({"a": 1}, url="https://shop.example/orders"), "POST shop.example/orders", False),
    ],
)
def test_a_request_over_the_network_may_run_where_it_changes_nothing(call, name, runs):
    made = backend(Axes("live"), (name, "live"))
    verdict = made.decide(call, Moment("main", 0))
    assert made.off_script == [name]
    assert isinstance(verdict, PassThrough if runs else Refused)
    stopped = backend(Axes("live")).decide(call, Moment("main", 0)).divergence.hints
    assert stopped == ((f"or let it run: agentreplay_off_script = {name} = live",) if runs else ())


def test_arguments_that_are_near_enough_are_answered_as_the_recorded_ones():
    near = backend(Axes("live"), tolerances=[("$.tools[*].arguments.order", "ignore")])
    assert called(near, "look_up", "A-18").exchange.outcome == ToolReply("late")
    assert near.off_script == []


def test_a_live_result_is_compared_with_the_one_recorded_for_the_same_arguments():
    made = backend(Axes("frozen", "live"))
    verdict = called(made, "look_up", "A-17", reads=True)
    made.settle(verdict.ticket, ToolReply("lost"), at=1, first=None, suspended=False)
    (changed,) = made.changed
    assert (changed.kind.code, changed.differences[0].recorded, changed.differences[0].now) == (
        "AR-RESULT",
        "late",
        "lost",
    )
    assert made.list_made()[-1].outcome == ToolReply("lost"), "the run of now has what the agent was given"
    other = called(made, "look_up", "A-18", reads=True)
    made.settle(other.ticket, ToolReply("new"), at=2, first=None, suspended=False)
    assert len(made.changed) == 1, "nothing is recorded for these"


def test_a_frozen_model_that_is_asked_too_often_is_no_tool_off_script():
    made = backend(Axes("frozen", "live"))
    answers = [made.decide(MODEL, Moment("main", 0)) for _ in range(3)]
    assert [type(answer) for answer in answers] == [Replayed, Replayed, Refused]
    assert answers[-1].divergence.summary.endswith("was called more often than recorded")
    assert answers[-1].divergence.hints == ()
