"""The stage on which agents are recorded and replayed in this process."""

import pytest

from tests.ordering.driving import Stage


@pytest.fixture
def stage(tmp_path):
    return Stage(tmp_path)
