"""Lines that `agentreplay init` adds to a configuration: whatever the file looks like, nothing else changes."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agentreplay.cli.project_setup.pytest_configuration import Configuration
from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.snapshots.store.projects import read_table

KEY = "agentreplay_tools"
NEW = ["n.x", "n.y = read"]
TOML_TABLE = "tool.pytest.ini_options"

TOML = [
    *("# c [x]\n", 'a = "]"\n', "b = [\n  \"x\", # ]\n  'y',\n]\n", "\n", "f.g = 1\n", '"h" = 2\n', "d = '''\n'#'''\n"),
    *('c = """\n[tool.pytest.ini_options]\nagentreplay_tools = []\n"""\n', 'e = {k = ["[", 1]}\n'),
]
TOML_KEYS = [
    *("", f"{KEY} = []\n", f'{KEY} = [ "m.a" , ]\n', f'{KEY} = ["m.a"]  # t\n', f"{KEY} = [ # first\n  # only\n]\n"),
    *(f"{KEY}=[\n\t\"m.a\",\n\n\t'm.b' # ,\n ]\n", f"'{KEY}' = ['m.a',\n 'm.b']\n"),
]
TOML_HEADS = [
    *("[tool.pytest.ini_options]\n", "[ tool . pytest.ini_options ] # h\n", '[[l]]\n[tool."pytest".ini_options]\n'),
    '[tool.other]\nz=[["q"]]\n[tool.pytest.ini_options]\n',
]
INI = ["# c\n", "a = 1\n", "b =\n    x\n    # in\n    y\n", "c = x ; y\n", ";z\n", "\n", "  # ind\n", "d: 5\n"]
INI_KEYS = ["", f"{KEY} =\n", f"{KEY} = m.a\n", f"{KEY} =\n  m.a = read\n\n  m.b\n", f"{KEY}:\n\tm.a\n# end\n"]
INI_HEADS = ["[pytest]\n", "# top\n[pytest] # c\n", "[a]\nx = 1\n[pytest]\n"]


@st.composite
def texts(draw, heads, lines, keys):
    """A document with each line at most once, in any order; with either line end, with or without the last."""
    count = draw(st.integers(0, len(lines)))
    body = draw(st.permutations([*draw(st.permutations(lines))[:count], draw(st.sampled_from(keys))]))
    text = draw(st.sampled_from(heads)) + "".join(body) + draw(st.sampled_from(["", "[z]\ny=1\n"]))
    text = text.rstrip("\n") if draw(st.booleans()) else text
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


def configuration(name, text):
    file, table = Path(name), TOML_TABLE if name.endswith("toml") else "pytest"
    return Configuration(file, text, table, read_table(file, text, table))


FILES = st.one_of(
    texts(TOML_HEADS, TOML, TOML_KEYS).map(lambda text: ("pyproject.toml", text)),
    texts(INI_HEADS, INI, INI_KEYS).map(lambda text: ("pytest.ini", text)),
)


@settings(max_examples=80)
@given(FILES)
def test_lines_are_added_and_nothing_else_changes(file):
    name, text = file
    before = configuration(name, text)
    after = before.extend(KEY, NEW)
    assert after.lines(KEY) == [*before.lines(KEY), *NEW]
    assert ("\r\n" in after.text) == ("\r\n" in text) or "\n" not in text
    rest = iter(after.text)
    assert all(character in rest for character in text), "each character that was there is there, in its order"


def test_a_text_becomes_a_list_and_a_form_that_cannot_be_extended_is_refused_with_what_to_add():
    for value in ('"m.a"', '"""\nm.a\n"""', "'m.a'"):
        text = f"[tool.pytest.ini_options]\n{KEY} = {value}  # kept\nx = 1\n"
        after = configuration("pyproject.toml", text).extend(KEY, NEW)
        assert after.text == f'[tool.pytest.ini_options]\n{KEY} = ["m.a", "n.x", "n.y = read"]  # kept\nx = 1\n'
    before = configuration("pyproject.toml", f"[tool.pytest]\nini_options.{KEY} = ['m.a']\n")
    with pytest.raises(SettingsError, match=r"pyproject\.toml: .*add them by hand: n\.x, n\.y = read"):
        before.extend(KEY, NEW)
