"""`patching.wrap`: which function of a library is replaced, and how often."""

from __future__ import annotations

from pytest_agentreplay.intercept.session.patching import wrap


class Library:
    def send(self, text):
        return f"sent {text}"


def note(original):
    return lambda self, text: f"noted, {original(self, text)}"


def test_an_inherited_method_is_wrapped_in_the_class_that_is_named_alone():
    class Client(Library):
        pass

    wrap(Client, "send", note)
    assert Client().send("a") == "noted, sent a"
    assert Library().send("a") == "sent a"


def test_a_method_is_wrapped_once_though_a_class_below_asks_again():
    class Client(Library):
        pass

    class Own(Client):
        pass

    for owner in (Client, Client, Own):
        wrap(owner, "send", note)
    assert Own().send("a") == "noted, sent a"


def test_a_name_that_the_library_lacks_is_left_alone():
    class Lazy(Library):
        def __getattr__(self, name):
            raise AssertionError(f"{name} was asked for")

    wrap(Lazy, "receive", note)
    wrap(Lazy(), "receive", note)
    assert not hasattr(Lazy, "receive")
