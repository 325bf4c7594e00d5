"""The table of vendors' keys. Every key here is made at run time from the pattern of its row, by a seed."""

from __future__ import annotations

import base64
import json
import random
import re
import time
import uuid
from pathlib import Path
from re import _constants as op
from re import _parser as parser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agentreplay.core.redaction.personal import PERSONAL
from pytest_agentreplay.core.redaction.vendors import SHORTEST, VENDORS, any_vendor, find_vendors, looks_random

ROWS = pytest.mark.parametrize("vendor", VENDORS, ids=[f"{row.category}-{nth}" for nth, row in enumerate(VENDORS)])
CATEGORY = re.compile(r"[a-z][a-z0-9-]*")
OWN_BYTES = set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
AROUND = [
    ("", ""),
    ("Authorization: Bearer ", ""),
    ("I tried the credential ", ", and it worked."),
    ("see ", ". Then"),
    ("(", ")"),
    ("<b>", "</b>"),
    ("`", "`"),
    ("'", "'"),
    ("https://x.test/v1?a=1&t=", "&page=2"),
    ("KEY=", "\n"),
    ('{"k":"', '"}'),
    ('{"a":"{\\"k\\":\\"', '\\"}"}'),
    ('{"out":"line\\n', '\\nnext"}'),
    ('{"out":"\\u003d', '\\u003c"}'),
    ("q=a%20b%3D", "%26c=d"),
    ("\x1b[31m", "\x1b[0m"),
    ("\x1b[1;32m", "\x1b[0m"),
    ("key:", ";"),
    ("[", "]"),
    ("a,", ",b"),
]


