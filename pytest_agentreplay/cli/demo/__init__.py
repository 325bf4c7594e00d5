"""A real agent and a loopback model server, to show the main job without a key."""
