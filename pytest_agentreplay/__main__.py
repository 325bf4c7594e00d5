"""`python -m pytest_agentreplay` is `agentreplay`."""

from pytest_agentreplay.cli import script

script()
