"""Lanes of threads and jobs are found again by what was started, in which order, and not by who calls first."""

from collections import Counter

import pytest

from pytest_agentreplay.core.release_order import Label, Started

RECORDED = {"main.2": ["shop.fetch", 1], "main.3": ["shop.fetch", 2], "main.2.1": ["shop.parse", 1]}


def labelled(started, *names, above="main"):
    """The recorded lanes of functions that are started in this order, asked for from the last one to the first."""
    starts = Counter()
    labels = []
    for name in names:
        starts[name] += 1
        labels.append(Label(name, starts[name]))
    return [started.lane(above, label, starts) for label in reversed(labels)][::-1]


def test_a_lane_is_found_by_what_was_started():
    assert labelled(Started(RECORDED), "shop.fetch", "shop.fetch") == ["main.2", "main.3"]


def test_a_thread_that_is_started_beside_moves_no_number():
    names = ("log.flush", "shop.fetch", "log.flush", "shop.fetch")
    assert labelled(Started(RECORDED), *names) == [None, "main.2", None, "main.3"]


def test_a_function_that_was_renamed_stands_for_the_one_that_is_gone():
    started = Started(RECORDED)
    assert labelled(started, "shop.fetch_all", "shop.fetch_all") == ["main.2", "main.3"]
    assert labelled(started, "shop.parse", above="main.2") == ["main.2.1"]


def test_one_more_than_recorded_has_no_lane():
    assert labelled(Started(RECORDED), *["shop.fetch"] * 3)[2] is None


@pytest.mark.parametrize("recorded", [{}, [], "main.1", {"main.1": "shop.fetch"}, {"main.1": [1, "shop.fetch"]}])
def test_what_is_not_of_the_form_is_no_label(recorded):
    assert labelled(Started(recorded), "shop.fetch") == [None]


def test_a_recording_keeps_the_labels_of_the_lanes_that_it_has():
    started = Started()
    for nth in (1, 2):
        started.note(f"main.{nth}", Label("shop.fetch", nth))
    assert started.kept({"main", "main.2"}) == {"main.2": ["shop.fetch", 2]}
