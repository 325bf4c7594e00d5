"""What every plugin is tried with: a suite that is recorded, replayed offline, and replayed after a prompt was edited."""

import pytest


def in_three_acts(project, *words, record=(), **environ):
    """Record, replay without a server, replay with another prompt; gives the three finished processes."""
    recorded = project.record(*words, *record, **environ)
    assert recorded.returncode == 0, recorded.stdout + recorded.stderr
    project.server.stop()
    ran = project.ledger
    replayed = project.replay(*words, **environ)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    project.edit("agent.py", "Be brief.", "Be short.")
    diverged = project.replay(*words, **environ)
    assert diverged.returncode == 1, diverged.stdout + diverged.stderr
    assert "\n[AR-PROMPT] turn 1/" in diverged.stdout
    assert " - [AR-PROMPT] turn 1/" in diverged.stdout.partition("short test summary info")[2]
    assert project.ledger == ran, "a tool ran in a replay"
    return recorded, replayed, diverged


@pytest.fixture
def three_acts():
    return in_three_acts


HEADLINE = "[AR-PROMPT] turn 1/3: model m-1"


@pytest.fixture(scope="module")
def shop(shared_project):
    """Makes projects from tests and plugins."""

    def make(tests, *plugins, ini="", **environ):
        made = shared_project(environ=environ)
        made.plugins += plugins
        made.furnish(tests, ini)
        return made

    return make


@pytest.fixture(scope="session")
def headline():
    """What the report of an edited prompt begins with, as far as a narrow summary shows it."""
    return HEADLINE
