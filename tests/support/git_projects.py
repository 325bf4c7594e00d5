"""A project in a git repository of its own, whose configuration nobody has touched."""

import os
import subprocess

NOBODYS = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


def git(root, *words):
    """Run git in `root`; return what it printed."""
    command = ["git", "-c", "user.name=x", "-c", "user.email=x@example.invalid", *words]
    done = subprocess.run(command, cwd=root, env=os.environ | NOBODYS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def commit(root, message):
    """Commit all that is there; return the id of the commit."""
    git(root, "add", "-A")
    git(root, "commit", "-qm", message, "--allow-empty")
    return git(root, "rev-parse", "HEAD")
