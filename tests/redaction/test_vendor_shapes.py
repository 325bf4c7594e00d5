"""The table of vendors' keys. Every key here is made at run time from the pattern of its row, by a seed."""

from __future__ import annotations

import base64
import json
import random
import re
import time
from functools import cache
from pathlib import Path
from re import _constants as op
from re import _parser as parser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.redaction.policy import PERSONAL
from pytest_agentreplay.redaction.vendors import (
    SHORTEST,
    VENDORS,
    any_beginning_with,
    find_vendors,
    looks_random,
    match_at,
)

EACH = [(f"{row.category}-{nth}", row) for nth, row in enumerate(VENDORS)]
CATEGORY = re.compile(r"[a-z][a-z0-9-]*")
OWN_BYTES = set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
AROUND = [
    *(("", ""), ("Authorization: Bearer ", ""), ("I tried the credential ", ", and it worked."), ("see ", ". Then")),
    *(("(", ")"), ("<b>", "</b>"), ("`", "`"), ("'", "'"), ("[", "]"), ("a,", ",b"), ("key:", ";"), ("KEY=", "\n")),
    *(("https://x.test/v1?a=1&t=", "&page=2"), ('{"k":"', '"}'), ('{"a":"{\\"k\\":\\"', '\\"}"}')),
    *(('{"out":"line\\n', '\\nnext"}'), ('{"out":"\\u003d', '\\u003c"}'), ("q=a%20b%3D", "%26c=d")),
    *(("\x1b[31m", "\x1b[0m"), ("\x1b[1;32m", "\x1b[0m")),
]


parsed = cache(lambda pattern: [*parser.parse(pattern)])
signs = cache(lambda items: sorted(members(items)))


