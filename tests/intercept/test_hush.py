"""The interpreter is silent about what a refusal led to, and about nothing else."""

import logging
import threading
import types

import pytest

from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.intercept.session.exits import install_excepthooks as install
from pytest_agentreplay.intercept.session.exits import is_due_to_refusal, is_worth_logging, silence_refusals


def raised(error, cause=None):
    try:
        raise error from cause
    except BaseException as caught:
        return caught


OURS = [
    ReplayDiverged("no"),
    BaseExceptionGroup("both", [ReplayDiverged("no"), BaseExceptionGroup("inner", [ReplayDiverged("no")])]),
    raised(RuntimeError("the agent broke"), ReplayDiverged("no")),
    raised(ValueError("again"), raised(RuntimeError("the agent broke"), ReplayDiverged("no"))),
]
THEIRS = [ValueError("x"), BaseExceptionGroup("mixed", [ReplayDiverged("no"), ValueError("x")]), None]


def test_only_what_a_refusal_led_to_is_not_said():
    for error in (*OURS, *THEIRS):
        said = []
        silence_refusals(said.append)(told := types.SimpleNamespace(exc_value=error))
        assert is_due_to_refusal(error) == (error in OURS), error
        assert said == ([] if error in OURS else [told]), error


def test_an_error_in_a_circle_ends():
    one, two = ValueError(), ValueError()
    one.__cause__, two.__cause__ = two, one
    assert not is_due_to_refusal(one)


def test_logs_of_asyncio():
    def record(error):
        return logging.LogRecord(
            "asyncio", logging.ERROR, "", 1, "m", (), (type(error), error, None) if error else None
        )

    assert not is_worth_logging(record(ReplayDiverged("no")))
    assert is_worth_logging(record(ValueError()))
    assert is_worth_logging(record(None))


def test_installed_once(monkeypatch):
    monkeypatch.setattr(threading, "excepthook", print)
    install()
    hook = threading.excepthook
    install()
    assert threading.excepthook is hook is not print


@pytest.mark.parametrize("name", ["asyncio", "openai.agents"])
def test_what_a_refusal_did_to_a_thread_of_theirs_is_not_logged(name, caplog):
    install()
    logger = logging.getLogger(name)

    def export(error):
        try:
            raise error
        except BaseException:
            logger.exception("the exporter's thread has failed")

    for error in (ReplayDiverged("refused: its test had ended"), ValueError("of theirs")):
        thread = threading.Thread(target=export, args=(error,))
        thread.start()
        thread.join()
    (record,) = caplog.records
    assert isinstance(record.exc_info[1], ValueError)
