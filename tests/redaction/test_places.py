from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agentreplay.redaction import encodings
from pytest_agentreplay.redaction.places import Places
from pytest_agentreplay.redaction.spans import merge_disjoint, recut, splice

VALUES = {
    "tmp": "/tmp/pytest-of-ada/pytest-1/test_x0", "temp": "/tmp", "root": "/home/ada lovelace/shop",
    "home": "/home/ada lovelace", "host": "analytical-engine", "user": "ada",
}  # fmt: skip
WINDOWS = {"tmp": r"C:\Users\Ada\Temp\pytest-1", "home": r"C:\Users\Ada", "user": "Ada"}


def places(**values):
    return Places(values or VALUES)


def mark(here, text):
    data = encodings.as_bytes(text) if isinstance(text, str) else text
    spans = here.marks_in(data)
    here.count(spans)
    return put_in(text, data, spans)


def reveal(here, text):
    data = encodings.as_bytes(text) if isinstance(text, str) else text
    return put_in(text, data, here.places_in(data))


def put_in(text, data, spans):
    if not spans:
        return text
    return encodings.as_text(splice(data, spans)) if isinstance(text, str) else splice(data, spans)


MARKED = [
    ("see /tmp/pytest-of-ada/pytest-1/test_x0/a.py", "see {{tmp}}/a.py"),
    ("/tmp/pytest-of-ada/pytest-1/test_x0", "{{tmp}}"),
    ("in /tmp/pytest-of-ada/pytest-1/test_x0.", "in {{tmp}}."),
    ("file:///tmp/pytest-of-ada/pytest-1/test_x0/a", "file://{{tmp}}/a"),
    ("/home/ada lovelace/shop and /home/ada lovelace/notes", "{{root}} and {{home}}/notes"),
    ("file:///home/ada%20lovelace/shop/x", "file://{{root:path}}/x"),
    ("cd%20%2Ftmp%2Ffoo", "cd%20{{temp:url}}%2Ffoo"),
    (r'{"p":"line\n/tmp/x"}', r'{"p":"line\n{{temp}}/x"}'),
    (r"\/tmp\/x", r"{{temp:slash}}\/x"),
    ("/tmpfile /var/tmp /tmp-1 /tmp.bak ./tmp", "/tmpfile /var/tmp /tmp-1 /tmp.bak ./tmp"),
    ("ada@analytical-engine", "{{user}}@{{host}}"),
    ("adage adapter ada_x", "adage adapter ada_x"),
    ("ls /tmp里", "ls {{temp}}里"),
    ("{{tmp}} and {{!tmp}} and {{name}}", "{{!tmp}} and {{!!tmp}} and {{name}}"),
]


def test_places_become_marks_and_come_back():
    for text, marked in MARKED:
        here = places()
        assert mark(here, text) == marked
        assert mark(here, text.encode()) == marked.encode()
        assert reveal(here, marked) == text


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_windows_paths_come_back_however_deep_in_json(depth):
    here = places(**WINDOWS)
    text = r"open C:\Users\Ada\Temp\pytest-1\a.txt of Ada"
    for _ in range(depth):
        text = json.dumps(text)
    marked = mark(here, text)
    assert "Users" not in marked
    assert "{{user}}" in marked
    assert reveal(here, marked) == text
    for _ in range(depth):
        marked = json.loads(marked)
    elsewhere = places(tmp=r"D:\t", home=r"D:\h", user="Bob")
    served = reveal(elsewhere, mark(here, text))
    for _ in range(depth):
        served = json.loads(served)
    assert served == r"open D:\t\a.txt of Bob"


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        (r"c:\Users\Ada\x", r"{{home:drive}}\x"), (r"c:\users\ada\x", r"{{home:lower}}\x"),
        ("C:/Users/Ada/x", "{{home:posix}}/x"), ("c:/users/ada/x", "{{home:lower-posix}}/x"),
        ("file:///c:/Users/Ada/x", "file:///{{home:drive-posix}}/x"),
        ("file:///c%3A%5CUsers%5CAda%5Cx", "file:///{{home:drive-url}}%5Cx"),
        (r'{"p": "c:\\users\\ada\\x"}', r'{"p": "{{home:lower-json}}\\x"}'), (r"c:\users\ADA\x", r"c:\users\ADA\x"),
    ],
)  # fmt: skip
def test_windows_paths_are_met_in_the_cases_that_programs_give_them(text, marked):
    here = places(home=WINDOWS["home"])
    assert mark(here, text) == marked
    assert reveal(here, marked) == text
    assert "home:" not in reveal(places(home="/home/bob"), marked), "a mark of Windows leads somewhere on Linux"


