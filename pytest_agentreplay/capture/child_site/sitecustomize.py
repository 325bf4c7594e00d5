# ruff: noqa: INP001  a folder of its own, for PYTHONPATH
"""First on PYTHONPATH of a program that `agentreplay run` captures: joins the run, then makes way for the next one.

The program never notices: where it cannot join, its run says so.
"""

import os
import sys
from contextlib import suppress

HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  pathlib would be loaded into every child
sys.path[:] = [folder for folder in sys.path if folder != HERE]
if invitation := os.environ.pop("AGENTREPLAY_CHILD", ""):
    with suppress(BaseException):
        from pytest_agentreplay.capture.captured_child import join_encoded

        join_encoded(invitation)
del sys.modules["sitecustomize"]
import sitecustomize  # type: ignore[import-not-found]  # noqa: E402, F401  that of the folders behind this one
