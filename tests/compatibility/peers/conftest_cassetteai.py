import asyncio
import os
import pathlib
import threading
import types

import pytest
from cassetteai import AgentTestSession


@pytest.fixture
def recorder(request):
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    session = AgentTestSession(
        request.node.name,
        cassette_dir=pathlib.Path(__file__).with_name("cassettes"),
        mode=os.environ["PEER_MODE"],
        real_base_url=os.environ["OPENAI_BASE_URL"].removesuffix("/v1"),
        real_api_key=os.environ["OPENAI_API_KEY"],
    )
    asyncio.run_coroutine_threadsafe(session.__aenter__(), loop).result(30)
    yield types.SimpleNamespace(base_url=session.base_url, tool=lambda function: function)
    asyncio.run_coroutine_threadsafe(session.__aexit__(None, None, None), loop).result(30)
    loop.call_soon_threadsafe(loop.stop)
