"""The former name of `tests/support/case_project.py`; goes when nothing imports it."""

from tests.support.case_project import *  # noqa: F403
