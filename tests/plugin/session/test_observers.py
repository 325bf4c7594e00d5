"""Whoever looks at the agent's code and its run: coverage, tracers, profilers, loggers, and readers of signatures."""

import ast
import re
import sys

import pytest

from tests.support.exhaustive import rare

pytestmark = pytest.mark.env("main")

CORES = ["ctrace", *(["sysmon"] if sys.version_info >= (3, 12) else [])]

SHAPES = """
import functools, inspect, pickle, typing
import agent

def described(fn):
    return {
        "signature": str(inspect.signature(fn)), "source": inspect.getsource(fn), "doc": fn.__doc__, "name": fn.__qualname__,
        "line": fn.__code__.co_firstlineno, "file": fn.__code__.co_filename, "defaults": fn.__defaults__,
        "kwdefaults": fn.__kwdefaults__, "hints": typing.get_type_hints(fn), "pickled": fn is not getattr(agent, fn.__name__) or pickle.loads(pickle.dumps(fn)) is fn,
        "wrapped": described(fn.__wrapped__) if hasattr(fn, "__wrapped__") else None,
        "coroutine": inspect.iscoroutinefunction(fn), "generator": inspect.isgeneratorfunction(fn),
        "names": fn.__code__.co_varnames[:fn.__code__.co_argcount + fn.__code__.co_kwonlyargcount],
    }

BEFORE = {name: described(getattr(agent, name)) for name in agent.SHAPED}
CODES = {name: getattr(agent, name).__code__ for name in agent.SHAPED}

def test_refund(agentreplay):
    for name, before in BEFORE.items():
        fn = getattr(agent, name)
        assert described(fn) == before, name
        assert fn.__code__ is not CODES[name], "the function is not redirected, so this says nothing"
    assert "refund" in agent.answer("Where is A-17?")

def test_after():
    for name, before in BEFORE.items():
        assert described(getattr(agent, name)) == before
        assert getattr(agent, name).__code__ is CODES[name]
"""

SHAPED = '''
import functools

def plain(a: int, /, b: "str" = "x", *args: float, key: bool = True, **more: list[int]) -> dict[str, int]:
    """Plain."""
    return {}

async def coroutine(a: int = 1) -> str:
    """Waits."""
    return ""

def generator(n: int):
    yield n

def logged(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return fn(*args, **kwargs)
    return wrapper

@logged
@logged
def twice(a: int, *, b: int = 2) -> int:
    """Wrapped twice."""
    return a + b

SHAPED = ["plain", "coroutine", "generator", "twice"]
'''


def write_ini(project, *lines):
    text = "\n".join(["[pytest]", "pythonpath = .", "agentreplay_prove = false", *lines])
    (project.root / "pytest.ini").write_text(text, encoding="utf-8")


def test_a_redirected_function_looks_the_same_to_whoever_reads_it(project):
    agent = project.root / "agent.py"
    agent.write_text(agent.read_text(encoding="utf-8") + SHAPED, encoding="utf-8")
    project.write(test_shop=SHAPES)
    write_ini(
        project,
        "agentreplay_tools = agent.plain",
        *(f"    agent.{name}" for name in ("coroutine", "generator", "twice", "lookup_order", "refund")),
    )
    recorded = project.record("--agentreplay-no-prove")
    assert recorded.returncode == 0, recorded.stdout
    replayed = project.replay()
    assert replayed.returncode == 0, replayed.stdout
    assert "2 passed" in replayed.stdout


def missing(done):
    """The lines and branches of the agent that coverage calls missing."""
    assert done.returncode == 0, done.stdout + done.stderr
    assert "arning" not in done.stdout + done.stderr
    return re.search(r"^agent\.py +\d+ +\d+.*%(.*)$", done.stdout, re.MULTILINE)[1].strip()


