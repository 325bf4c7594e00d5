"""Arguments and receivers of tools, recorded in one process and replayed in another: what differs in content diverges.

The classes of arguments that are read by their fields alone are tried in tests/values/test_arguments.py.
"""

import re
from dataclasses import replace

import pytest

from pytest_agentreplay.snapshots import codec
from tests.support.small_projects import furnished, passed, recorded, runs, summary

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

VALUES = '''
import array, collections, enum, functools, io, itertools, os, pathlib, re, types
import urllib.request
import httpx, pydantic

NOW = 2 if os.environ.get("CHANGED") else 1

class Order:
    def __init__(self, number, amount):
        self.number, self.amount = number, amount

class Lines(list): pass
class Mode(enum.Enum): FAST = f"model-{NOW}"

class Model(pydantic.BaseModel):
    _amount: int = pydantic.PrivateAttr(0)

class Numbers:
    """An iterator of the user's own: read by its state, never consumed."""
    def __init__(self, last): self.last, self.at = last, 0
    def __iter__(self): return self
    def __next__(self):
        if self.at >= self.last: raise StopIteration
        self.at += 1
        return self.at

class Lazy:
    """Reading its state calls nothing."""
    def __init__(self, amount): self._amount = amount
    def __getattr__(self, name): raise AssertionError(f"{name} was asked for")
    def __repr__(self): raise AssertionError("its repr was asked for")
    def __eq__(self, other): raise AssertionError("it was compared")
    __hash__ = None

def given(value, **attributes):
    for name, part in attributes.items():
        setattr(value, name, part)
    return value

def loop(amount):
    order = Order("A-1", amount)
    return given(order, items=[order])

def file(text):
    path = pathlib.Path(f"{text}.txt")
    path.write_text(text)
    made = path.open()
    made.seek(1)
    FILES.append(made)
    return made

def multiply(factor):
    return lambda value: value * factor

FILES = []

VALUES = {
    "object": lambda n: Order("A-1", n),
    "cycle": loop,
    "lazy": Lazy,
    "pydantic-private": lambda n: given(Model(), _amount=n),
    "enum": lambda n: Mode.FAST,
    "bytesio": lambda n: io.BytesIO(b"a" * n),
    "stringio": lambda n: io.StringIO("a" * n),
    "file": lambda n: file("ab" * n),
    "memoryview": lambda n: memoryview(b"a" * n),
    "bytearray": lambda n: bytearray(b"a" * n),
    "array": lambda n: array.array("i", [n]),
    "pattern": lambda n: re.compile("a" * n),
    "exception": lambda n: ValueError(n),
    "proxy": lambda n: types.MappingProxyType({"amount": n}),
    "set": lambda n: {Order("A-1", n), Order("A-2", 3)},
    "slice": slice,
    "bound": lambda n: Order("A-1", n).__init__,
    "partial": lambda n: functools.partial(print, n),
    "closure": multiply,
    "class": lambda n: Order if n == 1 else Lines,
    "userdict": lambda n: collections.UserDict(a=n),
    "deque": lambda n: collections.deque([Order("A-1", n)]),
    "iterator": lambda n: iter([n]),
    "own-iterator": Numbers,
    "generator": lambda n: (i for i in range(n)),
    "map": lambda n: map(str, [n]),
    "chain": lambda n: itertools.chain([n], [3]),
    "httpx": lambda n: httpx.Request("POST", "http://shop.example/refunds", json={"amount": n}),
    "urllib": lambda n: urllib.request.Request("http://shop.example/", data=b"a" * n),
}
'''

TOOLS = """
def refund(value, note=""): return "refunded"
def total(numbers): return sum(numbers)
def head(stream): return stream.read(1)
"""

TESTS = """
import pytest
from tools import refund
from values import FILES, NOW, VALUES

@pytest.fixture(autouse=True)
def closed():
    yield
    while FILES:
        FILES.pop().close()

@pytest.mark.parametrize("name", VALUES)
def test_value(agentreplay, name):
    agentreplay.tool(refund)
    assert refund(VALUES[name](NOW), note=name) == "refunded"
"""

