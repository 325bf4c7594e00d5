"""Mutated snapshots and journals: they are read and come back, or are refused with our typed error. Nothing else."""

import pytest
from fuzzing import journal_is_legal, journal_of, legal, one

BATCH = 60
BATCHES = [*range(8), *(pytest.param(number, marks=pytest.mark.exhaustive) for number in range(8, 40))]


@pytest.mark.parametrize("batch", BATCHES)
def test_a_mutated_snapshot_is_read_or_refused_and_a_journal_gives_what_can_be_written_or_nothing(batch):
    seeds = range(batch * BATCH, (batch + 1) * BATCH)
    outcomes = {legal(one(seed)) for seed in seeds}
    assert outcomes == {True, False}, "some mutations are harmless, else nothing but refusals is tried"
    for seed in seeds:
        journal_is_legal(journal_of(seed))
