import os
import pathlib

import pytest
import rewind


@pytest.fixture
def recorder(request):
    rewind.auto_patch()
    trace = pathlib.Path(__file__).with_name(f"{request.node.name}.rewind")
    if os.environ["PEER_MODE"] == "record":
        session = rewind.record(trace)
    else:
        session = rewind.replay(trace, match=os.environ["MATCH"])
    with session:
        yield Recorder()


class Recorder:
    base_url = os.environ["OPENAI_BASE_URL"]
    tool = staticmethod(rewind.tool)