def test_marks_of_other_systems_drives_unknown_marks_and_what_is_left_alone():
    assert mark(places(cwd="C:\\a"), r"c:\a\x C:\a\y") == r"{{cwd:drive}}\x {{cwd}}\y"
    assert reveal(places(home="/home/bob"), r"{{home:json}}\\x {{home:url}}") == r"/home/bob\\x %2Fhome%2Fbob"
    here = Places({"root": "/", "tmp": "/x", "home": "/{{x}}", "user": "root", "host": "ab", "cwd": ""})
    text = "/ /x /{{x}} root ab"
    assert mark(here, text) is text, "what cannot be told from chance"
    assert here.counts == {}
    assert reveal(Places({}), "{{tmp}} {{nobody}}") == "{{tmp}} {{nobody}}"
    here = places()
    mark(here, "/tmp/a /tmp/b ada {{tmp}}")
    mark(here, b"/tmp")
    assert here.counts == {"temp": 3, "user": 1}
    with pytest.raises(ValueError, match="lower-case"):
        Places({"My Dir": "/x/y"})


PIECES = st.sampled_from(
    [
        *VALUES.values(), *WINDOWS.values(), *(value.lower() for value in WINDOWS.values()),
        *(value.replace("C:", "c:") for value in WINDOWS.values()),
        *(json.dumps(value) for value in WINDOWS.values()), *(quote(value, safe="") for value in VALUES.values()),
        "{{", "}}", "!", ":", "tmp", "{{tmp}}", "{{!tmp}}", "{{tmp:url}}", "{{user}}", "/", "\\", "%2F", "n", ".",
        "{", "}", "\ud800", "é",
    ]
)  # fmt: skip


@settings(max_examples=100)
@given(
    st.lists(PIECES | st.text(max_size=3), max_size=12).map("".join),
    st.binary(max_size=60),
    st.sampled_from([VALUES, WINDOWS]),
)
def test_reveal_undoes_mark(text, noise, values):
    here = Places(values)
    for one in (text, text.encode("utf-8", "surrogatepass"), noise):
        assert reveal(here, mark(here, one)) == one


@given(
    st.lists(st.integers(0, 9), max_size=8).map(tuple),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9), st.binary(max_size=4)), max_size=5),
)
def test_recut_keeps_the_number_of_chunks_and_their_sum(cuts, raw):
    size = sum(cuts)
    spans = merge_disjoint(
        [], [(start, min(start + length, size), text) for start, length, text in raw if start < size]
    )
    spans = [span for span in spans if span[0] < span[1]]
    moved = recut(cuts, spans)
    assert len(moved) == len(cuts)
    assert min(moved, default=0) >= 0
    assert sum(moved) == len(splice(b"x" * size, spans))


def test_a_replacement_goes_to_the_chunk_it_began_in():
    data = b"aaaSECRETbbb"
    spans = [(3, 9, b"*")]
    assert splice(data, spans) == b"aaa*bbb"
    assert recut((5, 2, 3, 2), spans) == (4, 0, 1, 2)
    assert recut((3, 6, 3), spans) == (3, 1, 3)


def test_the_spellings_of_a_directory_are_computed_once(monkeypatch):
    computed = []
    case_guises = encodings.case_guises
    monkeypatch.setattr(encodings, "case_guises", lambda value: computed.append(value) or case_guises(value))
    session = {"root": "/srv/spelled once/shop", "home": "/srv/spelled once", "host": "spelled-once"}
    for number in range(3):
        here = Places({"tmp": f"/srv/spelled once/tmp/test_{number}", **session})
        assert mark(here, f"/srv/spelled once/tmp/test_{number}/a.txt of spelled-once") == "{{tmp}}/a.txt of {{host}}"
    assert sorted(computed) == sorted({*session.values(), *(f"/srv/spelled once/tmp/test_{n}" for n in range(3))})