CONSUMING = """
import io
from tools import head, total
from values import FILES, Numbers, file

def test_what_is_read_is_there_for_the_tool(agentreplay):
    agentreplay.tool(total)
    agentreplay.tool(head)
    assert total(i for i in range(4)) == 6
    assert total(map(int, "123")) == 6
    numbers = iter([1, 2, 3])
    assert (next(numbers), total(numbers)) == (1, 5)
    assert total(Numbers(3)) == 6
    assert head(io.StringIO("abc")) == "a"
    assert head(file("xyz")) == "y"
    FILES.pop().close()

def broken():
    yield 1
    raise LookupError("gone")

def test_an_exception_of_a_generator_is_raised_where_it_was(agentreplay):
    agentreplay.tool(total)
    try:
        total(broken())
    except LookupError as error:
        assert str(error) == "gone"
    else:
        raise AssertionError
"""


@pytest.fixture(scope="module")
def values(shared_project):
    project = furnished(shared_project(), values=VALUES, tools=TOOLS, test_values=TESTS, test_consuming=CONSUMING)
    return recorded(project, "-q", COLUMNS="200", PYTHONHASHSEED="1")


def test_equal_content_replays_in_another_process(values):
    passed(values.offline(PYTHONHASHSEED="2"))


def test_other_content_diverges_and_only_code_is_not_compared(values):
    told = summary(values.offline("test_values.py", CHANGED="1", COLUMNS="200"))
    assert len(told) == len(re.findall(r'^    "[\w-]+": ', VALUES, re.MULTILINE))
    assert {name for name, said in told.items() if "[AR-ARGS]" not in said} == set()
    assert re.findall(r"^ +\$\.(.*)$", values.recording.stdout, re.MULTILINE) == [
        "value of refund (function) is compared by its name, not by its code"
    ]


# Receivers


ACCOUNT = '''
import datetime, logging, os, queue, sqlite3, threading, time, uuid, weakref
import httpx

OWNER = "eve" if os.environ.get("CHANGED") else "ada"
LIMIT = 50 if os.environ.get("CHANGED") == "limit" else 100

class Ledger:
    def __init__(self):
        self.rows, self.lock = [], threading.RLock()

class Account:
    """What tools look like: data beside a client, a logger, locks, caches and counters."""
    rate = 0.1

    def __init__(self, owner, ledger=None):
        self.owner, self.limit, self.balance = owner, LIMIT, 100
        self.client, self.database = httpx.Client(), sqlite3.connect(":memory:")
        self.logger, self.lock, self.local = logging.getLogger("bank"), threading.Lock(), threading.local()
        self.cache, self.calls, self.session, self.ids = {}, 0, None, {"b", "a", "c"}
        self.pool, self.ledger, self.waiting = object(), ledger or Ledger(), queue.Queue()
        self.listeners = weakref.WeakSet()
        self.printed = repr(self.lock)
        self.started, self.opened_at, self.last = time.time(), datetime.datetime.now(), time.monotonic()
        self.catalogue = [{"number": number, "limit": self.limit} for number in range(500)]

    @property
    def total(self):
        raise AssertionError("a property was asked")

    def withdraw(self, amount):
        self.calls += 1
        self.balance -= amount
        self.cache[amount] = time.time()
        self.session = self.session or uuid.uuid4()
        self.ledger.rows.append(amount)
        self.client = httpx.Client()
        return self.balance

    def look(self):
        return self.owner

    @classmethod
    def opened(cls, amount):
        return amount

class Plain:
    def ping(self): return "pong"

BANK = Account("bank")
'''

RECEIVERS = """
from account import BANK, OWNER, Account, Plain

def test_owner(agentreplay):
    agentreplay.tool(Account.look)
    assert Account(OWNER).look() == "ada"

def test_changed_by_the_tool(agentreplay):
    agentreplay.tool(Account.withdraw)
    mine, other = Account("ada"), Account("ada")
    assert [mine.withdraw(10), mine.withdraw(10), other.withdraw(10), mine.withdraw(10)] == [90, 80, 90, 70]

def test_lives_longer_than_a_test(agentreplay):
    agentreplay.tool(Account.withdraw)
    BANK.withdraw(10)
    BANK.withdraw(10)

def test_and_into_the_next(agentreplay):
    agentreplay.tool(Account.withdraw)
    BANK.withdraw(10)

def test_class_data(agentreplay, monkeypatch):
    agentreplay.tool(Account.opened)
    monkeypatch.setattr(Account, "rate", 0.2 if OWNER == "eve" else 0.1)
    assert Account.opened(5) == 5

def test_no_state(agentreplay):
    agentreplay.tool(Plain.ping)
    assert Plain().ping() == "pong"
"""


