"""What the guard has heard of, in words: the entries of its ledger, and what a person can do about each."""

from __future__ import annotations

from dataclasses import dataclass

WORDS = {
    "bind": ("listening socket on", "listening sockets on"),
    "child": ("child process", "child processes"),
    "connect": ("connect to", "connects to"),
    "library": ("call by the library", "calls by the library"),
    "lookup": ("look-up of", "look-ups of"),
    "send": ("datagram to", "datagrams to"),
    "socket": ("socket of", "sockets of"),
}
"""What is said of one entry, and of several of its kind."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """What no boundary took, and how often. `kind` is bind, child, connect, library, lookup, send or socket.

    `target` is a library, a host ("db:5432"), the path of a socket file, the name of a program or a family of sockets,
    `origin` the line of the agent, "" where none was on the stack.
    """

    kind: str
    target: str
    origin: str
    count: int

    def line(self) -> str:
        """For people: "3 connects to db:5432 from shop/db.py:12 in rows"."""
        words = WORDS[self.kind][self.count != 1]
        return f"{self.count} {words} {self.target}" + (f" from {self.origin}" if self.origin else "")

    def allow(self) -> str:
        """The ini line that lets it through."""
        return allowing(self.kind, self.target)

    def advice(self) -> str:
        """What else to do about it; "" where there is nothing more to say."""
        return advice(self.kind, self.target)


def advice(kind: str, target: str) -> str:
    """What to do about a library that is not met, a Python child that cannot join, a socket of unknown target."""
    if kind == "child" and " -" in target:
        return "a child of Python that is started so does not load the plugin, and its calls would go live"
    if kind == "child" and " (" in target:
        return "a child whose calls never came to the gateway may reach the model past it"
    if kind == "socket":
        return "the sandbox makes none; without it the address is told"
    return f"{target} is not met: use httpx, requests or aiohttp for this call" if kind == "library" else ""


def allowing(kind: str, target: str) -> str:
    """The ini line that lets `target` through."""
    if kind == "socket":
        return "agentreplay_sandbox = off"
    if kind == "child":
        return f"agentreplay_allow_subprocess = {target.partition(' ')[0]}"
    return f"agentreplay_allow_hosts = {target}"
