"""The connection of a child process to the process of its test: requests and answers, one pair at a time.

What travels is pickled by `multiprocessing.connection`, between two processes of one user that both hold the key of
the invitation. Nothing here reads a file.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import ReplayDiverged

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

VARIABLE = "AGENTREPLAY_CHILD"
"""The variable of the environment that carries an invitation to a child."""

Here = tuple[str, tuple[int, str] | None, bool, int]
"""Where a child is started: the lane, the exchange around it, whether that is in the body of the test, and its time.

The time is that of the last call of the process that starts it: its other children, at work beside it, count no calls.
"""

NO_ANSWER = frozenset({"handed", "note", "part", "settle"})
"""Requests whose answer says nothing: a finalizer may make them while another request is under way."""

TEST_IS_OVER = "refused: the process of the test has ended, and this child process has outlived it"


@dataclass(frozen=True, slots=True)
class Invitation:
    """What one child needs to join the run: where to connect, with which key, as whom.

    `run` is the test's, `mode` "record" or "replay"; `path` is the PYTHONPATH that the child was to have, if any.
    """

    address: str
    key: str = field(repr=False)
    token: str
    run: str
    mode: str
    path: str | None = None

    def encoded(self) -> str:
        """The value of `VARIABLE`."""
        return json.dumps([self.address, self.key, self.token, self.run, self.mode, self.path])

    @classmethod
    def decoded(cls, value: str) -> Invitation:
        """The invitation that `encoded` gave."""
        return cls(*json.loads(value))


class ParentLink:
    """The child's end. Safe from any thread; raises ReplayDiverged once the other end is gone."""

    def __init__(self, invitation: Invitation) -> None:
        """Connect, and show the key. Raises OSError or EOFError where nobody listens any more."""
        from multiprocessing.connection import answer_challenge, deliver_challenge

        self.invitation = invitation
        self._connection = connected(invitation.address)
        self._lock = threading.RLock()
        self._busy = False
        self._later: deque[tuple[str, tuple[Any, ...]]] = deque()
        key = invitation.key.encode()
        answer_challenge(self._connection, key)
        deliver_challenge(self._connection, key)

    def ask(self, name: str, *values: Any) -> Any:
        """Make one request and return its answer."""
        with self._lock:
            if self._busy:  # the garbage collector runs a finalizer in the middle of a request of this thread
                if name not in NO_ANSWER:
                    raise ReplayDiverged("refused: a finalizer makes a call while another call is under way")
                self._later.append((name, values))
                return None
            self._busy = True
            try:
                answer = self._exchange(name, values)
                while self._later:
                    self._exchange(*self._later.popleft())
            finally:
                self._busy = False
        return answer

    def _exchange(self, name: str, values: tuple[Any, ...]) -> Any:
        try:
            self._connection.send((name, values))
            return self._connection.recv()
        except (EOFError, OSError):
            raise ReplayDiverged(TEST_IS_OVER) from None

    def abandon(self) -> None:
        """Close this process's copy of a connection that belongs to the process that forked it."""
        self._connection.close()


def connected(address: str) -> Connection:
    """A connection to `address`: "@name" for an abstract Unix socket, or "127.0.0.1:PORT"."""
    import socket
    from multiprocessing.connection import Connection

    if sys.platform == "linux" and address.startswith("@"):
        made = socket.socket(socket.AF_UNIX)
        made.connect(address.replace("@", "\0", 1))
    else:
        host, _, port = address.rpartition(":")
        made = socket.create_connection((host, int(port)))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.settimeout(None)
    return Connection(made.detach())
