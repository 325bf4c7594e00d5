"""The runs of a service, captured outside pytest. `pytest_agentreplay.capture` has what services call."""
