"""A job done in a fork of this process: it finds nothing that another one has left, and leaves nothing itself."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def can_fork() -> bool:
    """Return whether a fork of this process can go on: no thread of Python holds a lock, no system library minds."""
    return hasattr(os, "fork") and sys.platform != "darwin" and threading.active_count() == 1


def run_in_fork(perform: Callable[[], Any]) -> tuple[Any, int]:
    """Return what `perform` returns, as JSON has it, None where its process dies; and how that ended."""
    if sys.platform == "win32":
        raise NotImplementedError
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    with warnings.catch_warnings():  # of threads that are not Python's: that of xdist holds no lock
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if not pid:
        code = 1
        try:
            data = json.dumps(perform(), default=repr).encode()
            while data:
                data = data[os.write(writing, data) :]
            sys.stdout.flush()
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as stream:
            data = stream.read()
    except BaseException:  # an interrupt, or a time limit
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return (None if code else json.loads(data)), code
