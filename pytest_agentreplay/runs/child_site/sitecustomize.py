# ruff: noqa: INP001  a folder of its own, for PYTHONPATH
"""First on PYTHONPATH of a test's child processes: joins the run, then makes way for the `sitecustomize` of others.

It runs in whatever Python the test starts, so it asks for nothing but the standard library before it joins.
"""

import os
import sys


def join_run(invitation: str) -> None:
    """Join the run of `invitation`. In a replay a child that cannot does not run: its calls would go live."""
    import json

    *_, mode, path = json.loads(invitation)
    if path is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = path
    try:
        from pytest_agentreplay.runs.child_session import join_encoded

        join_encoded(invitation)
    except BaseException as error:
        if mode == "capture":  # the program never notices, and its run says who has not joined
            return
        where = " ".join(sys.orig_argv[:1])
        sys.stderr.write(f"agentreplay: {where} cannot join the run: {type(error).__name__}: {error}\n")
        sys.stderr.flush()
        if mode == "replay":
            os._exit(97)


def import_next_sitecustomize() -> None:
    """Import the `sitecustomize` that this one stands before, if there is one."""
    import importlib.machinery
    import importlib.util

    spec = importlib.machinery.PathFinder.find_spec("sitecustomize")
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  pathlib would be loaded into every child
sys.path[:] = [folder for folder in sys.path if folder != HERE]
if invitation := os.environ.pop("AGENTREPLAY_CHILD", ""):
    join_run(invitation)
import_next_sitecustomize()
