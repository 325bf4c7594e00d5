"""Whoever looks at the agent's run: tracers and loggers. What reads a redirected function: tests/intercept/test_tool.py."""

import ast
import os
import re

import pytest

from tests.support.small_projects import passed, recorded

pytestmark = pytest.mark.env("main")

TRACER = """
import sys, threading
SEEN = []

def tracer(frame, event, arg):
    if frame.f_code.co_filename.endswith("agent.py"):
        SEEN.append((frame.f_code.co_name, event, frame.f_lineno))
        return tracer

def pytest_runtest_call(item):
    sys.{setter}(tracer)

def pytest_unconfigure():
    sys.{setter}(None)
    print("\\nSEEN", SEEN)
"""


def seen(done):
    return ast.literal_eval(re.search(r"^SEEN (.*)$", passed(done).stdout, re.MULTILINE)[1])


@pytest.mark.parametrize("setter", ["settrace", "setprofile"])
def test_a_tracer_of_the_users_sees_a_tool_run_while_recording_and_called_in_a_replay(project, setter):
    project.write(conftest=TRACER.replace("{setter}", setter))
    before, after = seen(project.record("-s")), seen(project.replay("-s"))
    rows = (project.root / "agent.py").read_text(encoding="utf-8").splitlines()
    body = rows.index('    note(f"lookup {order_id}")') + 1
    lines = {line for name, _, line in before if name == "lookup_order"}
    assert (body + 1 if setter == "setprofile" else body) in lines
    assert {line for name, _, line in after if name == "lookup_order"} == {body - 1}, "the line of the def"
    assert "note" not in {name for name, *_ in after}
    assert [x for x in before if x[0] == "answer"] == [x for x in after if x[0] == "answer"]


LOGGING = """
import logging, logging.handlers, queue, time, warnings
import agent

log = logging.getLogger("shop")

def test_refund(agentreplay, caplog):
    caplog.set_level("INFO")
    line, records = queue.Queue(), []

    class Keep(logging.Handler):
        def emit(self, record):
            records.append(record)

    listener = logging.handlers.QueueListener(line, Keep())
    handler = logging.handlers.QueueHandler(line)
    log.addHandler(handler)
    listener.start()
    try:
        for n in range(3):
            log.info("before %s", n)
        assert "refund" in agent.answer("Where is A-17?")
        log.info("after")
    finally:
        listener.stop()
        log.removeHandler(handler)
    texts = [r.getMessage() for r in caplog.records if r.name == "shop"]
    assert texts == ["before 0", "before 1", "before 2", "after"] == [r.getMessage() for r in records]
    stamps = [r.created for r in caplog.records if r.name == "shop"]
    assert stamps == sorted(stamps)
    assert len(set(stamps[:3])) == 1, "the run's clock stands between two calls, for log records too"
"""


def test_logging_and_durations_are_what_they_are_without_us(project):
    project.write(test_shop=LOGGING)
    words = ["--log-cli-level=INFO", "--log-file=run.log", "--durations=3", "-vv", "-o", "log_file_level=INFO"]
    for done in (project.record(*words), project.replay(*words)):
        assert "before 0" in passed(done).stdout
        durations = re.findall(r"^([\d.]+)s (?:call|setup|teardown)", done.stdout, re.MULTILINE)
        assert durations
        assert all(float(took) < 60 for took in durations), "pytest has its own clock"
    assert "after" in (project.root / "run.log").read_text(encoding="utf-8")


def test_one_test_by_its_absolute_path_from_elsewhere_finds_its_snapshot(project, tmp_path_factory):
    recorded(project)
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    node = f"{project.root / 'test_shop.py'}::test_refund"
    rooted = [f"--rootdir={project.root}", "-c", project.root / "pytest.ini"]
    for words in (rooted, []):
        done = passed(project.child("pytest", *project.options, *words, "--replay=model", node, cwd=elsewhere))
        assert "5 calls served, 0 live" in done.stdout
    assert not [*elsewhere.iterdir()]


@pytest.mark.parametrize("folder", ["..", "below"])
def test_the_command_of_a_report_runs_from_where_pytest_was_started(project, folder):
    recorded(project)
    project.edit("agent.py", "Be kind.", "Be nice.")
    here = project.root / folder
    here.mkdir(exist_ok=True)
    done = project.child("pytest", *project.options, "--replay=model", f"{project.root}/test_shop.py", cwd=here)
    named = re.search(r"pytest --snapshot-record (\S+::test_refund)", done.stdout)[1]
    assert named == f"{os.path.relpath(project.root, here)}/test_shop.py::test_refund"
    again = project.child("pytest", *project.options, "--replay=model", named, cwd=here)
    assert "1 failed" in again.stdout
