import os
import pathlib

import pytest
import reeltime


@pytest.fixture
def recorder():
    runs = pathlib.Path(__file__).parent.glob(".tape/runs/*.jsonl")
    words = (
        {}
        if os.environ["PEER_MODE"] == "record"
        else {"replay": max(runs).stem, "strictness": os.environ["STRICTNESS"]}
    )
    with reeltime.session("replay" if words else "record", **words) as session:
        yield Recorder()
    if words:
        print(session.summary)


class Recorder:
    base_url = os.environ["OPENAI_BASE_URL"]
    tool = staticmethod(reeltime.tool)
