from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import enum
import json
import math
import threading
import types
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from ipaddress import IPv4Address, IPv6Network
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import (
    Annotated,
    Any,
    ForwardRef,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    TypedDict,
    TypeVar,
)
from zoneinfo import ZoneInfo

import attrs
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.errors import CannotFreeze
from pytest_agentreplay.values import Codec, freeze, freeze_arguments, load
from pytest_agentreplay.values.arguments import is_same
from tests.support.same_values import equals_whole

T = TypeVar("T")
BERLIN = ZoneInfo("Europe/Berlin")


class Color(enum.Enum):
    RED = "r"
    BLUE = ("b", 1)


class Level(enum.IntEnum):
    LOW = 1


class State(enum.StrEnum):
    OPEN = "open"


class Right(enum.Flag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass
class Cat:
    name: str
    lives: int = 9


@dataclasses.dataclass
class Dog:
    name: str
    lives: int = 9


@dataclasses.dataclass(frozen=True, slots=True)
class Money:
    amount: Decimal
    currency: str = "EUR"
    tags: frozenset[str] = frozenset()


@dataclasses.dataclass(slots=True)
class Order:
    id: int
    total: Money
    lines: tuple[Money, ...] = ()
    pet: Cat | Dog | None = None
    parent: Order | None = None


@dataclasses.dataclass
class VipOrder(Order):
    level: Level = Level.LOW


@dataclasses.dataclass
class Page(Generic[T]):
    items: list[T]
    next: T | None = None


@attrs.define
class Parcel:
    weight: Decimal
    state: State = State.OPEN


@attrs.frozen(slots=False, cache_hash=True)
class Label:
    text: str


class Point(NamedTuple):
    x: int
    when: dt.date | None = None


Pair = collections.namedtuple("Pair", "left right")  # noqa: PYI024  the untyped one


class Row(TypedDict):
    id: int
    color: Color
    note: NotRequired[Cat]


class Model(pydantic.BaseModel):
    id: int
    when: dt.datetime | None = None
    key: pydantic.SecretStr | None = None
    pets: list[Cat | Dog] = []
    _seen: tuple[int, ...] = pydantic.PrivateAttr(default=())


class SubModel(Model):
    extra_field: Decimal = Decimal("1.50")


class Open(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    id: int


class GenericModel(pydantic.BaseModel, Generic[T]):
    value: T


class SecretList(pydantic.Secret[list[int]]):
    pass


class UserId(str):
    __slots__ = ()


Known = NewType("Known", Cat)


class Zone(dt.tzinfo):
    pass


class Opaque:
    """Neither a dataclass nor anything else that comes apart by itself."""

    def __init__(self, rows):
        self.rows = rows


def there(value, hint=None, codecs=()):
    return load(json.loads(json.dumps(freeze(value, hint=hint, codecs=codecs))), hint=hint, codecs=codecs)


def assert_comes_back(value, hint=None, codecs=()):
    back = there(value, hint, codecs)
    assert equals_whole(value, back, codecs=codecs), back
    assert type(back) is type(value)
    return back


CAT, TOM = Cat("Tom"), {"$object": {"name": "Tom", "lives": 9}}
NO_TAGS = {"$object": {"amount": {"$decimal": "2"}, "currency": "EUR", "tags": {"$frozenset": []}}}
ORDER = {"id": 1, "total": NO_TAGS, "lines": {"$tuple": []}, "pet": None, "parent": None}


SEEN = [
    ({"id": 7, "tags": ["a", None, True, 1.5]}, None, {"id": 7, "tags": ["a", None, True, 1.5]}),
    ((1, "a"), None, {"$tuple": [1, "a"]}),
    (b"plain", None, {"$bytes": "plain"}),
    (b"\xff", None, {"$bytes": ["/w=="]}),
    ({1: "a"}, None, {"$dict": [[1, "a"]]}),
    ({"$ref": {"$$x": 1}}, None, {"$$ref": {"$$$x": 1}}),
    ({"b", "a", "c", "d"}, None, {"$set": ["a", "b", "c", "d"]}),
    (Decimal("1.50"), None, {"$decimal": "1.50"}),
    (dt.datetime(2026, 11, 20, 9, tzinfo=dt.UTC), None, {"$datetime": "2026-11-20T09:00:00+00:00"}),
    (Path("a/b"), None, {"$path": "a/b"}),
    (math.nan, None, {"$float": "nan"}),
    (-0.0, None, {"$float": "-0.0"}),
    (2**64, None, {"$int": "18446744073709551616"}),
    ("\ud800", None, {"$str": "\\ud800"}),
    (Order(1, Money(Decimal(2))), Order, {"$object": ORDER}),
    ([Color.RED], list[Color], [{"$enum": "RED"}]),
    (CAT, Cat | None, TOM),
    (Dog("Tom"), Cat | Dog, {"$arm": [1, f"{__name__}.Dog", TOM]}),
]


def test_what_a_reader_sees():
    for value, hint, frozen in SEEN:
        assert json.dumps(freeze(value, hint=hint)) == json.dumps(frozen)


def _zones():
    fixed = st.timedeltas(dt.timedelta(hours=-23), dt.timedelta(hours=23))
    named = st.builds(dt.timezone, fixed, st.sampled_from(["EST", "x"]))
    return st.one_of(st.none(), st.just(dt.UTC), st.builds(dt.timezone, fixed), named, st.just(BERLIN))


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(exclude_categories=())),
    st.binary(),
    st.binary().map(bytearray),
    st.complex_numbers(),
    st.decimals(),
    st.fractions(),
    st.uuids(),
    st.dates(),
    st.timedeltas(),
    st.times(timezones=_zones()),
    st.datetimes(dt.datetime(2, 1, 1), dt.datetime(9000, 1, 1), timezones=_zones()),
    st.sampled_from([dt.UTC, BERLIN, ..., Path("a/b"), PureWindowsPath("C:\\x"), PurePosixPath("/x"), range(3, 9, 2)]),
    st.sampled_from([2**64, -(2**64), IPv4Address("10.0.0.1"), IPv6Network("fe80::/64"), "$tuple", "$$"]),
)
KEYS = st.one_of(st.text("$ab\ud800", max_size=3), st.integers(), st.booleans(), st.none(), st.floats())
KEYS = KEYS | st.tuples(st.text())
HASHABLE = KEYS | st.decimals(allow_nan=False) | st.dates() | st.binary(max_size=2) | st.frozensets(st.integers())
VALUES = st.recursive(
    LEAVES,
    lambda below: st.one_of(
        st.lists(below, max_size=4),
        st.lists(below, max_size=4).map(tuple),
        st.dictionaries(KEYS, below, max_size=4),
        st.sampled_from(["$tuple", "$set", "$object", "$x"]).flatmap(lambda key: st.builds(lambda v: {key: v}, below)),
        st.sets(HASHABLE, max_size=4),
        st.frozensets(HASHABLE, max_size=4),
        st.dictionaries(st.text(max_size=2), below, max_size=3).map(collections.OrderedDict),
        st.lists(below, max_size=3).map(lambda items: collections.deque(items, 5)),
        st.dictionaries(st.text(max_size=2), below, max_size=3).map(lambda d: collections.defaultdict(list, d)),
    ),
    max_leaves=12,
)


