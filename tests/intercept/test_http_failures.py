"""Exceptions cross the file as values, and a file cannot raise what no HTTP library would."""

from __future__ import annotations

import httpx
import httpx2
import pytest

from pytest_agentreplay.intercept.http.http_wire import freeze_exception, revive_exception
from pytest_agentreplay.intercept.session.patching import find_exception
from pytest_agentreplay.model.exchanges import Failure

SIGNALS = ("_pytest.outcomes.Skipped", "_pytest.outcomes.Exit", "unittest.case.SkipTest")


class Odd(httpx.TransportError):
    def __init__(self, code, *, extra):
        super().__init__(f"odd {code}")
        self.extra = extra


def test_failures_come_back_as_the_same_class_or_a_stand_in():
    odd = revive_exception(freeze_exception(Odd(7, extra=object())), httpx)
    assert type(odd) is Odd
    assert str(odd) == "odd 7"
    refused = revive_exception(freeze_exception(ConnectionRefusedError(111, "refused")), httpx)
    assert (type(refused), refused.errno) == (ConnectionRefusedError, 111)
    gone = Failure(
        "vendor.errors.Overloaded", "too much", bases=("vendor.errors.Base", "httpx.ReadError", "httpx.HTTPError")
    )
    for library in (httpx, httpx2):
        stand_in = revive_exception(gone, library)
        assert isinstance(stand_in, library.ReadError)
        assert type(stand_in).__name__ == "Overloaded"
        assert type(stand_in).__module__ == "vendor.errors"
        assert str(stand_in) == "too much"
    unknown = revive_exception(Failure("nowhere.Strange", "m", bases=("builtins.Exception",)), httpx)
    assert type(unknown).__bases__ == (RuntimeError,)


@pytest.mark.parametrize("bases", [("builtins.BaseException",), ("_pytest.outcomes.Exit", "builtins.Exception")])
@pytest.mark.parametrize("path", ["builtins.SystemExit", *SIGNALS, "unittest.SkipTest", "os.abort"])
def test_a_file_cannot_skip_a_test_or_end_the_session(path, bases):
    error = revive_exception(Failure(path, "m", bases=bases), httpx)
    assert type(error).__bases__ == (RuntimeError if "builtins.Exception" in bases else BaseException,)
    assert (type(error).__name__, str(error)) == (path.rpartition(".")[2], "m")
    assert path not in SIGNALS or find_exception(path) is None


def test_a_broken_text_is_no_reason_to_lose_the_exchange():
    class Broken(Exception):
        def __str__(self):
            raise ValueError

    assert freeze_exception(Broken(1)).message == ""
