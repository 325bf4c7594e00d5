"""Processes that have come to their end."""


def ended(done, code=0):
    """Return a finished process, which ended with this exit code."""
    assert done.returncode == code, done.stdout + done.stderr
    return done
