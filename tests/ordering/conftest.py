"""The stage on which agents are recorded and replayed in this process."""

import pytest

from tests.ordering import programs
from tests.ordering.driving import Stage


@pytest.fixture
def stage(tmp_path, request):
    """A stage with the tools of the module: its TOOLS, or those of the random programs."""
    return Stage(tmp_path, tools=getattr(request.module, "TOOLS", programs.TOOLS))