@pytest.mark.parametrize("core", CORES)
def test_coverage_counts_a_tools_lines_when_they_run_and_not_when_it_is_served(project, core):
    project.plugins = (*project.plugins, "pytest_cov.plugin")
    project.edit("agent.py", '    note(f"refund', "    if amount < 0:\n        return 'no'\n    note(f\"refund")
    project.edit(
        "test_shop.py", "    agentreplay.run.assert", "    if agentreplay.mode != 'off': agentreplay.run.assert"
    )
    branches = core == "ctrace" or sys.version_info >= (3, 14)
    words = ["--cov=agent", "--cov-report=term-missing", *(["--cov-branch"] if branches else [])]
    without = missing(project.run("--replay=off", *words, COVERAGE_CORE=core))
    recorded = missing(project.record(*words, COVERAGE_CORE=core))
    replayed = missing(project.replay(*words, COVERAGE_CORE=core))
    rows = (project.root / "agent.py").read_text(encoding="utf-8").splitlines()
    assert rows[int(without) - 1].strip() == "return 'no'"
    assert recorded == without
    tree = ast.parse("\n".join(rows))
    bodies = {f.name: (f.body[0].lineno, f.body[-1].end_lineno) for f in tree.body if isinstance(f, ast.FunctionDef)}
    assert replayed == ", ".join(f"{a}-{b}" for a, b in (bodies[name] for name in ("note", "lookup_order", "refund")))


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
    assert done.returncode == 0, done.stdout + done.stderr
    return ast.literal_eval(re.search(r"^SEEN (.*)$", done.stdout, re.MULTILINE)[1])


@pytest.mark.parametrize("setter", ["settrace", "setprofile"])
def test_a_tracer_of_the_users_sees_a_tool_run_while_recording_and_called_in_a_replay(project, setter):
    project.write(conftest=TRACER.replace("{setter}", setter))
    write_ini(project, "agentreplay_tools = agent.lookup_order", "    agent.refund")
    recorded, replayed = seen(project.record("-s")), seen(project.replay("-s"))
    rows = (project.root / "agent.py").read_text(encoding="utf-8").splitlines()
    body = rows.index('    note(f"lookup {order_id}")') + 1
    lines = {line for name, _, line in recorded if name == "lookup_order"}
    assert (body + 1 if setter == "setprofile" else body) in lines
    assert {line for name, _, line in replayed if name == "lookup_order"} == {body - 1}, "the line of the def"
    assert "note" not in {name for name, *_ in replayed}
    assert [x for x in recorded if x[0] == "answer"] == [x for x in replayed if x[0] == "answer"]


@pytest.mark.parametrize(
    "words", [["cProfile", "-o", "out.prof", "-m"], *rare(["trace", "--count", "-C", "counts", "--module"])], ids=str
)
def test_profilers_of_the_standard_library_run_both_modes(project, words):
    for mode in ("--snapshot-record", "--replay=model"):
        done = project.child(*words, "pytest", *project.options, mode)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "1 passed" in done.stdout


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
    for done in (project.record("--agentreplay-no-prove", *words), project.replay(*words)):
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count("before 0") >= 1
        durations = re.findall(r"^([\d.]+)s (?:call|setup|teardown)", done.stdout, re.MULTILINE)
        assert durations
        assert all(float(took) < 60 for took in durations), "pytest has its own clock"
    assert "after" in (project.root / "run.log").read_text(encoding="utf-8")


def test_one_test_by_its_absolute_path_from_elsewhere_finds_its_snapshot(project, tmp_path_factory):
    assert project.record("--agentreplay-no-prove").returncode == 0
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    node = f"{project.root / 'test_shop.py'}::test_refund"
    rooted = [f"--rootdir={project.root}", "-c", project.root / "pytest.ini"]
    for words in (rooted, []):
        done = project.child("pytest", *project.options, *words, "--replay=model", node, cwd=elsewhere)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "5 calls served, 0 live" in done.stdout
    assert not [*elsewhere.iterdir()]
