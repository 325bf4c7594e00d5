"""Neighbours of a recorded run: how they are made, tried on the agent, judged and shrunk."""
