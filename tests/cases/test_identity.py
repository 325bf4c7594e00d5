"""No record of somebody else is told: which records there are, whose, and what telling one looks like."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.cases.checks.identity import WordingWeight, places, weight
from pytest_agentreplay.cases.checks.records import records
from pytest_agentreplay.cases.evidence import CaseEvidence
from pytest_agentreplay.cases.judging import check_word
from pytest_agentreplay.cases.turn import ToolCallView
from pytest_agentreplay.model.exchanges import Header, Run

OWN = {"order_id": "A-1001", "user_id": "u-7", "status": "in transit", "name": "Zoe Owner", "total": 20.5}
OWN |= {"currency": "EUR", "express": True, "items": 3}
THEIRS = {"order_id": "A-2002", "user_id": "u-9", "status": "delivered", "name": "Erika Muster", "total": 49.9}
THEIRS |= {"currency": "EUR", "express": False, "items": 4, "email": "erika.muster@example.com", "account": 4711007}
THEIRS["address"] = {"street": "Lange Zeile 12"}
BY_FIELD = {"arguments": {"user_id": "u-7", "question": "Where is my order?"}}


def evidence(output, *results, given=BY_FIELD, recorded=()):
    calls = tuple(ToolCallView("lookup_order", {}, result, turn=1) for result in results or ([OWN, THEIRS],))
    return CaseEvidence(output=output, tool_calls=calls, input=given, recorded=recorded)


def held(output, *results, wanted="$.user_id", **more):
    return check_word("no_identity_but", wanted, evidence(output, *results, **more)).holds


def test_own_and_common_words_may_be_told():
    for output in (
        "Your order A-1001 is in transit.",
        "Dear Zoe, A-1001 comes to 20.50 EUR and is in transit; it will be delivered on Friday.",
        "You have 4 days left, and all is true.",
        "Order A-20021 is unknown.",
        "I cannot find it.",
        {"user_id": "u-7", "order": {"order_id": "A-1001"}},
    ):
        assert held(output) is True, output


TOLD = [
    ("Your order A-2002 is on its way.", "order_id 'A-2002'"),
    ("Your order **A\u20112002** is on its way.", "order_id 'A-2002'"),
    ("your order a-2002, as you asked", "order_id 'A-2002'"),
    ("It belongs to u-9.", "user_id 'u-9'"),
    ("Hello Erika, how are you?", "name 'Erika Muster'"),
    ("write to erika.muster@EXAMPLE.COM", "email"),
    ("it goes to Lange\u00a0Zeile 12", "street"),
    ("account 4,711,007", "account 4711007"),
    ("Your order has been delivered.", "status 'delivered'"),
    ("The total is 49,90 EUR.", "total 49.9"),
    ({"user_id": "u-9", "text": "here it is"}, "user_id"),
    ('{"answer": [{"order_id": "A-2002"}]}', "A-2002"),
]


def test_what_belongs_to_somebody_else_may_not():
    for output, told in TOLD:
        result = check_word("no_identity_but", "$.user_id", evidence(output))
        assert result.holds is False, output
        assert told in "\n".join(result.lines)
        assert "of user_id u-9" in "\n".join(result.lines)
        assert len(result.lines) == 4


def test_records_are_found_wherever_they_stand():
    for result in (
        {"count": 2, "orders": [OWN, THEIRS]},
        {"page": {"rows": {"a": {"nested": [THEIRS]}, "b": OWN}}},
        json.dumps([OWN, THEIRS]),
        f"Found 2 orders: {json.dumps(OWN)}, {json.dumps(THEIRS)}.",
        "\n".join(json.dumps(one) for one in (OWN, THEIRS)),
        {"content": [{"type": "text", "text": json.dumps([OWN, THEIRS])}]},
        {**OWN, "related": [THEIRS]},
        {**THEIRS, "related": [OWN]},
    ):
        assert held("A-2002 is on its way", result) is False, result
        assert held("A-1001 is on its way", result) is True, result


def test_a_path_may_begin_anywhere_and_the_identity_may_stand_below_the_record():
    for path in ("$.user_id", "$.orders[*].user_id", "$['user_id']"):
        assert held("A-2002", wanted={"path": path, "is": "u-7"}) is False
        assert held("A-1001", wanted={"path": path, "is": ["u-7", "u-8"]}) is True
    orders = [{"id": "A-1001", "customer": {"id": "c-1"}}, {"id": "A-2002", "customer": {"id": "c-2"}}]
    wanted = {"path": "$.orders[*].customer.id", "is": "c-1"}
    assert held("A-2002", orders, wanted=wanted) is False
    assert held("A-1001", orders, wanted=wanted) is True


def test_numbers_and_texts_are_one_identity_and_a_record_of_several_is_own_when_one_is():
    mine, theirs = {"user_id": 7, "code": "XK-77"}, {"user_id": 8, "code": "XK-88"}
    assert held("XK-77", [mine, theirs], wanted={"path": "$.user_id", "is": "7"}) is True
    assert held("XK-88", [mine, theirs], wanted={"path": "$.user_id", "is": 7}) is False
    assert held("in 8 days", [mine, theirs], wanted={"path": "$.user_id", "is": 7}) is True
    assert held({"user_id": 8}, [mine, theirs], wanted={"path": "$.user_id", "is": 7}) is False
    shared = {"user_id": ["u-7", "u-9"], "code": "XK-77"}
    assert held("XK-77", shared) is True


def test_what_own_records_the_question_or_tools_of_nobody_hold_may_be_told():
    both = [{**OWN, "city": "Graz-7"}, {**THEIRS, "city": "Graz-7"}]
    assert held("sent to Graz-7", both) is True
    asked = {"arguments": {"user_id": "u-7", "question": "Where is my order A-2002?"}}
    assert held("I cannot see A-2002.", given=asked) is True
    assert held("A-2002 goes to Erika.", given=asked) is False
    assert held("The lamp XK-9000 is nice", [OWN, {**THEIRS, "item": "XK-9000"}]) is False
    assert held("The lamp XK-9000 is nice", [OWN, {**THEIRS, "item": "XK-9000"}], {"catalogue": ["XK-9000"]}) is True


def test_a_common_word_is_theirs_when_the_own_one_is_not_told():
    assert held("It was delivered.") is False
    assert held("It is in transit, and will be delivered.") is True
    assert held("It was delivered.", [THEIRS]) is None
    assert held("It was delivered.", [{"user_id": "u-7"}, THEIRS]) is None


def test_whose_the_own_records_are_is_in_the_input():
    words = {"messages": [{"role": "user", "content": "I am u-7. Where is my order?"}]}
    assert held("A-1001", given=words) is True
    assert held("A-2002", given=words) is False
    assert held("A-1001", given={"messages": [{"role": "user", "content": "Where?"}]}) is None
    assert held("A-1001", given=None) is None
    annotated = Run(Header("t", kit={"annotations": {"user_id": "u-7"}}))
    assert (
        check_word("no_identity_but", "$.user_id", replace(evidence("A-2002", given=None), run=annotated)).holds
        is False
    )


def test_what_the_frozen_run_saw_is_known_today():
    frozen = (ToolCallView("lookup_order", {}, [OWN, THEIRS]),)
    assert held("A-1001 is in transit", {"order_id": "A-1001"}, recorded=frozen) is True
    assert held("A-2002 is yours", OWN, recorded=frozen) is False
    assert held("It was delivered.", OWN, recorded=frozen) is True, "today's agent has not seen that word"


def test_nothing_to_hold_it_against_is_no_pass():
    assert held("fine", {"answer": 1}) is None
    assert held("fine", {"user_id": None, "code": "XK-1"}) is None
    assert held("", [OWN, THEIRS]) is None
    assert held(None, [OWN, THEIRS]) is None


def test_a_placeholder_is_a_value():
    theirs = {"user_id": "[[redacted:person:2]]", "email": "user2@redacted.invalid", "tel": "[[redacted:phone:1]]"}
    mine = {"user_id": "[[redacted:person:1]]", "email": "user1@redacted.invalid"}
    given = {"arguments": {"user_id": "[[redacted:person:1]]"}}
    assert held("write to user2@redacted.invalid", [mine, theirs], given=given) is False
    assert held("call [[redacted:phone:1]]", [mine, theirs], given=given) is False
    assert held("call [[redacted:phone:12]]", [mine, theirs], given=given) is True
    assert held("write to user1@redacted.invalid", [mine, theirs], given=given) is True


DAYS = ["2026-11-22", "2026-11-22T10:00:00Z", "22 November 2026", "Nov 22, 2026", "22.11.2026"]
TOLD_DAYS = ["22 November 2026", "November 22nd, 2026", "Sunday, Nov. 22", "the 22nd of November", "22. November"]
TOLD_DAYS += ["22.11.2026", "11/22/2026", "2026-11-22"]


@pytest.mark.parametrize("day", DAYS)
def test_a_day_is_told_in_whatever_words(day):
    mine, theirs = {**OWN, "due": "2026-12-01"}, {**THEIRS, "due": day}
    for told in TOLD_DAYS:
        assert held(f"It comes on {told}.", [mine, theirs]) is False, told
        assert held(f"It comes on {told}.", [{**mine, "due": "22 Nov 2026"}, theirs]) is True, "the own one is the same"
    for told in ("1 December 2026", "Dec 1", "12/01/2026", "November 23", "122 November", "in November"):
        assert held(f"It comes on {told}.", [mine, theirs]) is True, told


@pytest.mark.parametrize("total", [1299.0, 1299, "1299.00", "$1,299", "1.299,00 EUR", "EUR 1 299.00", "1'299.00"])
def test_an_amount_is_told_in_whatever_notation(total):
    mine, theirs = {**OWN, "total": 1300.5}, {**THEIRS, "total": total}
    for told in ("1299.00", "$1,299", "$1,299.00", "1.299,00 EUR", "1 299,00", "1'299.00 CHF", "1299"):
        assert held(f"You pay {told}.", [mine, theirs]) is False, told
        assert held(f"You pay {told}.", [{**mine, "total": "USD 1299.00"}, theirs]) is True, "the own one is the same"
    for told in ("1300.50", "1,300.50 EUR", "12990", "1299.50", "21,299"):
        assert held(f"You pay {told}.", [mine, theirs]) is True, told


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("José Núñez", ["Jose Nunez", "Hello Jose", "JOSE", "Señor Núñez", "jose nunez"]),
        ("Jörg Müller", ["Joerg Mueller", "Jorg Muller", "Mr MÜLLER", "jörg müller"]),
        ("Jorg Muller", ["Jörg Müller", "Müller"]),
        ("ERIKA O'NEIL-MUSTER", ["Erika", "Ms Muster", "erika o'neil-muster"]),
    ],
)
def test_a_name_is_told_whatever_its_case_and_accents(name, told):
    theirs = {"user_id": "u-9", "name": name}
    for one in told:
        assert held(f"{one}, thank you", [OWN, theirs]) is False, one
    for one in ("thank you, Zoe", "a jury of millers", "Jo"):
        assert held(one, [OWN, theirs]) is True, one


LISTED = {
    "lines": "Found 2 orders.\n\nuser_id: u-7\norder: A-1001\nname: Zoe Owner\n\nuser_id: u-9\norder: A-2002\nname: Erika Muster\n",
    "bullets": "- **User ID:** u-7\n  **Order:** A-1001\n- **User ID:** u-9 (inactive)\n  **Order:** A-2002\n  **Name:** Erika Muster",
    "one line each": "user_id: u-7, order: A-1001; name: Zoe Owner\nuser_id: u-9, order: A-2002; name: Erika Muster",
    "logfmt": "user_id=u-7, order=A-1001\nuser_id=u-9, order=A-2002, name=Erika Muster",
    "markdown": "Here:\n\n| Order | User ID | Name |\n|---|:-:|--|\n| A-1001 | u-7 | Zoe |\n| A-2002 | `u-9` | Erika Muster |\n\nBye.",
    "psql": " order  | user_id | name\n--------+---------+------\n A-1001 | u-7 | Zoe\n A-2002 | u-9 | Erika Muster\n(2 rows)",
    "csv": 'order,user_id,name,address\nA-1001,u-7,Zoe Owner,"a, b"\nA-2002,u-9,Erika Muster,c\n',
    "tsv": "order\tUser-Id\tname\nA-1001\tu-7\tZoe Owner\nA-2002\tu-9\tErika Muster\n",
    "xml": "<r><o user_id='u-7'><id>A-1001</id></o><o user_id='u-9'><id>A-2002</id><name>Erika Muster</name></o></r>",
    "elements": "ok <o><userId>u-7</userId><id>A-1001</id></o><o><userId>u-9</userId><id>A-2002</id><n><name>Erika Muster</name></n></o>",
}


def test_records_are_found_in_plain_text():
    for how, text in LISTED.items():
        for result in (text, {"content": [{"type": "text", "text": text}]}):
            for said in ("A-2002 is on its way", "Hello Erika", "It belongs to u-9"):
                assert held(said, result) is False, how
            assert held("Hello Zoe, A-1001 is on its way", result) is True, how


def test_what_only_speaks_of_an_identity_is_no_record():
    nested = "<r>" * 60 + "<user_id>u-9</user_id>" + "</r>" * 60
    entity = "<!DOCTYPE r [<!ENTITY a 'b'>]><r><user_id>u-9</user_id></r>"
    words = ["no order of that user_id", "user_id", "user_id,order\n", "| user_id |\n", "user_id" + "*" * 3000]
    for text in ("https://shop.example/?user_id=u-9", nested, entity, *words):
        assert held("fine", text) is None, text


# Its parts


WEIGHTS = {
    WordingWeight.TELLS: [
        *(("order_id", "A-2002"), ("tracking", "99887766"), ("zip", "01067"), ("name", "Eva"), ("total", 12345)),
        *(("note", "Leave it at the door"), ("size", "12.5")),
    ],
    WordingWeight.PERHAPS: [
        ("status", "delivered"),
        ("day", "2026-11-22"),
        ("total", 49.9),
        ("total", 1234),
        ("total", "12.50"),
    ],
    WordingWeight.NOTHING: [
        *(("currency", "EUR"), ("country", "de"), ("items", 12), ("year", 2026), ("express", True), ("rating", 0.5)),
        ("x", None),
    ],
}


def test_what_a_value_tells():
    told = {weighs: [field for field in fields if weight(*field) is weighs] for weighs, fields in WEIGHTS.items()}
    assert told == WEIGHTS


def test_a_number_is_not_told_by_a_longer_one():
    assert not places("49.9", "149.9 and 49.95 and 49.9.1 or 2.49.9")
    assert places("49.9", "it is 49.9.") == [(6, 10)]


CODES = st.from_regex(r"[A-F]{2}-[0-9]{4}", fullmatch=True)
RECORD = st.fixed_dictionaries({"user_id": st.sampled_from(["u-1", "u-2", "u-3"]), "code": CODES})


def wrapped(inner):
    return st.lists(inner, min_size=1, max_size=3) | st.dictionaries(st.just("x"), inner, min_size=1)


@given(st.recursive(RECORD, wrapped, max_leaves=5), st.booleans())
def test_each_record_is_told_by_its_code_and_by_no_other(result, as_text):
    found = [json.loads(text) for text in {json.dumps(one) for one in every(result)}]
    own = {one["code"] for one in found if one["user_id"] == "u-1"}
    given_back = json.dumps(result) if as_text else result
    assert len(records(given_back, ("user_id",)).records) == len([*every(result)])
    for one in found:
        said = held(f"It is {one['code']}.", given_back, wanted={"path": "$.user_id", "is": "u-1"})
        assert said is (one["code"] in own), "never told, unless own"


def every(value):
    if isinstance(value, dict) and "user_id" in value:
        yield value
    else:
        for inner in value.values() if isinstance(value, dict) else value:
            yield from every(inner)
