"""Mutated snapshots and journals: they are read and come back, or are refused with our typed error. Nothing else."""

import pytest
from fuzzing import journal_is_legal, journal_of, legal, one
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

BATCH, BATCHES = 60, 8


@pytest.mark.parametrize("batch", range(BATCHES))
def test_a_mutated_snapshot_is_read_or_refused(batch):
    outcomes = [legal(one(seed)) for seed in range(batch * BATCH, (batch + 1) * BATCH)]
    assert True in outcomes, "some mutations are harmless, else nothing but refusals is tried"
    assert False in outcomes


@pytest.mark.parametrize("batch", range(3))
def test_a_mutated_journal_gives_what_can_be_written_or_nothing(batch):
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        journal_is_legal(journal_of(seed))


@settings(derandomize=True, max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(10**6, 10**9))
def test_any_seed_has_a_legal_outcome(seed):
    legal(one(seed))
    journal_is_legal(journal_of(seed))
