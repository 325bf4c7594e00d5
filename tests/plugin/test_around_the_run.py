"""What is around a run: numpy's numbers, spans, declared files, kept variables, flags; a change of it is told."""

import hashlib

import pytest

AGENT = '''
import json, os, pathlib
import httpx2

def ask(text):
    url = os.environ["MODEL_URL"] + "/v1/chat/completions"
    reply = httpx2.post(url, json={"model": "m", "messages": [{"role": "user", "content": text}]})
    return reply.json()["choices"][0]["message"]["content"]

def score(value: float) -> float:
    import numpy
    return value + float(numpy.random.rand() * 0)

def draw():
    import numpy.random
    return f"{numpy.random.rand()} {numpy.random.default_rng().integers(10**9)} {numpy.random.choice(list('abcdef'))}"

def picks():
    """numpy comes in the second turn, and a frozen tool draws from it."""
    said = [ask("hello")]
    for n in range(3):
        said.append(ask(f"pick {n}: {draw()}"))
        score(float(n))
    return said

def traced():
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    ask("before any span")
    with TracerProvider().get_tracer("agent").start_as_current_span("turn"):
        ask("inside a span")

PROMPT = "You sort orders."

def sorts():
    return ask(PROMPT)
'''

TESTS = """
import agent

def test_picks(agentreplay):
    assert len(agent.picks()) == 4

def test_traced(agentreplay):
    agent.traced()

def test_sorts(agentreplay):
    agentreplay.annotate(new_prompt=FLAG, tenant="acme")
    assert agentreplay.fixture_file("data/rates.json").read_text() != ""
    agent.sorts()
"""

INI = """
[pytest]
pythonpath = .
agentreplay_env = SHOP_*
agentreplay_fixtures = data/orders*.json
agentreplay_tools = agent.score
"""


@pytest.fixture(scope="module")
def recorded(shared_project):
    project = shared_project(lambda body, number: f"fine ({number})")
    project.write(agent=AGENT, test_around=TESTS.replace("FLAG", "False"))
    (project.root / "pytest.ini").write_text(INI, encoding="utf-8")
    (project.root / "data").mkdir()
    for name in ("orders", "orders-2", "rates"):
        (project.root / "data" / f"{name}.json").write_text(f'["{name}"]', encoding="utf-8")
    (project.root / "uv.lock").write_text("version = 1\n", encoding="utf-8")
    project.environ |= {"SHOP_REGION": "eu", "SHOP_API_KEY": "k-99119911", "PYTHONHASHSEED": "3"}
    project.recording = project.record()
    assert project.recording.returncode == 0, project.recording.stdout
    return project


def run_of(project, name):
    return next(s.run for s in project.snapshots if s.run.header.test.endswith(name))


def test_numpy_draws_what_it_drew(recorded):
    assert recorded.recording.stdout.count("   replays") == 3, recorded.recording.stdout
    for seed in ("3", "4"):
        done = recorded.offline("-k", "picks", PYTHONHASHSEED=seed)
        assert done.returncode == 0, done.stdout
    prompts = [x.call.body.data for x in run_of(recorded, "test_picks").exchanges if x.call.boundary == "http"]
    assert len({prompt.split(b": ", 2)[-1] for prompt in prompts}) == 4


def test_a_draw_more_is_a_divergence(recorded):
    """The seeds do not hide what the agent draws beside its recording."""
    recorded.edit("agent.py", "    import numpy.random\n", "    import numpy.random; numpy.random.rand()\n")
    try:
        done = recorded.offline("-k", "picks")
    finally:
        recorded.edit("agent.py", "    import numpy.random; numpy.random.rand()\n", "    import numpy.random\n")
    assert done.returncode == 1
    assert "turn 2/4" in done.stdout


def test_the_kit_holds_it(recorded):
    kit = run_of(recorded, "test_sorts").header.kit
    sha256 = {name: hashlib.sha256(f'["{name}"]'.encode()).hexdigest() for name in ("orders", "orders-2", "rates")}
    assert kit["fixtures"] == {f"data/{name}.json": digest for name, digest in sha256.items()}
    assert kit["environment"] == {"SHOP_REGION": "eu"}
    assert kit["annotations"] == {"new_prompt": False, "tenant": "acme"}
    assert kit["hash"] == {"seed": 3}
    assert set(kit["locale"]["now"]) == {"LC_COLLATE", "LC_MONETARY", "LC_NUMERIC", "LC_TIME"}
    assert list(kit["locks"]) == ["uv.lock"]
    assert "numpy" in run_of(recorded, "test_picks").header.kit["generators"]


def test_the_first_open_span_is_kept(recorded):
    trace = run_of(recorded, "test_traced").header.kit["trace"]
    assert (len(trace["trace_id"]), len(trace["span_id"])) == (32, 16)
    assert "trace" not in run_of(recorded, "test_sorts").header.kit


@pytest.fixture
def elsewhere(recorded):
    """Another machine: other variables, flags, locale and files."""
    file = recorded.root / "data" / "orders.json"
    before = file.read_text(encoding="utf-8")
    file.write_text('["other"]', encoding="utf-8")
    recorded.edit("test_around.py", "new_prompt=False", "new_prompt=True")
    yield {"SHOP_REGION": "us", "PYTHONHASHSEED": "0", "SHOP_API_KEY": "k-00000000"}
    recorded.edit("test_around.py", "new_prompt=True", "new_prompt=False")
    file.write_text(before, encoding="utf-8")


def test_a_divergence_names_what_has_changed_around_it(recorded, elsewhere):
    recorded.edit("agent.py", "You sort orders.", "You sort all orders.")
    try:
        done = recorded.offline("-k", "sorts", **elsewhere)
    finally:
        recorded.edit("agent.py", "You sort all orders.", "You sort orders.")
    assert done.returncode == 1
    assert '  changed since environment SHOP_REGION: "eu" -> "us"' in done.stdout
    assert "  changed since fixture file data/orders.json has another content" in done.stdout
    assert "  changed since annotation new_prompt: false -> true" in done.stdout
    assert "  changed since order of sets: PYTHONHASHSEED=3 -> PYTHONHASHSEED=0" in done.stdout
    assert "k-00000000" not in done.stdout
    report = done.stdout.partition("[AR-PROMPT]")[2].partition("- agentreplay -")[0]
    assert len(report.strip().splitlines()) <= 24 + 2


def test_a_green_replay_tells_of_changed_files(recorded, elsewhere):
    done = recorded.offline(**elsewhere)
    assert done.returncode == 0, done.stdout
    told = "fixture file data/orders.json has another content since it was recorded; 3 tests replayed all the same"
    assert f"changed   {told}" in done.stdout
    (recorded.root / "data" / "orders-2.json").rename(recorded.root / "data" / "orders-3.json")
    try:
        done = recorded.offline("-k", "traced")
        assert "fixture file data/orders-2.json is declared no longer" in done.stdout
        assert "fixture file data/orders-3.json is new" in done.stdout
    finally:
        (recorded.root / "data" / "orders-3.json").rename(recorded.root / "data" / "orders-2.json")


def test_nothing_is_told_where_nothing_has_changed(recorded):
    done = recorded.offline()
    assert done.returncode == 0, done.stdout
    assert "changed" not in done.stdout


def test_in_mode_off_a_fixture_file_is_where_it_was(recorded, tmp_path):
    done = recorded.child("pytest", *recorded.options, "--replay=off", "-k", "sorts", recorded.root, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