class Sampler:
    """Texts that a pattern matches, at its least length or a little more."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def text(self, pattern, longer=0):
        return b"".join(self.item(*item, longer) for item in parser.parse(pattern))

    def item(self, code, value, longer):
        match code:
            case op.LITERAL:
                return bytes([value])
            case op.IN:
                return bytes([self.random.choice(sorted(members(value)))])
            case op.MAX_REPEAT:
                least, most, inner = value
                count = self.random.randint(least, min(int(most), least + longer))
                return b"".join(self.item(*item, longer) for _ in range(count) for item in inner)
            case op.SUBPATTERN:
                return b"".join(self.item(*item, longer) for item in value[3])
            case op.BRANCH:
                return b"".join(self.item(*item, longer) for item in self.random.choice(value[1]))
        raise AssertionError(f"{code} is not in the syntax that the table keeps to")

    def key(self, vendor, longer=8):
        """A key that looks like one; so short a text may by chance be all of one case."""
        while True:
            text = self.text(vendor.pattern, longer)
            if vendor.holds(text):
                return text


def members(items):
    """The bytes of a character class."""
    found = set()
    for code, value in items:
        match code:
            case op.LITERAL:
                found.add(value)
            case op.RANGE:
                found.update(range(value[0], value[1] + 1))
            case op.CATEGORY:
                assert value is op.CATEGORY_WORD
                found.update(OWN_BYTES - set(b"-"))
            case _:
                raise AssertionError(code)
    return found


def found(text):
    data = text if isinstance(text, bytes) else text.encode()
    return [(data[start:end], category) for start, end, category in find_vendors(data)]


# --- what is found ----------------------------------------------------------------------------------------------


@ROWS
def test_a_key_is_found_whole_whatever_stands_around_it(vendor):
    sampler = Sampler(vendor.pattern)
    for before, after in AROUND:
        key = sampler.key(vendor)
        assert found(before.encode() + key + after.encode()) == [(key, vendor.category)], (before, after)


@ROWS
def test_a_row_finds_almost_every_key_of_full_length(vendor):
    sampler = Sampler(b"full" + vendor.pattern)
    keys = [sampler.text(vendor.pattern, 16) for _ in range(200)]
    missed = [key for key in keys if key not in [text for text, _ in found(b"x " + key)]]
    assert len(missed) <= 3, missed


@ROWS
def test_what_only_resembles_a_key_stays(vendor):
    sampler = Sampler(b"near" + vendor.pattern)
    prefix, key = sampler.text(vendor.prefix), sampler.key(vendor, longer=0)
    assert found(b"docs say " + prefix + b"... is the format") == []
    assert found(b"set it to " + prefix + b"<your key>") == []
    if vendor.looks != "fixed":
        for words in (b"your-key-goes-here-in-place-of-these-words", b"your_key_goes_here_in_place_of_these_words"):
            assert found(b"set it to " + prefix + words) == []
        assert found(b"set it to " + prefix + b"x" * 48) == []
        assert found(b"set it to " + prefix + b"loadTheModelConfigurationFromHub") == []
    if set(key) <= OWN_BYTES:
        assert found(b"chatcmpl-" + key) == []
        assert found(b"a" + key) == []
    assert not re.fullmatch(vendor.pattern, sampler.text(vendor.pattern)[:-1])


@pytest.mark.parametrize(
    "text",
    [
        "sk-learn", "task-force-alpha-bravo-charlie-delta", "disk-usage-report-for-the-whole-cluster",
        "hf_hub_download", "xoxb-your-bot-token-goes-here", "sk-ant-api03-your-key-goes-here-please",
        "npm_config_registry_of_all_packages_here", "sk-container-id-1-estimator-doc-link",
        "secret_santa_for_the_whole_team_in_december_2025", "xai-grok-4-fast-reasoning-2025-09-19",
        "pa-system-announcement-and-more-words-for-the-whole-school-district", "AKIA" + "IOSFODNN7EXAMPLE",
        "gl-matrix-vector-3-transform-and-more", "module.sub_module.function_name_v2",
        "[[redacted:openai-key:1]] [[redacted:github-key:22]]", "eyJvZmZzZXQiOjEwMCwic29ydCI6ImNyZWF0ZWRfYXQifQ==",
    ],
)  # fmt: skip
def test_words_names_and_placeholders_stay(text):
    assert found(f'{{"text":"{text}"}}') == []


def test_an_address_of_a_bot_gives_its_key_away():
    key = Sampler("bot").key(next(row for row in VENDORS if row.category == "telegram-key"))
    assert found(b"https://api.telegram.org/bot" + key + b"/getMe") == [(key, "telegram-key")]


def test_a_token_in_two_or_five_parts_is_found_and_a_cursor_stays():
    def part(value):
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    head, body = part({"alg": "HS256", "typ": "JWT"}), part({"sub": "ada", "iat": 1763000000})
    secret = "c2lnbmF0dXJlLW9mLXRoZS10b2tlbg"
    for token in (f"{head}.{body}.{secret}", f"{head}.{body}", f"{head}..{secret}.{secret}.{secret}"):
        assert found(f"got {token}. Next") == [(token.encode(), "jwt")]
    assert found(json.dumps({"next": body})) == []


IDS = st.one_of(
    st.uuids().map(str),
    st.binary(min_size=4, max_size=48).map(bytes.hex),
    st.binary(min_size=4, max_size=300).map(lambda data: base64.b64encode(data).decode()),
    st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", min_size=8, max_size=64),
    st.lists(st.sampled_from(["order", "key", "token", "sk", "hf", "Report", "v2", "2025"]), max_size=12).map("-".join),
)
PREFIXES = st.sampled_from(
    ["", "call_", "chatcmpl-", "toolu_", "msg_", "req_", "cus_", "sha256:", "W/", "pk_live_", "i-"]
)


@settings(derandomize=True, max_examples=400, deadline=None)
@given(st.lists(st.tuples(PREFIXES, IDS), max_size=8))
def test_ids_hashes_and_base64_stay(pairs):
    assert found(json.dumps({f"id{nth}": prefix + text for nth, (prefix, text) in enumerate(pairs)})) == []


def test_many_random_ids_stay():
    chance = random.Random(11)
    lines = [f"{uuid.UUID(int=chance.getrandbits(128))} {chance.randbytes(20).hex()}" for _ in range(2000)]
    lines += [base64.b64encode(chance.randbytes(90)).decode() for _ in range(2000)]
    lines += [base64.urlsafe_b64encode(chance.randbytes(90)).decode() for _ in range(2000)]
    assert found("\n".join(lines)) == []


@pytest.mark.parametrize(
    ("text", "random_looking"),
    [
        ("Qm9vYmFyQmF6", True),
        ("3f2a9c1b44", True),
        ("your-key-goes-here", False),
        ("xxxxxxxxxxxxxxxx", False),
        ("getModelConfiguration", False),
        ("project-2024-key-v2", False),
    ],
)
def test_looks_random(text, random_looking):
    assert looks_random(text.encode()) == random_looking


# --- what the patterns may be -----------------------------------------------------------------------------------


def width(item):
    """How long at least and at most a text is that one item matches."""
    code, value = item
    match code:
        case op.MAX_REPEAT:
            return value[2].getwidth()[0] * value[0], None
        case op.SUBPATTERN:
            return value[3].getwidth()
        case op.BRANCH:
            return min(branch.getwidth()[0] for branch in value[1]), None
    return 1, 1


def unbounded(pattern, last=True):
    """(members, whether nothing has to follow) of every repeat without bound; none stands in another."""
    items = list(pattern)
    for nth, (code, value) in enumerate(items):
        ends = last and not any(least for least, _ in map(width, items[nth + 1 :]))
        match code:
            case op.MAX_REPEAT:
                least, most, inner = value
                if most is op.MAXREPEAT:
                    ((kind, of),) = list(inner)
                    assert kind is op.IN
                    yield members(of), ends
                else:
                    assert least <= most <= 400
                    yield from unbounded(inner, ends)
            case op.SUBPATTERN:
                assert value[0] is None, "no group captures"
                yield from unbounded(value[3], ends)
            case op.BRANCH:
                for branch in value[1]:
                    yield from unbounded(branch, ends)
            case op.LITERAL | op.IN:
                pass
            case _:
                raise AssertionError(f"{code} is not in the syntax that the table keeps to")


@ROWS
def test_a_pattern_is_linear(vendor):
    """A repeat without bound reads no border, so that no second attempt begins in it, or nothing has to follow."""
    for own, ends in unbounded(parser.parse(vendor.pattern)):
        assert own <= OWN_BYTES or ends


@ROWS
def test_a_row_is_well_formed(vendor):
    assert CATEGORY.fullmatch(vendor.category)
    assert vendor.looks in {"random", "mixed", "fixed"}
    assert parser.parse(vendor.pattern).getwidth()[0] >= SHORTEST


@ROWS
def test_a_megabyte_made_against_a_row_is_read(vendor):
    sampler = Sampler(b"against" + vendor.pattern)
    prefix = sampler.text(vendor.prefix)
    begun = time.perf_counter()
    words = prefix + re.sub(rb"[^+/._-]", b"A", sampler.text(vendor.body))
    for unit in (prefix, prefix + b".", sampler.text(vendor.pattern)[:-1] + b"-", words + b"+", words + b"/"):
        list(find_vendors(unit * (100_000 // len(unit))))
    assert time.perf_counter() - begun < 60


def test_one_alternation_holds_every_row():
    assert any_vendor().groups == 0
    for vendor in VENDORS:
        assert any_vendor().match(Sampler("any").text(vendor.pattern))


# --- the page that lists them -----------------------------------------------------------------------------------

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "redaction-rules.md").read_text(encoding="utf-8")
LISTED = {line.split("`")[1]: line.split(" | ")[1:] for line in PAGE.splitlines() if line.startswith("| `")}


def test_the_page_names_every_category_and_no_other():
    assert set(LISTED) == {vendor.category for vendor in VENDORS} | PERSONAL


@ROWS
def test_the_page_says_from_whom_a_key_is(vendor):
    said = LISTED[vendor.category][0]
    assert said in {"anybody", "many"} or all(name in said for name in vendor.name.split(", "))


@pytest.mark.parametrize("category", sorted({vendor.category for vendor in VENDORS}))
def test_keys_begin_as_the_page_shows(category):
    sampler = Sampler(category)
    of_it = [vendor for vendor in VENDORS if vendor.category == category]
    keys = [sampler.text(vendor.pattern) for vendor in of_it for _ in range(100)]
    for text in re.findall(r"`([^`/:…][^`…]*)…", LISTED[category][1]):
        start = text.encode()
        whole = any(re.fullmatch(vendor.prefix, start) for vendor in of_it)
        assert whole or any(key.startswith(start) for key in keys), text


def test_the_page_holds_no_key():
    assert found(PAGE) == []


def test_pictures_are_not_looked_at_and_long_tokens_are():
    picture = base64.b64encode(bytes(range(256)) * 16).decode().replace("/", "+").rstrip("=")
    key = "AKIA" + "QWERTYUI23456723"
    assert list(find_vendors(f"{picture}+{key}+{picture}".encode())) == []
    assert list(find_vendors(f"{picture} {key} {picture}".encode()))
    token = f"eyJ{picture[:40]}.eyJ{picture * 2}.{picture[:40]}".replace("+", "-").encode()
    assert list(find_vendors(token)) == [(0, len(token.rstrip(b"=")), "jwt")]
