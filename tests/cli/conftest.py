"""The projects of the plugin's tests serve the command's tests too."""

import importlib.util
import sys
from pathlib import Path

FILE = Path(__file__).parents[1] / "plugin" / "conftest.py"
SPEC = importlib.util.spec_from_file_location("projects_for_the_command", FILE)
PROJECTS = sys.modules[SPEC.name] = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(PROJECTS)
server, project = PROJECTS.server, PROJECTS.project