@given(VALUES, VALUES)
def test_every_standard_value_comes_back(value, other):
    data = freeze(value)
    back = load(json.loads(json.dumps(data)))
    assert equals_whole(value, back)
    assert freeze(back) == data or repr(data).count("$set") + repr(data).count("$frozenset")
    assert freeze_arguments({"a": value, "": other}) == {"a": data, "": freeze(other)}
    assert is_same(value, value)
    assert is_same(value, back)
    if is_same(value, other) or equals_whole(value, other):
        assert json.dumps(data, sort_keys=True) == json.dumps(freeze(other), sort_keys=True) or value == other


def test_nothing_is_shared_with_the_value_and_the_order_of_keys_comes_back():
    value = {"rows": [[1]]}
    data = freeze(value)
    value["rows"][0].append(2)
    assert data == {"rows": [[1]]}
    first, second = load(data), load(data)
    first["rows"][0].append(3)
    assert second == data == {"rows": [[1]]}
    row = [1]
    assert there([row, row]) == [[1], [1]], "one list in two places is no loop"
    assert list(there({"b": 1, "a": 2})) == ["b", "a"]
    assert list(there({2: 1, 1: 2})) == [2, 1]


def _rows():
    yield {"id": 1}


MAYBE = Optional[Cat]  # noqa: UP045  as users write it
HINTED = [
    ([-(10**5000)], None), ({"at": (1, 2), "total": Decimal("1.50")}, dict[str, Any]),
    ([dt.datetime(2026, 1, 1, tzinfo=dt.UTC), {"a", "b"}], None), ([(1, 2)], list),
    ({1: "a", 2: "b"}, dict[int, str]), (Order(1, Money(Decimal("2.50"))), Order), ([CAT], list[Cat]),
    ({"a": Model(id=1)}, dict[str, Model]), (Model(id=1, when=dt.datetime(2026, 1, 1)), Model),
    (SubModel(id=1), Model), (Dog("Rex"), Cat | Dog), (Level.LOW, Level),
    (pydantic.SecretStr("hunter2"), pydantic.SecretStr), (Point(1, dt.date(2026, 1, 1)), Point),
    (Parcel(Decimal(1)), Parcel), (CAT, Annotated[Cat, "note"]), (CAT, Known), (CAT, MAYBE), (None, MAYBE),
    ("text", Cat | str), ([CAT], Sequence[Cat]), ((CAT,), Iterable[Cat]), ({"a": CAT}, Mapping[str, Cat]),
    ({Color.RED: CAT}, dict[Color, Cat]), ((CAT, 1), tuple[Cat, int]), ((CAT, Cat("Kit")), tuple[Cat, ...]),
    ({Level.LOW}, set[Level]), (frozenset({Money(Decimal(1))}), frozenset[Money]),
    (collections.deque([CAT]), collections.deque[Cat]),
    (collections.OrderedDict(a=CAT), collections.OrderedDict[str, Cat]), (Color.BLUE, Literal[Color.BLUE]),
    ("a", Literal["a", "b"]), ([Dog("a"), Cat("b")], list[Cat | Dog]), ([Dog("a")], list[Cat] | list[Dog]),
    ({"a": {"b": [Cat("c"), None]}}, dict[str, dict[str, list[Cat | None]]]), (Right.READ | Right.WRITE, Right),
    (State.OPEN, State), (Page([CAT], Cat("Kit")), Page[Cat]), (Page([Page([1])]), Page[Page[int]]),
    (Row(id=1, color=Color.RED, note=CAT), Row), (Row(id=1, color=Color.RED), Row | None), (Pair(1, (2,)), Pair),
    (UserId("u"), UserId),
    (Order(1, Money(Decimal(1)), (Money(Decimal(2)),), Dog("Rex"), Order(2, Money(Decimal(3)))), Order),
    (VipOrder(1, Money(Decimal(1))), Order), (Open(id=1, more=(1, 2)), Open),
    (GenericModel[Cat](value=CAT), GenericModel[Cat]), (GenericModel[Cat](value=CAT), GenericModel),
    (pydantic.SecretBytes(b"\xff"), pydantic.SecretBytes), (SecretList([1, 2]), SecretList), (1, Any), ((1,), T), ((1,), ForwardRef("Gone")),
    ((1,), "Gone"),
]  # fmt: skip


