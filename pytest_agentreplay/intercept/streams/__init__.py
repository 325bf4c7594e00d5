"""Connections of messages: what is sent is a call, what comes until the next one is sent is its reply."""
