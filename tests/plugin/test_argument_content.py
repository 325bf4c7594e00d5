"""Arguments and receivers of tools, recorded in one process and replayed in another: what differs in content diverges."""

import re
from dataclasses import replace

import pytest

from pytest_agentreplay import codec

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

VALUES = '''
import array, collections, dataclasses, enum, functools, io, itertools, logging, os, pathlib, re, threading, types
import urllib.request
import attrs, httpx, pydantic

NOW = 2 if os.environ.get("CHANGED") else 1

class Order:
    def __init__(self, number, amount):
        self.number, self.amount = number, amount

class Slotted:
    __slots__ = ("number",)

class SlottedChild(Slotted):
    __slots__ = ("__amount",)
    def __init__(self, amount):
        self.number, self.__amount = 1, amount

class Lines(list): pass
class Prices(dict): pass
class Text(str): pass
class Pair(collections.namedtuple("Pair", "a b")): pass
class Mode(enum.Enum): FAST = f"model-{NOW}"

@dataclasses.dataclass
class Batch(list):
    name: str = "b"

@dataclasses.dataclass
class Row:
    number: int = 1

class WideRow(Row):
    __slots__ = ("amount",)

@attrs.define
class Attributes:
    amount: int

class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    name: str = "m"
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
    @property
    def total(self): raise AssertionError("a property was asked")
    def __getattr__(self, name): raise AssertionError(f"{name} was asked for")
    def __repr__(self): raise AssertionError("its repr was asked for")
    def __eq__(self, other): raise AssertionError("it was compared")
    __hash__ = None

def given(value, **attributes):
    for name, part in attributes.items():
        setattr(value, name, part)
    return value

def batch(*lines):
    made = Batch()
    list.extend(made, lines)
    return made

def model(amount):
    made = Model()
    made._amount = amount
    return made

def loop(amount):
    order = Order("A-1", amount)
    order.items = [order]
    return order

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
    "nested": lambda n: {"orders": [Order("A-1", Order("A-2", n))]},
    "cycle": loop,
    "slots": SlottedChild,
    "lazy": Lazy,
    "list": lambda n: Lines([n]),
    "dict": lambda n: Prices(a=n),
    "text": lambda n: given(Text("a"), amount=n),
    "namedtuple": lambda n: given(Pair(1, 2), amount=n),
    "dataclass-list": batch,
    "dataclass-slots": lambda n: given(WideRow(), amount=n),
    "attrs": Attributes,
    "pydantic-extra": lambda n: Model(amount=n),
    "pydantic-private": model,
    "enum": lambda n: Mode.FAST,
    "namespace": lambda n: types.SimpleNamespace(amount=n),
    "bytesio": lambda n: io.BytesIO(b"a" * n),
    "stringio": lambda n: io.StringIO("a" * n),
    "position": lambda n: given_position(io.BytesIO(b"abc"), n),
    "file": lambda n: file("ab" * n),
    "memoryview": lambda n: memoryview(b"a" * n),
    "bytearray": lambda n: bytearray(b"a" * n),
    "array": lambda n: array.array("i", [n]),
    "pattern": lambda n: re.compile("a" * n),
    "exception": lambda n: ValueError(n),
    "proxy": lambda n: types.MappingProxyType({"amount": n}),
    "keys": lambda n: {n: 1}.keys(),
    "set": lambda n: {Order("A-1", n), Order("A-2", 3)},
    "slice": slice,
    "bound": lambda n: Order("A-1", n).__init__,
    "partial": lambda n: functools.partial(print, n),
    "closure": multiply,
    "class": lambda n: Order if n == 1 else Lines,
    "chainmap": lambda n: collections.ChainMap({"a": n}),
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

def given_position(stream, position):
    stream.seek(position)
    return stream
'''

