import os
import pathlib

import pytest
from agentsnap import AgentAsserter, AgentRecorder, PatchSet
from agentsnap.adapters.tool import ToolAdapter


@pytest.fixture
def recorder(request):
    place = {"snapshot_dir": str(pathlib.Path(__file__).with_name("__agent_snapshots__"))}
    if os.environ["PEER_MODE"] == "record":
        session = AgentRecorder(request.node.name, **place)
    else:
        session = AgentAsserter(request.node.name, mode="replay", replay_tools=True, **place)
    with PatchSet(), session as recorder:
        recorder.base_url, recorder.tool = os.environ["OPENAI_BASE_URL"], ToolAdapter
        yield recorder
