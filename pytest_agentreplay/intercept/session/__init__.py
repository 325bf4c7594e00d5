"""What all patches share: the interception of one test, its lanes, and who made a call."""