def test_a_hint_brings_classes_back():
    for value, hint in HINTED:
        assert_comes_back(value, hint)


REFUSED = [
    ({"level": Level.LOW}, dict[str, Any], "$.level", "returns=dict[str, {m}.Level]"),
    (Cat("Tom"), None, "$", "returns={m}.Cat"),
    ([Cat("a"), Dog("b"), None], list, "$[0]", "returns=list[{m}.Cat | {m}.Dog | None]"),
    ({1: (Cat("a"), 2)}, None, "$[1][0]", "returns=dict[int, tuple[{m}.Cat, int]]"),
    (Opaque(1), Opaque, "$", "agentreplay.codec({m}.Opaque, vars, lambda data: {m}.Opaque(**data))"),
    ([Page([Color.RED])], list[Page], "$[0].items[0]", "agentreplay.codec({m}.Color, lambda value: value.name, lambda name: {m}.Color[name])"),
    ([1, UserId("u")], None, "$[1]", "returns=list[int | {m}.UserId]"),
    ((Open(id=1),), None, "$[0]", "returns=tuple[{m}.Open]"),
    ({"a": {"at": dt.datetime(2026, 1, 1, tzinfo=Zone())}}, None, "$.a.at", "tzinfo"),
]  # fmt: skip


def test_a_refusal_names_the_place_and_prints_the_line():
    for value, hint, where, line in REFUSED:
        with pytest.raises(CannotFreeze) as refused:
            freeze(value, hint=hint)
        said = str(refused.value)
        assert refused.value.path == where
        assert all(word in said for word in (f"at {where} ", line.format(m=__name__), refused.value.kind)), said


