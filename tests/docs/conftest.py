import pytest

from tests.support.model_server import ModelServer
from tests.support.pages import PlayedPage, model


@pytest.fixture
def play(tmp_path, pytestconfig):
    """Makes the run of a page."""
    flags = pytestconfig._parser.optparser._option_string_actions
    with ModelServer(model) as server:
        yield lambda page: PlayedPage(tmp_path, page, server, flags)
