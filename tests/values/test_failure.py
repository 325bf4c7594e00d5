from __future__ import annotations

import asyncio
import builtins
import json
import os

import pydantic
import pytest

from pytest_agentreplay.model.exchanges import Failure
from pytest_agentreplay.values.failure import failure_of, raise_able


class ToolError(Exception):
    made = 0

    def __init__(self, code, *, retry_after):
        type(self).made += 1
        self.code = code
        self.retry_after = retry_after
        self.connection = object()
        super().__init__(f"tool failed with {code}")


class Mute(Exception):
    def __str__(self):
        return self.connection.explain()


class Stop(BaseException):
    pass


LOADED = {f"{cls.__module__}.{cls.__qualname__}": cls for cls in (ToolError, Mute, Stop)}


def find(name):
    module, _, kind = name.rpartition(".")
    return vars(builtins).get(kind) if module == "builtins" else LOADED.get(name)


def absent(name):
    return find(name) if name.startswith("builtins.") else None


def there_and_back(error, find=find):
    failure = failure_of(error)
    stored = json.loads(json.dumps([failure.type, failure.message, failure.args, failure.bases]))
    kind, message, args, bases = stored
    return raise_able(Failure(kind, message, tuple(args), tuple(bases)), find)


def unicode_error():
    try:
        b"\xff".decode()
    except UnicodeDecodeError as error:
        return error


def missing_file():
    try:
        os.stat("/no/such/file")
    except OSError as error:
        return error


BUILT_IN = [
    ValueError("no such order"), ValueError(), KeyError("id"), KeyError(("a", 1)), LookupError("a", 2, b"\xff"),
    StopIteration(3), TimeoutError("slow"), OSError(111, "refused"), ConnectionRefusedError(111, "refused"),
    missing_file(), unicode_error(), SyntaxError("bad", ("f.py", 1, 2, "x =", 1, 3)), ImportError("no shop"),
]  # fmt: skip


@pytest.mark.parametrize("error", BUILT_IN)
def test_a_built_in_exception_comes_back_as_it_was(error):
    back = there_and_back(error)
    assert back is not error
    for told in (type, str, lambda one: one.args, lambda one: [getattr(one, x, None) for x in ("errno", "filename")]):
        assert told(back) == told(error)


def test_a_loaded_class_comes_back_with_its_attributes_and_without_its_init():
    error = ToolError(429, retry_after=1.5)
    before = ToolError.made
    back = there_and_back(error)
    assert type(back) is ToolError
    assert ToolError.made == before
    assert (back.code, back.retry_after, str(back)) == (429, 1.5, "tool failed with 429")
    assert not hasattr(back, "connection")


def test_a_class_that_is_not_loaded_has_a_stand_in_of_its_name_and_nearest_base():
    class Declined(ConnectionError):
        pass

    first, second = (there_and_back(Declined(7, text), absent) for text in ("no card", "no money"))
    assert type(first) is not Declined
    assert type(first) is type(second)
    assert (type(first).__name__, type(first).__qualname__) == ("Declined", Declined.__qualname__)
    assert type(first).__module__ == Declined.__module__
    assert isinstance(first, ConnectionError)
    assert (str(first), str(second)) == ("[Errno 7] no card", "[Errno 7] no money")
    assert first.errno == 7


def test_a_stand_in_never_runs_the_init_of_its_base_and_is_an_exception_at_least():
    before = ToolError.made
    back = raise_able(Failure("gone.Wrapped", "text", (), ("x.ToolError",)), {"x.ToolError": ToolError}.get)
    assert (isinstance(back, ToolError), str(back), ToolError.made) == (True, "text", before)
    made_up = raise_able(Failure("os.system", "rm"), lambda name: __import__("os").system)
    assert (isinstance(made_up, Exception), str(made_up)) == (True, "rm")


def test_text_that_cannot_be_told_again_is_told_by_a_subclass_and_a_broken_str_loses_the_text_alone():
    error = Mute("?")
    error.connection = type("C", (), {"explain": lambda self: "line is down"})()
    back = there_and_back(error)
    assert (isinstance(back, Mute), type(back).__name__, str(back)) == (True, "Mute", "line is down")
    failure = failure_of(Mute("x"))
    assert (failure.message, failure.type.rpartition(".")[2]) == ("", "Mute")
    back = there_and_back(ValueError(object()))
    assert type(back) is ValueError
    assert str(back).startswith("<object object at"), "arguments that cannot be frozen leave the text"


def test_notes_members_of_groups_and_bases_come_back():
    error = ValueError("x")
    error.add_note("while looking up order 7")
    assert there_and_back(error).__notes__ == ["while looking up order 7"]
    group = ExceptionGroup("two tools", [ValueError("a"), ExceptionGroup("deeper", [ToolError(1, retry_after=0)])])
    back = there_and_back(group)
    assert type(back) is ExceptionGroup
    assert str(back) == str(group)
    assert [type(e) for e in back.exceptions] == [ValueError, ExceptionGroup]
    assert back.exceptions[1].exceptions[0].code == 1
    bases = ("builtins.OSError", "builtins.Exception", "builtins.BaseException")
    assert failure_of(FileNotFoundError(2, "x")).bases == bases, "nearest first, up to what is above object"


@pytest.mark.parametrize("error", [SystemExit(0), KeyboardInterrupt("now"), Stop("all")])
def test_what_is_no_exception_comes_back_as_a_stand_in_that_is_none_either(error):
    back = there_and_back(error)
    assert type(back) is not type(error)
    assert not isinstance(back, Exception | SystemExit | KeyboardInterrupt)
    assert type(back).__name__ == type(error).__name__


def test_a_group_of_cancellations_is_a_cancellation():
    cancelled = asyncio.CancelledError("stop")
    nested = BaseExceptionGroup("nursery", [cancelled, BaseExceptionGroup("inner", [asyncio.CancelledError()])])
    assert failure_of(nested) == failure_of(cancelled)
    mixed = failure_of(BaseExceptionGroup("nursery", [cancelled, ValueError("and this")]))
    assert mixed.type == "builtins.BaseExceptionGroup"
    assert not mixed.cancelled


class Order(pydantic.BaseModel):
    id: str
    amount: float = pydantic.Field(gt=0)

    @pydantic.field_validator("id")
    @classmethod
    def known(cls, value):
        if value != "A-17":
            msg = f"no order {value}"
            raise ValueError(msg)
        return value


@pytest.mark.parametrize(
    "given", [{"id": 17, "amount": "x"}, {"id": "A-17", "amount": -1}, {"id": "B"}, {"amount": object()}]
)
def test_an_error_of_validation_comes_back_as_one(given):
    with pytest.raises(pydantic.ValidationError) as caught:
        Order.model_validate(given)
    back = there_and_back(caught.value, {failure_of(caught.value).type: pydantic.ValidationError}.get)
    assert str(back) == str(caught.value)
    if "object" not in str(given):
        assert isinstance(back, pydantic.ValidationError)
        assert [line["type"] for line in back.errors()] == [line["type"] for line in caught.value.errors()]
    assert isinstance(back, ValueError)