@pytest.fixture(scope="module")
def receivers(shared_project):
    project = furnished(shared_project(), account=ACCOUNT, test_receivers=RECEIVERS)
    return recorded(project, "-v", COLUMNS="200", PYTHONHASHSEED="1")


def test_a_tool_with_a_client_and_a_cache_replays_in_another_process(receivers):
    passed(receivers.offline(PYTHONHASHSEED="2"))
    for words in (("-k", "next or changed"), ("test_receivers.py::test_and_into_the_next",)):
        passed(receivers.offline(*words))


def test_what_such_a_tool_holds_is_no_gap_but_what_nobody_can_name_is(receivers):
    gaps = set(re.findall(r"^ +\$\.(\S+) of (?:\S+\.)?(\w+) \((\w+)\)", receivers.recording.stdout, re.MULTILINE))
    assert gaps == {("self.pool", "look", "object"), ("self.pool", "withdraw", "object")}


def test_another_receiver_diverges_and_so_does_what_the_tool_leaves_alone(receivers):
    done = receivers.offline(CHANGED="1", COLUMNS="200")
    told = summary(done)
    assert {name for name, said in told.items() if "[AR-ARGS]" in said} == {*told} == {"owner", "class_data"}
    assert "$.self['$state'][1].owner" in done.stdout
    (said,) = summary(receivers.offline("-k", "changed", CHANGED="limit", COLUMNS="200")).values()
    assert "[AR-ARGS]" in said
    assert "limit" in said


def test_a_receiver_is_readable_in_the_snapshot(receivers):
    kind, state = runs(receivers)["owner"].exchanges[0].call.facts["self"]["$state"]
    assert kind == "account.Account"
    assert state.pop("catalogue")["$state"][0] == "json"
    assert {name: state[name] for name in ("owner", "logger", "client", "lock", "started", "ids")} == {
        "owner": "ada",
        "logger": {"$state": ["logging.Logger", "bank"]},
        "client": {"$opaque": "httpx.Client"},
        "lock": {"$opaque": "_thread.lock"},
        "started": {"$state": ["float", "now"]},
        "ids": {"$set": ["a", "b", "c"]},
    }
    assert runs(receivers)["no_state"].exchanges[0].call.facts == {}


def test_a_snapshot_without_receivers_replays(receivers):
    (file,) = [file for file in receivers.files if file.name.startswith("test_owner")]
    before = file.read_bytes()
    run = codec.loads(before, file=str(file)).run
    (made,) = run.exchanges
    kit = {name: part for name, part in run.header.kit.items() if name != "arguments"}
    older = replace(made, call=replace(made.call, facts={}))
    file.write_text(
        codec.dumps(replace(run, header=replace(run.header, kit=kit), exchanges=(older,))), encoding="utf-8"
    )
    passed(receivers.offline("-k", "owner", CHANGED="1"))
    file.write_bytes(before)


# Gaps


GAPS = """
import socket, threading, types
import pytest

def send_on(value):
    return 1

@pytest.mark.parametrize("name", ["lock", "socket", "object", "function", "rows"])
def test_gap(agentreplay, name):
    agentreplay.tool(send_on)
    with socket.socket() as line:
        values = {"lock": threading.Lock(), "socket": line, "object": object(), "function": lambda: 1}
        send_on(values.get(name, [{"at": object()} for _ in range(20_000)]))
"""


def test_what_cannot_be_compared_is_reported_with_the_line_to_paste(project):
    project.write(test_gaps=GAPS)
    said = recorded(project, "-q", "test_gaps.py", COLUMNS="200").recording.stdout
    assert said.count("uncompared 1 argument: a replay compares them by class alone") == 5, said
    assert "$.value of send_on (_thread.lock) is a client" in said
    assert "$.value of send_on (list) holds more than 10,000 objects" in said
    lines = re.findall(r"say what they are compared by: +(agentreplay\.codec\(.*\))$", said, re.MULTILINE)
    assert len(lines) == 5
    kit = project.command("show", "--kit", project.files[0]).stdout
    assert "grade B" in kit
    assert "$.value of tool send_on" in kit
    project.edit("test_gaps.py", "    agentreplay.tool(send_on)\n", f"    agentreplay.tool(send_on)\n    {lines[0]}\n")
    assert "uncompared" not in project.record("-q", "test_gaps.py", "-k", "lock", COLUMNS="200").stdout
