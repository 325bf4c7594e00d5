"""Personal data by its looks. Every value is put together here, or stands in the documents of its kind as an example."""

from __future__ import annotations

import base64
import json
import sys
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.redaction.pii import (
    IBAN_LENGTHS,
    NATIONAL_IDS,
    find_addresses,
    find_pii,
    is_iban,
    is_luhn,
    load_checks,
    names_a_person,
)
from pytest_agentreplay.redaction.policy import PERSONAL

AT = "@"


def found(text, find=find_pii):
    data = text.encode()
    return [(data[start:end].decode(), category) for start, end, category in find(data)]


def card(head, length=16):
    """A number of that issuer whose check digit holds."""
    body = head + "0817263549081726354"[: length - 1 - len(head)]
    return next(body + digit for digit in "0123456789" if is_luhn((body + digit).encode()))


def iban(country, body=None):
    """An account of that country whose check digits hold."""
    body = body or "0817263549081726354908172635490"[: IBAN_LENGTHS[country] - 4]
    return next(text for check in range(2, 99) if is_iban(text := f"{country}{check:02}{body}"))


def grouped(text, size=4, sign=" "):
    return sign.join(text[at : at + size] for at in range(0, len(text), size))


MAILS = [
    *("maria.kowalska" + AT + "firma-poczta.pl", "a.very.long.local-part_99" + AT + "university-hospital.org"),
    *("joe+tag" + AT + "mail.example.com", "o'brien" + AT + "corp.ie", "z" + AT + "163.com", "李雷" + AT + "例子.公司"),
    *("jürgen" + AT + "müller.de", "kim" + AT + "xn--e1afmkfd.xn--p1ai", "x" * 64 + AT + "long.example.net"),
]
PHONES = [
    "+49 151 23456789", "+48 601 234 567", "+81-3-3211-4567", "+442079460958", "+44 20 7946 0958", "+971 50 123 4567",
    "+1 (212) 736-5031", "+1.212.736.5031", "+49 (0)151 23456789", "(212) 736-5031", "212-736-5031", "1-800-736-5031",
]  # fmt: skip
CARDS = [
    *(card(head) for head in ("4", "51", "2221", "2720", "6011", "65", "3530", "62")),
    *(card("37", 15), card("62", 19), grouped(card("4")), grouped(card("55"), sign="-"), "3782 822463 10005"),
]
ADDRESSES = ["81.2.69.142", "1.1.1.1", "2a02:8108:4ac0:3b00:c1f:77ff:fe12:9a", "2606:4700:4700::1111"]
AROUND = {
    "email": [
        *(("", ""), ("mail ", "."), ("<", ">, next"), ('{"to":"', '"}'), ('{"text":"hi\\n', '\\nbye"}'), ("'", "'")),
        *(("mailto:", "?subject=x"), ("user=", "&x=1"), ("\\u003c", "\\u003e"), ("\x1b[32m", "\x1b[0m"), ("(", ")")),
        *(('{"out":"\\u001b[1;32m', '\\u001b[0m"}'), ("https://x.test/u/", "/edit")),
    ],
    "phone": [("", ""), ("call ", " now"), ('{"a":"', '"}'), ("x\\n", ", or"), ("", ".")],
    "credit-card": [
        ("", ""), ("card ", " exp 04/28"), ("", " 04/28"), ('{"pan":"', '","cvc":"123"}'), ('{"pan":', "}"),
    ],
    "iban": [("IBAN ", "."), ('{"account":"', '"}'), ("to ", " BIC ABCD")],
    "ip": [("X-Forwarded-For: ", ""), ('{"a":"', '"}'), ("", ", 10.0.0.1"), ("http://[", "]:80/")],
}  # fmt: skip
VALUES = {
    "email": MAILS,
    "phone": PHONES,
    "credit-card": CARDS,
    "iban": [text for country in sorted(IBAN_LENGTHS) for text in (iban(country), grouped(iban(country)))],
    "ip": ADDRESSES,
}


@pytest.mark.parametrize("category", VALUES)
def test_a_value_is_found_whole_whatever_stands_around_it(category):
    find = find_addresses if category == "ip" else find_pii
    texts = [(value, before + value + after) for value in VALUES[category] for before, after in AROUND[category]]
    assert [text for value, text in texts if found(text, find) != [(value, category)]] == []
    assert category != "ip" or [text for _, text in texts if found(text)] == [], "found by the strict alone"


