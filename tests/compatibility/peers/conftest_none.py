import os
import types

import pytest


@pytest.fixture
def recorder():
    return types.SimpleNamespace(base_url=os.environ["OPENAI_BASE_URL"], tool=lambda function: function)
