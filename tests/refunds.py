"""The former name of `tests/support/refund_calls.py`; goes when tests/plugin/test_refunds.py names that file."""

import importlib
import os
import sys
from pathlib import Path

FOLDER = Path(__file__).with_name("support")

if __name__ == "__main__":
    words = [str(FOLDER / "refund_calls.py") if word == sys.argv[0] else word for word in sys.orig_argv]
    os.execv(sys.executable, words)
sys.path.insert(0, str(FOLDER))
sys.modules[__name__] = importlib.import_module("refund_calls")
