"""The walks over JSON trees: what changes is a new object, what does not is the same one."""

from __future__ import annotations

import pytest

from pytest_agentreplay.redaction.channels import list_scattered_texts
from pytest_agentreplay.redaction.rewriting import list_texts, map_texts, map_tree


def test_a_tree_in_which_nothing_changes_is_the_same_object():
    tree = {"a": [1, {"b": "x"}], "c": None, "d": ("y", [])}
    assert map_tree(tree, lambda _, value: value) is tree


def test_each_value_is_changed_with_the_name_of_its_member_innermost_first():
    seen = []
    tree = {"a": [1, {"b": "x"}], "kept": [2]}
    changed = map_tree(tree, lambda name, value: seen.append((name, value)) or ("new" if name == "b" else value))
    assert changed == {"a": [1, {"b": "new"}], "kept": [2]}
    assert seen == [
        (None, 1), ("b", "x"), (None, {"b": "new"}), ("a", [1, {"b": "new"}]), (None, 2), ("kept", [2]),
        (None, changed),
    ]  # fmt: skip
    assert changed["kept"] is tree["kept"]


@pytest.mark.parametrize(
    ("tree", "texts", "changed"),
    [
        ({"a": ["b", 12345678, 123, True]}, ["a", "b", "12345678"], {"A": ["B", 12345678, 123, True]}),
        ({"$decimal": "1e5"}, ["1e5"], "1E5"),
        ({"$path": "/a"}, ["$path", "/a"], {"$PATH": "/A"}),
        ({"$bytes": ["aGk="]}, [], {"$bytes": ["aGk="]}),
        ({"$bytes": "hi"}, ["$bytes", "hi"], {"$BYTES": "HI"}),
    ],
)
def test_texts_are_strings_keys_and_long_numbers_and_a_tag_that_is_no_text_goes_with_its_value(tree, texts, changed):
    assert list_texts(tree) == texts
    assert map_texts(tree, str.upper) == changed


def test_texts_at_one_path_come_in_their_order_and_a_list_of_bytes_behind_an_empty_one():
    tree = {
        "parts": [{"text": "sk-", "at": 1}, {"text": "live"}],
        "one": "alone",
        "bytes": [[104, 105], [256, 1], [33]],
    }
    assert sorted(list_scattered_texts(tree)) == [["", "hi", "!"], ["sk-", "live"]]
