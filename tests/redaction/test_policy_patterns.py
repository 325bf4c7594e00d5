"""Patterns of policies: matched in linear time by whichever engine, or refused at load with what to write instead."""

import importlib.util
import json
import math
import os
import re
import signal
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pytest_agentreplay.redaction.regexes import RefusedPattern, compile_linear, compile_shape, count_steps
from tests.support.tables import words

CORPUS = Path(os.environ.get("AGENTREPLAY_CORPUS") or Path(__file__).parents[1] / "corpus") / "hostile_corpus.jsonl"
ROWS = [row for row in map(json.loads, CORPUS.read_text("utf-8").splitlines()) if row["class"] == "redos"]
ENGINES = ["re", *(["re2"] if importlib.util.find_spec("re2") else [])]
PATIENCE = 10
"""Seconds until a search counts as one that never ends. It takes some milliseconds, on a busy machine some more."""

CLASSICS = sorted(
    words(r"""
^(a+)+$ ^(a|aa)+$ ^(a|a)*$ ^([a-zA-Z]+)*$ ^(([a-z])+.)+[A-Z]([a-z])+$ ^(\d+)*x ^(\d+\.?)+! (.*)*x (.*a){20}x (.*,){11}P
(a*)*b (a*b*)*c (a?){30}a{30} (x+x+)+y (a+a+)+b (a|b|ab)*c (a|ab|b)+c (?:a|a?)+b ([a-z]+)+@ ([\w.]+)+@x ^(\w+\s?)+;
(\s*\w+)*; (?:\s+|\w+)*; \s+$ \d+\d+\d+x .*.*=.*x a.*b.*c.*d (a{0,100}){0,10}b (?:a{1,30}){1,30}b \w{1,500}\w{1,500}!
(ab|a|b){1,30}c (?i)(a|A)+x ((ab)*)*c (?:(?:a|b)+c)+d (a+b|a+c)+d <.*>.*</.*> "[^"]*"+x"*y (?s)begin.*?end (\n|.)*x
^(?:[^a]|a)*b
""")
)

ELSEWHERE = {
    "back reference": [r"(a)\1", r"(?P<q>['\"]).*(?P=q)"],
    "look-": [r"(?=a)b", r"a(?!b)", r"(?<=key: )\w{4}", r"(?<!x)y"],
    "condition": [r"(a)?(?(1)b|c)"],
    "atomic": [r"(?>a{1,3})b"],
    "possessive": [r"a++b", r"a{1,3}+b"],
    "flags": [r"(?x) a b", r"(?u)a"],
    r"\Z": [r"ab\Z"],
    "{0,9}": [r"a{,5}b"],
    "empty": [r"a*", r"(?:)", r"\b", r"^$", r"(?:ab?)?"],
    "1000": [r"a{1001}", r"(?:a{100}){100}", "a" * 1001],
    "same everywhere": [r"[[a]", r"[a--b]"],
    "regular expression": [r"(a", r"a)", r"[b-a]", r"(?P<1>a)"],
    "nested": ["(" * 400 + "a" + ")" * 400],
}
"""What is said of a pattern -> patterns that one engine does not have or reads in another way."""


@contextmanager
def within(seconds):
    """End what does not end: a search that is stuck in `re` looks for signals."""

    def late(*_):
        raise AssertionError("the search did not end")

    if not hasattr(signal, "SIGALRM"):
        yield
        return
    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def taken(regex, engine):
    """The shape of a pattern, or None and why there is none."""
    try:
        return compile_shape("x", regex, engine=engine), ""
    except RefusedPattern as refused:
        return None, str(refused)


def searched(shape, text):
    """What `shape` finds in a text, and the processor seconds that it took."""
    began = time.process_time()
    with within(PATIENCE):
        found = list(shape.find(text.encode()))
    return found, time.process_time() - began


def adversarial(regex):
    """Texts of ten thousand characters that are long ways into a pattern and fail at their ends."""
    letters = sorted({*re.findall(r"[A-Za-z0-9]", regex), "a", "1", " "})
    longs = [*letters, "ab", "a.", "a ", "a,", "=a", '"', "<a>", "".join(letters[:6]), "begin", "x="]
    for word in longs:
        yield (word * 10_000)[:10_000]
        yield (word * 10_000)[:10_000] + "!"


