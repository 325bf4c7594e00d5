"""The request bodies of one conversation, each kept once: an agent sends its whole history with every request.

The latest body is kept whole, and of an earlier one only what the next does not begin or end with. So a run takes the
bytes of what was new in it, not the square of its turns.
"""

from __future__ import annotations

from pytest_agentreplay.model.exchanges import Body
from pytest_agentreplay.snapshots.codec.dedup_reader import count_shared


class RequestBodies:
    """Bodies of which each shares most with the one before; one that does not begins a chain of its own.

    Attributes:
        url: What they were sent to, one text for all of them.
        size: The bytes in memory.
    """

    def __init__(self, url: str = "") -> None:
        """Begin with none."""
        self.url = url
        self.size = 0
        self._chain: _Chain | None = None

    def add(self, data: bytes) -> Body:
        """Return `data` as a body that is restored when it is read."""
        chain = self._chain
        if chain is None or not chain.takes(data):
            chain = self._chain = _Chain(data)
            self.size += len(data)
        else:
            self.size += chain.add(data)
        return Body(restore=_Restoring(chain, len(chain.parts) - 1))


class _Restoring:
    """Restores one body; there is one for each call, and a `partial` takes five times the bytes."""

    __slots__ = ("_chain", "_number")

    def __init__(self, chain: _Chain, number: int) -> None:
        self._chain, self._number = chain, number

    def __call__(self) -> bytes:
        return self._chain.restore(self._number)


class _Chain:
    """`parts` are, by body: how many bytes it shares with the beginning of the latest, its own, how many with the end.

    Both numbers never fall from one body to the next, so that each is restored from the latest in one step.
    """

    def __init__(self, data: bytes) -> None:
        self.parts: list[tuple[int, bytes, int]] = [(len(data), b"", 0)]
        self._latest = data
        self._shared = 0, 0

    def takes(self, data: bytes) -> bool:
        """Return whether at least half of the latest body is in `data`; `add` comes next."""
        latest = self._latest
        head, tail = count_shared(latest, data)
        self._shared = head, tail
        return 2 * (head + tail) >= len(latest)

    def add(self, data: bytes) -> int:
        """Take the next body. Return by how many bytes the chain has grown."""
        (head, tail), latest = self._shared, self._latest
        own = latest[head : len(latest) - tail]
        self.parts[-1] = head, own, tail
        grown = len(data) - len(latest) + len(own)
        for number in range(len(self.parts) - 2, -1, -1):
            first, own, last = self.parts[number]
            if first <= head and last <= tail:
                break
            end = len(latest) - min(last, tail)
            more = latest[min(first, head) : first] + own + latest[len(latest) - last : end]
            self.parts[number] = min(first, head), more, min(last, tail)
            grown += len(more) - len(own)
        self.parts.append((len(data), b"", 0))
        self._latest = data
        return grown

    def restore(self, number: int) -> bytes:
        """Return the body `number`."""
        head, own, tail = self.parts[number]
        return self._latest[:head] + own + self._latest[len(self._latest) - tail :]
