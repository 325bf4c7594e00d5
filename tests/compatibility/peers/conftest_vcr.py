import os
import types

import pytest


def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(pytest.mark.vcr)


@pytest.fixture(scope="module")
def vcr_config():
    return {"match_on": os.environ["MATCH_ON"].split()} if "MATCH_ON" in os.environ else {}


@pytest.fixture
def recorder():
    return types.SimpleNamespace(base_url=os.environ["OPENAI_BASE_URL"], tool=lambda function: function)