@pytest.mark.parametrize("engine", ENGINES)
def test_what_could_hang_is_refused_or_linear(engine):
    slow = []
    for regex in [*(row["payload"] for row in ROWS), *CLASSICS]:
        shape, why = taken(regex, engine)
        if shape is None:
            assert re.fullmatch(r".*: .*(write|give|let|name|exclude|put).*", why), "says what to write instead"
        elif max(searched(shape, text)[1] for text in adversarial(regex)) >= 2:  # it takes milliseconds
            slow.append(regex)
    assert not slow


def test_without_re2_every_classic_is_refused():
    assert [regex for regex in CLASSICS if taken(regex, "re")[0] is not None] == []


@pytest.mark.parametrize("engine", ENGINES)
def test_what_one_engine_does_not_have_is_refused_for_both(engine):
    for word, regexes in ELSEWHERE.items():
        for regex in regexes:
            with pytest.raises(RefusedPattern, match=re.escape(word)):
                compile_shape("x", regex, engine=engine)


USUAL = {
    r"CUST-[0-9]{6}": ("for CUST-123456.", ["CUST-123456"]),
    r"\bORD-\d+\b": ("ORD-17, ORD-18x, WORD-19", ["ORD-17"]),
    r"ID-\d+": ("ID-7 and ID-89", ["ID-7", "ID-89"]),
    r"(?i)employee[ :]{1,3}(?P<value>\d{4,8})": ("Employee: 12345, employee 99", ["12345"]),
    r"tenant=(?P<value>[a-z]+);?": ("?tenant=acme;x", ["acme"]),
    r"<name>(?P<value>[^<]{1,80})</name>": ("<name>Ann Li</name><name></name>", ["Ann Li"]),
    r'"iban": ?"(?P<value>[^"]*)"': ('{"iban":"DE1"}', ["DE1"]),
    r"[\w.+-]{1,64}@[\w-]{1,63}\.[a-z]{2,8}": ("to a.b@c-d.example!", ["a.b@c-d.example"]),
    r"(?:foo|bar)-\d{3}": ("foo-123 bar-45", ["foo-123"]),
    r"acme_[A-Za-z0-9]{16,}": ("acme_" + "k1" * 9, ["acme_" + "k1" * 9]),
    r"a(?P<value>b)|c": ("abc", ["b", "c"]),
    r"(?s)BEGIN.{1,50}": ("BEGIN\nx", ["BEGIN\nx"]),
    r"x(?P<value>\d*)y": ("xy x12y", ["12"]),
    # A character is never cut in two.
    "Kunde [^ ]{2,9}": ("der Kunde Jürgen zahlt", ["Kunde Jürgen"]),
    "(?:ä|ae)(?P<value>..)": ("äöü aexy 😀ä😀x", ["öü", "xy", "😀x"]),
    "[äö]{2}": ("xäöäö", ["äö", "äö"]),
    ".{3}": ("😀é", []),
    r"\w{2}": ("éa bc", ["bc"]),
}


@pytest.mark.parametrize("engine", ENGINES)
def test_usual_patterns_find_what_they_say(engine):
    for regex, (text, values) in USUAL.items():
        if engine == "re" and count_steps(regex) == math.inf:
            with pytest.raises(RefusedPattern, match=r"without an end.*pip install 'frozen-agentreplay\[re2\]'"):
                compile_shape("x", regex, engine=engine)
            regex = with_ends(regex)
        shape = compile_shape("x", regex, engine=engine)
        found, _ = searched(shape, text)
        assert [text.encode()[start:end].decode() for start, end, _ in found] == values, regex


def with_ends(regex):
    """The pattern with the ends that its repeats lack."""
    return re.sub(
        r"(?<![\[.])[+*](?=\W|$)|(?<=\d),(?=\})", lambda hit: {"+": "{1,60}", "*": "{0,60}", ",": ",60"}[hit[0]], regex
    )


def test_bytes_that_are_no_text_do_no_harm():
    shape = compile_shape("x", "[0-9]{3}", engine="re")
    data = b"\xff\xfe 123 \xc3 456 \xed\xa0\x80 789"
    assert [data[start:end] for start, end, _ in shape.find(data)] == [b"123", b"456", b"789"]


