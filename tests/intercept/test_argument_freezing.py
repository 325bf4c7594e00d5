"""Which object a tool belongs to, what of it is compared, and what belongs to the process."""

from __future__ import annotations

import functools
import logging
import threading
import time
from datetime import UTC, datetime, timedelta

import httpx
import pydantic
import pytest

from pytest_agentreplay.intercept.environment import clock
from pytest_agentreplay.intercept.environment.clock import is_reading
from pytest_agentreplay.intercept.tools.argument_serializing import ArgumentFreezing, receiver_of


class Account:
    def __init__(self, owner):
        self.owner, self.lock = owner, threading.Lock()

    def withdraw(self, amount):
        return amount

    @classmethod
    def opened(cls):
        return 1


class Settings(pydantic.BaseModel):
    owner: str = "ada"

    def look(self):
        return self.owner


class Client(httpx.Client):
    pass


def plain():
    return 1


@pytest.mark.parametrize("owner", [Account("ada"), Settings()])
def test_a_bound_method_that_a_framework_is_given_belongs_to_its_object(owner):
    method = owner.withdraw if isinstance(owner, Account) else owner.look
    for given in (method, functools.partial(method, 1), functools.partial(functools.partial(method))):
        assert receiver_of(given) is owner


def test_a_class_method_belongs_to_its_class_and_a_function_to_nothing():
    assert receiver_of(Account.opened) is Account
    assert receiver_of(plain) is None
    assert receiver_of(len) is None
    assert receiver_of(Client().get) is None, "what a library's class holds changes with each release"


def test_two_accounts_are_two_receivers():
    one, two, again = (
        ArgumentFreezing({"amount": 1}, owner, Account.withdraw)
        for owner in (Account("ada"), Account("eve"), Account("ada"))
    )
    assert one.arguments == two.arguments == {"amount": 1}
    assert one.receiver == again.receiver != two.receiver


def test_a_service_below_an_argument_is_one_wherever_it_is():
    holder = Account("ada")
    holder.clients = {"http": Client(), "log": logging.getLogger("bank")}
    written = ArgumentFreezing({}, holder, Account.withdraw).receiver["$state"][1]
    assert written["clients"]["http"] == {"$opaque": f"{__name__}.Client"}
    assert written["clients"]["log"] == {"$state": ["logging.Logger", "bank"]}


def test_readings_of_the_clock_are_told_from_other_numbers():
    now = time.time()
    readings = now + 1e-5, now // 1 + 0.5, time.monotonic() + 1e-6, datetime.now(UTC), time.time_ns()
    assert all(map(is_reading, readings))
    others = 18.5, 0.1, 1e9, time.monotonic() // 1, 10**18, datetime(2026, 1, 1), datetime.now(UTC) - timedelta(days=1)
    assert not any(map(is_reading, others))


def test_readings_of_the_shifted_clock_of_a_proof_are_readings(monkeypatch):
    """An object that was made at import holds such ones; inside of the test the time is the recorded one."""
    later = datetime.now(UTC) + timedelta(days=41, hours=12)
    readings = later, later.timestamp(), int(later.timestamp() * 10**9)
    assert not any(map(is_reading, readings))
    monkeypatch.setattr(clock, "proof_shift", timedelta(days=41, hours=12).total_seconds())
    assert all(map(is_reading, readings))
