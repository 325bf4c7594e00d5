import os
import pathlib

import pytest
import replex


@pytest.fixture
def recorder(request):
    folder = pathlib.Path(__file__).with_name("cassettes")
    options = {"cassette_dir": folder, "intercept_hosts": ["127.0.0.1"]}
    with replex.session(request.node.name, os.environ["PEER_MODE"], **options):
        yield Recorder()


class Recorder:
    base_url = os.environ["OPENAI_BASE_URL"]
    tool = staticmethod(replex.tool)
