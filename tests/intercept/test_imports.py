"""A library is met whenever it comes, and nobody else notices."""

from __future__ import annotations

import importlib
import importlib.resources
import importlib.util
import pkgutil
import sys
import threading
import time

import pytest

from pytest_agentreplay.intercept import registry
from pytest_agentreplay.intercept.registry import when_imported


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A package that no other test knows, and the record of who met it."""
    home = tmp_path / "metlib"
    home.mkdir()
    (home / "__init__.py").write_text("import time, metlib_gate\nmetlib_gate.wait()\nVALUE = 1\n")
    (home / "data.txt").write_text("data")
    (home / "inner.py").write_text("VALUE = 2\n")
    (tmp_path / "metlib_gate.py").write_text(
        "import threading\nopen = threading.Event()\nopen.set()\nwait = open.wait\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(registry, "_acts", {})
    yield home
    for name in [name for name in sys.modules if name.startswith("metlib")]:
        del sys.modules[name]


def test_met_after_its_import_once_and_whole_and_in_order(library):
    met = []
    act = lambda module: met.append(module.VALUE)  # noqa: E731  the same object twice is the point
    when_imported("metlib", act)
    when_imported("metlib", act)
    when_imported("metlib", lambda _: met.append("second"))
    when_imported("metlib.inner", lambda module: met.append(module.VALUE))
    assert met == []
    module = importlib.import_module("metlib")
    assert met == [1, "second"]
    importlib.import_module("metlib.inner")
    assert met == [1, "second", 2]
    met.clear()
    when_imported("metlib", met.append)
    when_imported("metlib", met.append)  # another bound method, equal all the same
    assert met == [module], "met now, since it is there"


def test_nothing_remains_of_us_on_the_module(library):
    def loaders(module):
        return type(module.__loader__), type(module.__spec__.loader)

    before = loaders(importlib.import_module("metlib"))
    del sys.modules["metlib"]
    when_imported("metlib", lambda _: None)
    spec = importlib.util.find_spec("metlib")
    assert "VALUE = 1" in spec.loader.get_source("metlib"), "a spec that is only looked at answers as the real one"
    assert spec.loader.is_package("metlib")
    assert "metlib" not in sys.modules
    module = importlib.import_module("metlib")
    assert loaders(module) == before
    assert module.__loader__ is module.__spec__.loader
    assert importlib.resources.files("metlib").joinpath("data.txt").read_text() == "data"
    assert [info.name for info in pkgutil.iter_modules(module.__path__)] == ["inner"]
    assert pkgutil.get_data("metlib", "data.txt") == b"data"


def test_a_failed_import_fails_as_ever_and_each_that_works_is_met(library):
    met = []
    when_imported("metlib", met.append)
    source = library / "__init__.py"
    good = source.read_text()
    source.write_text("raise OSError('no disk')  # not the length of the good one\n")
    with pytest.raises(OSError, match="no disk"):
        importlib.import_module("metlib")
    assert met == []
    source.write_text(good)
    importlib.invalidate_caches()
    module = importlib.import_module("metlib")
    importlib.reload(module)
    del sys.modules["metlib"]
    assert met == [module, module]
    assert importlib.import_module("metlib") is met[2]


def test_what_is_not_there_stays_away(library):
    when_imported("metlib_nowhere", lambda _: None)
    assert importlib.util.find_spec("metlib_nowhere") is None
    with pytest.raises(ModuleNotFoundError, match="metlib_nowhere"):
        importlib.import_module("metlib_nowhere")


def test_it_comes_back_when_the_meta_path_was_restored(library):
    met = []
    saved = list(sys.meta_path)
    when_imported("metlib", met.append)
    sys.meta_path[:] = saved
    when_imported("metlib", met.append)
    importlib.import_module("metlib")
    assert len(met) == 1


def test_an_import_under_way_in_another_thread_is_waited_for(library):
    backend = importlib.import_module("metlib_gate")
    backend.open.clear()
    importing = threading.Thread(target=importlib.import_module, args=("metlib",))
    importing.start()
    while "metlib" not in sys.modules:
        time.sleep(0.001)
    met = []
    asking = threading.Thread(target=when_imported, args=("metlib", lambda module: met.append(module.VALUE)))
    asking.start()
    time.sleep(0.02)
    assert met == []
    backend.open.set()
    importing.join(5)
    asking.join(5)
    assert met == [1]


def test_two_threads_that_import_at_once_are_met_once(library):
    met = []
    when_imported("metlib", met.append)
    threads = [threading.Thread(target=importlib.import_module, args=("metlib",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert met == [sys.modules["metlib"]]
