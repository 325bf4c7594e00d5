"""The cassettes of vcrpy that are open: inert while a run of ours is recorded or replayed, as ever outside of one.

A recording asks the innermost one where it would ask the network (`runs.cassettes.cassette_answers`). In a replay the
snapshot answers. Neither writes the file of a cassette.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.session import interceptions
from pytest_agentreplay.intercept.session.patching import wrap
from pytest_agentreplay.intercept.session.session_parts import OPEN_CASSETTES

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import ModuleType

    from pytest_agentreplay.intercept.session.patching import Seam

REWRITING = {"all", "rewrite"}


def patch(library: ModuleType) -> None:
    """Wrap what opens and saves cassettes: `vcr.cassette`, or `pytest_recording._vcr`. Twice does nothing."""
    if library.__name__ == "pytest_recording._vcr":
        wrap(library, "use_cassette", wrap_use_cassette)
        return
    # Private in vcrpy 6 to 9, and all that opens a cassette passes it:
    # https://github.com/kevin1024/vcrpy/blob/v8.0.0/vcr/cassette.py
    wrap(library.CassetteContextDecorator, "_patch_generator", wrap_patch_generator)
    wrap(library.Cassette, "_save", wrap_save)


class OpenCassette:
    """A cassette in its block. vcrpy's patches are in force while no run is open; `play` is what puts them there."""

    def __init__(self, cassette: Any, play: Callable[[], Generator[Any]]) -> None:
        self.cassette, self._play = cassette, play
        self._patches: Generator[Any] | None = None

    def switch(self, *, inert: bool) -> None:
        """Undo the patches, or put them back."""
        if inert is (self._patches is None):
            return
        patches = self._patches or self._play()
        next(patches, None)
        self._patches = None if inert else patches


def wrap_patch_generator(original: Seam) -> Seam:
    """Return the generator that patches, yields the cassette, and undoes the patches."""

    def _patch_generator(decorator: Any, cassette: Any) -> Generator[Any]:
        from vcr.patch import CassettePatcherBuilder

        entry = OpenCassette(cassette, partial(original, decorator, cassette))
        entry.switch(inert=interceptions.is_running())
        OPEN_CASSETTES.append(entry)
        try:
            with ExitStack() as own:  # those of the suite are in force while the rest is inert, too
                # https://github.com/kevin1024/vcrpy/blob/v8.0.0/vcr/patch.py
                build = CassettePatcherBuilder(cassette)._build_patchers_from_mock_triples
                for patcher in build(cassette.custom_patches):
                    own.enter_context(patcher)
                yield cassette
        finally:
            OPEN_CASSETTES.remove(entry)
            entry.switch(inert=True)

    return _patch_generator


def wrap_save(original: Seam) -> Seam:
    """Return what writes the file: nothing while a run is open, which has only asked the cassette for replies."""
    return lambda *args, **more: None if interceptions.is_running() else original(*args, **more)


def wrap_use_cassette(original: Seam) -> Seam:
    """Return what opens the cassette of a mark, in no record mode by which its file goes before it was played."""

    def use_cassette(name: str, folder: str, mode: str, marks: list[Any], options: Any, *more: Any) -> Any:
        modes = [mark.kwargs["record_mode"] for mark in marks if "record_mode" in mark.kwargs]
        is_compared = any(getattr(config.option, "agentreplay_vcr", None) for config in more)
        if [*modes, options.get("record_mode", mode)][0] in REWRITING and (is_compared or interceptions.is_running()):
            # --vcr is about what is there, and a recording of ours asks the network as that of vcrpy would have done.
            first = SimpleNamespace(args=(), kwargs={"record_mode": "once" if is_compared else "all"})
            marks = [first, *marks]
        return original(name, folder, mode, marks, options, *more)

    return use_cassette