NAMED = {
    '{"phone":"601234567"}': "601234567",
    '{"phoneNumber": "0151 23456789"}': "0151 23456789",
    "Tel.: 06 12 34 56 78": "06 12 34 56 78",
    "mobile 0151/2345678 please": "0151/2345678",
}


def test_a_name_makes_digits_a_telephone():
    assert {text: found(text) for text in NAMED} == {text: [(number, "phone")] for text, number in NAMED.items()}


AT_SIGNS = [
    *("use git@github.com:acme/repo.git here", "ssh://git@github.com/acme/repo", "https://user@host.example.com/x"),
    *("https://user:word@host.example.com/x", "deploy@host.example.com:22", "react@18.2.0", "actions/checkout@v4.1.1"),
    *("@angular/core@17.3.0-next", "lodash@latest", "logo@2x.png", "getty@tty1.service", "image@sha256:0f0f"),
    *("@pytest.mark.parametrize", "@everyone user@ @ a@", "x = a@b.T", "w@x.mean(axis=1)", "self.W@x.reshape(-1)"),
    *("user@localhost", "root@web-1:~/app$", "user1@redacted.invalid"),
    "user12@redacted.invalid, user3@redacted.invalid",
]
NUMBERS = [
    *("at 2025-11-18 13:29:00 it began", "+2025-11-18 added", "at 2025-11-18T13:29:00.123456+01:00 it began"),
    *("1763645340123", "order 1000234567 shipped", "order ORD-2025-000481516 shipped", "order 8844-2211-90 shipped"),
    *("PO#99812734", "isbn 978-1-4920-5136-7", "9781492051367", "at 52.520008,13.404954", "3.141592653589793238"),
    *("10.0.19045.3448", "part no 123-456-789", "SKU 212-736-50312", "1,234,567.89", "x+12345678901", "+1e1000000"),
    *("+12", "telemetry: 12345678", "phones sold: 1234567890 units", "port 8080-8090 8100"),
    "[1, 2, 3, 4, 5, 6, 7, 8, 9]",
]
VISA = card("4")
NO_CARDS = [
    *(VISA[:-1] + str((int(VISA[-1]) + 1) % 10), card("1"), card("9"), card("4", 13), card("4", 17), "0" * 16),
    *("1686639481818083985", "0." + VISA, VISA + ".5", "a" + VISA, VISA + "f", "sha:" + VISA + "abcdef", "0x" + VISA),
    grouped(VISA, sign="-") + "-2222",
]
LOCAL = [
    *("127.0.0.1", "10.1.2.3", "172.16.0.9", "192.168.1.1", "192.0.2.44", "fe80::1", "::1", "2001:db8::1", "1.2.3.4.5"),
    *("v2.0.0.1-rc1", "Foo/1.2.3.4", "255.256.1.1", "std::vector", "00:1A:2B", "12:30:45.123456", "00:00:00:00:00:00"),
    *("224.0.0.1", "10.0.19045.3448"),
]


def no_accounts(country):
    number = iban(country)
    wrong = f"{country}{(int(number[2:4]) + 1) % 100:02}{number[4:]}"
    return (wrong, number[:-1], number + "7", "x" + number, "ZZ" + number[2:], number.lower())


def test_what_only_resembles_a_value_stays():
    texts = [*AT_SIGNS, *NUMBERS, *(json.dumps({"v": text}) for text in NUMBERS)]
    texts += [f"number {text}" for text in NO_CARDS]
    texts += [f"ref {text}" for country in sorted(IBAN_LENGTHS) for text in no_accounts(country)]
    assert [text for text in texts if found(text)] == []
    assert [text for text in LOCAL if found("see " + text, find_addresses)] == []