def test_what_cannot_be_kept_is_refused_and_never_told_as_text():
    for value in (iter([1]), _rows(), map(str, []), open, threading.Lock(), object(), int, len):
        for held in (value, [value], {"a": (value,)}):
            with pytest.raises(CannotFreeze) as refused:
                freeze(held)
            assert "returns=" not in str(refused.value)
    rows = iter([1, 2])
    with pytest.raises(CannotFreeze, match=r"return list\(\.\.\.\) of it, or write the tool as a generator"):
        freeze({"rows": rows})
    assert list(rows) == [1, 2], "not used up"


def _make_kitten():
    @dataclasses.dataclass
    class Kitten(Cat):
        pass

    return Kitten


def test_a_class_that_another_one_has_taken_the_name_of_is_refused():
    older, newer = _make_kitten(), _make_kitten()
    assert_comes_back(newer("Kit"), Cat)
    with pytest.raises(CannotFreeze, match="shares its name with a class loaded later"):
        freeze(older("Kit"), hint=Cat)


def test_the_line_that_is_printed_works():
    with pytest.raises(CannotFreeze) as refused:
        freeze({"a": [Cat("Tom"), None]})
    line, returns = str(refused.value).splitlines()[-1].strip().replace(f"{__name__}.", ""), {}
    agentreplay = types.SimpleNamespace(tool=lambda fn, **kw: returns.update(kw))
    eval(line, globals() | {"agentreplay": agentreplay, "fn": None})
    assert_comes_back({"a": [Cat("Tom"), None]}, returns["returns"])


def test_a_value_inside_itself_or_without_end_is_refused():
    loop = []
    loop.append(loop)
    with pytest.raises(CannotFreeze, match="contains itself") as refused:
        freeze(loop)
    assert refused.value.path == "$[0]"
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(CannotFreeze, match="nested too deeply"):
        freeze(deep)
    assert freeze_arguments({"a": loop, "b": deep}) == {"a": [{"$cycle": ["list", 1]}], "b": {"$opaque": "list"}}


