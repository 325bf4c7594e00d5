"""Plain, parametrised, class, unittest and async tests, and all of them under xdist."""

import pytest

KINDS = {
    "marker": "import agent, pytest\n@pytest.mark.agentreplay\ndef test_it():\n    agent.answer('Where is A-17?')\n",
    "parametrised": (
        "import agent, pytest\n"
        "@pytest.mark.parametrize('question', ['Where is A-17?', 'Wo ist \u00e4/b:c A-17?'])\n"
        "def test_it(question, agentreplay):\n    agent.answer(question)\n"
    ),
    "class": (
        "import agent\n"
        "class TestRefund:\n"
        "    def test_it(self, agentreplay):\n        agent.answer('Where is A-17?')\n"
        "    def test_other(self, agentreplay):\n        agent.answer('Where is A-17, please?')\n"
    ),
    "unittest": (
        "import agent, pytest, unittest\n"
        "@pytest.mark.agentreplay\n"
        "class RefundCase(unittest.TestCase):\n"
        "    def test_it(self):\n        self.assertIn('refund', agent.answer('Where is A-17?'))\n"
    ),
    "asyncio": (
        "import asyncio, agent, pytest\n"
        "@pytest.mark.asyncio\n"
        "async def test_it(agentreplay):\n"
        "    await asyncio.to_thread(agent.answer, 'Where is A-17?')\n"
    ),
    "anyio": (
        "import anyio, agent, pytest\n"
        "@pytest.mark.anyio\n"
        "async def test_it(agentreplay):\n"
        "    await anyio.to_thread.run_sync(agent.answer, 'Where is A-17?')\n"
    ),
    "fixture_agent": (
        "import agent, pytest\n"
        "@pytest.fixture\n"
        "def said(agentreplay):\n    yield agent.answer('Where is A-17?')\n    agent.answer('Where is A-17, now?')\n"
        "def test_it(said):\n    assert said\n"
    ),
}


@pytest.fixture
def kind(project, request):
    project.plugins += ("pytest_asyncio.plugin", "anyio.pytest_plugin", "xdist.plugin")
    project.write(test_shop=KINDS[request.param])
    (project.root / "conftest.py").write_text(
        "import pytest\n@pytest.fixture(params=['asyncio', 'trio'])\ndef anyio_backend(request):\n    return request.param\n",
        encoding="utf-8",
    )
    with (project.root / "pytest.ini").open("a", encoding="utf-8") as ini:
        ini.write("asyncio_default_fixture_loop_scope = function\n")
    return project


@pytest.mark.parametrize("kind", KINDS, indirect=True)
def test_every_kind_records_and_replays(kind):
    recorded = kind.record()
    assert recorded.returncode == 0, recorded.stdout
    assert "does not replay" not in recorded.stdout
    hits, ledger = kind.server.hits, kind.ledger
    kind.server.stop()
    replayed = kind.replay()
    assert replayed.returncode == 0, replayed.stdout
    assert kind.server.hits == hits
    assert kind.ledger == ledger


@pytest.mark.parametrize("kind", KINDS, indirect=True)
def test_every_kind_names_the_divergent_turn(kind):
    kind.record("--agentreplay-no-prove")
    kind.edit("agent.py", "Be brief.", "Be short.")
    done = kind.replay()
    assert done.returncode == 1
    assert "[AR-PROMPT] turn 1" in done.stdout
    assert "Traceback" not in done.stdout
    assert "passed" not in done.stdout.splitlines()[-1], "each test of the file diverges"


def test_xdist_records_and_replays_and_the_controller_sums_up(project):
    project.plugins += ("xdist.plugin",)
    project.write(
        test_shop=(
            "import agent, pytest\n"
            "@pytest.mark.parametrize('n', range(4))\n"
            "def test_it(n, agentreplay):\n    agent.answer(f'Where is A-{n}?')\n"
        )
    )
    recorded = project.record("-n", "2")
    assert recorded.returncode == 0, recorded.stdout
    assert recorded.stdout.count("test passed)   replays") == 4
    assert len(project.files) == 4
    project.server.stop()
    replayed = project.replay("-n", "2")
    assert replayed.returncode == 0, replayed.stdout
    assert "replayed 4 tests" in replayed.stdout
    project.edit("agent.py", "Be brief.", "Be short.")
    diverged = project.replay("-n", "2")
    assert "4 failed" in diverged.stdout
    assert "4 AR-PROMPT" in diverged.stdout


def test_a_folder_opts_in(project):
    (project.root / "frozen").mkdir()
    project.write(frozen__test_in="import agent\ndef test_in():\n    agent.answer('Where is A-17?')\n")
    with (project.root / "pytest.ini").open("a", encoding="utf-8") as ini:
        ini.write("agentreplay_paths = frozen\n")
    assert "[AR-NEW]" in project.run("frozen").stdout
    assert project.record("frozen").returncode == 0
    assert project.replay("frozen").returncode == 0
    assert [file.parent.parent.parent.name for file in project.files] == ["frozen"]
