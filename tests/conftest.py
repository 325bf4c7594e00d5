"""Fixtures for every test: a live model server, and projects of a user's beside it."""

from contextlib import ExitStack

import pytest

import tests.support.model_apis  # noqa: F401  the model server of tests speaks more APIs than that of the demo
from pytest_agentreplay.cli.demo.local_model import LocalModel
from tests.support.model_server import ModelServer
from tests.support.project import Project
from tests.support.written_runs import Writing


def make_project(folder, server, node):
    """Make a project whose processes are started as the marks of the test or module say."""
    proves = node.get_closest_marker("proves")
    made = Project(folder, server, proves=proves is not None, forks=node.get_closest_marker("real_process") is None)
    made.forked_proofs = proves is not None and proves.kwargs.get("forked", False)
    return made


@pytest.fixture
def server():
    with ModelServer() as running:
        yield running


@pytest.fixture(scope="session")
def local_model():
    """The variables by which the openai SDK asks the small real model of the environment `model`."""
    with LocalModel() as running:
        yield {"OPENAI_BASE_URL": f"{running.url}/v1", "OPENAI_API_KEY": "not-needed"}


@pytest.fixture(scope="session")
def writing():
    """The small language in which tests of pure rooms write runs down."""
    return Writing


@pytest.fixture
def project(tmp_path, server, request):
    """The refund agent, its test and its ini."""
    made = make_project(tmp_path, server, request.node)
    made.furnish()
    return made


@pytest.fixture(scope="module")
def shared_project(tmp_path_factory, request):
    """Makes projects that the tests of a module share, each beside a server of its own that says what `script` says."""
    with ExitStack() as stack:

        def make(script=None, *, environ=None):
            server = stack.enter_context(ModelServer(script))
            made = make_project(tmp_path_factory.mktemp("project"), server, request.node)
            made.environ |= environ or {}
            return made

        yield make