TOOLS = """
def refund(value, note=""):
    return "refunded"

def total(numbers):
    return sum(numbers)

def head(stream):
    return stream.read(1)
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
def recorded(shared_project):
    project = shared_project()
    project.write(values=VALUES, tools=TOOLS, test_values=TESTS, test_consuming=CONSUMING)
    (project.root / "pytest.ini").write_text("[pytest]\npythonpath = .\n", encoding="utf-8")
    done = project.record("-q", COLUMNS="200", PYTHONHASHSEED="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "does not replay" not in done.stdout, done.stdout
    project.recording = done.stdout
    return project


def test_equal_content_replays_in_another_process(recorded):
    done = recorded.offline(PYTHONHASHSEED="2")
    assert done.returncode == 0, done.stdout


def test_other_content_diverges(recorded):
    done = recorded.offline("-rpf", "test_values.py", CHANGED="1", COLUMNS="200")
    told = dict(re.findall(r"^(?:FAILED|PASSED) \S+\[([\w-]+)\](.*)$", done.stdout, re.MULTILINE))
    assert {name for name, said in told.items() if "[AR-ARGS]" not in said} == set(), done.stdout
    assert len(told) == len(re.findall(r'^    "[\w-]+": ', VALUES, re.MULTILINE))


def test_only_code_is_not_compared(recorded):
    assert re.findall(r"^ +\$\.(.*)$", recorded.recording, re.MULTILINE) == [
        "value of refund (function) is compared by its name, not by its code"
    ]


# Receivers


ACCOUNT = '''
import contextvars, datetime, functools, itertools, logging, os, queue, sqlite3, threading, time, uuid, weakref
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

    @functools.cached_property
    def title(self):
        return self.owner.title()

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

class Savings(Account):
    pass

class Plain:
    def ping(self):
        return "pong"

BANK = Account("bank")
'''

RECEIVERS = """
import account
from account import BANK, OWNER, Account, Plain, Savings

def test_owner(agentreplay):
    agentreplay.tool(Account.look)
    assert Account(OWNER).look() == "ada"

def test_changed_by_the_tool(agentreplay):
    agentreplay.tool(Account.withdraw)
    mine, other = Account("ada"), Account("ada")
    assert [mine.withdraw(10), mine.withdraw(10), other.withdraw(10), mine.withdraw(10)] == [90, 80, 90, 70]

def test_shared_below(agentreplay):
    agentreplay.tool(Account.withdraw)
    ledger = account.Ledger()
    one, two = Account("ada", ledger), Account("bob", ledger)
    assert [one.withdraw(1), two.withdraw(1), one.withdraw(1)] == [99, 99, 98]

def test_lives_longer_than_a_test(agentreplay):
    agentreplay.tool(Account.withdraw)
    BANK.withdraw(10)
    BANK.withdraw(10)

def test_and_into_the_next(agentreplay):
    agentreplay.tool(Account.withdraw)
    BANK.withdraw(10)

