"""The cassettes of vcrpy that are open: inert while a run of ours is recorded or replayed, as ever outside of one.

A recording asks the innermost one where it would ask the network (`cassettes.cassette_answers`). In a replay the
snapshot answers. Neither writes the file of a cassette.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.intercept.session import interceptions
from pytest_agentreplay.intercept.session.patching import wrap
from pytest_agentreplay.intercept.session.session_parts import OPEN_CASSETTES

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import ModuleType

    from pytest_agentreplay.intercept.session.patching import Seam


def patch(library: ModuleType) -> None:
    """Wrap what opens and saves cassettes (`vcr.cassette`, `pytest_recording._vcr`). Twice does nothing."""
    if library.__name__ == "vcr.cassette":
        # Private in vcrpy 6 to 9, and all that opens a cassette passes it:
        # https://github.com/kevin1024/vcrpy/blob/v8.0.0/vcr/cassette.py
        wrap(library.CassetteContextDecorator, "_patch_generator", opening)
        wrap(library.Cassette, "_save", saving)
    elif merge := getattr(library, "merge_kwargs", None):
        wrap(library, "use_cassette", functools.partial(rewriting, merge))


class OpenCassette:
    """A cassette in its block. vcrpy's patches are in force while no run is open; `play` is what puts them there."""

    def __init__(self, cassette: Any, play: Callable[[], Generator[Any]]) -> None:
        self.cassette = cassette
        self._play = play
        self._patches: Generator[Any] | None = None

    def switch(self, *, inert: bool) -> None:
        """Undo the patches, or put them back."""
        if inert and self._patches is not None:
            next(self._patches, None)
            self._patches = None
        elif not inert and self._patches is None:
            self._patches = self._play()
            next(self._patches)


def opening(original: Seam) -> Seam:
    """The generator that patches, yields the cassette, and takes the patches back."""

    def _patch_generator(decorator: Any, cassette: Any) -> Generator[Any]:
        entry = OpenCassette(cassette, functools.partial(original, decorator, cassette))
        entry.switch(inert=interceptions.is_running())
        OPEN_CASSETTES.append(entry)
        try:
            yield cassette
        finally:
            OPEN_CASSETTES.remove(entry)
            entry.switch(inert=True)

    return _patch_generator


def saving(original: Seam) -> Seam:
    """What writes the file: not while a run is open, which has asked the cassette for replies, or left it unused."""

    def _save(cassette: Any, *args: Any, **more: Any) -> Any:
        return None if interceptions.is_running() else original(cassette, *args, **more)

    return _save


def rewriting(merge: Callable[[Any, Any], dict[str, Any]], original: Seam) -> Seam:
    """What opens the cassette of a mark. Raises SettingsError where that would begin with deleting its file."""

    def use_cassette(name: str, folder: str, record_mode: str, markers: Any, config: Any, *more: Any) -> Any:
        __tracebackhide__ = True
        if interceptions.is_running() and merge(config, markers).get("record_mode", record_mode) == "rewrite":
            raise SettingsError(
                f"record mode rewrite would delete the cassette {name}, and nothing would write it: agentreplay "
                "records or replays this test\n"
                "  to have the snapshot:    leave rewrite out, or add --disable-recording\n"
                "  to have the cassette:    add --agentreplay-mode=off"
            )
        return original(name, folder, record_mode, markers, config, *more)

    return use_cassette
