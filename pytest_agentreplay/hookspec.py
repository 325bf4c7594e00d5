"""The hooks that other plugins and conftest files may implement. Documentation only: nothing here runs."""

from __future__ import annotations

import pytest


@pytest.hookspec
def pytest_agentreplay_seams() -> dict[str, str]:  # type: ignore[empty-body]
    """Give the libraries that you meet: the module that stands for each -> the import path of your boundary module.

    Called when a test is recorded or replayed, never at start. Your module is imported when its library is, and no
    sooner; it has `meet(library)`, which wraps the seam of the loaded module for good and does nothing the second time.
    `pytest_agentreplay.boundaries.tool_meeting` has what such a module is made of.
    """