class Sampler:
    """Texts that a pattern matches, at its least length or a little more."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def text(self, pattern, longer=0):
        return b"".join(self.item(*item, longer) for item in parsed(pattern))

    def item(self, code, value, longer):
        match code:
            case op.LITERAL:
                return bytes([value])
            case op.IN:
                return bytes([self.random.choice(signs(tuple(value)))])
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


def test_a_key_is_found_whole_whatever_stands_around_it():
    wrong = []
    for name, vendor in EACH:
        sampler = Sampler(vendor.pattern)
        for before, after in AROUND:
            key = sampler.key(vendor)
            if found(before.encode() + key + after.encode()) != [(key, vendor.category)]:
                wrong.append((name, before, after))
    assert not wrong, wrong


def test_a_row_finds_almost_every_key_of_full_length():
    wrong = {}
    for name, vendor in EACH:
        sampler = Sampler(b"full" + vendor.pattern)
        keys = [sampler.text(vendor.pattern, 16) for _ in range(30)]
        missed = [key for key in keys if key not in [text for text, _ in found(b"x " + key)]]
        if len(missed) > 1:
            wrong[name] = missed
    assert not wrong, wrong


def resembling(vendor):
    """Texts that only resemble a key of this row."""
    sampler = Sampler(b"near" + vendor.pattern)
    prefix, key = sampler.text(vendor.prefix), sampler.key(vendor, longer=0)
    yield from (b"docs say " + prefix + b"... is the format", b"set it to " + prefix + b"<your key>")
    if vendor.looks != "fixed":
        words = b"your-key-goes-here-in-place-of-these-words"
        for text in (words, words.replace(b"-", b"_"), b"x" * 48, b"loadTheModelConfigurationFromHub"):
            yield b"set it to " + prefix + text
    if set(key) <= OWN_BYTES:
        yield from (b"chatcmpl-" + key, b"a" + key)


def test_what_only_resembles_a_key_stays():
    wrong = [(name, text) for name, vendor in EACH for text in resembling(vendor) if found(text)]
    wrong += [
        (name, "one sign short")
        for name, vendor in EACH
        if re.fullmatch(vendor.pattern, Sampler(b"near" + vendor.pattern).text(vendor.pattern)[:-1])
    ]
    assert not wrong, wrong


WORDS = [
    *("sk-learn", "task-force-alpha-bravo-charlie-delta", "disk-usage-report-for-the-whole-cluster", "hf_hub_download"),
    *(
        "xoxb-your-bot-token-goes-here",
        "sk-ant-api03-your-key-goes-here-please",
        "sk-container-id-1-estimator-doc-link",
    ),
    *("npm_config_registry_of_all_packages_here", "secret_santa_for_the_whole_team_in_december_2025"),
    *("xai-grok-4-fast-reasoning-2025-09-19", "module.sub_module.function_name_v2", "AKIA" + "IOSFODNN7EXAMPLE"),
    *("pa-system-announcement-and-more-words-for-the-whole-school-district", "gl-matrix-vector-3-transform-and-more"),
    *("[[redacted:openai-key:1]] [[redacted:github-key:22]]", "eyJvZmZzZXQiOjEwMCwic29ydCI6ImNyZWF0ZWRfYXQifQ=="),
]


def test_words_names_and_placeholders_stay():
    assert [text for text in WORDS if found(f'{{"text":"{text}"}}')] == []


def test_an_address_of_a_bot_and_a_token_in_two_or_five_parts_are_found_and_a_cursor_stays():
    key = Sampler("bot").key(next(row for row in VENDORS if row.category == "telegram-key"))
    assert found(b"https://api.telegram.org/bot" + key + b"/getMe") == [(key, "telegram-key")]

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


@given(st.lists(st.tuples(PREFIXES, IDS), max_size=8))
def test_ids_hashes_and_base64_stay(pairs):
    assert found(json.dumps({f"id{nth}": prefix + text for nth, (prefix, text) in enumerate(pairs)})) == []


def test_what_looks_random():
    assert all(map(looks_random, (b"Qm9vYmFyQmF6", b"3f2a9c1b44")))
    words = (b"your-key-goes-here", b"xxxxxxxxxxxxxxxx", b"getModelConfiguration", b"project-2024-key-v2")
    assert not any(map(looks_random, words))


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


@pytest.mark.parametrize("vendor", [row for _, row in EACH], ids=[name for name, _ in EACH])
@pytest.mark.exhaustive
def test_a_text_made_against_a_row_is_read_in_time_linear_in_its_length(vendor):
    against(vendor, 1_000_000)


def test_a_text_made_against_some_rows_is_read_in_time_linear_in_its_length():
    for _, vendor in EACH[::8]:
        against(vendor, 20_000)


def against(vendor, size):
    sampler = Sampler(b"against" + vendor.pattern)
    prefix = sampler.text(vendor.prefix)
    words = prefix + re.sub(rb"[^+/._-]", b"A", sampler.text(vendor.body))
    begun = time.process_time()
    for unit in (prefix, prefix + b".", sampler.text(vendor.pattern)[:-1] + b"-", words + b"+", words + b"/"):
        list(find_vendors(unit * (size // len(unit))))
    assert time.process_time() - begun < 1 + size / 20_000, vendor.category


def test_a_row_is_well_formed_and_its_pattern_linear():
    """A repeat without bound reads no border, so that no second attempt begins in it, or nothing has to follow."""
    wrong, whole = [], re.compile(b"|".join(row.pattern for row in VENDORS))
    for name, vendor in EACH:
        pattern = parser.parse(vendor.pattern)
        linear = all(own <= OWN_BYTES or ends for own, ends in unbounded(pattern))
        formed = CATEGORY.fullmatch(vendor.category) and vendor.looks in {"random", "mixed", "fixed"}
        sample = Sampler("any").text(vendor.pattern)
        hit, ends = match_at(sample, 0), [one.match(sample).end() for one in (whole, re.compile(vendor.pattern))]
        held = hit is not None and hit[0] in ends and (hit[1] is None or hit[1].category == vendor.category)
        if not (linear and formed and held and pattern.getwidth()[0] >= SHORTEST):
            wrong.append(name)
    assert not wrong, wrong
    assert any_beginning_with(b"").groups == any_beginning_with(b"s").groups == 0


# --- the page that lists them -----------------------------------------------------------------------------------

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "redaction-rules.md").read_text(encoding="utf-8")
LISTED = {line.split("`")[1]: line.partition(" | ")[2] for line in PAGE.splitlines() if line.startswith("| `")}
OF_MANY = {"jwt", "sk-key"}


def keep_letters(text):
    """Return the letters and digits of a text in lower case."""
    return re.sub("[^a-z0-9]", "", text.lower())


def test_the_page_names_every_category_and_from_whom_it_is_and_holds_no_key():
    assert set(LISTED) == {vendor.category for vendor in VENDORS} | PERSONAL
    shown = {category: keep_letters(f"{category} {cell}") for category, cell in LISTED.items()}
    wrong = [
        name
        for name, vendor in EACH
        if vendor.category not in OF_MANY
        and not all(keep_letters(who) in shown[vendor.category] for who in vendor.name.split(", "))
    ]
    assert not wrong, wrong
    assert found(PAGE) == []


def test_keys_begin_as_the_page_shows():
    wrong = []
    for category in sorted({vendor.category for vendor in VENDORS}):
        sampler = Sampler(category)
        of_it = [vendor for vendor in VENDORS if vendor.category == category]
        keys = [sampler.text(vendor.pattern) for vendor in of_it for _ in range(40)]
        for text in re.findall(r"`([^`/:…][^`…]*)…", LISTED[category]):
            start = text.encode()
            whole = any(re.fullmatch(vendor.prefix, start) for vendor in of_it)
            if not whole and not any(key.startswith(start) for key in keys):
                wrong.append(text)
    assert not wrong, wrong


def test_pictures_are_not_looked_at_and_long_tokens_are():
    picture = base64.b64encode(bytes(range(256)) * 16).decode().replace("/", "+").rstrip("=")
    key = "AKIA" + "QWERTYUI23456723"
    assert list(find_vendors(f"{picture}+{key}+{picture}".encode())) == []
    assert list(find_vendors(f"{picture} {key} {picture}".encode()))
    token = f"eyJ{picture[:40]}.eyJ{picture * 2}.{picture[:40]}".replace("+", "-").encode()
    assert list(find_vendors(token)) == [(0, len(token.rstrip(b"=")), "jwt")]
