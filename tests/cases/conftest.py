"""The modules of this folder know each other by name."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent)]
