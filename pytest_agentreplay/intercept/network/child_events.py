"""Child processes as audit events show them: which program, and whether the standard library asks for itself."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType

INTERPRETER = "cpython.PyInterpreterState_New"
CHILD_EVENTS = frozenset(
    {
        "_winapi.CreateProcess",
        INTERPRETER,
        "fork_exec",
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.spawn",
        "os.startfile",
        "os.system",
        "pty.spawn",
        "subprocess.Popen",
    }
)
"""Audit events that begin a child; "fork_exec" is ours, for `_posixsubprocess.fork_exec`, which raises none.

An interpreter within this process is one too: no audit hook of ours is heard in it.
"""

PROBES: dict[str, frozenset[str]] = {
    "platform": frozenset({"cmd", "command", "file", "uname", "ver"}),
    "ctypes.util": frozenset({"cc", "crle", "dump", "gcc", "ld", "ldconfig", "objdump"}),
    "uuid": frozenset({"arp", "ifconfig", "ip", "lanscan", "netstat"}),
    "multiprocessing.resource_tracker": frozenset({"python"}),
    "distro.distro": frozenset({"lsb_release", "oslevel", "uname"}),
    "langsmith.env._git": frozenset({"git"}),
}
"""Module -> programs it starts on its own account; they tell about the machine or tidy up.

All of the standard library, but for `distro`: it was a part of `platform`, and SDKs ask it for their user agent; and
langsmith, which asks for branch and commit to put them on its traces.
"""

_WAYS = frozenset({"multiprocessing.util", "os", "subprocess"})
"""Modules that a probe goes through to start its child."""
_WRAPPERS = frozenset({"_pydev_bundle.pydev_monkey", "pytest_agentreplay.intercept.process.child_start"})
"""Modules that stand around the system's own way to start a child: pydevd, to follow into it; ours, to tell it."""


def program(event: str, args: tuple[Any, ...]) -> str:
    """The program that `event` starts, as it was named; "sh" for a shell line.

    "fork" is a copy of this process, "interpreter" another one within it. Never an argument of it: command lines hold
    secrets.
    """
    match event, args:
        case "subprocess.Popen", (executable, command, *_):
            return _text(executable) if executable else _first(command)
        case "os.system", _:
            return "sh"
        case (("os.exec" | "os.posix_spawn" | "os.startfile"), (path, *_)):
            return _text(path)
        case "os.spawn", (_, path, *_):
            return _text(path)
        case (("pty.spawn" | "fork_exec"), (command, *_)):
            return _first(command)
        case "_winapi.CreateProcess", (application, command, *_):
            return _text(application) if application else _first(command)
        case "cpython.PyInterpreterState_New", _:
            return "interpreter"
        case _:
            return "fork"


def environment(event: str, args: tuple[Any, ...]) -> Mapping[str, str]:
    """The variables that a child is started with; none where the event does not tell them."""
    match event, args:
        case ("subprocess.Popen", (_, _, _, given)) | ("os.posix_spawn", (_, _, given)):
            variables = os.environ if given is None else given
            return {_text(name): _text(value) for name, value in variables.items()}
        case _:
            return {}


def above_wrappers(frame: FrameType | None) -> str:
    """The module that starts a child, past what only stands around the system's way to do it."""
    frame = _skip_frames(frame, _WAYS | _WRAPPERS)
    return "" if frame is None else _module(frame)


def short_name(path: str) -> str:
    """A program as people name it: without directory and ".exe", and "python" for this interpreter."""
    if os.path.normcase(path) == os.path.normcase(sys.executable):
        return "python"
    name = path.replace("\\", "/").rpartition("/")[2]
    return name[:-4] if name.lower().endswith(".exe") else name


def split_words(command: Any) -> list[str]:
    """The words of a command, at least one: those of a line, or the items of a list."""
    if isinstance(command, str | bytes | os.PathLike):
        return os.fsdecode(command).split(" ")
    return [os.fsdecode(word) for word in command] or [""]


def is_probe(path: str, frame: FrameType | None) -> bool:
    """Whether the standard library starts `path` on its own account; `frame` is the one that raised the event."""
    frame = _skip_frames(frame, _WAYS | _WRAPPERS)
    return frame is not None and short_name(path) in PROBES.get(_module(frame), ())


def is_repeat(event: str, frame: FrameType | None) -> bool:
    """Whether `subprocess` has told of this child already, by the event "subprocess.Popen"."""
    frame = _skip_frames(frame, _WRAPPERS)
    return event != "subprocess.Popen" and frame is not None and _module(frame) == "subprocess"


def _skip_frames(frame: FrameType | None, modules: frozenset[str]) -> FrameType | None:
    """Return the nearest frame, from `frame` up, that runs in none of `modules`."""
    while frame is not None and _module(frame) in modules:
        frame = frame.f_back
    return frame


def _module(frame: FrameType) -> str:
    """The name of the loaded module that `frame` runs in; "" for code that only calls itself so."""
    name = frame.f_globals.get("__name__")
    module = sys.modules.get(name) if isinstance(name, str) else None
    return module.__name__ if module is not None and vars(module) is frame.f_globals else ""


def _first(command: Any) -> str:
    """The program of a command: the first item of a list, or the first word of a line."""
    if not isinstance(command, str | bytes | os.PathLike):
        return _text(next(iter(command), ""))
    line = _text(command).strip()
    return line[1:].partition('"')[0] if line.startswith('"') else line.partition(" ")[0]


def _text(path: Any) -> str:
    try:
        return os.fsdecode(path)
    except TypeError:
        return str(path)