def test_a_model_comes_back_whole_and_unvalidated():
    model = SubModel(id=1, key="hunter2", pets=[Dog("Rex"), CAT])
    model._seen = (1, 2)
    model.__dict__["id"] = "not validated"
    assert freeze(model, hint=SubModel)["$object"]["key"] == {"$secret": "hunter2"}, "marked for the redaction"
    back = assert_comes_back(model, Model)
    assert back._seen == (1, 2)
    assert back.key.get_secret_value() == "hunter2"
    assert back.model_fields_set == {"id", "key", "pets"}
    assert type(back.pets[0]) is Dog
    assert back == model


def test_slots_caches_and_late_attributes_come_back_and_no_init_runs():
    ran = []

    @dataclasses.dataclass
    class Noisy:
        id: int

        def __post_init__(self):
            ran.append(self.id)

    value = Noisy(1)
    assert (there(value, Noisy), ran) == (value, [1])
    label = Label("x")
    hash(label)
    assert hash(assert_comes_back(label, Label)) == hash(label)
    cat = Cat("Tom")
    cat.mood = (1,)
    assert assert_comes_back(cat, Cat).mood == (1,)


def test_a_field_added_since_takes_its_default_or_is_named():
    data = {"$object": {"name": "Tom"}}
    assert load(data, hint=Cat) == Cat("Tom", 9)
    with pytest.raises(CannotFreeze, match="nothing was recorded for its field name") as refused:
        load([{"$object": {"lives": 1}}], hint=list[Cat])
    assert refused.value.path == "$[0]"


def test_the_arm_of_a_union_is_found_by_name_whatever_the_order_today():
    data = freeze(Dog("Rex"), hint=Cat | Dog)
    assert load(data, hint=Dog | Cat) == Dog("Rex")
    assert load(data, hint=Dog) == Dog("Rex")
    assert load({"$arm": [1, "x.Renamed", TOM]}, hint=Cat | Dog) == Dog("Tom"), "by its place where no name is alike"
    with pytest.raises(CannotFreeze, match="is no longer one of"):
        load({"$arm": [9, "x.Gone", {}]}, hint=Cat | Dog)


POPEN = {"$object": ["subprocess.Popen", {"args": "x"}]}
FOREIGN = [
    *((POPEN, None), (POPEN, object), (POPEN, Any), ({"$object": [f"{__name__}.Dog", {"name": "x"}]}, Cat)),
    *(({"$object": {"name": "x"}}, None), ({"$object": {"__class__": 1, "name": "x"}}, Cat)),
    *(({"$enum": "RED"}, list[Color]), ({"$enum": "RED"}, Cat), ({"$codec": ["os.system", "x"]}, None)),
    *(({"$defaultdict": ["eval", []]}, None), ({"$unheard": 1}, None), ({"$opaque": "shop.Order"}, None)),
    *(({"$zoneinfo": "../../etc/passwd"}, None), ({"$tuple": 5}, None), ({"$dict": [[[1], 2]]}, None)),
    *(({"$uuid": "no"}, None), ({"$bytes": ["*"]}, None)),
]


def test_hostile_or_foreign_data_is_refused_by_name_and_a_subclass_looked_up_below_the_hint_alone():
    for data, hint in FOREIGN:
        with pytest.raises(CannotFreeze):
            load({"rows": [data]}, hint=dict[str, list[hint]] if hint else None)
    data = freeze(VipOrder(1, Money(Decimal(1))), hint=Order)
    assert data["$object"][0] == f"{__name__}.VipOrder"
    with pytest.raises(CannotFreeze, match="not a loaded subclass"):
        load(data, hint=Cat)


def test_a_codec_carries_a_class_wherever_it_sits():
    codecs = [Codec(Opaque, lambda o: o.rows, Opaque)]
    back = assert_comes_back({"a": [Opaque((1, b"\xff"))]}, None, codecs)
    assert type(back["a"][0]) is Opaque
    assert freeze(Opaque(1), codecs=codecs) == {"$codec": [f"{__name__}.Opaque", 1]}
    with pytest.raises(CannotFreeze, match=r"agentreplay\.codec\(shop\.Money"):
        load({"$codec": ["shop.Money", 1]})


