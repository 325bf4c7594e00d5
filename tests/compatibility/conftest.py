"""What every plugin is tried with: a suite that is recorded, replayed offline, and replayed after a prompt was edited."""

import pytest


def in_three_acts(project, *words, record=(), **environ):
    """Record, replay without a server, replay with another prompt; gives the three finished processes."""
    recorded = project.record(*words, *record, **environ)
    assert recorded.returncode == 0, recorded.stdout + recorded.stderr
    replayed = project.offline(*words, **environ)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    told, diverged = project.diverged(*words, **environ)
    assert told
    assert all(" [AR-PROMPT] turn 1/" in said for said in told.values()), told
    return recorded, replayed, diverged


@pytest.fixture
def three_acts():
    return in_three_acts


@pytest.fixture(scope="module")
def shop(shared_project):
    """Makes projects from tests and plugins."""

    def make(tests, *plugins, ini="", **environ):
        made = shared_project(environ=environ)
        made.plugins += plugins
        made.furnish(tests, ini)
        return made

    return make