def test_class(agentreplay):
    agentreplay.tool(Account.opened)
    assert (Savings if OWNER == "eve" else Account).opened(5) == 5

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
    project = shared_project()
    project.write(account=ACCOUNT, test_receivers=RECEIVERS)
    (project.root / "pytest.ini").write_text("[pytest]\npythonpath = .\n", encoding="utf-8")
    done = project.record("-v", COLUMNS="200", PYTHONHASHSEED="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "does not replay" not in done.stdout, done.stdout
    project.recording = done.stdout
    return project


def test_a_tool_with_a_client_and_a_cache_replays_in_another_process(receivers):
    for words in ((), ("-k", "next or changed"), ("test_receivers.py::test_and_into_the_next",)):
        done = receivers.offline(*words, PYTHONHASHSEED="2")
        assert done.returncode == 0, done.stdout


def test_what_such_a_tool_holds_is_no_gap_but_what_nobody_can_name_is(receivers):
    gaps = set(re.findall(r"^ +\$\.(\S+) of (?:\S+\.)?(\w+) \((\w+)\)", receivers.recording, re.MULTILINE))
    assert gaps == {("self.pool", "look", "object"), ("self.pool", "withdraw", "object")}


def test_another_receiver_diverges(receivers):
    done = receivers.offline("-rpf", CHANGED="1", COLUMNS="200")
    failed = set(re.findall(r"^FAILED \S+::(\w+) - \[AR-ARGS\]", done.stdout, re.MULTILINE))
    assert failed == {"test_owner", "test_class", "test_class_data"}, done.stdout
    assert "$.self['$state'][1].owner" in done.stdout


def test_what_the_tool_leaves_alone_is_still_compared(receivers):
    done = receivers.offline("-rpf", "-k", "changed", CHANGED="limit", COLUMNS="200")
    assert "[AR-ARGS]" in done.stdout
    assert "limit" in done.stdout


def test_a_receiver_is_readable_in_the_snapshot(receivers):
    (look,) = [s.run.exchanges[0].call for s in receivers.snapshots if s.run.header.test.endswith("::test_owner")]
    kind, state = look.facts["self"]["$state"]
    assert kind == "account.Account"
    assert state["owner"] == "ada"
    assert state["logger"] == {"$state": ["logging.Logger", "bank"]}
    assert state["client"] == {"$opaque": "httpx.Client"}
    assert state["lock"] == {"$opaque": "_thread.lock"}
    assert state["catalogue"]["$state"][0] == "json"
    assert state["started"] == {"$state": ["float", "now"]}
    assert state["ids"] == {"$set": ["a", "b", "c"]}
    (ping,) = [s.run.exchanges[0].call for s in receivers.snapshots if s.run.header.test.endswith("::test_no_state")]
    assert ping.facts == {}


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
    done = project.record("-q", "test_gaps.py", COLUMNS="200")
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("uncompared 1 argument: a replay compares them by class alone") == 5, done.stdout
    assert "$.value of send_on (_thread.lock) is a client" in done.stdout
    assert "$.value of send_on (list) holds more than 10,000 objects" in done.stdout
    lines = re.findall(r"say what they are compared by: +(agentreplay\.codec\(.*\))$", done.stdout, re.MULTILINE)
    assert len(lines) == 5
    kit = project.command("kit", project.files[0])
    assert "grade B" in kit.stdout
    assert "$.value of tool send_on" in kit.stdout
    project.edit("test_gaps.py", "    agentreplay.tool(send_on)\n", f"    agentreplay.tool(send_on)\n    {lines[0]}\n")
    done = project.record("-q", "test_gaps.py", "-k", "lock", COLUMNS="200")
    assert "uncompared" not in done.stdout


# Snapshots of older releases


OLDER = """
import os
NOW = 2 if os.environ.get("CHANGED") else 1

class Order:
    def __init__(self, amount):
        self.amount = amount

class Shop:
    def __init__(self, name):
        self.name = name
    def refund(self, order, note):
        return "refunded"

def test_refund(agentreplay):
    agentreplay.tool(Shop.refund)
    note = "other" if os.environ.get("CHANGED") == "note" else "n"
    assert Shop(f"shop-{NOW}").refund(Order(NOW), note) == "refunded"
"""


def test_a_snapshot_without_content_replays_and_is_reported(project):
    project.write(test_older=OLDER)
    assert project.record("test_older.py").returncode == 0
    (file,) = [file for file in project.files if "test_older" in str(file)]
    run = codec.loads(file.read_bytes(), file=str(file)).run
    (made,) = run.exchanges
    kit = {name: part for name, part in run.header.kit.items() if name != "arguments"}
    arguments = {**made.call.arguments, "order": {"$opaque": "test_older.Order"}}
    older = replace(made, call=replace(made.call, arguments=arguments, facts={}))
    file.write_text(
        codec.dumps(replace(run, header=replace(run.header, kit=kit), exchanges=(older,))), encoding="utf-8"
    )
    for changed in ("", "1"):
        done = project.offline("test_older.py", CHANGED=changed)
        assert done.returncode == 0, done.stdout
        assert "older     1 call in 1 test recorded without content, by an older release" in done.stdout
    done = project.offline("-rf", "test_older.py", CHANGED="note")
    assert "[AR-ARGS]" in done.stdout, done.stdout