def test_a_codec_that_loses_something_raises_or_is_missing_is_named():
    lossy = Codec(Opaque, lambda o: o.rows, lambda rows: Opaque(list(rows)))
    raising = Codec(Opaque, lambda o: 1 / 0, Opaque)
    with pytest.raises(CannotFreeze, match="comes back unequal") as refused:
        freeze({"a": [1, Opaque((1,))]}, codecs=[lossy])
    assert refused.value.path == "$.a[1]"
    with pytest.raises(CannotFreeze, match="refused by its codec: ZeroDivisionError"):
        freeze(Opaque(1), codecs=[raising])


def test_arguments_are_compared_by_content_where_there_is_some():
    broken = Open.model_construct()
    object.__delattr__(broken, "__pydantic_fields_set__")  # it raises when it is looked at
    held = {"cat": CAT, "color": Color.RED, "fn": len, "it": iter([1]), "gone": [object()], "broken": broken}
    frozen = freeze_arguments(held)
    assert frozen == {
        "cat": {"$object": [f"{__name__}.Cat", {"name": "Tom", "lives": 9}]},
        "color": {"$enum": [f"{__name__}.Color", "RED", "r"]},
        "fn": {"$state": ["builtin_function_or_method", "builtins.len"]},
        "it": {"$state": ["list_iterator", [[1], 0]]},
        "gone": [{"$opaque": "object"}],
        "broken": {"$opaque": f"{__name__}.Open"},
    }
    json.dumps(freeze_arguments({"model": Model(id=1), **held}), allow_nan=False)


FOLD = dt.datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN)
NOT_SAME = [
    *((1, True), (1, 1.0), (0.0, -0.0), ([1], (1,)), ({1}, {True}), ({1: 2}, {True: 2}), (Cat("a"), Dog("a"))),
    *((Decimal("1.0"), Decimal("1.00")), (FOLD, FOLD.replace(fold=1)), ({"a": 1}, {"b": 1}), (Opaque(1), Opaque(2))),
    (collections.OrderedDict(a=1, b=2), collections.OrderedDict(b=2, a=1)),
    (collections.deque([1], 2), collections.deque([1], 3)),
    (collections.defaultdict(list), collections.defaultdict(set)),
    *(({"": []}, {1: None}), ({1: None}, {"": []})),
]
NAN = float("nan")
SAME = [
    (math.nan, NAN), ({math.nan, 1}, {1, NAN}), ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ({(math.nan,): 1}, {(NAN,): 1}),
    (Opaque([math.nan]), Opaque([NAN])), (Fraction(1, 3), Fraction(2, 6)), ({"a": [], "b": 1}, {"b": 1, "a": []}),
]  # fmt: skip


@pytest.mark.parametrize("compare", [is_same, equals_whole])
def test_same_is_equal_in_type_and_content(compare):
    assert [pair for pair in NOT_SAME if compare(*pair) or compare([pair[0]], [pair[1]])] == []
    assert [pair for pair in SAME if not compare(*pair)] == []
    a, b = [1], [1]
    a.append(a)
    b.append(b)
    assert compare(a, b), "values inside themselves"


def test_what_is_read_of_a_value_alone_says_that_it_is_the_same():
    assert not is_same(object(), object()), "nothing to compare them by"
    assert is_same([[0]] * 20_000, [[0]] * 20_000), "as large as it may be"


def test_an_arm_that_does_not_bring_its_value_back_gives_way_to_the_next():
    codecs = [Codec(Opaque, lambda o: o.rows, lambda rows: Opaque(list(rows)))]
    hint = Page[Opaque] | Page[Cat] | Cat
    assert_comes_back([Page([CAT]), CAT], list[hint], codecs)
    with pytest.raises(CannotFreeze, match="would not come back as itself") as refused:
        freeze([CAT, Page([Opaque((1,))])], hint=list[hint], codecs=codecs)
    assert refused.value.path == "$[1]"