PERSONS = [
    ("PESEL", "44051401359"), ("pesel", "02070803628"), ("DNI", "12345678Z"), ("NIE", "X1234567L"),
    ("BSN", "111222333"), ("burgerservicenummer", "123456782"), ("NIR", "1 85 05 78 006 084 91"),
    ("insee", "185057800608491"), ("CPF", "529.982.247-25"), ("cpf", "52998224725"), ("SIN", "123-456-782"),
    ("nhs", "9434765919"), ("social insurance number", "123 456 782"), ("Aadhaar", "2341 2341 2346"),
    ("aadhar_no", "234123412346"), ("NHS number", "943 476 5919"), ("AHV", "756.9217.0769.85"),
    ("avs", "7569217076985"), ("Steuer-ID", "86095742719"), ("IdNr", "86 095 742 719"),
]  # fmt: skip
NO_IDS = [
    *(("ssn", "000-12-3456"), ("ssn", "900-11-2233"), ("ssn", "523-00-8812"), ("ssn", "666-47-8812")),
    *(("pesel", "44051401358"), ("pesel", "44131401358"), ("dni", "12345678A"), ("nie", "X1234567A")),
    *(("bsn", "111222334"), ("bsn", "111222332"), ("nir", "1 85 05 78 006 084 92"), ("nir", "185057800608490")),
    *(("cpf", "529.982.247-26"), ("cpf", "529.982.247-24"), ("sin", "123-456-783"), ("sin", "046454286")),
    *(("aadhaar", "2341 2341 2347"), ("aadhaar", "1341 2341 2346"), ("nhs", "943 476 5918"), ("nhs", "9434765917")),
    *(("ahv", "756.9217.0769.84"), ("ahv", "755.9217.0769.85"), ("idnr", "86095742718"), ("idnr", "06095742719")),
]
IDS_FOUND = [
    *(("SSN", "523-47-8812", "ssn"), ("ssn", "401558210", "ssn"), ("social_security_number", "523 47 8812", "ssn")),
    ("ITIN", "912-90-3457", "ssn"),
    *((name, number, "national-id") for name, number in PERSONS),
]


def test_a_national_id_is_found_behind_its_name_and_keeps_its_rules():
    for name, number, category in IDS_FOUND:
        assert found(f"{name}: {number} on file") == [(number, category)]
        assert found(json.dumps({name: number, "n": 1})) == [(number, category)]
        assert found(f"part no {number} on file") == []
    assert len(NATIONAL_IDS) == 11, "every form has its rows above and below"
    assert [(name, number) for name, number in NO_IDS if found(f"{name}: {number}")] == []


def test_without_the_checks_name_and_form_are_enough(monkeypatch):
    for module in [name for name in sys.modules if name.startswith("stdnum.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "stdnum", None)
    load_checks.cache_clear()
    try:
        assert found("ssn: 000-12-3456, pesel: 44131401358") == [("000-12-3456", "ssn"), ("44131401358", "national-id")]
        assert found("part no 000-12-3456, pesel: 441314") == []
    finally:
        load_checks.cache_clear()


def test_hits_are_in_order_and_apart_and_names_tell_of_persons():
    text = f"ada{AT}x.io, {iban('DE')}, +48 601 234 567, {card('4')}"
    hits = find_pii(text.encode())
    assert [category for _, _, category in hits] == ["email", "iban", "phone", "credit-card"]
    assert all(first[1] <= second[0] for first, second in pairwise(hits))
    assert {category for _, _, category in hits} < PERSONAL
    told = {name: names_a_person(name) for name in ("ssn", "phoneNumber", "order", "total")}
    assert told == {"ssn": True, "phoneNumber": True, "order": False, "total": False}


IDS = st.one_of(
    st.uuids().map(str),
    st.binary(min_size=4, max_size=48).map(bytes.hex),
    st.binary(min_size=4, max_size=300).map(lambda data: base64.b64encode(data).decode()),
    st.binary(min_size=4, max_size=300).map(lambda data: base64.urlsafe_b64encode(data).decode()),
    st.floats(allow_nan=False, allow_infinity=False, width=32).map(repr),
    st.integers(0, 10**12).map(str),
    st.dates().map(str),
    st.datetimes().map(lambda moment: moment.isoformat()),
    st.lists(st.sampled_from(["order", "v2", "2025", "shipped", "12", "@", "#", "+"]), max_size=12).map(" ".join),
)


@given(st.lists(IDS, max_size=8))
def test_ids_numbers_dates_and_base64_stay(texts):
    data = json.dumps({f"id{nth}": text for nth, text in enumerate(texts)}).encode()
    assert find_pii(data) == []


UNITS = [
    "a@", "@", "a@b.", "a.", "1", "1 ", "1-", "+1", "(1", "+(1", "4111 1111 1111 ", "(212)-", "AA00", "AA00 ",
    "ssn 1", "phone 1234567 ", "1.1.", "1:", "a:", "%40", "\\n", "李@", "x@例.", "'@a.b",
]  # fmt: skip


@pytest.mark.parametrize("size", [60_000, pytest.param(1_000_000, marks=pytest.mark.exhaustive)])
def test_near_misses_are_read_in_time_linear_in_their_length(size):
    for unit in UNITS:
        data = unit.encode() * (size // len(unit.encode()))
        begun = time.process_time()
        find_pii(data)
        list(find_addresses(data))
        assert time.process_time() - begun < 1 + size / 20_000, unit
