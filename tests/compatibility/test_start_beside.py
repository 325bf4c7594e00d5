"""The law of the start (`tests/architecture/test_start.py`) beside every plugin of the environment: slow, as those are to load."""

from __future__ import annotations

import pytest

from tests.architecture.test_start import CLASHES, held, session

pytestmark = [pytest.mark.process, pytest.mark.exhaustive]


@pytest.mark.parametrize("words", [[], ["--co", "-q"], ["--help"]], ids=["run", "collect", "help"])
def test_the_same_holds_beside_everything_that_is_installed(tmp_path, words):
    without = session(tmp_path, *CLASHES, *words, "-p", "no:pytest_agentreplay", autoload=True)
    assert not {name for name in without if name.startswith("pytest_agentreplay")}, "-p no: leaves nothing of ours"
    held(session(tmp_path, *CLASHES, "-p", "pytest_agentreplay", *words, autoload=True) - without)
