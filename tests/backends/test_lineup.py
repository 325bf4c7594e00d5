"""The search of the line-up: every guilty set is guilty and minimal, and what decided nothing convicts nobody."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.backends.lineup import LOOP, smallest_guilty_set

SUSPECTS = ("clock", "random", "tool:search", "prompt", "model")
sets = st.frozensets(st.sampled_from(SUSPECTS), min_size=1)


def failing(*causes):
    """A monotone failure: it is seen wherever all layers of one of the causes are released."""
    return lambda released: "drifted" if any(cause <= released for cause in causes) else "same"


@given(causes=st.lists(sets, min_size=1, max_size=4))
def test_guilty_sets_are_guilty_and_minimal(causes):
    """For any monotone failure, and no cell is run twice."""
    ran = []
    fails = failing(*causes)

    def outcome_of(released):
        ran.append(released)
        return fails(released)

    lineup = smallest_guilty_set(SUSPECTS, outcome_of)
    assert lineup.word == "drifted"
    for guilty in lineup.guilty:
        assert fails(guilty) == "drifted"
        assert all(fails(frozenset(part)) == "same" for part in combinations(guilty, len(guilty) - 1))
    assert len(ran) == len(set(ran)) <= 2 + 3 * len(SUSPECTS)


def test_each_layer_that_is_guilty_alone_is_named():
    """Two faults that have nothing to do with each other are two answers."""
    lineup = smallest_guilty_set(SUSPECTS, failing({"prompt"}, {"clock"}))
    assert lineup.guilty == [{"clock"}, {"prompt"}]


def test_a_fault_that_the_model_carries_is_named_beside_a_layer_that_drifts_alone():
    """And so is a second one that it carries."""
    lineup = smallest_guilty_set(SUSPECTS, failing({"tool:search"}, {"prompt", "model"}, {"clock", "model"}))
    assert lineup.guilty == [{"tool:search"}, {"prompt", "model"}, {"clock", "model"}]


def test_an_interaction_of_two_layers_is_named_as_such():
    """Neither fails alone."""
    lineup = smallest_guilty_set(SUSPECTS, failing({"prompt", "tool:search"}))
    assert lineup.guilty == [{"prompt", "tool:search"}]
    assert lineup.describe() == "guilty: prompt and tool search together"


def test_a_live_model_that_only_carries_a_change_is_told_apart():
    """A prompt changes nothing as long as recorded replies are served."""
    lineup = smallest_guilty_set(SUSPECTS, failing({"prompt", "model"}))
    assert lineup.guilty == [{"prompt", "model"}]
    assert lineup.describe() == "guilty: prompt (seen through the live model, which alone changes nothing)"


def test_a_run_that_fails_with_all_pinned_is_the_loops():
    """And no other cell is run."""
    lineup = smallest_guilty_set(SUSPECTS, lambda _: "drifted")
    assert (lineup.guilty, list(lineup.cells)) == ([{LOOP}], [frozenset()])


def test_no_guilty_layer():
    """All released, and all the same."""
    lineup = smallest_guilty_set(SUSPECTS, failing())
    assert (lineup.word, lineup.guilty) == ("same", [])


@given(
    causes=st.lists(sets, max_size=3),
    doubtful=st.frozensets(st.frozensets(st.sampled_from(SUSPECTS))),
    unpaid=st.booleans(),
)
def test_cells_that_decide_nothing_convict_nobody(causes, doubtful, unpaid):
    """Whatever is convicted was seen to drift, whichever cells stay undecided; and these are listed."""
    fails = failing(*causes)

    def outcome_of(released):
        return (None if unpaid else "inconclusive") if released in doubtful else fails(released)

    lineup = smallest_guilty_set(SUSPECTS, outcome_of)
    assert not doubtful & {guilty for guilty in lineup.guilty if guilty != {LOOP}}
    undecided = {released for released, word in lineup.cells.items() if word in {None, "inconclusive"}}
    assert undecided == doubtful & lineup.cells.keys()
    assert all(fails(guilty) == "drifted" for guilty in lineup.guilty)
    if not causes:
        assert lineup.word != "drifted"