ATOMS = st.sampled_from(["a", "b", "1", "-", "=", "[ab]", r"\d", ".", "[^a]", "ab", "[a-z]", r"\w", r"\b", "$", "[b-]"])
REPEATS = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,3}", "{0,5}", "{1,40}", "{3,}", "+?", "*?", "{1,200}"])


def composed(inner):
    rows = st.lists(inner, min_size=2, max_size=4).map("".join)
    forks = st.lists(inner, min_size=2, max_size=3).map("|".join)
    return st.tuples(rows | forks, REPEATS).map(lambda both: f"(?:{both[0]}){both[1]}")


REGEXES = st.recursive(st.tuples(ATOMS, REPEATS).map(lambda both: f"(?:{both[0]}){both[1]}"), composed, max_leaves=12)
WORDS = st.sampled_from(["a", "b", "1", "-", "=", "ab", "a1", "a-", "aab", "=a", "-=a", "b-a", "a" * 39 + "b", "ab1-="])


@settings(max_examples=40, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(REGEXES, st.lists(st.tuples(WORDS, WORDS), min_size=3, max_size=3))
def test_whatever_is_taken_without_re2_is_quick_on_pumped_strings(regex, pumps):
    try:
        shape = compile_shape("x", regex, engine="re")
    except RefusedPattern:
        assume(False)
    for head, word in pumps:
        for tail in ("", "!"):
            _, took = searched(shape, head + (word * 10_000)[:10_000] + tail)
            assert took < 2, "it takes milliseconds"


@pytest.mark.skipif(len(ENGINES) < 2, reason="google-re2 is not installed")
@settings(max_examples=40, suppress_health_check=[HealthCheck.filter_too_much])
@given(REGEXES, st.text("ab1-= ", max_size=40))
def test_both_engines_begin_with_the_same_match(regex, text):
    """Where a match is there for one, it is for the other, at the same place."""
    try:
        ours, theirs = (compile_shape("x", regex, engine=engine) for engine in ("re", "re2"))
    except RefusedPattern:
        assume(False)
    first = [next(iter(shape.find(text.encode())), None) for shape in (ours, theirs)]
    assert first[0] == first[1]


def test_without_re2_the_steps_decide(monkeypatch):
    monkeypatch.setitem(sys.modules, "re2", None)
    compile_linear.cache_clear()
    try:
        for regex in ("(a+)+b", "[0-9]+x", "ID-(?:[0-9]-)+", "(?:a{0,1000}b?){0,1}c{3,}d"):
            with pytest.raises(RefusedPattern, match="without an end"):
                compile_shape("x", regex)
        for regex in ("(a{0,30}){0,30}b", r"\w{1,200}\w{1,200}!", "(?:a|a){1,20}b"):
            with pytest.raises(RefusedPattern, match="too many steps"):
                compile_shape("x", regex)
        for regex in (
            "CUST-[0-9]{6}",
            "ID-(?P<value>[0-9]+)",
            "a{3,}|bc*",
            r"[\w.+-]{1,64}@[\w-]{1,63}\.[a-z]{2,10}",
            "<a>[^<]{0,900}</a>",
        ):
            assert compile_shape("x", regex)
    finally:
        compile_linear.cache_clear()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_text_is_searched_whatever_it_holds(engine):
    pattern = compile_linear("ö{2}|x", engine)
    assert [pattern.search(text) for text in ("öö", "ö", "\ud800x", "")] == [True, False, True, False]
    assert pattern == compile_linear("ö{2}|x", "re")


def test_the_table_of_the_reference_holds():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "policy.md").read_text("utf-8")
    rows = page.partition("| refused | instead | why |")[2].partition("\n\n")[0].splitlines()[2:]
    assert len(rows) >= 3
    for row in rows:
        refused, instead = (re.findall("`([^`]+)`", cell) for cell in row.split(" | ")[:2])
        for regex in refused:
            with pytest.raises(RefusedPattern):
                compile_shape("x", regex, engine="re")
        for regex in instead:
            assert compile_shape("x", regex, engine="re")
